//! Waiting for the end of a task.

use quorate_core::{
    AgentNo, AwaitTask, Code, ConsumerEvent, ConsumerId, DeliveryNo, OpResult, Refused, Seq, TaskId, limits,
};

use crate::reference::transaction::Transaction;

/// Waiter for the end of a task.
#[derive(Clone)]
pub(in crate::reference) struct TaskWaiter {
    pub(in crate::reference) id: ConsumerId,
    pub(in crate::reference) agent: AgentNo,
    pub(in crate::reference) task: TaskId,
    pub(in crate::reference) within: Option<DeliveryNo>,
    /// Newest record when the wait began.
    pub(in crate::reference) since: Seq,
    /// Ordinal of this wait among all waits for locks and tasks.
    pub(in crate::reference) ordinal: u64,
}

impl Transaction<'_> {
    pub(in crate::reference) fn await_task(&mut self, wait: &AwaitTask) -> Result<OpResult, Refused> {
        let agent = self.require_own_agent(&wait.agent)?;
        let task = self.space.task(&wait.task).ok_or_else(|| super::no_such_task(&wait.task))?;
        if task.status().has_ended() {
            return Ok(OpResult::Done);
        }
        if self.space.task_waiters.iter().filter(|waiter| waiter.agent == agent).count()
            >= limits::TASK_WAITS_PER_AGENT_MAX
        {
            return Err(Refused::new(Code::LimitExceeded, "too many waits for tasks")
                .limit(limits::TASK_WAITS_PER_AGENT_MAX as u64));
        }
        let waiter = TaskWaiter {
            id: wait.consumer,
            agent,
            task: wait.task.clone(),
            within: wait.within.and_then(|id| self.leased_by(agent, id)),
            since: self.wait_start_seq(),
            ordinal: self.next_wait_ordinal(),
        };
        self.schedule_deadlock_check();
        self.space.task_waiters.retain(|waiter| waiter.id != wait.consumer);
        self.space.task_waiters.push(waiter);
        Ok(OpResult::Queued)
    }

    /// Removes a waiter. Its agent counts as active until now.
    pub(in crate::reference) fn remove_task_waiter(&mut self, id: ConsumerId) {
        let waiter = self.space.task_waiters.iter().find(|waiter| waiter.id == id).cloned();
        if let Some(waiter) = waiter {
            self.space.task_waiters.retain(|waiter| waiter.id != id);
            self.record_activity(waiter.agent);
        }
    }

    pub(super) fn notify_task_waiters(&mut self, task: &TaskId) {
        let waiting = self.space.task_waiters.iter().filter(|waiter| waiter.task == *task);
        let mut ids: Vec<_> = waiting.map(|waiter| waiter.id).collect();
        ids.sort_unstable();
        for id in ids {
            self.remove_task_waiter(id);
            self.consumer_events.push((id, ConsumerEvent::TaskEnded(task.clone())));
        }
    }

    /// Dismisses the task waiters of an agent that began a new epoch or was removed.
    pub(in crate::reference) fn dismiss_task_waiters(&mut self, agent: AgentNo) {
        let waiting = self.space.task_waiters.iter().filter(|waiter| waiter.agent == agent);
        let mut ids: Vec<_> = waiting.map(|waiter| waiter.id).collect();
        ids.sort_unstable();
        for id in ids {
            self.remove_task_waiter(id);
            self.dismissed_consumers.push(id);
        }
    }
}
