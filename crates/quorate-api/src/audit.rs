//! The audit record: the log with everything that is needed to verify its hash chain.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_core::{Head, Record, Seq, Timestamp, hex};
use serde::{Deserialize, Serialize};

use crate::event::{Effect, kind_of};
#[cfg(feature = "schema")]
use crate::schema;

/// A line of an audit export: one record. `docs/audit.md` describes every field.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// The name of the space.
    pub space: String,
    /// The sequence number of the record.
    pub seq: Seq,
    /// When it was committed.
    pub at: Timestamp,
    /// The same in milliseconds since 1970 UTC, as it is hashed.
    pub at_ms: u64,
    /// The format of the body.
    pub format: u8,
    /// The kind of the record.
    #[cfg_attr(feature = "schema", schemars(with = "schema::RecordWord"))]
    pub kind: Cow<'static, str>,
    /// The number of the kind, as it is hashed.
    pub kind_number: u8,
    /// The principal that committed it.
    pub principal: String,
    /// The body in base64, as it is hashed.
    pub body: String,
    /// What the body says. Not covered by the hash: verify it against `body`.
    pub effects: Vec<Effect>,
    /// The hash of the record, in hexadecimal.
    pub hash: String,
    /// On the first line of a space: the hash that the record is chained to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl AuditRecord {
    /// The line of a record. `previous` is given for the first line of a space.
    #[must_use]
    pub fn new(space: &str, record: &Record, effects: Vec<Effect>, previous: Option<&[u8; 32]>) -> Self {
        Self {
            space: space.to_owned(),
            seq: record.seq,
            at: record.at,
            at_ms: record.at.0,
            format: record.format,
            kind: kind_of(record),
            kind_number: record.kind,
            principal: record.principal.clone(),
            body: STANDARD.encode(&record.body),
            effects,
            hash: hex::encode(&record.hash),
            previous: previous.map(|hash| hex::encode(hash)),
        }
    }
}

/// A position in the log of a space, to be stored elsewhere: a later verification is compared with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// The name of the space.
    pub space: String,
    /// The sequence number of the newest record.
    pub seq: Seq,
    /// Its hash, in hexadecimal.
    pub hash: String,
    /// When it was committed.
    pub at: Timestamp,
}

impl Checkpoint {
    /// The checkpoint of a head.
    #[must_use]
    pub fn new(space: String, head: &Head) -> Self {
        Self { space, seq: head.seq, hash: hex::encode(&head.hash), at: head.at }
    }
}
