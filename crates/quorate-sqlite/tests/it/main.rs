//! The integration tests of quorate-sqlite as one target: every further target would link the whole workspace again.

mod contract;
mod fairness;
mod work;
