//! JSON types of Quorate's public interface: requests, responses and operations, with their conversions from and to
//! the core types, and the error and query types that the library and the network client share. Server, client and
//! library all use these types, so each one is defined once. No I/O.
//!
//! A resource has one JSON representation, the same in REST, WebSocket, events, state and `--json` output. Types
//! whose names begin with `New` are requests; they are parsed strictly and borrow payloads from the body. Types whose
//! names end in `Query` are the query parameters of a call. The others are responses; clients ignore unknown fields
//! sent by a newer hub.
//!
//! With the feature `schema` all types have JSON Schemas, from which `openapi/quorate.json` is generated. Doc comments
//! are its descriptions, so a field without one has no description there.

pub mod agent;
pub mod approval;
pub mod audit;
pub mod budget;
pub mod canonical;
pub mod claim;
pub mod delivery;
pub mod dialect;
pub mod entry;
pub mod error;
pub mod event;
pub mod flag;
pub mod guidance;
pub mod id_resolver;
pub mod inbox;
pub mod info;
pub mod json;
pub mod lock;
pub mod message;
pub mod op;
pub mod page;
pub mod parse_context;
pub mod payload;
pub mod policy;
pub mod priority;
pub mod problem;
pub mod procedure;
pub mod query;
pub mod received;
pub mod request;
pub mod request_body;
pub mod result;
pub mod rollback;
pub mod schema;
pub mod session;
pub mod sign_in;
pub mod state;
pub mod stats;
pub mod status;
pub mod strict;
pub mod subscription;
pub mod task;
pub mod token;
pub mod trace;
pub mod webhook;
pub mod wellformed;
pub mod why;

pub use error::{Error, RemoteError};
pub use id_resolver::{AgentIds, IdResolver};
pub use json::{Json, RawJson};
pub use parse_context::{Defaults, ParseContext, Seal};
