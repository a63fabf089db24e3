//! Procedures: a step applies only to the version that its driver has seen.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AgentId, AgentRole, CancelTask, Code, ControlProcedure, Destination, Item, ItemKey, ItemKind, Message,
    MessageType, OpResult, PartRef, Payload, Principal, Procedure, ProcedureControl, ProcedureId,
    ProcedureStatus, Recipient, Refused, Request, ScopeNo, SignalProcedure, StartProcedure, StepProcedure,
    Task, Version, limits,
};

use crate::reference::agents::unknown_agent;
use crate::reference::space::Space;
use crate::reference::transaction::Transaction;

impl Space {
    pub(super) fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        self.items.values().filter_map(|item| match item {
            Item::Procedure(procedure) => Some(procedure),
            _ => None,
        })
    }

    /// Counts one change per version.
    pub(super) fn procedure_changes(&self) -> u64 {
        self.procedures().map(|procedure| procedure.version.0).sum()
    }

    pub(super) fn procedure(&self, id: &ProcedureId) -> Option<&Procedure> {
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
        self.check_start(start)?;
        let (now, seq) = (self.now.wall, self.seq);
        // Procedures started in this record, whatever their current state.
        let index = self.procedures_started;
        self.procedures_started += 1;
        let generated = format!("prc_0-{seq}-{index}");
        let id = start.id.clone().unwrap_or_else(|| ProcedureId::new(&generated).expect("valid id"));
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
            reason: String::new(),
            parent: start.parent.clone(),
            number: Some(ScopeNo(seq.0 * 256 + 255 - u64::from(index))),
        };
        let driver = procedure.driver.clone();
        self.set_item(Item::Procedure(procedure));
        if let Some(driver) =
            driver.filter(|driver| self.commit.principal != Principal::Agent(driver.clone()))
        {
            self.notify_driver(&driver, &id, &start.kind)?;
        }
        Ok(OpResult::ProcedureStarted { id })
    }

    /// Refuses a start below a parent that cannot have children, or beyond the limits.
    fn check_start(&self, start: &StartProcedure) -> Result<(), Refused> {
        if let Some(parent) = &start.parent {
            let parent = self.space.procedure(parent);
            let parent = parent.ok_or_else(|| Refused::new(Code::NotFound, "there is no such parent"))?;
            if let Principal::Agent(actor) = &self.commit.principal
                && parent.driver.as_ref() != Some(actor)
            {
                return Err(Refused::new(
                    Code::Forbidden,
                    format!("{actor} is not the driver of the parent"),
                ));
            }
            if parent.status.has_ended() {
                return Err(Refused::new(Code::Conflict, "the parent has ended"));
            }
        }
        let running = self.space.procedures().filter(|procedure| !procedure.status.has_ended());
        if running.count() >= limits::PROCEDURES_OPEN_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many procedures")
                .limit(limits::PROCEDURES_OPEN_MAX as u64));
        }
        let principal = self.commit.principal.to_string();
        let is_own =
            |procedure: &&Procedure| !procedure.status.has_ended() && procedure.started_by == principal;
        if self.actor.is_some()
            && self.space.procedures().filter(is_own).count() >= limits::PROCEDURES_PER_AGENT_MAX
        {
            return Err(Refused::new(Code::LimitExceeded, "too many procedures of the agent")
                .limit(limits::PROCEDURES_PER_AGENT_MAX as u64));
        }
        Ok(())
    }

    fn notify_driver(&mut self, driver: &AgentId, id: &ProcedureId, kind: &str) -> Result<(), Refused> {
        let number = self.space.agent_number(driver).expect("the driver exists");
        let to = vec![Recipient::agent(number)];
        self.check_inbox_capacity(None, &to)?;
        let text = format!("{{\"procedure\":{:?},\"kind\":{kind:?}}}", id.as_str());
        self.notify(driver, to, id, "procedure.started", text);
        Ok(())
    }

    fn notify(&mut self, driver: &AgentId, to: Vec<Recipient>, id: &ProcedureId, action: &str, text: String) {
        // Stores are not compared by their salts, so any value will do.
        let payload = Payload::seal(Bytes::from(text), [1; 16]);
        let mut message = Message::new(Destination::Agent(driver.clone()), action, payload);
        message.kind = MessageType::Event;
        message.correlation_id = Some(id.to_string());
        self.deliveries += 1;
        self.store_message(&Arc::new(message), [0; 32], to);
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
            return Err(Refused::new(Code::Conflict, "the procedure does not run"));
        }
        if procedure.phase != step.phase || step.status != ProcedureStatus::Running {
            procedure.since = self.now.wall;
        }
        self.advance_version(&mut procedure);
        procedure.reason.clone_from(&step.reason);
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

    fn advance_version(&self, procedure: &mut Procedure) {
        procedure.version = Version(procedure.version.0 + 1);
        if procedure.seq != self.seq {
            procedure.previous_seq = Some(procedure.seq);
            procedure.seq = self.seq;
        }
    }

    fn require_control(&self, procedure: &Procedure) -> Result<(), Refused> {
        let Principal::Agent(actor) = &self.commit.principal else { return Ok(()) };
        let number = self.actor.expect("the acting agent is registered");
        let allowed = self.space.agent(number).role == AgentRole::Coordinator
            || procedure.driver.as_ref() == Some(actor)
            || procedure.started_by == self.commit.principal.to_string();
        allowed.then_some(()).ok_or_else(|| Refused::new(Code::Forbidden, "neither started nor driven by it"))
    }

    pub(super) fn control_procedure(&mut self, control: &ControlProcedure) -> Result<OpResult, Refused> {
        let known = self.space.procedure(&control.procedure).cloned();
        let mut procedure =
            known.ok_or_else(|| Refused::new(Code::NotFound, "there is no such procedure"))?;
        self.require_control(&procedure)?;
        let (action, status) = match control.control {
            ProcedureControl::Pause => ("procedure.paused", ProcedureStatus::Paused),
            ProcedureControl::Resume => ("procedure.resumed", ProcedureStatus::Running),
            ProcedureControl::Cancel => ("procedure.cancelled", ProcedureStatus::Cancelled),
        };
        if procedure.status != status {
            if procedure.status.has_ended() {
                return Err(Refused::new(Code::Conflict, "the procedure has ended"));
            }
            self.set_status(&mut procedure, status, action, &control.reason);
        }
        let version = procedure.version;
        if control.control != ProcedureControl::Cancel {
            return Ok(OpResult::ProcedureChanged { version, remaining: 0 });
        }
        let mut left = limits::PROCEDURE_CANCEL_MAX;
        let mut remaining = self.cancel_work_of(&procedure, &control.reason, &mut left)?;
        let mut suffix = control.reason.clone();
        if !suffix.is_empty() {
            suffix.insert_str(0, ": ");
        }
        let reason = format!("procedure {} was cancelled{suffix}", procedure.id);
        for mut child in self.children_of(&procedure.id) {
            remaining += self.cancel_work_of(&child, &control.reason, &mut left)?;
            if left == 0 {
                remaining += 1;
                continue;
            }
            left -= 1;
            self.set_status(&mut child, ProcedureStatus::Cancelled, "procedure.cancelled", &reason);
        }
        Ok(OpResult::ProcedureChanged { version, remaining })
    }

    /// Returns the open descendants of a procedure, each after its own children.
    fn children_of(&self, parent: &ProcedureId) -> Vec<Procedure> {
        let is_child = |procedure: &&Procedure| {
            procedure.parent.as_ref() == Some(parent) && !procedure.status.has_ended()
        };
        let mut children: Vec<_> = self.space.procedures().filter(is_child).cloned().collect();
        children.sort_by(|a, b| a.id.cmp(&b.id));
        children.into_iter().flat_map(|child| [self.children_of(&child.id), vec![child]].concat()).collect()
    }

    fn set_status(&mut self, procedure: &mut Procedure, status: ProcedureStatus, action: &str, reason: &str) {
        self.advance_version(procedure);
        procedure.status = status;
        procedure.since = self.now.wall;
        procedure.reason = reason.to_owned();
        self.set_item(Item::Procedure(procedure.clone()));
        if status != ProcedureStatus::Paused {
            self.release_held(&ItemKey::new(ItemKind::Procedure, procedure.id.as_str()));
        }
        let driver = procedure.driver.as_ref();
        let driver = driver.filter(|driver| self.commit.principal != Principal::Agent((*driver).clone()));
        if let Some(driver) = driver
            && let Some(number) = self.space.agent_number(driver)
        {
            let (id, kind) = (procedure.id.as_str(), &procedure.kind);
            let text = format!("{{\"procedure\":{id:?},\"kind\":{kind:?},\"reason\":{reason:?}}}");
            self.notify(driver, vec![Recipient::agent(number)], &procedure.id, action, text);
        }
    }

    fn cancel_work_of(
        &mut self,
        procedure: &Procedure,
        reason: &str,
        left: &mut usize,
    ) -> Result<u32, Refused> {
        let driver = procedure.driver.as_ref().and_then(|driver| self.space.agent_number(driver));
        let Some(driver) = driver else { return Ok(0) };
        let is_own =
            |request: &Request| request.from == driver && request.correlation == procedure.id.as_str();
        let mut requests: Vec<_> = self.space.open_requests().into_iter().filter(is_own).collect();
        requests.sort_by_key(|request| (request.id.seq, request.id.n));
        let is_task = |task: &&Task| {
            !task.status().has_ended()
                && task.spec.creator == Some(driver)
                && task.spec.session.as_deref() == Some(procedure.id.as_str())
        };
        let mut tasks: Vec<Task> = self.space.tasks().into_iter().filter(is_task).cloned().collect();
        tasks.sort_by_key(|task| std::cmp::Reverse(task.spec.number));
        let total = requests.len() + tasks.len();
        let requests_max = requests.len().min(*left);
        requests.into_iter().take(requests_max).for_each(|request| self.cancel_request(request));
        let tasks_max = tasks.len().min(*left - requests_max);
        *left -= requests_max + tasks_max;
        for task in tasks.into_iter().take(tasks_max) {
            let task = self.space.task(&task.spec.id).expect("the task exists").clone();
            if !task.status().has_ended() {
                let cancel = CancelTask { task: task.spec.id.clone(), reason: reason.to_owned() };
                self.cancel_permitted(&cancel, task)?;
            }
        }
        Ok((total - requests_max - tasks_max) as u32)
    }

    pub(super) fn signal_procedure(&mut self, signal: &SignalProcedure) -> Result<OpResult, Refused> {
        let known = self.space.procedure(&signal.procedure).cloned();
        let procedure = known.ok_or_else(|| Refused::new(Code::NotFound, "there is no such procedure"))?;
        self.require_control(&procedure)?;
        if procedure.status.has_ended() {
            return Err(Refused::new(Code::Conflict, "the procedure has ended"));
        }
        let Some(driver) = &procedure.driver else {
            return Err(Refused::new(Code::Conflict, "the procedure has no driver"));
        };
        let number = self.space.agent_number(driver).ok_or_else(|| unknown_agent(driver))?;
        let to = vec![Recipient::agent(number)];
        self.check_inbox_capacity(None, &to)?;
        let payload = signal
            .payload
            .as_ref()
            .map_or("null", |payload| std::str::from_utf8(&payload.bytes).expect("the payload is JSON"));
        let (id, by) = (procedure.id.as_str(), self.commit.principal.to_string());
        let (kind, name) = (&procedure.kind, &signal.name);
        let text = format!(
            "{{\"procedure\":{id:?},\"kind\":{kind:?},\"name\":{name:?},\"by\":{by:?},\"payload\":{payload}}}"
        );
        self.notify(driver, to, &procedure.id, "procedure.signalled", text);
        Ok(OpResult::Done)
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
            && existing.parent == start.parent
            && existing.driver.as_ref() == driver
    }
}
