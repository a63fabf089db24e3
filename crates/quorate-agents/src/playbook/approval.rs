//! The `approval` section of a playbook: a letter, filled in from the outcome, that a person must approve before it is written.

use quorate_procedures::deliberation::Spec;
use quorate_procedures::proposal::{EffectTask, LetterTemplate, ProposalSpec, RevisionSpec};
use serde::Deserialize;

use crate::worker::{LETTER_TASK, OUTBOX};

/// Default time to decide, in hours.
const HOURS_DEFAULT: u32 = 72;
/// Maximum time to decide that the hub allows, in hours.
const HOURS_MAX: u32 = 90 * 24;
const HOUR_MS: u64 = 60 * 60 * 1_000;
/// Attempts to write a letter. A full disk may take a while.
const WRITE_ATTEMPTS: u16 = 20;

/// The approval that a playbook requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalSpec {
    /// Short description of the action.
    pub action: String,
    /// Recommendations that require the approval; empty: any outcome.
    #[serde(default)]
    when: Vec<String>,
    /// Template of the letter, with the placeholders `{subject}`, `{recommendation}` and `{points}`.
    letter: String,
    /// Name of the file that the letter is written to.
    write: String,
    /// Timeout of the approval.
    #[serde(default = "hours_default")]
    timeout_hours: u32,
    /// Maximum number of revisions after a rejection.
    #[serde(default)]
    revise: u32,
    /// Agents that are asked for a revision; by default those that hold the result.
    #[serde(default)]
    revise_by: Vec<String>,
}

fn hours_default() -> u32 {
    HOURS_DEFAULT
}

impl ApprovalSpec {
    /// Validates the section; the error is a message and a hint.
    pub(super) fn check(&self, spec: &Spec) -> Result<(), (String, String)> {
        if self.revise == 0 && !self.revise_by.is_empty() {
            return Err(("revise_by: there is no revision".into(), "add `revise: 1`".into()));
        }
        if !(1..=HOURS_MAX).contains(&self.timeout_hours) {
            let message = format!("timeout_hours: {} is not between 1 and {HOURS_MAX}", self.timeout_hours);
            return Err((message, format!("omit it for the default of {HOURS_DEFAULT} hours")));
        }
        if !(1..=HOURS_MAX).contains(&self.timeout_hours) {
            let message = format!("timeout_hours: {} is not between 1 and {HOURS_MAX}", self.timeout_hours);
            return Err((message, format!("omit it for the default of {HOURS_DEFAULT} hours")));
        }
        let takes_part = |name: &&String| spec.agents.iter().any(|member| member.id == **name);
        if let Some(other) = self.revise_by.iter().find(|name| !takes_part(name)) {
            let names: Vec<&str> = spec.agents.iter().map(|member| member.id.as_str()).collect();
            let hint = format!("the agents are {}", names.join(", "));
            return Err((format!("revise_by: {other:?} takes no part in the deliberation"), hint));
        }
        self.proposal(spec).check().map_err(|error| {
            let (key, hint) = match error.path.as_str() {
                "action" => ("action", "describe the action in a few words"),
                "letter.write" => ("write", "the directory is set with `--out`"),
                "letter.when" => ("when", "omit it to request the approval after any recommendation"),
                "letter.text" => ("letter", "correct the placeholder, or remove its braces"),
                "revise.max" => ("revise", "use 1, or omit it: a rejection is final then"),
                _ => ("revise_by", "list each agent once"),
            };
            (format!("{key}: {}", error.reason), hint.to_owned())
        })
    }

    /// Returns the proposal of the outcome of a deliberation. The agent [`OUTBOX`] writes the approved letter.
    #[must_use]
    pub fn proposal(&self, spec: &Spec) -> ProposalSpec {
        let revise = RevisionSpec { agents: self.revise_by.clone(), ..RevisionSpec::new(self.revise) };
        let task = EffectTask {
            task_type: LETTER_TASK.into(),
            agent: Some(OUTBOX.into()),
            attempts: Some(WRITE_ATTEMPTS),
            timeout_ms: None,
        };
        ProposalSpec {
            action: self.action.clone(),
            deliberation: Some(spec.clone()),
            letter: Some(LetterTemplate {
                text: self.letter.clone(),
                write: self.write.clone(),
                when: self.when.clone(),
            }),
            payload: None,
            rationale: None,
            confidence: None,
            timeout_ms: u64::from(self.timeout_hours) * HOUR_MS,
            revise: Some(revise).filter(|revise| revise.max > 0),
            task: Some(task),
        }
    }
}
