//! Every parser of outside bytes is given broken input: it answers, refuses with a reason, or closes the door, and never
//! falls over. `cargo xtask sim --fuzz SECONDS` goes on for longer, `QUORATE_SEED` repeats a run.

mod answers;
mod dialects;
mod hub;
mod records;
mod words;
