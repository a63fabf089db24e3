//! Audit export: the log with all data that is needed to verify its hash chain.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_core::{Head, Record, Seq, Timestamp, hex};
use serde::{Deserialize, Serialize};

use crate::event::{Effect, record_kind_name};
#[cfg(feature = "schema")]
use crate::schema;

/// One record of an audit export, written as one line. `docs/audit.md` describes every field.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Name of the space.
    pub space: String,
    /// Sequence number of the record.
    pub seq: Seq,
    /// Time at which the record was committed.
    pub at: Timestamp,
    /// Time of the commit in milliseconds since the Unix epoch, as it is hashed.
    pub at_ms: u64,
    /// Format version of the body.
    pub format: u8,
    /// Record kind.
    #[cfg_attr(feature = "schema", schemars(with = "schema::RecordKindName"))]
    pub kind: Cow<'static, str>,
    /// Number of the record kind, as it is hashed.
    pub kind_number: u8,
    /// Principal that committed the record.
    pub principal: String,
    /// Body in base64, as it is hashed.
    pub body: String,
    /// Decoded body. Not covered by the hash: verify it against `body`.
    pub effects: Vec<Effect>,
    /// Hash of the record, in hexadecimal.
    pub hash: String,
    /// Hash of the preceding record. Only present on the first line of a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl AuditRecord {
    /// Creates the line for a record. `previous` is passed for the first line of a space.
    #[must_use]
    pub fn new(space: &str, record: &Record, effects: Vec<Effect>, previous: Option<&[u8; 32]>) -> Self {
        Self {
            space: space.to_owned(),
            seq: record.seq,
            at: record.at,
            at_ms: record.at.0,
            format: record.format,
            kind: record_kind_name(record),
            kind_number: record.kind,
            principal: record.principal.clone(),
            body: STANDARD.encode(&record.body),
            effects,
            hash: hex::encode(&record.hash),
            previous: previous.map(|hash| hex::encode(hash)),
        }
    }
}

/// Position in the log of a space. Store it outside the hub and compare it with a later verification.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// Name of the space.
    pub space: String,
    /// Sequence number of the newest record.
    pub seq: Seq,
    /// Hash of the newest record, in hexadecimal.
    pub hash: String,
    /// Time at which the record was committed.
    pub at: Timestamp,
}

impl Checkpoint {
    /// Creates the checkpoint of a head.
    #[must_use]
    pub fn new(space: String, head: &Head) -> Self {
        Self { space, seq: head.seq, hash: hex::encode(&head.hash), at: head.at }
    }
}
