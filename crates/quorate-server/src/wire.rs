//! Server-side additions to the JSON types of `quorate-api`: visibility of effects, and a cache of rendered messages.

pub(crate) mod message_cache;
pub(crate) mod time;
pub(crate) mod visibility;

pub(crate) use quorate_api::RawJson;
pub(crate) use quorate_api::payload::render;
