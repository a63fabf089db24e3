//! The public error, which is declared with the interface.

pub use quorate_api::error::{Error, Remote};
