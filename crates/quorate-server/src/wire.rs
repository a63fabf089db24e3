//! What the server adds to the JSON types of `quorate-api`: who sees which effects, and messages that are rendered once for many.

pub(crate) mod effect;
pub(crate) mod time;
pub(crate) mod told;

pub(crate) use quorate_api::Raw;
pub(crate) use quorate_api::payload::shown;
