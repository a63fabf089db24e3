//! Task timeouts, and the return of tasks whose holder is gone.

use crate::decide::{DecideError, Draft};
use crate::ids::{AgentNo, TaskId};
use crate::item::{ItemKey, Verb};
use crate::task::{ATTEMPT_TIMER, AttemptFailureKind, LeaseLoss, TaskState};

impl Draft<'_> {
    /// Handles a due timer of a task: its scheduled time, the expiry of its lease, or the timeout of an attempt.
    pub(in crate::decide) fn sweep_task(&mut self, key: &ItemKey, part: u64) -> Result<(), DecideError> {
        let Some(mut task) = self.working.tasks().get(&TaskId::from_key(key)).cloned() else { return Ok(()) };
        match &task.state {
            TaskState::Scheduled { due } if *due <= self.now.wall => {
                task.state = TaskState::Ready { since: self.now.wall };
                self.set_task_state(Verb::TaskReady, task);
                Ok(())
            }
            TaskState::Leased(lease) if part == lease.token.0 => {
                self.notify_task_lost(&task, LeaseLoss::LeaseExpired, "");
                self.fail_attempt(task, AttemptFailureKind::LeaseExpired, String::new(), None)
            }
            TaskState::Leased(lease) if part == lease.token.0 | ATTEMPT_TIMER => {
                self.notify_task_lost(&task, LeaseLoss::TimedOut, "");
                self.fail_attempt(task, AttemptFailureKind::TimedOut, String::new(), None)
            }
            // Two timers of one task were due, and the first one was already handled.
            _ => Ok(()),
        }
    }

    /// Returns all tasks of an agent immediately: it registered again or was removed.
    pub(in crate::decide) fn release_tasks_of(&mut self, agent: AgentNo) -> Result<(), DecideError> {
        for number in self.working.tasks().held(agent) {
            let Some(task) = self.working.tasks().by_number(number).cloned() else { continue };
            self.notify_task_lost(&task, LeaseLoss::HolderGone, "");
            self.fail_attempt(task, AttemptFailureKind::HolderGone, String::new(), None)?;
        }
        Ok(())
    }
}
