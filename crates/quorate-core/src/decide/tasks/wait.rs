//! Waiting for the end of a task. Writes no record.

use crate::commit::{OpResult, Told};
use crate::decide::{Draft, No};
use crate::ids::{AgentNo, TaskId};
use crate::limits::TASK_WAITS_PER_AGENT_MAX;
use crate::refused::{Code, Refused};
use crate::task::AwaitTask;
use crate::working::Awaiting;

impl Draft<'_> {
    pub(in crate::decide) fn await_task(&mut self, wait: &AwaitTask) -> Result<OpResult, No> {
        self.require_own(&wait.agent, "wait for tasks as")?;
        let agent = self.known(&wait.agent)?;
        if self.known_task(&wait.task)?.status().is_over() {
            return Ok(OpResult::Done);
        }
        if self.working.tasks().awaited().count_of(agent) >= TASK_WAITS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the agent waits for too many tasks")
                .limit(TASK_WAITS_PER_AGENT_MAX as u64)
                .passes()
                .hint("wait for fewer tasks concurrently")
                .into());
        }
        let awaiting = Awaiting {
            agent,
            task: wait.task.clone(),
            within: wait.within.and_then(|delivery| self.worked_on(agent, delivery)),
            turn: self.working.next_turn(),
            since: self.wait_since(),
        };
        self.working.set_awaiting(wait.waiting, Some(awaiting), self.now);
        Ok(OpResult::InLine)
    }

    /// Notifies the waiters of a task that it has ended.
    pub(super) fn tell_over(&mut self, task: &TaskId) {
        for id in self.working.tasks().awaited().of_task(task) {
            self.working.set_awaiting(id, None, self.now);
            self.told.push((id, Told::TaskOver(task.clone())));
        }
    }

    /// Dismisses all task waits of an agent, because it registered again, went offline or was removed.
    pub(in crate::decide) fn dismiss_awaiting(&mut self, agent: AgentNo) {
        for id in self.working.tasks().awaited().of_agent(agent) {
            self.working.set_awaiting(id, None, self.now);
            self.dismissed.push(id);
        }
    }
}
