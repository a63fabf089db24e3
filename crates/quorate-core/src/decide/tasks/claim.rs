//! Task claims and dispatch: leases tasks to claiming agents and to waiting consumers.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::commit::{ConsumerEvent, OpResult, WaitMode};
use crate::decide::Draft;
use crate::ids::{AgentNo, ConsumerId};
use crate::item::Verb;
use crate::limits::{CONSUMERS_PER_AGENT_MAX, IN_FLIGHT_MAX};
use crate::refused::{Code, Refused};
use crate::task::{ClaimTasks, LeasedTask, Task, TaskLease, TaskNo, TaskState, TaskTarget};
use crate::working::{NextTask, TaskClaimer, TaskDispatch};

impl Draft<'_> {
    pub(in crate::decide) fn claim_tasks(&mut self, claim: &ClaimTasks) -> Result<OpResult, Refused> {
        self.require_self(&claim.agent, "claim tasks for")?;
        let agent = self.require_agent(&claim.agent)?;
        self.check_claimed_types(agent, &claim.types)?;
        // Consumers that already wait are served first.
        self.dispatch_tasks();
        let targets = self.targets(agent, &claim.types);
        let mut leased = Vec::new();
        while leased.len() < claim.max as usize
            && self.has_task_capacity(agent)
            && let Some(next) = self.working.tasks().next_of(&*targets, self.now.wall)
        {
            leased.extend(self.lease_task(next, agent, claim.lease_ms));
        }
        let credit = claim.max - leased.len() as u32;
        let (id, once) = match claim.wait {
            WaitMode::Once(id) if leased.is_empty() => (id, true),
            WaitMode::Standing(id) => (id, false),
            WaitMode::Once(_) | WaitMode::NoWait => return Ok(OpResult::TasksClaimed(leased)),
        };
        if self.working.tasks().claimers().count_of(agent) >= CONSUMERS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the agent has too many waiting task claims")
                .limit(CONSUMERS_PER_AGENT_MAX as u64)
                .retryable()
                .hint("use fewer claims, each for more tasks"));
        }
        let ticket = self.working.next_ticket();
        let claimer = TaskClaimer { agent, targets, credit, lease_ms: claim.lease_ms, once, ticket };
        self.working.set_task_claimer(id, Some(claimer));
        Ok(OpResult::TasksClaimed(leased))
    }

    /// Returns the targets of a claim: the agent itself, and the given task types, or else all its capabilities.
    fn targets(&self, agent: AgentNo, types: &[String]) -> Arc<[TaskTarget]> {
        let registered = self.working.agents().get(agent);
        let own = registered.map_or(&[][..], |agent| &agent.capabilities);
        let mut targets = vec![TaskTarget::Agent(agent)];
        for task_type in if types.is_empty() { own } else { types } {
            let target = TaskTarget::Can(task_type.as_str().into());
            if !task_type.is_empty() && !targets.contains(&target) {
                targets.push(target);
            }
        }
        targets.into()
    }

    pub(super) fn has_task_capacity(&self, agent: AgentNo) -> bool {
        self.working.tasks().held_count(agent) < IN_FLIGHT_MAX
    }

    /// Grants credit to a standing claim; `false` if there is no such claim.
    pub(in crate::decide) fn grant_task_credit(&mut self, id: ConsumerId, credit: u32) -> bool {
        let Some(claimer) = self.working.tasks().claimers().get(id).cloned() else { return false };
        let ticket = if claimer.credit == 0 { self.working.next_ticket() } else { claimer.ticket };
        let credit = claimer.credit.saturating_add(credit);
        let targets = Arc::clone(&claimer.targets);
        self.working.set_task_claimer(id, Some(TaskClaimer { credit, ticket, ..claimer }));
        targets.iter().for_each(|target| self.working.schedule_task_dispatch(target));
        true
    }

    /// Dispatches ready tasks to waiting consumers: the first task to the first consumer, one task at a time, so that
    /// the work is spread.
    pub(in crate::decide) fn dispatch_tasks(&mut self) {
        let mut targets = self.working.take_scheduled_task_dispatch();
        let mut satisfied = Vec::new();
        while let Some((next, id)) = self.next_assignment(&mut targets) {
            let Some(claimer) = self.working.tasks().claimers().get(id) else { break };
            let (agent, lease_ms, once) = (claimer.agent, claimer.lease_ms, claimer.once);
            let number = next.number;
            let Some(leased) = self.lease_task(next, agent, lease_ms) else { break };
            self.working.spend_task_credit(id);
            self.working.set_task_dispatch(number, Some(TaskDispatch { seq: self.seq, consumer: Some(id) }));
            self.working.record_activity(agent, self.now);
            self.consumer_events.push((id, ConsumerEvent::TaskLeased(Box::new(leased))));
            if once && !satisfied.contains(&id) {
                satisfied.push(id);
            }
        }
        for id in satisfied {
            self.working.set_task_claimer(id, None);
        }
    }

    /// Returns the next task and its consumer. Drops targets for which no consumer has capacity.
    fn next_assignment(&self, targets: &mut Vec<TaskTarget>) -> Option<(NextTask, ConsumerId)> {
        loop {
            let next = self.working.tasks().next_of(&*targets, self.now.wall)?;
            if let Some(id) = self.consumer_for(&next) {
                return Some((next, id));
            }
            targets.retain(|target| *target != next.target);
        }
    }

    /// Returns the first waiting consumer for a task. Prefers an agent other than the one whose attempt failed.
    fn consumer_for(&self, next: &NextTask) -> Option<ConsumerId> {
        let tasks = self.working.tasks();
        let failed_agent = tasks.by_number(next.number).and_then(Task::avoided_agent);
        let mut fallback = None;
        for (id, claimer) in tasks.claimers().waiting_for(&next.target) {
            if !self.has_task_capacity(claimer.agent) {
                continue;
            }
            if Some(claimer.agent) != failed_agent {
                return Some(id);
            }
            fallback = fallback.or(Some(id));
        }
        fallback
    }

    /// Leases a ready task.
    fn lease_task(&mut self, next: NextTask, by: AgentNo, lease_ms: Option<u64>) -> Option<LeasedTask> {
        let mut task = self.working.tasks().by_number(next.number).cloned()?;
        let TaskState::Ready { since: ready_since } = task.state else { return None };
        self.working.set_task_fairness(&next.target, next.fairness);
        let token = self.working.next_token();
        let length_ms = lease_ms.and_then(NonZeroU64::new).unwrap_or(task.spec.lease_ms);
        task.attempt += 1;
        task.state = TaskState::Leased(TaskLease { by, token, length_ms, ready_since, since: self.now.wall });
        self.set_task_state(Verb::TaskLeased, task.clone());
        self.working.set_task_dispatch(next.number, Some(TaskDispatch { seq: self.seq, consumer: None }));
        Some(self.with_input(task, next.number))
    }

    fn with_input(&self, task: Task, number: TaskNo) -> LeasedTask {
        LeasedTask { task, input: self.working.tasks().input(number) }
    }
}
