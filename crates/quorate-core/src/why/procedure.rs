//! Explanation of a procedure: its phase, and whose step is next.

use super::{WaitsFor, Why, absent_holder, format_time_of_day};
use crate::presence::AbsentAgent;
use crate::procedure::{Procedure, ProcedureStatus};
use crate::time::Timestamp;

fn in_phase(phase: &str) -> String {
    if phase.is_empty() { String::new() } else { format!(" in {phase}") }
}

impl Why {
    /// Explains a procedure; `absent` states how its driver is gone.
    #[must_use]
    pub fn of_procedure(procedure: &Procedure, absent: Option<AbsentAgent>, now: Timestamp) -> Self {
        let Procedure { kind, phase, version, .. } = procedure;
        let driver = procedure.driver.as_ref().map_or("an operator", |agent| agent.as_str());
        let since = format_time_of_day(procedure.since, now);
        let reason = Some(&procedure.reason).filter(|reason| !reason.is_empty());
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let gone = absent_holder(Some(absent.as_slice()), now);
        let summary = match procedure.status {
            ProcedureStatus::Running if phase.is_empty() => {
                format!("{kind}, started at {since}; waiting for the first step by {driver}{gone}")
            }
            ProcedureStatus::Running => format!(
                "{kind}, in phase {phase} since {since} (version {version}, last step at {}); \
                 waiting for the next step by {driver}{gone}",
                format_time_of_day(procedure.stepped_at, now)
            ),
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
            ProcedureStatus::Running => WaitsFor::Step(driver.to_owned()),
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
