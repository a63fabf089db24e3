//! Every parser of outside bytes is given broken input: it answers, refuses with a reason, or closes the door, and never
//! falls over. `cargo xtask sim --fuzz SECONDS` goes on for longer, `QUORATE_SEED` repeats a run.
// A test may stop at the first surprise, and says how to run it again.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod fuzz {
    pub(crate) mod answers;
    pub(crate) mod dialects;
    pub(crate) mod hub;
    pub(crate) mod records;
    pub(crate) mod words;
}
