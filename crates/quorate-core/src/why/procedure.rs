//! Why a procedure is where it is: in which phase, since when, and who has to go on with it.

use super::{WaitsFor, Why, clock};
use crate::procedure::{Procedure, ProcedureStatus};
use crate::time::Timestamp;

impl Why {
    /// Of a procedure.
    #[must_use]
    pub fn of_procedure(procedure: &Procedure, now: Timestamp) -> Self {
        let Procedure { kind, phase, version, .. } = procedure;
        let driver = procedure.driver.as_ref().map_or("whoever runs the hub", |agent| agent.as_str());
        let since = clock(procedure.since, now);
        let sentence = match procedure.status {
            ProcedureStatus::Running if phase.is_empty() => {
                format!("{kind}, started at {since} and not begun; {driver} is to take the first step")
            }
            ProcedureStatus::Running => format!(
                "{kind}, in phase {phase} since {since} (version {version}, last step at {}); \
                 {driver} is to take the next step",
                clock(procedure.stepped_at, now)
            ),
            ProcedureStatus::Done => format!("{kind}, done at {since} after {phase} (version {version})"),
            ProcedureStatus::Failed => format!("{kind}, failed at {since} in {phase} (version {version})"),
        };
        let waits_for = match procedure.status {
            ProcedureStatus::Running => WaitsFor::Step(driver.to_owned()),
            ProcedureStatus::Done | ProcedureStatus::Failed => WaitsFor::Nothing,
        };
        Self {
            state: procedure.status.as_str().into(),
            whose: procedure.driver.as_ref().map(ToString::to_string),
            since: Some(procedure.since),
            waits_for,
            sentence,
            ..Self::of(procedure.id.to_string())
        }
    }
}
