//! Read-only inspection of the state at the head.

use crate::commit::OpResult;
use crate::decide::{DecideError, Draft};
use crate::ids::{AgentId, AgentNo, DeliveryNo, LockName, Seq};
use crate::inspect::{AgentFilter, AgentInspection, DeliveryInspection, Inspect, InspectResult, LockWait};
use crate::limits::INSPECT_MAX;
use crate::presence::{AgentStatus, LastSeen};
use crate::procedure::ProcedureStatus;
use crate::recipient::QueueId;
use crate::registry::Agent;
use crate::time::{Mono, Timestamp};
use crate::working::{LastActivity, LockWaiter};

impl Draft<'_> {
    pub(super) fn inspect(&self, query: &Inspect) -> Result<OpResult, DecideError> {
        let result = match query {
            Inspect::Deliveries { message, first, count } => {
                self.inspect_deliveries(*message, *first, *count)
            }
            Inspect::Inbox { agent, after, limit } => self.inspect_inbox(agent, *after, *limit)?,
            Inspect::Agents { filter, after, limit } => self.inspect_agents(filter, *after, *limit),
            Inspect::Stuck { limit } => InspectResult::Stuck(self.stuck_work((*limit).min(INSPECT_MAX))),
            Inspect::Task(id) => {
                let task = self.working.tasks().get(id);
                InspectResult::Task(task.map(|task| self.inspect_task(task)).unwrap_or_default())
            }
            Inspect::Procedure(id) => {
                let procedure = self.working.items().procedures.get(id.as_str());
                let running = procedure.filter(|found| found.status == ProcedureStatus::Running);
                let inspection = running.map(|procedure| self.inspect_procedure(procedure));
                InspectResult::Procedure(inspection.unwrap_or_default())
            }
            Inspect::LockQueueLengths(names) => {
                let locks = self.working.locks();
                let lengths = names.iter().take(INSPECT_MAX).map(|name| locks.queue_length(name));
                InspectResult::LockQueueLengths(lengths.collect())
            }
            Inspect::LockQueue { name, limit } => InspectResult::LockQueue(self.lock_queue(name, *limit)),
        };
        Ok(OpResult::Inspected(Box::new(result)))
    }

    fn inspect_deliveries(
        &self,
        message: Option<(Seq, u32)>,
        first: DeliveryNo,
        count: u32,
    ) -> InspectResult {
        let count = (count as usize).min(INSPECT_MAX);
        let numbers = (first.0..).map(DeliveryNo).take(count);
        let mut deliveries: Vec<_> = numbers.map(|number| self.inspect_delivery(number)).collect();
        if let [Some(delivery)] = &mut deliveries[..] {
            delivery.ahead =
                self.working.inbox_at(delivery.open.to.queue()).ahead_of(delivery.open.priority, first);
        }
        let request = message.and_then(|(seq, n)| self.working.items().requests.of_message(seq, n)).cloned();
        let request = request.and_then(|request| {
            let until = self.working.request_deadline(&request)?;
            Some((request, self.wall_at(until)))
        });
        InspectResult::Deliveries { deliveries, request }
    }

    fn inspect_delivery(&self, number: DeliveryNo) -> Option<DeliveryInspection> {
        let open = *self.working.open(number)?;
        let holder = open.to.agent_no();
        let agent = holder.and_then(|agent| self.working.agents().get(agent));
        let lease = self.working.lease(number).filter(|_| open.token().is_some());
        let absent = match (holder, open.to.pool_no()) {
            (Some(holder), _) => self.absent(holder).map(|absent| vec![absent]),
            (None, Some(pool)) => self.absent_servers(pool),
            (None, None) => None,
        };
        Some(DeliveryInspection {
            number,
            open,
            to: self.recipient_name(open.to.without_holder()),
            agent: agent.map(|agent| agent.id.clone()),
            is_unavailable: agent.is_some_and(|agent| agent.presence.is_unavailable()),
            absent,
            consumers: holder.map_or(0, |agent| self.working.inbox(agent).consumers()),
            ahead: None,
            held_by: self.working.holder_of(&open).cloned(),
            lease_period: lease.map(|lease| (lease.since, self.wall_at(lease.deadline))),
        })
    }

    fn inspect_inbox(
        &self,
        agent: &AgentId,
        after: DeliveryNo,
        limit: usize,
    ) -> Result<InspectResult, DecideError> {
        let number = self.require_agent(agent)?;
        let inbox = self.working.inbox(number);
        let of_agent = |delivery: &DeliveryNo| {
            self.working.open(*delivery).is_some_and(|open| open.to.queue() == QueueId::Agent(number))
        };
        let waiting =
            self.working.scheduled_deliveries().chain(self.working.held_deliveries()).filter(of_agent);
        let all = inbox.ready_numbers().chain(inbox.leased.iter().copied()).chain(waiting);
        let mut numbers: Vec<_> = all.filter(|delivery| *delivery > after).collect();
        numbers.sort_unstable();
        let page = numbers.into_iter().take(limit.min(INSPECT_MAX));
        Ok(InspectResult::Inbox(page.filter_map(|delivery| self.inspect_delivery(delivery)).collect()))
    }

    fn inspect_agents(&self, filter: &AgentFilter, after: AgentNo, limit: usize) -> InspectResult {
        let agents = self.working.agents();
        let selected = filter.id.as_ref().map(|id| agents.number(id));
        let is_selected =
            |number: &AgentNo| *number > after && selected.is_none_or(|selected| selected == Some(*number));
        let matching =
            agents.iter().filter(|(number, agent)| is_selected(number) && filter.matches_registration(agent));
        let agents_found = matching.map(|(number, agent)| self.inspect_agent(number, agent));
        let agents_found =
            agents_found.filter(|found| filter.status.is_none_or(|status| status == found.status));
        InspectResult::Agents(agents_found.take(limit.min(INSPECT_MAX)).collect())
    }

    fn inspect_agent(&self, number: AgentNo, agent: &Agent) -> AgentInspection {
        let inbox = self.working.inbox(number);
        let open_requests = self.working.items().requests.count_of(number);
        let waits = self.working.locks().count_waits_of(number)
            + self.working.tasks().waiters().count_of(number)
            + self.working.items().approvals.count_of(number);
        let tasks = self.working.tasks().held(number);
        let first = tasks.first().and_then(|task| self.working.tasks().by_number(*task));
        let status = match agent.presence.status {
            AgentStatus::Idle if !inbox.leased.is_empty() || !tasks.is_empty() => AgentStatus::Working,
            AgentStatus::Idle if open_requests > 0 || waits > 0 => AgentStatus::Waiting,
            reported => reported,
        };
        let (_, offline_at) = self.working.last_activity(number);
        AgentInspection {
            number,
            agent: agent.clone(),
            status,
            open_deliveries: inbox.open + inbox.leased_from_pools,
            leased_deliveries: inbox.leased.len(),
            consumers: inbox.consumers(),
            open_requests,
            current_delivery: inbox.leased.first().copied(),
            leased_tasks: tasks.len(),
            current_task: first.map(|task| task.spec.id.clone()),
            last_seen: self.last_seen(number),
            offline_at: offline_at
                .filter(|_| !self.working.has_waiting_client(number))
                .map(|at| self.wall_at(at)),
            disconnected_at: self.disconnected_at(number),
        }
    }

    /// Returns the time at which the last connection of an agent was closed, unless it has acted since.
    pub(super) fn disconnected_at(&self, agent: AgentNo) -> Option<Timestamp> {
        self.working.disconnected_since(agent).map(|at| self.wall_at(at))
    }

    /// Returns when an agent was last seen.
    pub(super) fn last_seen(&self, agent: AgentNo) -> LastSeen {
        match self.working.last_activity(agent).0 {
            LastActivity::At(at) => LastSeen::At(self.wall_at(at)),
            LastActivity::BeforeStart(start) => LastSeen::BeforeRestart(self.wall_at(start)),
        }
    }

    fn lock_queue(&self, name: &LockName, limit: usize) -> Vec<LockWait> {
        let locks = self.working.locks();
        let waiters = locks.queue(name).filter_map(|id| locks.waiter(id)).take(limit.min(INSPECT_MAX));
        let wait = |waiter: &LockWaiter| {
            let agent = self.working.agents().get(waiter.agent)?.id.clone();
            Some(LockWait { agent, priority: waiter.priority, names: waiter.names.clone(), since: waiter.at })
        };
        waiters.filter_map(wait).collect()
    }

    /// Converts a monotonic reading to wall-clock time, assuming that the wall clock does not jump in between.
    pub(super) fn wall_at(&self, at: Mono) -> Timestamp {
        let (now, wall) = (self.now.mono.0, self.now.wall.0);
        Timestamp(if at.0 >= now { wall.saturating_add(at.0 - now) } else { wall.saturating_sub(now - at.0) })
    }
}
