//! Task timeouts, and the return of tasks whose holder is gone.

use crate::decide::{Draft, No};
use crate::ids::{AgentNo, TaskId};
use crate::item::{ItemKey, Verb};
use crate::task::{SetbackKind, TRY_ALARM, TaskLoss, TaskState};

impl Draft<'_> {
    /// Handles a due timer of a task: its scheduled time, the expiry of its lease, or the timeout of an attempt.
    pub(in crate::decide) fn sweep_task(&mut self, key: &ItemKey, part: u64) -> Result<(), No> {
        let Some(mut task) = self.working.tasks().get(&TaskId::of_key(key)).cloned() else { return Ok(()) };
        match &task.state {
            TaskState::Scheduled { due } if *due <= self.now.wall => {
                task.state = TaskState::Ready { since: self.now.wall };
                self.move_task(Verb::TaskReady, task);
                Ok(())
            }
            TaskState::Leased(lease) if part == lease.token.0 => {
                self.tell_loss(&task, TaskLoss::Lapsed);
                self.set_back(task, SetbackKind::Lapsed, String::new(), None)
            }
            TaskState::Leased(lease) if part == lease.token.0 | TRY_ALARM => {
                self.tell_loss(&task, TaskLoss::TimedOut);
                self.set_back(task, SetbackKind::TimedOut, String::new(), None)
            }
            // Two timers of one task were due, and the first one was already handled.
            _ => Ok(()),
        }
    }

    /// Returns all tasks of an agent immediately: it registered again, went offline or was removed.
    pub(in crate::decide) fn release_tasks_of(&mut self, agent: AgentNo) -> Result<(), No> {
        for no in self.working.tasks().held(agent) {
            let Some(task) = self.working.tasks().by_number(no).cloned() else { continue };
            self.tell_loss(&task, TaskLoss::HolderGone);
            self.set_back(task, SetbackKind::HolderGone, String::new(), None)?;
        }
        Ok(())
    }
}
