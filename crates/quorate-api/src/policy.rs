//! The policy of a space, and its violations.

#[cfg(feature = "schema")]
use quorate_core::limits::{COMMIT_BYTES_MAX, OPEN_TASKS_MAX, PAYLOAD_BYTES_MAX, REASON_CHARS_MAX};
use quorate_core::{
    ActivePolicy, Code, Policy as CorePolicy, Preset, Refused, Seq, Timestamp, Violation as CoreViolation,
};
use serde::{Deserialize, Deserializer, Serialize};

/// Policy to set: a preset, and overrides of its values.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewPolicy {
    /// `mesh`: every agent can message every other agent. `supervised`: agents can message coordinators only.
    pub preset: Preset,
    /// Maximum size of a payload in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = PAYLOAD_BYTES_MAX)))]
    pub payload_bytes_max: Option<u32>,
    /// Maximum size of all payloads of one commit in bytes, at least `payloadBytesMax`. By default 2 MB, or twice
    /// `payloadBytesMax` if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = COMMIT_BYTES_MAX)))]
    pub commit_bytes_max: Option<u32>,
    /// Maximum length of a rationale in characters. With `structured` or `rationale`, also of the field `rationale` of a
    /// payload or task result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = REASON_CHARS_MAX)))]
    pub rationale_chars_max: Option<u32>,
    /// Maximum number of actions that a payload or task result can list; `null` for no limit.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub actions_max: Option<Option<u32>>,
    /// Maximum number of broadcasts per agent and minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broadcasts_per_minute: Option<u32>,
    /// Whether payloads, and what holders of tasks report, must be JSON other than one string, and responses must reference
    /// the message that they answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<bool>,
    /// Whether a response must state its confidence, unless it reports a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<bool>,
    /// Whether a response must state its rationale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<bool>,
    /// Maximum number of open tasks in the space.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = OPEN_TASKS_MAX)))]
    pub open_tasks_max: Option<u32>,
}

/// Distinguishes `null` from an omitted field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl NewPolicy {
    /// Converts the request into an operation.
    #[must_use]
    pub fn into_core(self) -> CorePolicy {
        let base = match self.preset {
            Preset::Mesh => CorePolicy::mesh(),
            Preset::Supervised => CorePolicy::supervised(),
        };
        let payload_bytes_max = self.payload_bytes_max.unwrap_or(base.payload_bytes_max);
        let default_commit_bytes_max = CorePolicy::default_commit_bytes_max(payload_bytes_max);
        CorePolicy {
            preset: base.preset,
            payload_bytes_max,
            commit_bytes_max: self.commit_bytes_max.unwrap_or(default_commit_bytes_max),
            rationale_chars_max: self.rationale_chars_max.unwrap_or(base.rationale_chars_max),
            actions_max: self.actions_max.unwrap_or(base.actions_max),
            broadcasts_per_minute: self.broadcasts_per_minute.unwrap_or(base.broadcasts_per_minute),
            structured: self.structured.unwrap_or(base.structured),
            confidence: self.confidence.unwrap_or(base.confidence),
            rationale: self.rationale.unwrap_or(base.rationale),
            open_tasks_max: self.open_tasks_max.unwrap_or(base.open_tasks_max),
        }
    }
}

impl From<&CorePolicy> for NewPolicy {
    fn from(policy: &CorePolicy) -> Self {
        Self {
            preset: policy.preset,
            payload_bytes_max: Some(policy.payload_bytes_max),
            commit_bytes_max: Some(policy.commit_bytes_max),
            rationale_chars_max: Some(policy.rationale_chars_max),
            actions_max: Some(policy.actions_max),
            broadcasts_per_minute: Some(policy.broadcasts_per_minute),
            structured: Some(policy.structured),
            confidence: Some(policy.confidence),
            rationale: Some(policy.rationale),
            open_tasks_max: Some(policy.open_tasks_max),
        }
    }
}

/// Policy in force in a space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Preset that determines which agents can message each other.
    pub preset: Preset,
    /// Maximum size of a payload in bytes.
    pub payload_bytes_max: u32,
    /// Maximum size of all payloads of one commit in bytes.
    pub commit_bytes_max: u32,
    /// Maximum length of a rationale in characters.
    pub rationale_chars_max: u32,
    /// Maximum number of actions that a message can list in its payload; `null` for no limit.
    pub actions_max: Option<u32>,
    /// Maximum number of broadcasts per agent and minute.
    pub broadcasts_per_minute: u32,
    /// Whether payloads, and what holders of tasks report, must be JSON other than one string, and responses must reference
    /// the message that they answer.
    pub structured: bool,
    /// Whether a response must state its confidence.
    pub confidence: bool,
    /// Whether a response must state its rationale.
    pub rationale: bool,
    /// Maximum number of open tasks in the space.
    pub open_tasks_max: u32,
    /// Sequence number of the record that put the space under supervision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervised_since: Option<Seq>,
}

impl From<&ActivePolicy> for Policy {
    fn from(policy: &ActivePolicy) -> Self {
        let rules = &policy.policy;
        Self {
            preset: rules.preset,
            payload_bytes_max: rules.payload_bytes_max,
            commit_bytes_max: rules.commit_bytes_max,
            rationale_chars_max: rules.rationale_chars_max,
            actions_max: rules.actions_max,
            broadcasts_per_minute: rules.broadcasts_per_minute,
            structured: rules.structured,
            confidence: rules.confidence,
            rationale: rules.rationale,
            open_tasks_max: rules.open_tasks_max,
            supervised_since: (rules.preset == Preset::Supervised).then_some(policy.supervised_since),
        }
    }
}

impl From<Policy> for CorePolicy {
    fn from(policy: Policy) -> Self {
        Self {
            preset: policy.preset,
            payload_bytes_max: policy.payload_bytes_max,
            commit_bytes_max: policy.commit_bytes_max,
            rationale_chars_max: policy.rationale_chars_max,
            actions_max: policy.actions_max,
            broadcasts_per_minute: policy.broadcasts_per_minute,
            structured: policy.structured,
            confidence: policy.confidence,
            rationale: policy.rationale,
            open_tasks_max: policy.open_tasks_max,
        }
    }
}

impl From<&CoreViolation> for Violation {
    fn from(violation: &CoreViolation) -> Self {
        Self {
            rule: violation.rule.clone(),
            principal: violation.principal.clone(),
            place: violation.field.clone(),
            code: violation.code.as_str().to_owned(),
            at: violation.at,
            count: violation.count,
        }
    }
}

impl Violation {
    /// Converts the violation into the core type.
    ///
    /// # Errors
    /// `INVALID` if the error code is unknown.
    pub fn into_core(self) -> Result<CoreViolation, Refused> {
        let known = Code::ALL.iter().copied().find(|known| known.as_str() == self.code);
        let code = known
            .ok_or_else(|| Refused::new(Code::Invalid, format!("unknown error code {:?}", self.code)))?;
        let Self { rule, principal, place, at, count, .. } = self;
        Ok(CoreViolation { rule, principal, field: place, code, at, count })
    }
}

/// Violation of the policy, or of a rule of the hub: `loop`, `budget` and `deadlock`. It identifies the rule, the principal and
/// the field, but never contains payload data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Violation {
    /// Violated rule.
    pub rule: String,
    /// Principal that caused the violation.
    pub principal: String,
    /// Path of the offending field in the request.
    pub place: String,
    /// Error code that was returned.
    pub code: String,
    /// Time of the violation; of the newest one if several were counted together.
    pub at: Timestamp,
    /// Number of violations of this rule by this principal that followed each other within a minute.
    pub count: u64,
}

/// Payload of the message `policy.violated`, which notifies coordinators.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViolationNotice {
    /// Violations about which nothing was sent in the last 10 minutes.
    pub violations: Vec<Violation>,
    /// Number of further violations, which `GET /v1/violations` lists.
    pub more: usize,
}
