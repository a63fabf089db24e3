//! Integration tests of quorate-sqlite, in one target: every further target would link all dependencies again.

mod conformance;
mod fairness;
mod work_limits;
