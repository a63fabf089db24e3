//! The rules of a space, what they refused, and how much there is of everything.

use std::collections::BTreeMap;

use quorate::{Code, Counts, Error, Policy, Preset, TaskCounts, TaskStatus, Violation};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{At, named, strange};

/// Rules as they are shown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyIn {
    preset: String,
    payload_bytes_max: u32,
    rationale_chars_max: u32,
    actions_max: Option<u32>,
    broadcasts_per_minute: u32,
    structured: bool,
    confidence: bool,
    rationale: bool,
    open_tasks_max: u32,
}

impl PolicyIn {
    pub(crate) fn read(self) -> Result<Policy, Error> {
        Ok(Policy {
            preset: named(&[Preset::Mesh, Preset::Supervised], Preset::as_str, &self.preset)?,
            payload_bytes_max: self.payload_bytes_max,
            rationale_chars_max: self.rationale_chars_max,
            actions_max: self.actions_max,
            broadcasts_per_minute: self.broadcasts_per_minute,
            structured: self.structured,
            confidence: self.confidence,
            rationale: self.rationale,
            open_tasks_max: self.open_tasks_max,
        })
    }
}

/// Rules as they are laid down. Nothing is left to the preset but what it is called.
pub(crate) fn policy_out(policy: &Policy) -> Value {
    json!({
        "op": "policy.set",
        "preset": policy.preset.as_str(),
        "payloadBytesMax": policy.payload_bytes_max,
        "rationaleCharsMax": policy.rationale_chars_max,
        "actionsMax": policy.actions_max,
        "broadcastsPerMinute": policy.broadcasts_per_minute,
        "structured": policy.structured,
        "confidence": policy.confidence,
        "rationale": policy.rationale,
        "openTasksMax": policy.open_tasks_max,
    })
}

#[derive(Deserialize)]
pub(crate) struct ViolationsIn {
    pub(crate) violations: Vec<ViolationIn>,
    pub(crate) cursor: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ViolationIn {
    rule: String,
    principal: String,
    place: String,
    code: String,
    at: At,
}

impl ViolationIn {
    pub(crate) fn read(self) -> Result<Violation, Error> {
        Ok(Violation {
            rule: self.rule,
            principal: self.principal,
            place: self.place,
            code: named(Code::ALL, Code::as_str, &self.code)?,
            at: self.at.0,
        })
    }
}

/// How much there is of everything.
#[derive(Deserialize)]
pub(crate) struct StatsIn {
    deliveries: DeliveriesIn,
    tasks: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct DeliveriesIn {
    ready: u64,
    scheduled: u64,
    leased: u64,
    acked: u64,
    dead: u64,
    expired: u64,
    purged: u64,
}

impl StatsIn {
    pub(crate) fn read(self) -> Result<(Counts, TaskCounts), Error> {
        let DeliveriesIn { ready, scheduled, leased, acked, dead, expired, purged } = self.deliveries;
        let counts = Counts { ready, scheduled, leased, acked, dead, expired, purged };
        let missing = |status: TaskStatus| strange(&format!("no count of {}", status.as_str()));
        let of = |status: TaskStatus| self.tasks.get(status.as_str()).ok_or_else(|| missing(status)).copied();
        let tasks = TaskStatus::ALL.into_iter().map(|status| Ok((status, of(status)?)));
        Ok((counts, tasks.collect::<Result<TaskCounts, Error>>()?))
    }
}
