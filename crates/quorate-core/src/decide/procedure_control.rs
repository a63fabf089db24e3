//! Pausing, resuming, cancelling and signalling procedures. The driver is notified by a message of the same commit.

use crate::commit::{OpResult, Principal};
use crate::decide::procedures::{already_ended, no_procedure, notice};
use crate::decide::tasks::push_json_string;
use crate::decide::{DecideError, Draft};
use crate::ids::AgentNo;
use crate::item::{Item, Verb};
use crate::limits::PROCEDURE_CANCEL_MAX;
use crate::procedure::{ControlProcedure, Procedure, ProcedureControl, ProcedureStatus, SignalProcedure};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};
use crate::registry::AgentRole;
use crate::task::CancelTask;

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
            version = self.next_version(&procedure)?;
            let changed = Procedure {
                version,
                seq: self.seq,
                previous_seq: self.previous_seq(&procedure),
                status,
                since: self.now.wall,
                reason: control.reason.clone(),
                ..procedure.clone()
            };
            self.change_item(verb, Item::Procedure(changed));
            self.notify_of_control(&procedure, verb, &control.reason);
        }
        let remaining = match control.control {
            ProcedureControl::Pause | ProcedureControl::Resume => 0,
            ProcedureControl::Cancel => self.cancel_work_of(&procedure, &control.reason)?,
        };
        Ok(OpResult::ProcedureChanged { version, remaining })
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

    /// Cancels open requests and tasks of a procedure, at most [`PROCEDURE_CANCEL_MAX`]: requests of its driver with
    /// the id of the procedure as correlation id, and tasks that its driver created with that id as session. Returns
    /// the number of those that are left.
    fn cancel_work_of(&mut self, procedure: &Procedure, reason: &str) -> Result<u32, DecideError> {
        let driver = procedure.driver.as_ref().and_then(|driver| self.working.agents().number(driver));
        let Some(driver) = driver else { return Ok(0) };
        let requests = self.requests_of(procedure, driver);
        let tasks = self.working.tasks().of_session(procedure.id.as_str(), driver);
        let total = requests.len() + tasks.len();
        self.lookup.add_steps(total);
        let cancelled_requests = requests.len().min(PROCEDURE_CANCEL_MAX);
        for request in requests.into_iter().take(PROCEDURE_CANCEL_MAX) {
            self.withdraw(request);
        }
        // Newest first: a task is cancelled before those that it depends on, so that it does not fail with them.
        let mut cancelled_tasks = 0;
        for task in tasks.into_iter().rev().take(PROCEDURE_CANCEL_MAX - cancelled_requests) {
            cancelled_tasks += 1;
            // It may have ended with an earlier one.
            if self.working.tasks().get(&task).is_some() {
                self.cancel_task_of_procedure(&CancelTask { task, reason: reason.to_owned() })?;
            }
        }
        Ok((total - cancelled_requests - cancelled_tasks) as u32)
    }

    fn requests_of(&self, procedure: &Procedure, driver: AgentNo) -> Vec<crate::request::Request> {
        let requests = self.working.items().requests.of_correlation(procedure.id.as_str());
        requests.filter(|request| request.from == driver).cloned().collect()
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
