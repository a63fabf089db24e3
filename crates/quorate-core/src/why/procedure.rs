//! Explanation of a procedure: its phase, and whose step is next.

use super::{WaitsFor, Why, absent_holder, format_time_of_day};
use crate::inspect::{ProcedureInspection, ProcedureWaitSubject};
use crate::procedure::{Procedure, ProcedureStatus};
use crate::time::Timestamp;

impl ProcedureInspection {
    /// Describes what the procedure waits for; `None` if only its driver knows.
    fn describe(&self, now: Timestamp) -> Option<String> {
        let mut waits: Vec<_> = self.waits.iter().map(|wait| wait.describe(now)).collect();
        if self.more > 0 {
            waits.push(format!("{} more", self.more));
        }
        (!waits.is_empty()).then(|| waits.join("; "))
    }

    /// Returns the first condition: all answers, all tasks, or the first decision that it waits for.
    fn waits_for(&self) -> Option<WaitsFor> {
        let answers = self.waits.iter().filter_map(|wait| match &wait.subject {
            ProcedureWaitSubject::Answer { of } => Some(of.clone()),
            _ => None,
        });
        let tasks = self.waits.iter().filter_map(|wait| match &wait.subject {
            ProcedureWaitSubject::Task { task, .. } => Some(task.to_string()),
            _ => None,
        });
        Some(match &self.waits.first()?.subject {
            ProcedureWaitSubject::Answer { .. } => WaitsFor::Answers(answers.collect()),
            ProcedureWaitSubject::Task { .. } => WaitsFor::Tasks(tasks.collect()),
            ProcedureWaitSubject::Decision(approval) => WaitsFor::Approval(approval.to_string()),
            ProcedureWaitSubject::Child(..) => return None,
        })
    }
}

fn in_phase(phase: &str) -> String {
    if phase.is_empty() { String::new() } else { format!(" in {phase}") }
}

impl Why {
    /// Explains a procedure; `inspection` states what it waits for.
    #[must_use]
    pub fn of_procedure(procedure: &Procedure, inspection: &ProcedureInspection, now: Timestamp) -> Self {
        let Procedure { kind, phase, version, .. } = procedure;
        let driver = procedure.driver.as_ref().map_or("an operator", |agent| agent.as_str());
        let since = format_time_of_day(procedure.since, now);
        let reason = Some(&procedure.reason).filter(|reason| !reason.is_empty());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let gone = absent_holder(Some(inspection.absent_driver.as_slice()), now);
        let waits = inspection.describe(now);
        let summary = match procedure.status {
            ProcedureStatus::Running if phase.is_empty() => {
                format!("{kind}, started at {since}; waiting for the first step by {driver}{gone}")
            }
            ProcedureStatus::Running => {
                let waits = waits.unwrap_or_else(|| format!("the next step by {driver}"));
                format!(
                    "{kind}, in phase {phase} since {since} (version {version}, last step at {}); \
                     waiting for {waits}{gone}",
                    format_time_of_day(procedure.stepped_at, now)
                )
            }
            ProcedureStatus::Done => format!("{kind}, done at {since} after {phase} (version {version})"),
            ProcedureStatus::Failed => format!("{kind}, failed at {since} in {phase} (version {version})"),
            ProcedureStatus::Cancelled => format!("{kind}, cancelled at {since}{}{reason}", in_phase(phase)),
            ProcedureStatus::Paused => {
                format!("{kind}, paused since {since}{}{reason}; resume it to continue", in_phase(phase))
            }
            ProcedureStatus::Stuck => {
                format!("{kind}, stuck since {since}{}{reason}; resume it to try again", in_phase(phase))
            }
        };
        let waits_for = match procedure.status {
            ProcedureStatus::Running => {
                inspection.waits_for().unwrap_or_else(|| WaitsFor::Step(driver.to_owned()))
            }
            // An operator has to resume it.
            ProcedureStatus::Paused | ProcedureStatus::Stuck => WaitsFor::Step("an operator".to_owned()),
            ProcedureStatus::Done | ProcedureStatus::Failed | ProcedureStatus::Cancelled => WaitsFor::Nothing,
        };
        Self {
            state: procedure.status.as_str().into(),
            assignee: procedure.driver.as_ref().map(ToString::to_string),
            since: Some(procedure.since),
            waits_for,
            summary,
            ..Self::of(procedure.id.to_string())
        }
    }
}
