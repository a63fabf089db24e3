//! Audit export: the log with all data that is needed to verify its hash chain.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_core::{Code, Head, Record, Refused, Seq, Timestamp, hex};
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

/// Format and range of an export.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AuditExportQuery {
    /// Export format; `jsonl` by default.
    #[serde(default)]
    pub format: ExportFormat,
    /// Sequence number of the first record; 1 by default.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub from: Option<u64>,
    /// Sequence number of the last record; the newest by default.
    pub to: Option<u64>,
    /// Maximum number of records.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub limit: Option<u64>,
}

/// Export format.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Format"))]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// Same format as `quorate audit export`; can be verified offline.
    #[default]
    Jsonl,
    /// One line of text per event.
    Text,
    /// One object per delivered or failed message, for the analysis of agent decisions.
    Decisions,
    /// One object per delivery that ended.
    Messages,
}

/// Range of a verification, and a checkpoint to compare with.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AuditVerifyQuery {
    /// Sequence number of the first record; 1 by default.
    pub from: Option<u64>,
    /// Sequence number of a checkpoint stored elsewhere.
    pub seq: Option<u64>,
    /// Hash of that checkpoint.
    pub hash: Option<String>,
}

impl AuditVerifyQuery {
    /// Returns the checkpoint. Rejects an incomplete one, which would otherwise pass unchecked.
    ///
    /// # Errors
    /// `INVALID` if only one of `seq` and `hash` is present, or the hash is malformed.
    pub fn checkpoint(&self) -> Result<Option<(Seq, &str)>, Refused> {
        let invalid = |detail: &str| {
            let hint = "send seq and hash as returned by GET /v1/audit/checkpoint; the hash has 64 hexadecimal digits";
            Err(Refused::new(Code::Invalid, detail).hint(hint))
        };
        match (self.seq, self.hash.as_deref()) {
            (None, None) => Ok(None),
            (Some(seq), Some(hash)) => {
                if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return invalid("hash: not a valid record hash");
                }
                Ok(Some((Seq(seq), hash)))
            }
            (Some(_), None) => invalid("hash is missing: a checkpoint consists of seq and hash"),
            (None, Some(_)) => invalid("seq is missing: a checkpoint consists of seq and hash"),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct LogVerification {
    pub ok: bool,
    pub spaces: Vec<VerifiedRange>,
    pub first_bad: Option<DamagedRecord>,
    /// Sequence number to continue from, if the log is longer than one call verifies.
    pub next: Option<u64>,
}

/// Verified range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct VerifiedRange {
    pub space: String,
    pub from: u64,
    pub records: u64,
    /// Sequence number of the last valid record.
    pub seq: u64,
    /// Hash of that record.
    pub hash: String,
}

/// First damaged record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct DamagedRecord {
    pub space: String,
    pub seq: u64,
    /// Kind of damage.
    #[cfg_attr(feature = "schema", schemars(with = "schema::LogDamageName"))]
    pub damage: Cow<'static, str>,
}
