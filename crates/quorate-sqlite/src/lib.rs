//! Quorate on SQLite.
