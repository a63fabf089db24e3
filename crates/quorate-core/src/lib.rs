//! Quorate core.
