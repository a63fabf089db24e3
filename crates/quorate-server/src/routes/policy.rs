//! The policy: the rules of a space. Everybody may read them, admins set them.

use quorate_core::limits::{OPEN_TASKS_MAX, PAYLOAD_BYTES_MAX, REASON_CHARS_MAX};
use quorate_core::{Deed, InForce, Op, Policy, Preset};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::api::{Route, get, put};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/policy", "policy.get", "The rules of the space.")
            .answers::<PolicyOut>(200, "The rules that are in force.")
            .to(show),
        put("/v1/policy", "policy.set", "Lays down the rules of the space.")
            .is(Deed::Rule)
            .body::<PolicyIn>()
            .answers::<PolicyOut>(200, "The rules that are in force.")
            .to(set),
    ]
}

/// Rules as somebody lays them down: those of a preset, and what is to be different.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewPolicy")]
pub(crate) struct PolicyIn {
    /// `mesh`: everybody reaches everybody. `supervised`: agents reach the coordinators only.
    preset: PresetIn,
    #[schemars(range(min = 1, max = PAYLOAD_BYTES_MAX))]
    payload_bytes_max: Option<u32>,
    #[schemars(range(min = 1, max = REASON_CHARS_MAX))]
    rationale_chars_max: Option<u32>,
    /// Actions that a message may list in its payload; `null`: nobody counts.
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<u32>")]
    actions_max: Option<Option<u32>>,
    /// Messages to everybody that each agent may send in a minute.
    broadcasts_per_minute: Option<u32>,
    /// Whether messages must be JSON, and answers name what they answer.
    structured: Option<bool>,
    /// Whether an answer must say how sure its sender is.
    confidence: Option<bool>,
    /// Whether an answer must say why.
    rationale: Option<bool>,
    #[schemars(range(min = 1, max = OPEN_TASKS_MAX))]
    open_tasks_max: Option<u32>,
}

#[derive(Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum PresetIn {
    #[default]
    Mesh,
    Supervised,
}

/// Tells `null` from what is left out.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl PolicyIn {
    pub(crate) fn read(self) -> Policy {
        let base = match self.preset {
            PresetIn::Mesh => Policy::mesh(),
            PresetIn::Supervised => Policy::supervised(),
        };
        Policy {
            preset: base.preset,
            payload_bytes_max: self.payload_bytes_max.unwrap_or(base.payload_bytes_max),
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

/// The rules that are in force.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Policy")]
struct PolicyOut {
    #[schemars(extend("enum" = ["mesh", "supervised"]))]
    preset: &'static str,
    payload_bytes_max: u32,
    rationale_chars_max: u32,
    actions_max: Option<u32>,
    broadcasts_per_minute: u32,
    structured: bool,
    confidence: bool,
    rationale: bool,
    open_tasks_max: u32,
    /// The record that put the space under supervision.
    #[serde(skip_serializing_if = "Option::is_none")]
    supervised_since: Option<u64>,
}

impl PolicyOut {
    fn new(policy: &InForce) -> Self {
        let rules = &policy.rules;
        Self {
            preset: rules.preset.as_str(),
            payload_bytes_max: rules.payload_bytes_max,
            rationale_chars_max: rules.rationale_chars_max,
            actions_max: rules.actions_max,
            broadcasts_per_minute: rules.broadcasts_per_minute,
            structured: rules.structured,
            confidence: rules.confidence,
            rationale: rules.rationale,
            open_tasks_max: rules.open_tasks_max,
            supervised_since: (rules.preset == Preset::Supervised).then_some(policy.supervised_since.0),
        }
    }
}

pub(crate) async fn show(call: Call) -> Answer {
    ok(&PolicyOut::new(&call.space.policy()))
}

pub(crate) async fn set(call: Call) -> Answer {
    let policy = body::parse::<PolicyIn>(&call.body)?.read();
    call.commit(vec![Op::SetPolicy(policy)]).await?;
    ok(&PolicyOut::new(&call.space.policy()))
}
