//! The end of a task: cancellation, failed attempts, and the consequences for its dependents.

use std::collections::VecDeque;

use crate::commit::{ConsumerEvent, HolderEvent, OpResult, Principal};
use crate::decide::{DecideError, Draft};
use crate::ids::TaskId;
use crate::item::Verb;
use crate::refused::{Code, Refused};
use crate::registry::AgentRole;
use crate::task::{
    AttemptFailure, AttemptFailureKind, CancelTask, Cancellation, LeaseLoss, OnDependencyFailure, PartRef,
    Task, TaskFailure, TaskNo, TaskState, TaskStatus,
};

impl Draft<'_> {
    /// Cancels a task. The holder is notified immediately if it is connected, otherwise by its next operation.
    pub(in crate::decide) fn cancel_task(&mut self, cancel: &CancelTask) -> Result<OpResult, DecideError> {
        let task = self.require_task(&cancel.task)?;
        self.require_cancel_permission(&task)?;
        self.cancel_permitted(cancel, task)
    }

    /// Cancels a task of a procedure that is cancelled. The permission was checked for the procedure.
    pub(in crate::decide) fn cancel_task_of_procedure(
        &mut self,
        cancel: &CancelTask,
    ) -> Result<OpResult, DecideError> {
        let task = self.require_task(&cancel.task)?;
        self.cancel_permitted(cancel, task)
    }

    fn cancel_permitted(&mut self, cancel: &CancelTask, mut task: Task) -> Result<OpResult, DecideError> {
        if let TaskState::Cancelled(end) = &task.state {
            return Ok(OpResult::TaskAccepted { seq: end.seq, token: end.token.unwrap_or_default() });
        }
        if task.status().has_ended() {
            let detail = format!("task {} has already ended: it is {}", cancel.task, task.status().as_str());
            return Err(Refused::new(Code::Conflict, detail)
                .hint("a task that has ended cannot be cancelled")
                .into());
        }
        let token = task.lease().map(|lease| lease.token);
        self.notify_task_lost(&task, LeaseLoss::Cancelled, &cancel.reason);
        task.state = TaskState::Cancelled(Box::new(Cancellation {
            seq: self.seq,
            at: self.now.wall,
            by: self.actor,
            reason: cancel.reason.clone(),
            token,
        }));
        self.end_task(Verb::TaskCancelled, task)?;
        Ok(OpResult::TaskAccepted { seq: self.seq, token: token.unwrap_or_default() })
    }

    /// Refuses agents other than the creator of a task and coordinators.
    fn require_cancel_permission(&self, task: &Task) -> Result<(), Refused> {
        let Principal::Agent(actor) = &self.commit.principal else { return Ok(()) };
        let agent = self.actor.and_then(|number| self.working.agents().get(number));
        let is_coordinator = agent.is_some_and(|agent| agent.role == AgentRole::Coordinator);
        if is_coordinator || (self.actor.is_some() && self.actor == task.spec.creator) {
            return Ok(());
        }
        Err(Refused::new(Code::Forbidden, format!("agent {actor} may not cancel task {}", task.spec.id))
            .hint("ask its creator or a coordinator to cancel it"))
    }

    /// Notifies the holder of a task that its lease has ended: the consumer to which the task was dispatched, and, if its
    /// work is no longer needed, every connection of the agent.
    pub(super) fn notify_task_lost(&mut self, task: &Task, loss: LeaseLoss, reason: &str) {
        let consumer = self.working.tasks().dispatch(task.spec.number).and_then(|dispatch| dispatch.consumer);
        if let (Some(lease), LeaseLoss::Cancelled | LeaseLoss::TimedOut) = (task.lease(), loss) {
            let (task, token, reason) = (task.spec.id.clone(), lease.token, reason.to_owned());
            self.holder_events.push((lease.by, HolderEvent::TaskLost { task, token, loss, reason }));
        }
        if let (Some(lease), Some(consumer)) = (task.lease(), consumer) {
            let lost = ConsumerEvent::TaskLost { task: task.spec.id.clone(), token: lease.token, loss };
            self.consumer_events.push((consumer, lost));
        }
    }

    /// Handles a failed attempt: schedules the next one, or fails the task.
    pub(super) fn fail_attempt(
        &mut self,
        mut task: Task,
        kind: AttemptFailureKind,
        reason: String,
        details: Option<PartRef>,
    ) -> Result<(), DecideError> {
        let Some(lease) = task.lease().copied() else { return Ok(()) };
        let (seq, at) = (self.seq, self.now.wall);
        let attempt = task.attempt;
        let (by, token) = (lease.by, lease.token);
        task.last_failure =
            Some(Box::new(AttemptFailure { kind, by, token, attempt, seq, at, reason, details }));
        let is_last = kind == AttemptFailureKind::Permanent || attempt >= task.spec.attempts_max;
        self.record_failure(&task, !is_last)?;
        if is_last {
            return self.escalate_or_fail(task);
        }
        let backoff_ms = match kind {
            AttemptFailureKind::Failed | AttemptFailureKind::TimedOut => task.spec.backoff_after(attempt),
            // The task itself is not at fault: another agent may take it immediately.
            AttemptFailureKind::LeaseExpired
            | AttemptFailureKind::HolderGone
            | AttemptFailureKind::Permanent => 0,
        };
        task.state = match backoff_ms {
            0 => TaskState::Ready { since: at },
            backoff_ms => TaskState::Scheduled { due: at.plus_ms(backoff_ms) },
        };
        self.set_task_state(Verb::TaskRetried, task);
        Ok(())
    }

    /// Ends a task after its last attempt: escalates it, or fails it if no agent can be notified.
    fn escalate_or_fail(&mut self, mut task: Task) -> Result<(), DecideError> {
        let at = self.now.wall;
        match self.escalate(&task) {
            Some(escalation) => {
                task.state = TaskState::Escalated(escalation);
                self.end_task(Verb::TaskEscalated, task)
            }
            None => {
                task.state = TaskState::Failed(TaskFailure { seq: self.seq, at, failed_dependency: None });
                self.end_task(Verb::TaskFailed, task)
            }
        }
    }

    /// Fails a task because a dependency did not succeed.
    pub(super) fn fail_dependent(&mut self, task: Task, id: &TaskId) -> Result<(), DecideError> {
        let task = self.failed_dependent(task, id);
        self.end_task(Verb::TaskFailed, task)
    }

    fn failed_dependent(&self, mut task: Task, id: &TaskId) -> Task {
        let (seq, at) = (self.seq, self.now.wall);
        task.state = TaskState::Failed(TaskFailure { seq, at, failed_dependency: Some(id.clone()) });
        task
    }

    /// Ends a task and advances its dependents: unblocks those whose dependencies are complete, and applies the
    /// `onDependencyFailure` policy of each to a failure. Iterative, since a chain of tasks may be long.
    pub(super) fn end_task(&mut self, verb: Verb, task: Task) -> Result<(), DecideError> {
        let mut failing = VecDeque::new();
        self.end_one_task(verb, task, &mut failing)?;
        while let Some((number, dependency)) = failing.pop_front() {
            // `None`: it depended on two failed tasks, and has already failed with the first one.
            if let Some(task) = self.working.tasks().by_number(number).cloned() {
                let task = self.failed_dependent(task, &dependency);
                self.end_one_task(Verb::TaskFailed, task, &mut failing)?;
            }
        }
        Ok(())
    }

    /// Ends a task and unblocks dependents. Dependents that fail with it are added to `failing`, with its id.
    fn end_one_task(
        &mut self,
        verb: Verb,
        task: Task,
        failing: &mut VecDeque<(TaskNo, TaskId)>,
    ) -> Result<(), DecideError> {
        let (id, status) = (task.spec.id.clone(), task.status());
        let dependents = self.working.tasks().dependents(&id);
        self.effects.reserve(dependents.len());
        self.set_task_state(verb, task);
        for number in dependents {
            let Some(dependent) = self.working.tasks().by_number(number) else { continue };
            let policy = dependent.spec.on_dependency_failure;
            if status != TaskStatus::Done && policy == OnDependencyFailure::Fail {
                failing.push_back((number, id.clone()));
            } else if self.working.tasks().pending(number) == 0 {
                self.unblock(dependent.clone())?;
            }
        }
        Ok(())
    }

    /// Unblocks a task whose dependencies have all ended: it becomes ready, or stays blocked by failed dependencies.
    pub(super) fn unblock(&mut self, mut task: Task) -> Result<(), DecideError> {
        let failed = match task.spec.on_dependency_failure {
            // It would already have failed with the first failed dependency.
            OnDependencyFailure::Fail => Vec::new(),
            OnDependencyFailure::Skip | OnDependencyFailure::Wait => self.failed_dependencies(&task)?,
        };
        if task.spec.on_dependency_failure == OnDependencyFailure::Wait && !failed.is_empty() {
            task.state = TaskState::Blocked { held_by: failed };
            self.set_task_state(Verb::TaskHeld, task);
            return Ok(());
        }
        task.missing = failed;
        task.state = TaskState::Ready { since: self.now.wall };
        self.set_task_state(Verb::TaskReady, task);
        Ok(())
    }

    /// Returns the dependencies of a task that did not succeed.
    fn failed_dependencies(&self, task: &Task) -> Result<Vec<TaskId>, DecideError> {
        let mut failed = Vec::new();
        for id in &task.spec.depends_on {
            let status = self.task(id)?.map(|task| task.status());
            if status != Some(TaskStatus::Done) {
                failed.push(id.clone());
            }
        }
        Ok(failed)
    }
}
