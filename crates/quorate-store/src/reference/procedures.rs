//! Procedures: a step applies only to the version that its driver has seen.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AgentId, Code, Destination, Item, ItemKey, ItemKind, Message, MessageType, OpResult, PartRef, Payload,
    Principal, Procedure, ProcedureId, ProcedureStatus, Recipient, Refused, StartProcedure, StepProcedure,
    Version, limits,
};

use crate::reference::agents::unknown_agent;
use crate::reference::space::Space;
use crate::reference::transaction::Transaction;

impl Space {
    fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        self.items.values().filter_map(|item| match item {
            Item::Procedure(procedure) => Some(procedure),
            _ => None,
        })
    }

    fn procedure(&self, id: &ProcedureId) -> Option<&Procedure> {
        match self.items.get(&ItemKey::new(ItemKind::Procedure, id.as_str())) {
            Some(Item::Procedure(procedure)) => Some(procedure),
            _ => None,
        }
    }
}

impl Transaction<'_> {
    pub(super) fn start_procedure(&mut self, start: &StartProcedure) -> Result<OpResult, Refused> {
        let driver = match &self.commit.principal {
            Principal::Agent(actor) => Some(start.driver.clone().unwrap_or_else(|| actor.clone())),
            Principal::System | Principal::Holder { .. } => start.driver.clone(),
        };
        if let Some(driver) = &driver
            && self.space.agent_number(driver).is_none()
        {
            return Err(unknown_agent(driver));
        }
        if let Some(existing) = start.id.as_ref().and_then(|id| self.space.procedure(id)) {
            return if self.is_same(existing, start, driver.as_ref()) {
                Ok(OpResult::ProcedureStarted { id: existing.id.clone() })
            } else {
                Err(Refused::new(
                    Code::Duplicate,
                    format!("procedure {} exists with different content", existing.id),
                ))
            };
        }
        let running =
            self.space.procedures().filter(|procedure| procedure.status == ProcedureStatus::Running);
        if running.count() >= limits::PROCEDURES_OPEN_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many procedures")
                .limit(limits::PROCEDURES_OPEN_MAX as u64));
        }
        let principal = self.commit.principal.to_string();
        let is_own = |procedure: &&Procedure| {
            procedure.status == ProcedureStatus::Running && procedure.started_by == principal
        };
        if self.actor.is_some()
            && self.space.procedures().filter(is_own).count() >= limits::PROCEDURES_PER_AGENT_MAX
        {
            return Err(Refused::new(Code::LimitExceeded, "too many procedures of the agent")
                .limit(limits::PROCEDURES_PER_AGENT_MAX as u64));
        }
        let (now, seq) = (self.now.wall, self.seq);
        // Procedures started in this record, whatever their current state.
        let index = self.procedures_started;
        self.procedures_started += 1;
        let generated = format!("prc_0-{seq}-{index}");
        let id = start.id.clone().unwrap_or_else(|| ProcedureId::new(&generated).expect("valid id"));
        if let Some(driver) = &driver
            && self.commit.principal != Principal::Agent(driver.clone())
        {
            self.notify_driver(driver, &id, &start.kind)?;
        }
        let procedure = Procedure {
            id: id.clone(),
            kind: start.kind.clone(),
            driver,
            started_by: self.commit.principal.to_string(),
            started_at: now,
            spec: self.add_optional_part(start.spec.as_ref()),
            version: Version(1),
            seq,
            previous_seq: None,
            status: ProcedureStatus::Running,
            phase: String::new(),
            since: now,
            stepped_at: now,
            state: None,
            result: None,
        };
        self.set_item(Item::Procedure(procedure));
        Ok(OpResult::ProcedureStarted { id })
    }

    fn notify_driver(&mut self, driver: &AgentId, id: &ProcedureId, kind: &str) -> Result<(), Refused> {
        let number = self.space.agent_number(driver).expect("the driver exists");
        let to = vec![Recipient::agent(number)];
        self.check_inbox_capacity(None, &to)?;
        let text = format!("{{\"procedure\":{:?},\"kind\":{kind:?}}}", id.as_str());
        // Stores are not compared by their salts, so any value will do.
        let payload = Payload::seal(Bytes::from(text), [1; 16]);
        let mut message = Message::new(Destination::Agent(driver.clone()), "procedure.started", payload);
        message.kind = MessageType::Event;
        message.correlation_id = Some(id.to_string());
        self.deliveries += 1;
        self.store_message(&Arc::new(message), [0; 32], to);
        Ok(())
    }

    pub(super) fn step_procedure(&mut self, step: &StepProcedure) -> Result<OpResult, Refused> {
        let known = self.space.procedure(&step.procedure).cloned();
        let Some(mut procedure) = known else {
            return Err(Refused::new(Code::NotFound, format!("unknown procedure {}", step.procedure)));
        };
        if let Principal::Agent(actor) = &self.commit.principal
            && procedure.driver.as_ref() != Some(actor)
        {
            return Err(Refused::new(Code::Forbidden, format!("{actor} is not the driver")));
        }
        if procedure.version != step.expect {
            return Err(Refused::new(Code::VersionConflict, "the procedure is at another version")
                .current_version(procedure.version.0));
        }
        if procedure.status != ProcedureStatus::Running {
            return Err(Refused::new(Code::Conflict, "the procedure has ended"));
        }
        if procedure.phase != step.phase || step.status != ProcedureStatus::Running {
            procedure.since = self.now.wall;
        }
        procedure.version = Version(procedure.version.0 + 1);
        if procedure.seq != self.seq {
            procedure.previous_seq = Some(procedure.seq);
            procedure.seq = self.seq;
        }
        procedure.status = step.status;
        procedure.phase.clone_from(&step.phase);
        procedure.stepped_at = self.now.wall;
        if step.state.is_some() {
            procedure.state = self.add_optional_part(step.state.as_ref());
        }
        procedure.result = self.add_optional_part(step.result.as_ref());
        let version = procedure.version;
        self.set_item(Item::Procedure(procedure));
        Ok(OpResult::ProcedureStepped { version })
    }

    /// Stores a payload with the record and returns its reference.
    pub(super) fn add_optional_part(&mut self, payload: Option<&Payload>) -> Option<PartRef> {
        let part = self.parts.len() as u32;
        self.parts.push(payload?.clone());
        Some(PartRef { seq: self.seq, part })
    }

    /// Returns the bytes of a part, or `None` if they were erased.
    pub(super) fn bytes_of(&self, part: PartRef) -> Option<bytes::Bytes> {
        let stored = match self.space.records.get(part.seq.0 as usize - 1) {
            Some(record) => &record.parts[part.part as usize],
            None => &self.parts[part.part as usize],
        };
        (stored.salt != [0; 16]).then(|| stored.bytes.clone())
    }

    /// Whether a start repeats an earlier one by the same principal.
    fn is_same(&self, existing: &Procedure, start: &StartProcedure, driver: Option<&AgentId>) -> bool {
        let spec = match (existing.spec, &start.spec) {
            (None, None) => true,
            (Some(part), Some(requested)) => {
                self.bytes_of(part).is_some_and(|bytes| bytes == requested.bytes)
            }
            _ => false,
        };
        spec && existing.started_by == self.commit.principal.to_string()
            && existing.kind == start.kind
            && existing.driver.as_ref() == driver
    }
}
