//! Integration tests of quorate-sqlite, in one target: every further target would link all dependencies again.

mod conformance;
mod damaged_pages;
mod fairness;
mod support;
mod wal_size;
mod work_limits;
