//! Server-side additions to the JSON types of `quorate-api`: visibility of effects, and a cache of rendered messages.

pub(crate) mod effect;
pub(crate) mod time;
pub(crate) mod told;

pub(crate) use quorate_api::Raw;
pub(crate) use quorate_api::payload::shown;
