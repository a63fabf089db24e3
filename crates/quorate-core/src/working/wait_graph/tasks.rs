//! Waits for the end of tasks. A blocked task is itself a wait for its dependencies, without an agent.

use crate::deadlock::{Need, Source, Wait};
use crate::ids::{AgentNo, Seq};
use crate::task::{Task, TaskNo, TaskState, TaskTarget};
use crate::time::Timestamp;
use crate::working::wait_graph::{AFTER_REQUESTS, WaitId, is_overdue};
use crate::working::{Map, WorkingState};

/// Placeholder for waits without an agent; agent numbers start at 1.
const NO_AGENT: AgentNo = AgentNo(0);

/// Blocked tasks that a wait depends on, directly or indirectly, in the order of discovery.
struct Blocked {
    /// Index of the first one among all waits.
    begin: usize,
    tasks: Vec<TaskNo>,
    indexes: Map<TaskNo, usize>,
}

impl Blocked {
    fn index_of(&mut self, task: TaskNo) -> usize {
        let next = self.begin + self.tasks.len();
        let index = *self.indexes.entry(task).or_insert(next);
        if index == next {
            self.tasks.push(task);
        }
        index
    }
}

impl WorkingState {
    pub(super) fn task_waits(&self, now: Timestamp, waits: &mut Vec<Wait<WaitId>>) {
        let all: Vec<_> = self.tasks().waiters().iter().collect();
        let begin = waits.len() + all.len();
        let mut blocked = Blocked { begin, tasks: Vec::new(), indexes: Map::default() };
        for (id, waiter) in all {
            let task = self.tasks().get(&waiter.task);
            let source = task.and_then(|task| self.end_source(task, now, &mut blocked));
            let needs = source.map(|source| Need { resource: 0, sources: vec![source] });
            waits.push(Wait {
                id: WaitId::Task(id),
                agent: waiter.agent,
                within: waiter.within,
                age: (waiter.since, AFTER_REQUESTS + waiter.ticket),
                needs: needs.into_iter().collect(),
            });
        }
        let mut next = 0;
        while let Some(number) = blocked.tasks.get(next).copied() {
            let depends_on = self.tasks().by_number(number).map_or(&[][..], |task| &task.spec.depends_on);
            let mut needs = Vec::new();
            for (resource, id) in depends_on.iter().enumerate() {
                let open = self.tasks().get(id);
                let source = open.and_then(|task| self.end_source(task, now, &mut blocked));
                needs.extend(source.map(|source| Need { resource, sources: vec![source] }));
            }
            // Older than every other wait, so that it is never the victim.
            let age = (Seq(0), next as u64);
            waits.push(Wait { id: WaitId::Blocked, agent: NO_AGENT, within: None, age, needs });
            next += 1;
        }
    }

    /// Returns the source of the end of an open task; `None` if it is not determined yet.
    fn end_source(&self, task: &Task, now: Timestamp, blocked: &mut Blocked) -> Option<Source> {
        let number = task.spec.number;
        match &task.state {
            TaskState::Leased(lease) => {
                let since = self.tasks().dispatch(number).map_or(Seq(0), |dispatch| dispatch.seq);
                Some(Source::Held { agent: lease.by, within: None, since })
            }
            TaskState::Blocked { held_by } if held_by.is_empty() => {
                Some(Source::Wait(blocked.index_of(number)))
            }
            TaskState::Ready { since } => match task.spec.target() {
                TaskTarget::Agent(agent) if is_overdue(*since, now) && !self.has_waiting_claimer(agent) => {
                    Some(Source::Inbox(agent))
                }
                TaskTarget::Agent(_) | TaskTarget::Can(_) => None,
            },
            TaskState::Blocked { .. }
            | TaskState::Scheduled { .. }
            | TaskState::AwaitingApproval { .. }
            | TaskState::Done(_)
            | TaskState::Partial(_)
            | TaskState::Failed(_)
            | TaskState::Cancelled(_)
            | TaskState::Escalated(_) => None,
        }
    }

    /// Whether a consumer of the agent waits for tasks, so that the next one is dispatched immediately.
    fn has_waiting_claimer(&self, agent: AgentNo) -> bool {
        self.tasks().claimers().has_waiting(&TaskTarget::Agent(agent))
    }
}
