//! Tournaments: judges compare contestants in pairs, and the results rank them.
//!
//! A round pairs each contestant at most once. A match is an optional debate, followed by two ballots of one judge in which
//! the contestants change places, so that a preference for the first one cancels out. All results of a round are rated
//! together, and the next pairs are chosen from the ratings.

mod ballot;
mod machine;
mod pairing;
mod rating;
mod requests;
pub mod simulation;
mod spec;
mod standings;
mod state;

#[cfg(test)]
mod tests;

pub use machine::TournamentMachine;
pub use spec::{Contestant, Criterion, DebateSpec, TournamentLimits, TournamentSpec};
pub use standings::Standing;
pub use state::TournamentState;

/// Kind of tournaments.
pub const TOURNAMENT_KIND: &str = "tournament";
/// Action of a request for a ballot.
pub const JUDGE: &str = "judge";
/// Action of a request for an argument.
pub const ARGUE: &str = "argue";
