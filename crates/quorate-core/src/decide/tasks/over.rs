//! How a task ends, and what that means for those that need it.

use std::collections::VecDeque;

use crate::commit::{OpResult, Principal, Told};
use crate::decide::{Draft, No};
use crate::ids::TaskId;
use crate::item::Verb;
use crate::refused::{Code, Refused};
use crate::registry::Role;
use crate::task::{
    CancelTask, Cancellation, GivenUp, OnDependencyFailure, PartRef, Setback, SetbackKind, Task, TaskLoss,
    TaskState, TaskStatus,
};

impl Draft<'_> {
    /// Calls a task off. Its holder is told at once if it waits, else with the next thing it says.
    pub(in crate::decide) fn cancel_task(&mut self, cancel: &CancelTask) -> Result<OpResult, No> {
        let mut task = self.known_task(&cancel.task)?;
        self.require_say(&task)?;
        if let TaskState::Cancelled(end) = &task.state {
            return Ok(OpResult::TaskAccepted { seq: end.seq, token: end.token.unwrap_or_default() });
        }
        if task.status().is_over() {
            let detail = format!("task {} is {}", cancel.task, task.status().as_str());
            return Err(Refused::new(Code::Conflict, detail)
                .hint("what is over cannot be called off")
                .into());
        }
        let token = task.lease().map(|lease| lease.token);
        self.tell_loss(&task, TaskLoss::Cancelled);
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

    /// Whoever made a task, a coordinator or the hub may call it off.
    fn require_say(&self, task: &Task) -> Result<(), Refused> {
        let Principal::Agent(actor) = &self.commit.principal else { return Ok(()) };
        let agent = self.actor.and_then(|number| self.working.agents().get(number));
        let leads = agent.is_some_and(|agent| agent.role == Role::Coordinator);
        if leads || (self.actor.is_some() && self.actor == task.spec.creator) {
            return Ok(());
        }
        Err(Refused::new(Code::Forbidden, format!("agent {actor} may not cancel task {}", task.spec.id))
            .hint("ask whoever made it, or a coordinator"))
    }

    /// Tells the holder of a task that it lost it, if it was handed over to somebody who waited.
    pub(super) fn tell_loss(&mut self, task: &Task, loss: TaskLoss) {
        let told = self.working.tasks().taker(task.spec.no).and_then(|taker| taker.told);
        if let (Some(lease), Some(taker)) = (task.lease(), told) {
            let lost = Told::TaskLost { task: task.spec.id.clone(), token: lease.token, loss };
            self.told.push((taker, lost));
        }
    }

    /// A try came to nothing: another one follows, or the task is given up.
    pub(super) fn set_back(
        &mut self,
        mut task: Task,
        kind: SetbackKind,
        reason: String,
        details: Option<PartRef>,
    ) -> Result<(), No> {
        let Some(lease) = task.lease().copied() else { return Ok(()) };
        let (seq, at) = (self.seq, self.now.wall);
        let attempt = task.attempt;
        let (by, token) = (lease.by, lease.token);
        task.setback = Some(Box::new(Setback { kind, by, token, attempt, seq, at, reason, details }));
        if kind == SetbackKind::Hopeless || attempt >= task.spec.attempts_max {
            return self.give_up(task);
        }
        let wait_ms = match kind {
            SetbackKind::Failed | SetbackKind::TimedOut => task.spec.backoff_after(attempt),
            // Nothing is wrong with the task: somebody else may go on at once.
            SetbackKind::Lapsed | SetbackKind::HolderGone | SetbackKind::Hopeless => 0,
        };
        task.state = match wait_ms {
            0 => TaskState::Ready { since: at },
            wait_ms => TaskState::Scheduled { due: at.plus_ms(wait_ms) },
        };
        self.move_task(Verb::TaskRetried, task);
        Ok(())
    }

    /// All tries came to nothing: somebody is told, or the task just fails.
    fn give_up(&mut self, mut task: Task) -> Result<(), No> {
        let at = self.now.wall;
        match self.escalate(&task) {
            Some(escalation) => {
                task.state = TaskState::Escalated(escalation);
                self.end_task(Verb::TaskEscalated, task)
            }
            None => {
                task.state = TaskState::Failed(GivenUp { seq: self.seq, at, because_of: None });
                self.end_task(Verb::TaskFailed, task)
            }
        }
    }

    /// A task fails because one that it needs was given up.
    pub(super) fn fail_because_of(&mut self, task: Task, id: &TaskId) -> Result<(), No> {
        let task = self.failed_because_of(task, id);
        self.end_task(Verb::TaskFailed, task)
    }

    fn failed_because_of(&self, mut task: Task, id: &TaskId) -> Task {
        let (seq, at) = (self.seq, self.now.wall);
        task.state = TaskState::Failed(GivenUp { seq, at, because_of: Some(id.clone()) });
        task
    }

    /// Ends a task and moves everything that needs it: starts what has all it needs, and lets a failure mean what each of
    /// them said it should. A list and not a recursion, since a chain of tasks may be long.
    pub(super) fn end_task(&mut self, verb: Verb, task: Task) -> Result<(), No> {
        let mut ending = VecDeque::from([(verb, task)]);
        while let Some((verb, task)) = ending.pop_front() {
            let (id, status) = (task.spec.id.clone(), task.status());
            if self.working.tasks().get(&id).is_none() {
                // It needed two of those that were given up, and was given up with the first.
                continue;
            }
            let dependents = self.working.tasks().dependents(&id);
            self.move_task(verb, task);
            for no in dependents {
                let Some(dependent) = self.working.tasks().by_number(no).cloned() else { continue };
                let policy = dependent.spec.on_dependency_failure;
                if status != TaskStatus::Done && policy == OnDependencyFailure::Fail {
                    let failed = self.failed_because_of(dependent, &id);
                    ending.push_back((Verb::TaskFailed, failed));
                } else if self.working.tasks().pending(no) == 0 {
                    self.unblock(dependent)?;
                }
            }
        }
        Ok(())
    }

    /// All that a blocked task needs is over: it starts, or is held by what was given up.
    pub(super) fn unblock(&mut self, mut task: Task) -> Result<(), No> {
        let given_up = match task.spec.on_dependency_failure {
            // It would have failed with the first of them.
            OnDependencyFailure::Fail => Vec::new(),
            OnDependencyFailure::Skip | OnDependencyFailure::Wait => self.given_up_of(&task)?,
        };
        if task.spec.on_dependency_failure == OnDependencyFailure::Wait && !given_up.is_empty() {
            task.state = TaskState::Blocked { held_by: given_up };
            self.move_task(Verb::TaskHeld, task);
            return Ok(());
        }
        task.missing = given_up;
        task.state = TaskState::Ready { since: self.now.wall };
        self.move_task(Verb::TaskReady, task);
        Ok(())
    }

    /// What a task needs and will not get.
    fn given_up_of(&self, task: &Task) -> Result<Vec<TaskId>, No> {
        let mut given_up = Vec::new();
        for id in &task.spec.depends_on {
            let status = self.task(id)?.map(|task| task.status());
            if status != Some(TaskStatus::Done) {
                given_up.push(id.clone());
            }
        }
        Ok(given_up)
    }
}
