//! Tasks: created as a graph, leased, and ended once. Each file covers one part of the life cycle.

mod claim;
mod create;
mod cycle;
mod end;
mod escalate;
mod expire;
mod failure_entry;
mod lease_ops;
mod wait_for_end;

use crate::decide::{DecideError, Draft};
use crate::ids::TaskId;
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::refused::{Code, Refused};
use crate::task::{Task, TaskState};
pub(in crate::decide) use escalate::push_json_string;

impl Draft<'_> {
    /// Returns a task, open or ended, including the effects of this commit.
    fn task(&self, id: &TaskId) -> Result<Option<Task>, DecideError> {
        match self.item(&ItemKey::new(ItemKind::Task, id.to_shared()))? {
            Some(Item::Task(task)) => Ok(Some(task)),
            _ => Ok(None),
        }
    }

    fn require_task(&self, id: &TaskId) -> Result<Task, DecideError> {
        self.task(id)?.ok_or_else(|| no_such_task(id).into())
    }

    /// Sets the new state of a task. Notifies waiters of an ended task, and schedules the dispatch of a task that
    /// became ready and of tasks for an agent that has capacity again.
    fn set_task_state(&mut self, verb: Verb, task: Task) {
        let number = task.spec.number;
        let holder = self.working.tasks().by_number(number).and_then(Task::lease).map(|lease| lease.by);
        let was_full = holder.filter(|agent| !self.has_task_capacity(*agent));
        let target = matches!(task.state, TaskState::Ready { .. }).then(|| task.spec.target());
        if holder.is_some() && task.lease().is_none() {
            self.working.set_task_dispatch(number, None);
        }
        let ended_id = task.status().has_ended().then(|| task.spec.id.clone());
        self.change_item(verb, Item::Task(task));
        if let Some(id) = ended_id {
            self.notify_task_ended(&id);
        }
        if let Some(target) = target {
            self.working.schedule_task_dispatch(&target);
        }
        if let Some(agent) = was_full {
            self.working.schedule_task_dispatch_to(agent);
        }
    }
}

fn no_such_task(id: &TaskId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no task {id}")).hint("check the id; list the tasks")
}
