//! Contracts to practise on.
//!
//! Readers of contracts are measured on contracts whose problems are known, because they were planted. Their sentences come
//! from two files of phrasings: `seen.yaml`, which whoever writes a reader may look at, and `unseen.yaml`, which they do not
//! open. Both were committed before the first reader.
//!
//! [`generate`] makes the contract of a seed; what is in it and where, which problems were planted, what it states and what
//! the customer should do is in its [`Truth`]. The rule for score and recommendation is in `truth.rs`.
//!
//! # To add a phrasing
//!
//! A file has these parts; it is read strictly, and a test says the file and line of what is wrong:
//!
//! - `headings`: for each section, the words that may stand above it.
//! - `clauses`: for each of the 41 types of clauses ([`Clause`]), the ways to write one. Write it neutral or in the
//!   customer's favour: what is bad for the customer belongs to `problems`.
//! - `provisions`: what a review looks for beside these types, as it should be ([`Provision`]).
//! - `problems`: the same things as they should not be ([`Problem`]). A contradiction has a `second` place, which is
//!   written into the schedule.
//! - `near_misses`: what sounds like something and is not. `about` lists what it sounds like; it is written only into
//!   contracts that have none of these, so that whoever reports one of them is wrong.
//! - `filler`: what every contract says and nobody looks for.
//!
//! An entry has a `text`, and may have a `title` (some contracts show it) and `holds`: the types of clauses that the same
//! words are as well. **Be honest in `holds`**: a licence that cannot be passed on is a `license_grant` and a
//! `non_transferable_license`, and a reader that finds both is right. Filler and near-misses hold nothing. The types are
//! those of CUAD, with one exception: a time limit on claims is not labelled as a cap on liability, only an amount is.
//!
//! Facts stand in braces and are filled in: `{cap}`, `{payment_days}`, `{effective_date}`; their names are in `fact.rs`.
//! `{vendor}` and `{customer}` are the parties in their roles, with an article where the contract uses one; `{Vendor}` is
//! for the beginning of a sentence, `{VENDOR}` stands among capitals, `{vendor:term}` has no article. A date is written in
//! the style of the contract unless the phrasing asks for one: `:long`, `:day`, `:iso`, `:legal`; so is an amount:
//! `:figures`, `:words`, `:both`.

mod clause;
mod compose;
mod draw;
mod fact;
mod facts;
mod home;
mod layout;
pub(crate) mod numerals;
mod phrasing;
mod plan;
mod problem;
mod provision;
mod template;
mod truth;
mod value;

pub use clause::Clause;
pub use fact::Fact;
pub use home::Home;
pub use phrasing::{Half, Topic};
pub use problem::{Problem, Severity};
pub use provision::Provision;
pub use truth::{Activation, NearMiss, Place, Planted, Present, Recommendation, Stated, Truth, risk_score};
pub use value::{Currency, Date, Value};

/// A contract, and what is true of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// What a reader gets.
    pub text: String,
    /// What a reader is measured by. Places are bytes of the text.
    pub truth: Truth,
}

/// The contract of a seed, in the words of one half of the phrasings: the same bytes for ever.
///
/// Both halves of a seed have the same facts, the same planted problems and the same recommendation.
pub fn generate(seed: u64, half: Half) -> Contract {
    compose::compose(seed, half)
}

#[cfg(test)]
mod tests;
