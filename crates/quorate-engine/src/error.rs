//! The public error, which is defined in `quorate-api`.

pub use quorate_api::error::{Error, RemoteError};
