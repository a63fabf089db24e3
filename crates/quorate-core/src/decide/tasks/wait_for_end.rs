//! Waiting for the end of a task. Writes no record.

use crate::commit::{ConsumerEvent, OpResult};
use crate::decide::{DecideError, Draft};
use crate::ids::{AgentNo, TaskId};
use crate::limits::TASK_WAITS_PER_AGENT_MAX;
use crate::refused::{Code, Refused};
use crate::task::AwaitTask;
use crate::working::TaskWaiter;

impl Draft<'_> {
    pub(in crate::decide) fn await_task(&mut self, wait: &AwaitTask) -> Result<OpResult, DecideError> {
        self.require_self(&wait.agent, "wait for tasks as")?;
        let agent = self.require_agent(&wait.agent)?;
        if self.require_task(&wait.task)?.status().has_ended() {
            return Ok(OpResult::Done);
        }
        if self.working.tasks().waiters().count_of(agent) >= TASK_WAITS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the agent waits for too many tasks")
                .limit(TASK_WAITS_PER_AGENT_MAX as u64)
                .retryable()
                .hint("wait for fewer tasks concurrently")
                .into());
        }
        let waiter = TaskWaiter {
            agent,
            task: wait.task.clone(),
            within: wait.within.and_then(|delivery| self.leased_by(agent, delivery)),
            ticket: self.working.next_ticket(),
            since: self.wait_since(),
        };
        self.working.set_task_waiter(wait.consumer, Some(waiter), self.now);
        Ok(OpResult::Queued)
    }

    /// Notifies the waiters of a task that it has ended.
    pub(super) fn notify_task_ended(&mut self, task: &TaskId) {
        for id in self.working.tasks().waiters().of_task(task) {
            self.working.set_task_waiter(id, None, self.now);
            self.consumer_events.push((id, ConsumerEvent::TaskEnded(task.clone())));
        }
    }

    /// Dismisses all task waits of an agent, because it registered again or was removed.
    pub(in crate::decide) fn dismiss_task_waiters(&mut self, agent: AgentNo) {
        for id in self.working.tasks().waiters().of_agent(agent) {
            self.working.set_task_waiter(id, None, self.now);
            self.dismissed_consumers.push(id);
        }
    }
}
