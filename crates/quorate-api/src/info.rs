//! Version and limits of the hub, and the identity of the caller: the response of `GET /v1/info`.

use std::borrow::Cow;

use quorate_core::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Info {
    pub name: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub you: Caller,
    pub limits: HubLimits,
    /// Sequence number of the newest record of the space.
    pub seq: u64,
    /// Current time of the hub.
    pub time: Timestamp,
    /// Progress of the background verification of the log since the hub was started.
    pub audit: Option<VerificationProgress>,
}

/// Progress of the background verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AuditProgress"))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct VerificationProgress {
    /// Sequence number of the last verified record; all earlier ones are verified as well.
    pub verified_to: u64,
    pub verified_at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct Caller {
    /// Principal as recorded in the log.
    pub principal: String,
    pub role: Cow<'static, str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Limits"))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub struct HubLimits {
    /// Of a request body or a WebSocket frame, in this space.
    pub request_bytes: usize,
    pub json_depth: usize,
    /// Per message or entry, by the policy of this space.
    pub payload_bytes: usize,
    /// All payloads of one commit, by the policy of this space.
    pub commit_bytes: usize,
    /// Per commit.
    pub operations: usize,
    /// Created by one commit.
    pub deliveries: usize,
    /// Leased by one agent.
    pub in_flight: usize,
    /// Open deliveries of one agent.
    pub inbox: usize,
    /// Default hop limit of a chain.
    pub hops: u16,
    /// Maximum hop limit of a chain.
    pub max_hops: u16,
}
