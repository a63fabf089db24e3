//! Tasks: created as a graph, leased, and ended once. Each file covers one part of the life cycle.

mod claim;
mod create;
mod cycle;
mod escalate;
mod holder;
mod lapse;
mod over;
mod wait;

use crate::decide::{Draft, No};
use crate::ids::TaskId;
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::refused::{Code, Refused};
use crate::task::{Task, TaskState};
pub(in crate::decide) use escalate::quote;

impl Draft<'_> {
    /// Returns a task, open or ended, including the effects of this commit.
    fn task(&self, id: &TaskId) -> Result<Option<Task>, No> {
        match self.item(&ItemKey::new(ItemKind::Task, id.to_shared()))? {
            Some(Item::Task(task)) => Ok(Some(task)),
            _ => Ok(None),
        }
    }

    fn known_task(&self, id: &TaskId) -> Result<Task, No> {
        self.task(id)?.ok_or_else(|| no_such_task(id).into())
    }

    /// Sets the new state of a task. Notifies waiters of an ended task, and schedules the dispatch of a task that
    /// became ready and of tasks for an agent that has capacity again.
    fn move_task(&mut self, verb: Verb, task: Task) {
        let no = task.spec.no;
        let holder = self.working.tasks().by_number(no).and_then(Task::lease).map(|lease| lease.by);
        let was_full = holder.filter(|agent| !self.has_room_for_tasks(*agent));
        let target = matches!(task.state, TaskState::Ready { .. }).then(|| task.spec.target());
        if holder.is_some() && task.lease().is_none() {
            self.working.set_taker(no, None);
        }
        let over = task.status().is_over().then(|| task.spec.id.clone());
        self.change(verb, Item::Task(task));
        if let Some(id) = over {
            self.tell_over(&id);
        }
        if let Some(target) = target {
            self.working.stir_task(&target);
        }
        if let Some(agent) = was_full {
            self.working.stir_tasks_of(agent);
        }
    }
}

fn no_such_task(id: &TaskId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no task {id}")).hint("check the id; list the tasks")
}
