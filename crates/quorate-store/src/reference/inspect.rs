//! Inspection of the state at the head.

use quorate_core::{
    AgentFilter, AgentInspection, AgentNo, AgentStatus, DeliveryInspection, DeliveryNo, Inspect,
    InspectResult, Item, LastSeen, LockWait, Mono, OpResult, OpenDelivery, OpenDeliveryState,
    ProcedureStatus, QueueId, Refused, Task, TaskId, Timestamp,
};

use crate::reference::agents::unknown_agent;
use crate::reference::locks::LockWaiter;
use crate::reference::space::{Delivery, DeliveryPhase};
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn inspect(&self, query: &Inspect) -> Result<OpResult, Refused> {
        let result = match query {
            Inspect::Deliveries { message, first, count } => {
                let numbers = (0..u64::from(*count)).map(|index| DeliveryNo(first.0 + index));
                let mut deliveries: Vec<_> = numbers.map(|number| self.inspect_delivery(number)).collect();
                if let [Some(delivery)] = &mut deliveries[..] {
                    delivery.ahead = self.ahead(delivery.number);
                }
                let mut open = self.space.open_requests().into_iter();
                let request = open.find(|request| *message == Some((request.id.seq, request.id.n)));
                let request = request.map(|request| {
                    let until = self.wall(self.space.request_deadlines[&request.id]);
                    (request, until)
                });
                InspectResult::Deliveries { deliveries, request }
            }
            Inspect::Inbox { agent, after, limit } => {
                let number = self.space.agent_number(agent).ok_or_else(|| unknown_agent(agent))?;
                // Includes the deliveries that it leased from pools.
                let is_in_inbox = |delivery: &Delivery| {
                    let holds = delivery.is_leased() && delivery.to.agent_no() == Some(number);
                    delivery.is_open() && (holds || delivery.to.queue() == QueueId::Agent(number))
                };
                let open = self.space.deliveries_where(is_in_inbox).into_iter();
                let page = open.filter(|number| number > after).take(*limit);
                InspectResult::Inbox(page.filter_map(|number| self.inspect_delivery(number)).collect())
            }
            Inspect::Agents { filter, after, limit } => {
                let numbers = (after.0 + 1..=self.space.agents.len() as u64).map(AgentNo);
                let inspections = numbers.map(|number| self.inspect_agent(number));
                let page = inspections.filter(|inspection| matches_filter(filter, inspection)).take(*limit);
                InspectResult::Agents(page.collect())
            }
            Inspect::Stuck { limit } => InspectResult::Stuck(self.stuck_work(*limit)),
            Inspect::Task(id) => InspectResult::Task(self.inspect_task(id)),
            Inspect::Procedure(id) => {
                let procedure = self.space.procedure(id);
                let running = procedure.filter(|found| found.status == ProcedureStatus::Running);
                let inspection = running.map(|procedure| self.inspect_procedure(procedure));
                InspectResult::Procedure(inspection.unwrap_or_default())
            }
            Inspect::LockQueueLengths(names) => {
                let queue = self.space.lock_queue();
                let length = |name| queue.iter().filter(|waiter| waiter.names.contains(name)).count();
                InspectResult::LockQueueLengths(names.iter().map(length).collect())
            }
            Inspect::LockQueue { name, limit } => {
                let queue = self.space.lock_queue().into_iter().filter(|waiter| waiter.names.contains(name));
                let wait = |waiter: LockWaiter| LockWait {
                    agent: self.space.agent(waiter.agent).id.clone(),
                    priority: waiter.priority,
                    names: waiter.names,
                    since: waiter.at,
                };
                InspectResult::LockQueue(queue.take(*limit).map(wait).collect())
            }
        };
        Ok(OpResult::Inspected(Box::new(result)))
    }

    fn inspect_delivery(&self, number: DeliveryNo) -> Option<DeliveryInspection> {
        let delivery = self.space.delivery(number).filter(|delivery| delivery.is_open())?;
        let (state, held) = match delivery.phase {
            DeliveryPhase::Ready { since, .. } if self.space.is_paused(delivery) => {
                (OpenDeliveryState::Held { since }, None)
            }
            DeliveryPhase::Ready { since, .. } => (OpenDeliveryState::Ready { since }, None),
            DeliveryPhase::Scheduled { due } => (OpenDeliveryState::Scheduled { due }, None),
            DeliveryPhase::Leased { token, deadline, since, .. } => {
                (OpenDeliveryState::Leased { token }, Some((since, self.wall(deadline))))
            }
            DeliveryPhase::Ended { .. } => return None,
        };
        let mut open = OpenDelivery::new(delivery.to, delivery.seq, delivery.n, state);
        open.priority = delivery.priority;
        open.attempt = delivery.attempt;
        open.attempts_max = delivery.attempts_max;
        open.expires = delivery.expires_at.unwrap_or(OpenDelivery::NEVER);
        open.if_unavailable = delivery.if_unavailable;
        let scope = self.space.scope(delivery);
        let open = open.with_scope(scope.and_then(Item::pause_scope).map(|(number, _)| number));
        let held_by = scope.filter(|_| matches!(state, OpenDeliveryState::Held { .. })).map(Item::key);
        let holder = delivery.to.agent_no();
        let agent = holder.map(|number| self.space.agent(number));
        let consumers = self.space.consumers.iter().filter(|consumer| Some(consumer.agent) == holder).count();
        Some(DeliveryInspection {
            number,
            open,
            to: self.space.queue_name(delivery.to.queue()),
            agent: agent.map(|agent| agent.id.clone()),
            is_unavailable: agent.is_some_and(|agent| agent.presence.is_unavailable()),
            absent: match delivery.to.queue() {
                QueueId::Pool(pool) if holder.is_none() => self.absent_servers(pool),
                _ => holder.and_then(|holder| self.absent(holder)).map(|absent| vec![absent]),
            },
            consumers,
            ahead: None,
            held_by,
            lease_period: held,
        })
    }

    /// Counts the ready deliveries before this one: of a higher priority, or older and of the same priority.
    fn ahead(&self, number: DeliveryNo) -> Option<usize> {
        let is_ready = |delivery: &Delivery| self.space.is_ready(delivery);
        let this = self.space.delivery(number).filter(|delivery| is_ready(delivery))?;
        let in_same_queue =
            |delivery: &Delivery| is_ready(delivery) && delivery.to.queue() == this.to.queue();
        let ready = self.space.deliveries_where(in_same_queue).into_iter();
        let before = ready.filter(|other| {
            let priority = self.space.deliveries[other.0 as usize - 1].priority;
            priority > this.priority || (priority == this.priority && *other < number)
        });
        Some(before.count())
    }

    fn inspect_agent(&self, number: AgentNo) -> AgentInspection {
        let agent = self.space.agent(number).clone();
        let held = self.space.held_by(number);
        let open_requests =
            self.space.open_requests().iter().filter(|request| request.from == number).count();
        let waits = self.space.lock_waiters.iter().any(|waiter| waiter.agent == number)
            || self.space.task_waiters.iter().any(|waiter| waiter.agent == number)
            || self.space.pending_approvals().any(|approval| approval.agent == Some(number));
        let holds = |task: &&&Task| task.lease().is_some_and(|lease| lease.by == number);
        let tasks: Vec<TaskId> =
            self.space.tasks().iter().filter(holds).map(|task| task.spec.id.clone()).collect();
        let consumers = self.space.consumers.iter().filter(|consumer| consumer.agent == number).count();
        let status = match agent.presence.status {
            AgentStatus::Idle if !held.is_empty() || !tasks.is_empty() => AgentStatus::Working,
            AgentStatus::Idle if open_requests > 0 || waits => AgentStatus::Waiting,
            reported => reported,
        };
        let queue = |delivery: &DeliveryNo| self.space.delivery(*delivery).map(|found| found.to.queue());
        let pooled = held.iter().filter(|delivery| queue(delivery) != Some(QueueId::Agent(number)));
        let last_seen = self.space.last_seen[number.0 as usize - 1];
        let delay_ms = self.space.offline_after_ms(number).filter(|_| !self.space.has_open_wait(number));
        AgentInspection {
            number,
            agent,
            status,
            open_deliveries: self.space.open_count(QueueId::Agent(number)) + pooled.count(),
            leased_deliveries: held.len(),
            consumers,
            open_requests,
            current_delivery: held.first().copied(),
            leased_tasks: tasks.len(),
            current_task: tasks.first().cloned(),
            last_seen: match self.wall(last_seen.at) {
                at if last_seen.since_restart => LastSeen::At(at),
                restarted_at => LastSeen::BeforeRestart(restarted_at),
            },
            offline_at: delay_ms.map(|delay_ms| self.wall(last_seen.at.plus_ms(delay_ms))),
            disconnected_at: self.space.disconnected.get(&number).map(|at| self.wall(*at)),
        }
    }

    pub(super) fn wall(&self, at: Mono) -> Timestamp {
        Timestamp((self.now.wall.0 + at.0).saturating_sub(self.now.mono.0))
    }
}

fn matches_filter(filter: &AgentFilter, inspection: &AgentInspection) -> bool {
    let AgentFilter { id, capability, action, role, status } = filter;
    let agent = &inspection.agent;
    !agent.removed
        && id.as_ref().is_none_or(|id| *id == agent.id)
        && capability.as_ref().is_none_or(|capability| agent.capabilities.contains(capability))
        && action.as_ref().is_none_or(|action| agent.supported_actions.contains(action))
        && role.is_none_or(|role| role == agent.role)
        && status.is_none_or(|status| status == inspection.status)
}
