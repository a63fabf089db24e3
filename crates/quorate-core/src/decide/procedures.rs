//! Procedures: started by any principal with the permission, and advanced by their driver one version at a time.

use std::sync::Arc;

use bytes::Bytes;

use crate::codec;
use crate::commit::{OpResult, Principal};
use crate::decide::tasks::push_json_string;
use crate::decide::{DecideError, Draft};
use crate::destination::Destination;
use crate::effect::Effect;
use crate::ids::{AgentId, ProcedureId, ScopeNo, Seq, Version};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{NUMBER_MAX, PROCEDURES_OPEN_MAX, PROCEDURES_PER_AGENT_MAX};
use crate::message::{Message, MessageType, Payload};
use crate::procedure::{Procedure, ProcedureStatus, StartProcedure, StepProcedure, too_many_procedures};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};
use crate::task::PartRef;

impl Draft<'_> {
    pub(super) fn start_procedure(&mut self, start: &StartProcedure) -> Result<OpResult, DecideError> {
        let driver = self.driver_of(start)?;
        if let Some(id) = &start.id
            && let Some(procedure) = self.procedure(id)?
        {
            return self.repeated_start(start, driver.as_ref(), &procedure);
        }
        if let Some(parent) = &start.parent {
            self.check_parent(parent)?;
        }
        if self.working.items().procedures.len() >= PROCEDURES_OPEN_MAX {
            return Err(too_many_procedures().into());
        }
        if self.actor.is_some() {
            let started = self.working.items().procedures.count_of(&self.commit.principal.to_text());
            let hint = "wait until one ends, or cancel procedures that are no longer driven";
            self.check_share("running procedures", started, PROCEDURES_PER_AGENT_MAX, hint)
                .map_err(Refused::retryable)?;
        }
        let now = self.now.wall;
        let generate =
            || ProcedureId::generated(self.working.head.generation, self.seq, self.started_in_commit());
        let id = start.id.clone().unwrap_or_else(generate);
        let procedure = Procedure {
            id: id.clone(),
            kind: start.kind.clone(),
            driver,
            started_by: self.commit.principal.to_text(),
            started_at: now,
            spec: start.spec.as_ref().map(|spec| self.add_part(spec)),
            version: Version(1),
            seq: self.seq,
            previous_seq: None,
            status: ProcedureStatus::Running,
            phase: String::new(),
            since: now,
            stepped_at: now,
            state: None,
            result: None,
            reason: String::new(),
            parent: start.parent.clone(),
            number: Some(ScopeNo::of_procedure(self.seq, self.started_in_commit())),
        };
        let notified = procedure.driver.clone().filter(|driver| !self.is_principal(driver));
        // The notice belongs to the procedure, so it is sent after the start.
        self.change_item(Verb::ProcedureStarted, Item::Procedure(procedure));
        if let Some(driver) = notified {
            self.notify_driver(&driver, &id, &start.kind)?;
        }
        Ok(OpResult::ProcedureStarted { id })
    }

    /// Refuses to start a child of a procedure that has ended, or that another agent drives.
    fn check_parent(&self, parent: &ProcedureId) -> Result<(), DecideError> {
        let parent = self.procedure(parent)?.ok_or_else(|| no_procedure(parent))?;
        self.require_driver(&parent)?;
        if parent.status.has_ended() {
            return Err(already_ended(&parent).into());
        }
        Ok(())
    }

    /// Notifies an agent that another principal made it the driver. The message is part of the same commit.
    fn notify_driver(&mut self, driver: &AgentId, id: &ProcedureId, kind: &str) -> Result<(), DecideError> {
        let recipients = vec![Recipient::agent(self.require_agent(driver)?)];
        self.check_inbox_capacity(None, &recipients)?;
        let text = notice(id, kind);
        self.send_notice(driver, recipients, id, Verb::ProcedureStarted.as_str(), text + "}");
        Ok(())
    }

    /// Sends a notice of the hub about a procedure.
    pub(super) fn send_notice(
        &mut self,
        driver: &AgentId,
        recipients: Vec<Recipient>,
        id: &ProcedureId,
        action: &str,
        text: String,
    ) {
        let payload = Payload::seal(Bytes::from(text), self.salt());
        let mut message = Message::new(Destination::Agent(driver.clone()), action, payload);
        message.kind = MessageType::Event;
        message.correlation_id = Some(id.to_string());
        self.deliveries += 1;
        self.emit_message(&Arc::new(message), recipients);
    }

    pub(super) fn step_procedure(&mut self, step: &StepProcedure) -> Result<OpResult, DecideError> {
        let procedure = self.procedure(&step.procedure)?.ok_or_else(|| no_procedure(&step.procedure))?;
        self.require_driver(&procedure)?;
        if procedure.version != step.expect {
            return Err(stale(&procedure, step.expect).into());
        }
        match procedure.status {
            ProcedureStatus::Running => {}
            ProcedureStatus::Paused | ProcedureStatus::Stuck => return Err(not_running(&procedure).into()),
            ProcedureStatus::Done | ProcedureStatus::Failed | ProcedureStatus::Cancelled => {
                return Err(already_ended(&procedure).into());
            }
        }
        let version = self.next_version(&procedure)?;
        let now = self.now.wall;
        let stays_in_phase = procedure.phase == step.phase && step.status == ProcedureStatus::Running;
        let verb = verb_of(step.status);
        let previous_seq = self.previous_seq(&procedure);
        let stepped = Procedure {
            version,
            seq: self.seq,
            previous_seq,
            status: step.status,
            since: if stays_in_phase { procedure.since } else { now },
            phase: step.phase.clone(),
            stepped_at: now,
            state: step.state.as_ref().map(|state| self.add_part(state)).or(procedure.state),
            result: step.result.as_ref().map(|result| self.add_part(result)),
            reason: step.reason.clone(),
            ..procedure
        };
        self.change_item(verb, Item::Procedure(stepped));
        Ok(OpResult::ProcedureStepped { version })
    }

    /// Returns the record before the one that this commit writes. Of several versions in one record, only the last
    /// one can be read later.
    pub(super) fn previous_seq(&self, procedure: &Procedure) -> Option<Seq> {
        if procedure.seq == self.seq { procedure.previous_seq } else { Some(procedure.seq) }
    }

    pub(super) fn procedure(&self, id: &ProcedureId) -> Result<Option<Procedure>, DecideError> {
        match self.item(&ItemKey::new(ItemKind::Procedure, id.as_str()))? {
            Some(Item::Procedure(procedure)) => Ok(Some(procedure)),
            _ => Ok(None),
        }
    }

    /// Returns the driver: the named agent, or else the agent that starts the procedure.
    fn driver_of(&self, start: &StartProcedure) -> Result<Option<AgentId>, Refused> {
        let driver = match (&start.driver, &self.commit.principal) {
            (Some(agent), _) => Some(agent),
            (None, Principal::Agent(actor)) => Some(actor),
            (None, Principal::System | Principal::Holder { .. }) => None,
        };
        driver.map(|agent| self.require_agent(agent).map(|_| agent.clone())).transpose()
    }

    /// Refuses agents other than the driver.
    fn require_driver(&self, procedure: &Procedure) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(actor) if procedure.driver.as_ref() != Some(actor) => {
                let driver = procedure.driver.as_ref().map_or("the hub", AgentId::as_str);
                let detail =
                    format!("agent {actor} is not the driver of procedure {}: {driver} is", procedure.id);
                Err(Refused::new(Code::Forbidden, detail).hint("only the driver may step a procedure"))
            }
            Principal::Agent(_) | Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    /// Returns the next version. The first one after a restore skips the versions that the lost history may have used.
    pub(super) fn next_version(&self, procedure: &Procedure) -> Result<Version, Refused> {
        let generation = self.working.head.generation;
        let previous = self.working.generations().at_seq(procedure.seq);
        let next = procedure.version.0 + 1;
        let version = if previous == generation { next } else { next.max(generation.0 << 24) };
        if version > NUMBER_MAX {
            let detail = format!("procedure {} has no version left", procedure.id);
            return Err(Refused::new(Code::LimitExceeded, detail).limit(NUMBER_MAX));
        }
        Ok(Version(version))
    }

    /// Handles a repeated id: returns the same result if the principal and the content are the same.
    fn repeated_start(
        &self,
        start: &StartProcedure,
        driver: Option<&AgentId>,
        procedure: &Procedure,
    ) -> Result<OpResult, DecideError> {
        let same = procedure.started_by == self.commit.principal.to_text()
            && procedure.kind == start.kind
            && procedure.parent == start.parent
            && procedure.driver.as_ref() == driver
            && self.is_same_part(procedure.spec, start.spec.as_ref())?;
        if same {
            return Ok(OpResult::ProcedureStarted { id: procedure.id.clone() });
        }
        let detail = format!("the procedure id {} was used for another procedure", procedure.id);
        Err(Refused::new(Code::Duplicate, detail)
            .hint("use a new id for each procedure; retry an id only with identical content")
            .into())
    }

    /// Returns a payload part of this record or an earlier one; `None` if it does not exist, or this commit erased it.
    pub(super) fn stored_part(&self, part: PartRef) -> Result<Option<Payload>, DecideError> {
        if part.seq == self.seq {
            return Ok(self.parts.get(part.part as usize).cloned());
        }
        if self.erased_in_commit.contains(&(part.seq, part.part)) {
            return Ok(None);
        }
        let record = self.lookup.record(part.seq)?;
        Ok(record.and_then(|record| codec::payload_part(&record, part.part).ok().flatten()))
    }

    /// Returns the number of procedures that this commit has started so far.
    fn started_in_commit(&self) -> u32 {
        let started =
            |effect: &&Effect| matches!(effect, Effect::Changed { verb: Verb::ProcedureStarted, .. });
        self.effects.iter().filter(started).count() as u32
    }
}

fn verb_of(status: ProcedureStatus) -> Verb {
    match status {
        ProcedureStatus::Running => Verb::ProcedureStepped,
        ProcedureStatus::Done => Verb::ProcedureDone,
        ProcedureStatus::Failed => Verb::ProcedureFailed,
        ProcedureStatus::Cancelled => Verb::ProcedureCancelled,
        ProcedureStatus::Paused => Verb::ProcedurePaused,
        ProcedureStatus::Stuck => Verb::ProcedureStuck,
    }
}

/// Returns the start of a notice's payload, without the closing brace.
pub(super) fn notice(id: &ProcedureId, kind: &str) -> String {
    let mut text = String::from("{\"procedure\":");
    push_json_string(id.as_str(), &mut text);
    text.push_str(",\"kind\":");
    push_json_string(kind, &mut text);
    text
}

pub(super) fn no_procedure(id: &ProcedureId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no procedure {id}"))
        .hint("start it first, or check the id")
}

fn stale(procedure: &Procedure, expected: Version) -> Refused {
    let Procedure { id, version, .. } = procedure;
    let detail = format!("procedure {id} is at version {version}, not at version {expected}");
    Refused::new(Code::VersionConflict, detail)
        .current_version(version.0)
        .hint("another step was taken: read the state again, and derive the next step from it")
}

fn not_running(procedure: &Procedure) -> Refused {
    let Procedure { id, status, reason, .. } = procedure;
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    Refused::new(Code::Conflict, format!("procedure {id} is {}{reason}", status.as_str()))
        .hint("resume it with procedure.resume, or cancel it")
}

pub(super) fn already_ended(procedure: &Procedure) -> Refused {
    let detail =
        format!("procedure {} is {} and can no longer change", procedure.id, procedure.status.as_str());
    Refused::new(Code::Conflict, detail).hint("start a new procedure; this one stays readable")
}
