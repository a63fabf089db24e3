//! Specification of a proposal.

use quorate_core::AgentId;
use quorate_core::limits::APPROVAL_BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::letter::LetterTemplate;
use super::{EFFECT, json_bytes};
use crate::deliberation::{AGENTS_MAX, Spec};
use crate::finding::{FieldError, ROOT_PATH, parse_object};
use crate::machine::TaskOutput;

/// Default time to decide an approval: 72 h.
pub const PROPOSAL_TIMEOUT_MS_DEFAULT: u64 = 72 * HOUR_MS;
/// Maximum number of revisions of a proposal after a rejection.
pub const REVISIONS_MAX: u32 = 5;
/// Minimum and maximum time to decide an approval.
const TIMEOUT_MS: (u64, u64) = (1_000, 90 * 24 * HOUR_MS);
/// Default and maximum timeout of a revision. The worker of the agent may be away for a while.
const REVISION_MS_MAX: u64 = 24 * HOUR_MS;
const HOUR_MS: u64 = 60 * 60 * 1_000;
/// Maximum size of a payload. The action contains its name as well.
pub(super) const PAYLOAD_BYTES_MAX: usize = APPROVAL_BYTES_MAX - 1_024;
/// Maximum length of the action of a proposal, and of the type of its task.
const NAME_BYTES_MAX: usize = 128;

/// Specification of a proposal. It proposes the outcome of a deliberation, as a letter, or a payload.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalSpec {
    /// Kind of the action.
    pub action: String,
    /// Deliberation whose outcome is proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliberation: Option<Spec>,
    /// Letter that is filled in from the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letter: Option<LetterTemplate>,
    /// Payload of the action, without a deliberation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Why the payload is proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Confidence that the payload is right, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// Time to decide each approval.
    #[serde(default = "timeout_default")]
    pub timeout_ms: u64,
    /// Revision after a rejection; `None`: a rejection is final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revise: Option<RevisionSpec>,
    /// Task that executes the approved action; `None`: the procedure ends with the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<EffectTask>,
}

/// Revision of a rejected proposal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevisionSpec {
    /// Maximum number of revisions.
    #[serde(default = "revisions_default")]
    pub max: u32,
    /// Agents that are asked for the revision, in this order, until one of them answers. By default those of the deliberation
    /// that hold its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Time that each agent has.
    #[serde(default = "revision_ms_default")]
    pub timeout_ms: u64,
}

/// Task that executes an approved action.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectTask {
    /// Type of the task.
    #[serde(rename = "type")]
    pub task_type: String,
    /// The only agent that may claim it; by default any agent with the capability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Maximum number of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u16>,
    /// Maximum duration of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

fn timeout_default() -> u64 {
    PROPOSAL_TIMEOUT_MS_DEFAULT
}

fn revisions_default() -> u32 {
    1
}

fn revision_ms_default() -> u64 {
    REVISION_MS_MAX
}

impl RevisionSpec {
    /// Creates a specification with this number of revisions.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self { max, agents: Vec::new(), timeout_ms: REVISION_MS_MAX }
    }
}

impl ProposalSpec {
    /// Parses and checks a specification.
    ///
    /// # Errors
    /// If a field is invalid; the error names its path.
    pub fn parse(body: &[u8]) -> Result<Self, FieldError> {
        let mut fields: Map<String, Value> = parse_object(body)?;
        // The deliberation may have a preset, and its errors have paths of their own.
        let deliberation = fields.remove("deliberation").filter(|spec| !spec.is_null());
        let deliberation = deliberation.map(|spec| {
            Spec::parse(spec.to_string().as_bytes()).map_err(|error| match error.path.as_str() {
                ROOT_PATH => FieldError::new("deliberation", error.reason),
                path => FieldError::new(format!("deliberation.{path}"), error.reason),
            })
        });
        let spec: Self = parse_object(Value::Object(fields).to_string().as_bytes())?;
        let spec = Self { deliberation: deliberation.transpose()?, ..spec };
        spec.check()?;
        Ok(spec)
    }

    /// Number of revisions after rejections.
    pub(super) fn revisions_max(&self) -> usize {
        self.revise.as_ref().map_or(0, |revise| revise.max as usize)
    }

    /// Checks the specification.
    ///
    /// # Errors
    /// If a field is invalid; the error names the path of the first one.
    pub fn check(&self) -> Result<(), FieldError> {
        let invalid = |path: &str, reason: &str| Err(FieldError::new(path, reason));
        check_name("action", &self.action)?;
        match (&self.deliberation, &self.letter, &self.payload) {
            (Some(deliberation), Some(letter), None) => letter.check(deliberation)?,
            (None, None, Some(payload)) if payload.to_string().len() > PAYLOAD_BYTES_MAX => {
                let reason = format!("has more than {PAYLOAD_BYTES_MAX} bytes");
                return invalid("payload", &reason);
            }
            (None, None, Some(_)) => {}
            (None, None, None) => {
                return invalid("payload", "expected a payload, or a deliberation with a letter");
            }
            (Some(_), None, None) => return invalid("letter", "a deliberation needs a letter"),
            (None, Some(_), None) => return invalid("deliberation", "a letter needs a deliberation"),
            (_, _, Some(_)) => {
                return invalid("payload", "expected either a payload, or a deliberation with a letter");
            }
        }
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return invalid("confidence", "must be between 0 and 1");
        }
        check_range("timeout_ms", self.timeout_ms, TIMEOUT_MS)?;
        if let Some(revise) = &self.revise {
            self.check_revision(revise)?;
        }
        self.task.as_ref().map_or(Ok(()), EffectTask::check)
    }

    fn check_revision(&self, revise: &RevisionSpec) -> Result<(), FieldError> {
        check_range("revise.max", revise.max.into(), (1, REVISIONS_MAX.into()))?;
        check_range("revise.timeout_ms", revise.timeout_ms, (1_000, REVISION_MS_MAX))?;
        if revise.agents.is_empty() && self.deliberation.is_none() {
            return Err(FieldError::new("revise.agents", "expected the agents that revise the payload"));
        }
        if revise.agents.len() > AGENTS_MAX {
            let reason = format!("expected at most {AGENTS_MAX} entries, found {}", revise.agents.len());
            return Err(FieldError::new("revise.agents", reason));
        }
        for (index, agent) in revise.agents.iter().enumerate() {
            let path = format!("revise.agents[{index}]");
            check_agent(&path, agent)?;
            if revise.agents[..index].contains(agent) {
                return Err(FieldError::new(path, format!("{agent} is listed twice")));
            }
        }
        Ok(())
    }
}

impl EffectTask {
    /// Builds the task with this input.
    pub(super) fn output(&self, input: &Value) -> TaskOutput {
        TaskOutput {
            id: EFFECT.into(),
            task_type: self.task_type.clone(),
            agent: self.agent.as_deref().and_then(|agent| AgentId::new(agent).ok()),
            input: json_bytes(input),
            timeout_ms: self.timeout_ms,
            attempts_max: self.attempts,
            ..TaskOutput::default()
        }
    }

    fn check(&self) -> Result<(), FieldError> {
        check_name("task.type", &self.task_type)?;
        if let Some(agent) = &self.agent {
            check_agent("task.agent", agent)?;
        }
        Ok(())
    }
}

fn check_name(path: &str, name: &str) -> Result<(), FieldError> {
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(FieldError::new(
            path,
            format!("expected 1 to {NAME_BYTES_MAX} bytes, found {}", name.len()),
        ));
    }
    Ok(())
}

fn check_agent(path: &str, agent: &str) -> Result<(), FieldError> {
    AgentId::new(agent).map(drop).map_err(|refused| FieldError::new(path, refused.detail))
}

fn check_range(path: &str, value: u64, (min, max): (u64, u64)) -> Result<(), FieldError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(FieldError::new(path, format!("expected {min} to {max}, found {value}")))
}
