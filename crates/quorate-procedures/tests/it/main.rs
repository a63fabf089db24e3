//! Integration tests of the procedures.

mod compression;
