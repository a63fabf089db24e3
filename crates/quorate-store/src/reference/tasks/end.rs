//! End of tasks: cancellation, failed attempts, retries, escalation, dependents, and timers.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AgentNo, AgentRole, AttemptFailure, AttemptFailureKind, CancelTask, Cancellation, Code, ConsumerEvent,
    Destination, EntryVersion, Escalation, EscalationTarget, HolderEvent, Key, LeaseLoss, Message,
    MessageType, OnDependencyFailure, OpResult, PartRef, Payload, Principal, QueueId, Recipient, Refused,
    Task, TaskFailure, TaskId, TaskState, TaskStatus, limits,
};

use super::no_such_task;
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(in crate::reference) fn cancel_task(&mut self, cancel: &CancelTask) -> Result<OpResult, Refused> {
        let task = self.space.task(&cancel.task).ok_or_else(|| no_such_task(&cancel.task))?.clone();
        if let Principal::Agent(_) = &self.commit.principal {
            let actor = self.actor.expect("the acting agent is registered");
            let is_coordinator = self.space.agent(actor).role == AgentRole::Coordinator;
            if !is_coordinator && task.spec.creator != Some(actor) {
                return Err(Refused::new(
                    Code::Forbidden,
                    "only the creator or a coordinator may cancel the task",
                ));
            }
        }
        self.cancel_permitted(cancel, task)
    }

    /// Cancels a task without checking the permission of the principal.
    pub(in crate::reference) fn cancel_permitted(
        &mut self,
        cancel: &CancelTask,
        mut task: Task,
    ) -> Result<OpResult, Refused> {
        if let TaskState::Cancelled(end) = &task.state {
            return Ok(OpResult::TaskAccepted { seq: end.seq, token: end.token.unwrap_or_default() });
        }
        if task.status().has_ended() {
            return Err(Refused::new(Code::Conflict, "the task has ended"));
        }
        self.notify_loss(&task, LeaseLoss::Cancelled, &cancel.reason);
        let token = task.lease().map(|lease| lease.token);
        task.state = TaskState::Cancelled(Box::new(Cancellation {
            seq: self.seq,
            at: self.now.wall,
            by: self.actor,
            reason: cancel.reason.clone(),
            token,
        }));
        self.end_task(task);
        Ok(OpResult::TaskAccepted { seq: self.seq, token: token.unwrap_or_default() })
    }

    /// Notifies the consumer that received the task through a waiting claim; and the holder, if its work is useless.
    fn notify_loss(&mut self, task: &Task, loss: LeaseLoss, reason: &str) {
        let id = &task.spec.id;
        if let (Some(lease), LeaseLoss::Cancelled | LeaseLoss::TimedOut) = (task.lease(), loss) {
            let (task, token, reason) = (id.clone(), lease.token, reason.to_owned());
            self.holder_events.push((lease.by, HolderEvent::TaskLost { task, token, loss, reason }));
        }
        if let (Some(lease), Some(consumer)) = (task.lease(), self.space.task_runtime.receivers.get(id)) {
            self.consumer_events
                .push((*consumer, ConsumerEvent::TaskLost { task: id.clone(), token: lease.token, loss }));
        }
    }

    /// Applies due timers in order: leases and attempts on the monotonic clock, then scheduled tasks on the wall clock.
    pub(in crate::reference) fn sweep_tasks(&mut self) {
        let deadlines = &self.space.task_runtime.deadlines;
        let mut expired: Vec<_> = deadlines
            .iter()
            .filter(|(_, deadline)| **deadline <= self.now.mono)
            .map(|((id, token, is_attempt), deadline)| (*deadline, id.clone(), *is_attempt, *token))
            .collect();
        expired.sort();
        let mut due = Vec::new();
        for task in self.space.tasks() {
            if let TaskState::Scheduled { due: at } = task.state
                && at <= self.now.wall
            {
                due.push((at, task.spec.id.clone()));
            }
        }
        due.sort();
        let remaining = limits::SWEEP_MAX.saturating_sub(expired.len());
        for (_, id, is_attempt, token) in expired.into_iter().take(limits::SWEEP_MAX) {
            let Some(task) = self.space.task(&id).cloned() else { continue };
            if task.lease().is_some_and(|lease| lease.token.0 == token) {
                let (kind, loss) = match is_attempt {
                    true => (AttemptFailureKind::TimedOut, LeaseLoss::TimedOut),
                    false => (AttemptFailureKind::LeaseExpired, LeaseLoss::LeaseExpired),
                };
                self.notify_loss(&task, loss, "");
                self.fail_attempt(task, kind, "", None);
            }
        }
        for (_, id) in due.into_iter().take(remaining) {
            let Some(mut task) = self.space.task(&id).cloned() else { continue };
            task.state = TaskState::Ready { since: self.now.wall };
            self.set_task(task);
        }
    }

    /// Ends the task leases of an agent; the tasks can be claimed by others.
    pub(in crate::reference) fn release_tasks_of(&mut self, agent: AgentNo) {
        for task in self.space.tasks_held_by(agent) {
            self.notify_loss(&task, LeaseLoss::HolderGone, "");
            self.fail_attempt(task, AttemptFailureKind::HolderGone, "", None);
        }
    }

    /// Handles a failed attempt: schedules a retry, or abandons the task.
    pub(super) fn fail_attempt(
        &mut self,
        mut task: Task,
        kind: AttemptFailureKind,
        reason: &str,
        details: Option<PartRef>,
    ) {
        let lease = *task.lease().expect("only a leased task can fail");
        task.last_failure = Some(Box::new(AttemptFailure {
            kind,
            by: lease.by,
            token: lease.token,
            attempt: task.attempt,
            seq: self.seq,
            at: self.now.wall,
            reason: reason.into(),
            details,
        }));
        let ends = kind == AttemptFailureKind::Permanent || task.attempt >= task.spec.attempts_max;
        let is_interrupted =
            matches!(kind, AttemptFailureKind::LeaseExpired | AttemptFailureKind::HolderGone);
        if ends || !is_interrupted {
            self.record_failure(&task, !ends);
        }
        if ends {
            return self.abandon(task);
        }
        // Exponential backoff up to 16 times the initial delay. An interrupted attempt is retried immediately.
        let factor = [1, 2, 4, 8, 16][usize::from(task.attempt - 1).min(4)];
        let delay_ms = match kind {
            AttemptFailureKind::Failed | AttemptFailureKind::TimedOut => task.spec.backoff_ms * factor,
            AttemptFailureKind::Permanent
            | AttemptFailureKind::LeaseExpired
            | AttemptFailureKind::HolderGone => 0,
        };
        task.state = if delay_ms == 0 {
            TaskState::Ready { since: self.now.wall }
        } else {
            TaskState::Scheduled { due: self.now.wall.plus_ms(delay_ms) }
        };
        self.set_task(task);
    }

    /// Writes the entry that describes the last failure of a task.
    fn record_failure(&mut self, task: &Task, is_retried: bool) {
        let key = Key::new(format!("failures/{}", task.spec.id)).expect("a task id is a valid key");
        let failure = task.last_failure.as_ref().expect("an attempt has failed");
        let agent = &self.space.agent(failure.by).id;
        let mut text = format!("{{\"task\":\"{}\"", task.spec.id);
        if !task.spec.task_type.is_empty() {
            text += &format!(",\"type\":\"{}\"", task.spec.task_type);
        }
        text += &format!(",\"agent\":\"{agent}\",\"cause\":\"{}\"", failure.kind.as_str());
        if let Some(reason) = failure.explanation(&task.spec) {
            text += &format!(",\"reason\":\"{reason}\"");
        }
        let (attempt, max) = (task.attempt, task.spec.attempts_max);
        text += &format!(",\"attempt\":{attempt},\"maxAttempts\":{max},\"retried\":{is_retried}");
        if let Some(details) = failure.details {
            let details = &self.parts[details.part as usize].bytes;
            text += &format!(",\"details\":{}", String::from_utf8_lossy(details));
        }
        text += "}";
        let version = EntryVersion {
            head: self.next_head(&key, false),
            at: self.now.wall,
            author: self.commit.principal.to_string(),
            entry_type: "task.failure".to_owned(),
            content_type: None,
            content_part: Some((self.seq, self.parts.len() as u32)),
            depends_on: Vec::new(),
            restores: None,
        };
        // Stores are not compared by their salts, so any value will do.
        self.parts.push(Payload::seal(Bytes::from(text), [1; 16]));
        self.write(&key, version);
    }

    fn abandon(&mut self, mut task: Task) {
        let at = self.now.wall;
        task.state = match self.escalate(&task) {
            Some(message) => TaskState::Escalated(Escalation { at, message }),
            None => TaskState::Failed(TaskFailure { seq: self.seq, at, failed_dependency: None }),
        };
        self.end_task(task);
    }

    fn escalate(&mut self, task: &Task) -> Option<quorate_core::MessageId> {
        let remaining = limits::DELIVERIES_PER_COMMIT_MAX.saturating_sub(self.deliveries);
        let numbers = (1..=self.space.agents.len() as u64).map(AgentNo);
        let can_receive = |number: &AgentNo| {
            !self.space.agent(*number).removed
                && self.space.open_count(QueueId::Agent(*number)) < limits::INBOX_MAX
        };
        let is_coordinator = |number: &AgentNo| self.space.agent(*number).role == AgentRole::Coordinator;
        let mut to: Vec<AgentNo> = match task.spec.escalate {
            EscalationTarget::Nobody => Vec::new(),
            EscalationTarget::Agent(agent) if can_receive(&agent) => vec![agent],
            EscalationTarget::Agent(_) | EscalationTarget::Coordinators => {
                numbers.filter(|number| is_coordinator(number) && can_receive(number)).collect()
            }
        };
        to.truncate(remaining);
        let names: Vec<_> = to.iter().map(|number| self.space.agent(*number).id.clone()).collect();
        let destination = match &names[..] {
            [] => return None,
            [name] => Destination::Agent(name.clone()),
            _ => Destination::Agents(names),
        };
        // Stores are not compared by their salts, so any value will do.
        let payload = Payload::seal(Bytes::from(escalation_payload(task)), [1; 16]);
        let mut message = Message::new(destination, "task.escalated", payload);
        message.kind = MessageType::Event;
        message.priority = task.spec.priority;
        message.correlation_id = Some(task.spec.id.to_string());
        message.session_id = task.spec.session.clone();
        self.deliveries += to.len();
        let to = to.into_iter().map(Recipient::agent).collect();
        match self.store_message(&Arc::new(message), [0; 32], to) {
            OpResult::Sent { id, .. } => Some(id),
            other => panic!("not a send: {other:?}"),
        }
    }

    pub(super) fn fail_dependent(&mut self, id: &TaskId, failed_dependency: &TaskId) {
        let task = self.space.task(id).expect("the task is blocked").clone();
        let task = self.failed(task, failed_dependency);
        self.end_task(task);
    }

    fn failed(&self, mut task: Task, failed_dependency: &TaskId) -> Task {
        let (seq, at) = (self.seq, self.now.wall);
        task.state =
            TaskState::Failed(TaskFailure { seq, at, failed_dependency: Some(failed_dependency.clone()) });
        task
    }

    /// Ends a task and propagates the result to its dependents, transitively and in order.
    pub(super) fn end_task(&mut self, task: Task) {
        let mut ending = vec![task];
        while !ending.is_empty() {
            let task = ending.remove(0);
            let (id, done) = (task.spec.id.clone(), task.status() == TaskStatus::Done);
            if self.space.status_of(&id).is_some_and(TaskStatus::has_ended) {
                continue;
            }
            self.set_task(task);
            let depends_on_it =
                |task: &&Task| task.status() == TaskStatus::Blocked && task.spec.depends_on.contains(&id);
            let dependents: Vec<Task> =
                self.space.tasks().into_iter().filter(depends_on_it).cloned().collect();
            for dependent in dependents {
                let has_ended = |id: &TaskId| self.space.status_of(id).is_some_and(TaskStatus::has_ended);
                if !done && dependent.spec.on_dependency_failure == OnDependencyFailure::Fail {
                    ending.push(self.failed(dependent, &id));
                } else if dependent.spec.depends_on.iter().all(has_ended) {
                    self.unblock(&dependent.spec.id);
                }
            }
        }
    }

    /// Unblocks a task whose dependencies have all ended.
    pub(super) fn unblock(&mut self, id: &TaskId) {
        let mut task = self.space.task(id).expect("the task is blocked").clone();
        let not_done = |id: &&TaskId| self.space.status_of(id) != Some(TaskStatus::Done);
        let not_done_ids: Vec<TaskId> = task.spec.depends_on.iter().filter(not_done).cloned().collect();
        if task.spec.on_dependency_failure == OnDependencyFailure::Wait && !not_done_ids.is_empty() {
            task.state = TaskState::Blocked { held_by: not_done_ids };
        } else {
            task.missing = not_done_ids;
            task.state = TaskState::Ready { since: self.now.wall };
        }
        self.set_task(task);
    }
}

/// Builds the payload of an escalation. Tests use plain words only, so nothing needs escaping.
fn escalation_payload(task: &Task) -> String {
    let mut text = format!("{{\"task\":\"{}\"", task.spec.id);
    if !task.spec.task_type.is_empty() {
        text += &format!(",\"type\":\"{}\"", task.spec.task_type);
    }
    text += &format!(",\"attempts\":{}", task.attempt);
    if let Some(failure) = &task.last_failure {
        text += &format!(",\"cause\":\"{}\"", failure.kind.as_str());
        if let Some(reason) = failure.explanation(&task.spec) {
            text += &format!(",\"reason\":\"{reason}\"");
        }
    }
    text + "}"
}
