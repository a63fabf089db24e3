//! Pausing, resuming, cancelling and signalling procedures. The driver is notified by a message of the same commit.

use crate::commit::{OpResult, Principal};
use crate::decide::procedures::{already_ended, no_procedure, notice};
use crate::decide::tasks::push_json_string;
use crate::decide::{DecideError, Draft};

use crate::ids::Version;
use crate::item::{Item, Verb};
use crate::procedure::{ControlProcedure, Procedure, ProcedureControl, ProcedureStatus, SignalProcedure};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};
use crate::registry::AgentRole;

impl Draft<'_> {
    /// Pauses, resumes or cancels a procedure. A repetition changes nothing, but continues a cancellation.
    pub(super) fn control_procedure(&mut self, control: &ControlProcedure) -> Result<OpResult, DecideError> {
        let procedure =
            self.procedure(&control.procedure)?.ok_or_else(|| no_procedure(&control.procedure))?;
        self.require_control(&procedure)?;
        let (verb, status) = match control.control {
            ProcedureControl::Pause => (Verb::ProcedurePaused, ProcedureStatus::Paused),
            ProcedureControl::Resume => (Verb::ProcedureResumed, ProcedureStatus::Running),
            ProcedureControl::Cancel => (Verb::ProcedureCancelled, ProcedureStatus::Cancelled),
        };
        let mut version = procedure.version;
        if procedure.status != status {
            if procedure.status.has_ended() {
                return Err(already_ended(&procedure).into());
            }
            version = self.set_procedure_status(&procedure, verb, status, &control.reason)?;
        }
        let remaining = match control.control {
            ProcedureControl::Pause | ProcedureControl::Resume => 0,
            ProcedureControl::Cancel => self.cancel_work_of(&procedure, &control.reason)?,
        };
        Ok(OpResult::ProcedureChanged { version, remaining })
    }

    /// Changes whether a procedure continues, notifies its driver, and returns the new version.
    pub(super) fn set_procedure_status(
        &mut self,
        procedure: &Procedure,
        verb: Verb,
        status: ProcedureStatus,
        reason: &str,
    ) -> Result<Version, DecideError> {
        let version = self.next_version(procedure)?;
        let changed = Procedure {
            version,
            seq: self.seq,
            previous_seq: self.previous_seq(procedure),
            status,
            since: self.now.wall,
            reason: reason.to_owned(),
            ..procedure.clone()
        };
        self.change_item(verb, Item::Procedure(changed));
        self.notify_of_control(procedure, verb, reason);
        Ok(version)
    }

    /// Sends a signal to the driver. It is a message, so it is redelivered until the driver has processed it.
    pub(super) fn signal_procedure(&mut self, signal: &SignalProcedure) -> Result<OpResult, DecideError> {
        let procedure = self.procedure(&signal.procedure)?.ok_or_else(|| no_procedure(&signal.procedure))?;
        self.require_control(&procedure)?;
        let Procedure { id, kind, driver, status, .. } = &procedure;
        if status.has_ended() {
            return Err(already_ended(&procedure).into());
        }
        let Some(driver) = driver else {
            return Err(Refused::new(Code::Conflict, format!("procedure {id} has no driver to signal"))
                .hint("a procedure that operators step receives no signals")
                .into());
        };
        let recipients = vec![Recipient::agent(self.require_agent(driver)?)];
        self.check_inbox_capacity(None, &recipients)?;
        let mut text = notice(id, kind);
        text.push_str(",\"name\":");
        push_json_string(&signal.name, &mut text);
        text.push_str(",\"by\":");
        push_json_string(&self.commit.principal.to_text(), &mut text);
        text.push_str(",\"payload\":");
        let payload = signal.payload.as_ref().map(|payload| std::str::from_utf8(&payload.bytes));
        text.push_str(payload.transpose().ok().flatten().unwrap_or("null"));
        text.push('}');
        self.send_notice(driver, recipients, id, "procedure.signalled", text);
        Ok(OpResult::Done)
    }

    /// Notifies the driver, unless it made the change itself or was removed. Does not depend on space in its inbox: a
    /// cancellation must always be possible, and there are at most a few of these messages per procedure.
    fn notify_of_control(&mut self, procedure: &Procedure, verb: Verb, reason: &str) {
        let Some(driver) = procedure.driver.as_ref().filter(|driver| !self.is_principal(driver)) else {
            return;
        };
        let Some(number) = self.working.agents().number(driver) else { return };
        let mut text = notice(&procedure.id, &procedure.kind);
        text.push_str(",\"reason\":");
        push_json_string(reason, &mut text);
        text.push('}');
        self.send_notice(driver, vec![Recipient::agent(number)], &procedure.id, verb.as_str(), text);
    }

    /// Refuses agents other than the driver, the agent that started the procedure, and coordinators.
    fn require_control(&self, procedure: &Procedure) -> Result<(), Refused> {
        let Principal::Agent(actor) = &self.commit.principal else { return Ok(()) };
        let agent = self.actor.and_then(|number| self.working.agents().get(number));
        let is_coordinator = agent.is_some_and(|agent| agent.role == AgentRole::Coordinator);
        let is_own = procedure.driver.as_ref() == Some(actor)
            || procedure.started_by == self.commit.principal.to_text();
        if is_coordinator || is_own {
            return Ok(());
        }
        let detail = format!("agent {actor} did not start procedure {} and does not drive it", procedure.id);
        Err(Refused::new(Code::Forbidden, detail).hint("ask the agent that started it, or a coordinator"))
    }
}
