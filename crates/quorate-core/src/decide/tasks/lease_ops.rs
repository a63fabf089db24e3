//! Operations of the lease holder of a task: heartbeat, complete, fail, release. A stale lease token is refused.

use crate::commit::{OpResult, Principal};
use crate::decide::repeated_ends::already_ended;
use crate::decide::tasks::no_such_task;
use crate::decide::{DecideError, Draft};
use crate::ids::{AgentNo, LeaseToken, Seq, TaskId};
use crate::item::{ItemKey, ItemKind, Verb};
use crate::limits::PARTIALS_MAX;
use crate::message::Payload;
use crate::refused::{Code, Refused};
use crate::task::{
    AttemptFailureKind, CompleteTask, Completion, FailTask, HeartbeatTask, PartRef, Task, TaskLease,
    TaskLeaseRef, TaskPartial, TaskState, TaskStatus,
};

impl Draft<'_> {
    /// Restarts the lease of a task. Only a partial result writes a record.
    pub(in crate::decide) fn heartbeat_task(
        &mut self,
        heartbeat: &HeartbeatTask,
    ) -> Result<OpResult, DecideError> {
        let (mut task, lease) = self.held_task(&heartbeat.lease)?;
        if let Some(partial) = &heartbeat.partial {
            self.working.policy().check_structure("partial", None, partial)?;
            let part = self.add_part(partial);
            if task.partials.len() >= PARTIALS_MAX {
                task.partials.remove(0);
            }
            task.partials.push(TaskPartial { attempt: task.attempt, at: self.now.wall, part });
            self.set_task_state(Verb::TaskProgressed, task);
        }
        let key = ItemKey::new(ItemKind::Task, heartbeat.lease.task.to_shared());
        self.working.extend_item_deadline(&key, lease.token.0, lease.length_ms.get(), self.now);
        Ok(OpResult::Done)
    }

    pub(in crate::decide) fn complete_task(
        &mut self,
        complete: &CompleteTask,
    ) -> Result<OpResult, DecideError> {
        let token = complete.lease.token;
        let (mut task, lease) = match self.held_task(&complete.lease) {
            Ok(held) => held,
            Err(error) => return self.completed_before(complete, error),
        };
        self.check_fence(complete.fence.as_ref())?;
        self.check_justification(complete.confidence, complete.rationale.as_deref())?;
        if let Some(result) = &complete.result {
            let content_type = complete.content_type.as_deref();
            self.working.policy().check_structure("result", content_type, result)?;
        }
        let completion = Box::new(Completion {
            by: lease.by,
            token,
            seq: self.seq,
            at: self.now.wall,
            result: complete.result.as_ref().map(|result| self.add_part(result)),
            content_type: complete.content_type.clone(),
            confidence: complete.confidence,
            rationale: complete.rationale.clone(),
        });
        self.ends_task_lease = true;
        task.state = match complete.status {
            TaskStatus::Partial => TaskState::Partial(completion),
            _ => TaskState::Done(completion),
        };
        self.end_task(Verb::TaskCompleted, task)?;
        Ok(OpResult::TaskAccepted { seq: self.seq, token })
    }

    /// Handles a repeated completion: under the same token it gets the same answer.
    fn completed_before(
        &mut self,
        complete: &CompleteTask,
        error: DecideError,
    ) -> Result<OpResult, DecideError> {
        let state = self.task(&complete.lease.task)?.map(|task| task.state);
        let (status, end) = match state {
            Some(TaskState::Done(end)) => (TaskStatus::Done, end),
            Some(TaskState::Partial(end)) => (TaskStatus::Partial, end),
            _ => return Err(error),
        };
        let TaskLeaseRef { task, token } = &complete.lease;
        if end.token != *token || !self.acts_for(end.by) {
            return Err(error);
        }
        let is_same = status == complete.status
            && end.content_type == complete.content_type
            && end.confidence == complete.confidence
            && end.rationale == complete.rationale
            && self.is_same_part(end.result, complete.result.as_ref())?;
        self.task_ended_before(task, *token, end.seq, is_same)
    }

    fn task_ended_before(
        &mut self,
        task: &TaskId,
        token: LeaseToken,
        seq: Seq,
        is_same: bool,
    ) -> Result<OpResult, DecideError> {
        if !is_same {
            return Err(already_ended(&format!("task {task}"), token, seq).into());
        }
        Ok(OpResult::TaskAccepted { seq: self.accept_repeated_end(task, token, seq)?, token })
    }

    pub(in crate::decide) fn fail_task(&mut self, fail: &FailTask) -> Result<OpResult, DecideError> {
        let token = fail.lease.token;
        let (task, _) = match self.held_task(&fail.lease) {
            Ok(held) => held,
            Err(error) => return self.failed_before(fail, error),
        };
        // A failure needs a reason, but no confidence.
        self.check_justification(Some(1.0), Some(&fail.reason))?;
        if let Some(details) = &fail.details {
            self.working.policy().check_structure("details", None, details)?;
        }
        let details = fail.details.as_ref().map(|details| self.add_part(details));
        let kind = kind_of(fail);
        self.ends_task_lease = true;
        self.fail_attempt(task, kind, fail.reason.clone(), details)?;
        Ok(OpResult::TaskAccepted { seq: self.seq, token })
    }

    /// Handles a repeated failure: under the same token it gets the same answer, until the task is leased again.
    fn failed_before(&mut self, fail: &FailTask, error: DecideError) -> Result<OpResult, DecideError> {
        let Some(task) = self.task(&fail.lease.task)? else { return Err(error) };
        let attempt = task.attempt;
        let token = fail.lease.token;
        match task.last_failure {
            Some(failure)
                if failure.token == token
                    && failure.attempt == attempt
                    && matches!(failure.kind, AttemptFailureKind::Failed | AttemptFailureKind::Permanent)
                    && self.acts_for(failure.by) =>
            {
                let is_same = failure.kind == kind_of(fail)
                    && failure.reason == fail.reason
                    && self.is_same_part(failure.details, fail.details.as_ref())?;
                self.task_ended_before(&fail.lease.task, token, failure.seq, is_same)
            }
            _ => Err(error),
        }
    }

    /// Returns a task without counting the attempt. Clears the token of the last failure, since a newer lease existed.
    pub(in crate::decide) fn release_task(&mut self, lease: &TaskLeaseRef) -> Result<OpResult, DecideError> {
        let (mut task, _) = self.held_task(lease)?;
        task.attempt -= 1;
        if let Some(failure) = &mut task.last_failure {
            failure.token = LeaseToken(0);
        }
        task.state = TaskState::Ready { since: self.now.wall };
        self.set_task_state(Verb::TaskReleased, task);
        Ok(OpResult::Done)
    }

    /// Adds a payload part to the record and returns its position.
    pub(in crate::decide) fn add_part(&mut self, payload: &Payload) -> PartRef {
        let part = self.parts.len() as u32;
        self.parts.push(payload.clone());
        PartRef { seq: self.seq, part }
    }

    /// Returns the task, if the caller holds its current lease token.
    fn held_task(&self, lease: &TaskLeaseRef) -> Result<(Task, TaskLease), DecideError> {
        let open = self.working.tasks().get(&lease.task);
        if let Some(task) = open
            && let Some(held) = task.lease()
        {
            // A former holder gets STALE_LEASE rather than FORBIDDEN.
            if held.token != lease.token {
                return Err(stale_lease(lease, "leased again").into());
            }
            if !self.acts_for(held.by) {
                return Err(not_the_holder(lease).into());
            }
            return Ok((task.clone(), *held));
        }
        match self.task(&lease.task)? {
            None => Err(no_such_task(&lease.task).into()),
            Some(task) => Err(not_held(lease, &task).into()),
        }
    }

    /// Whether the acting principal is this agent, or may act for any agent.
    fn acts_for(&self, agent: AgentNo) -> bool {
        match &self.commit.principal {
            Principal::Agent(_) => self.actor == Some(agent),
            Principal::System | Principal::Holder { .. } => true,
        }
    }
}

fn kind_of(fail: &FailTask) -> AttemptFailureKind {
    if fail.recoverable { AttemptFailureKind::Failed } else { AttemptFailureKind::Permanent }
}

fn not_held(lease: &TaskLeaseRef, task: &Task) -> Refused {
    if let TaskState::Cancelled(end) = &task.state
        && end.token == Some(lease.token).filter(|token| *token != LeaseToken(0))
    {
        let reason = if end.reason.is_empty() { String::new() } else { format!(": {}", end.reason) };
        return Refused::new(Code::Cancelled, format!("task {} was cancelled{reason}", lease.task))
            .hint("discard this work; its result is no longer needed");
    }
    stale_lease(lease, task.status().as_str())
}

fn stale_lease(lease: &TaskLeaseRef, state: &str) -> Refused {
    let TaskLeaseRef { task, token } = lease;
    Refused::new(Code::StaleLease, format!("lease {token} of task {task} has ended: the task is {state}"))
        .hint("discard this work; if it is not done, the task is leased again under a new lease token")
}

fn not_the_holder(lease: &TaskLeaseRef) -> Refused {
    Refused::new(Code::Forbidden, format!("task {} is leased to another agent", lease.task))
        .hint("only the lease holder of a task may end it")
}
