//! Inspection of the state at the head.

use quorate_core::{
    AgentFilter, AgentInspection, AgentNo, AgentStatus, DeliveryInspection, DeliveryNo, Inspect,
    InspectResult, Mono, OpResult, OpenDelivery, OpenDeliveryState, QueueId, Refused, Task, TaskId,
    Timestamp,
};

use crate::reference::agents::unknown_agent;
use crate::reference::space::{Delivery, DeliveryPhase};
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn inspect(&self, query: &Inspect) -> Result<OpResult, Refused> {
        let seen = match query {
            Inspect::Deliveries { message, first, count } => {
                let numbers = (0..u64::from(*count)).map(|index| DeliveryNo(first.0 + index));
                let mut deliveries: Vec<_> = numbers.map(|number| self.look(number)).collect();
                if let [Some(one)] = &mut deliveries[..] {
                    one.ahead = self.ahead(one.number);
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
                let here = |one: &Delivery| {
                    let holds = one.is_leased() && one.to.agent_no() == Some(number);
                    one.is_open() && (holds || one.to.queue() == QueueId::Agent(number))
                };
                let open = self.space.deliveries_where(here).into_iter();
                let shown = open.filter(|number| number > after).take(*limit);
                InspectResult::Inbox(shown.filter_map(|number| self.look(number)).collect())
            }
            Inspect::Agents { filter, after, limit } => {
                let numbers = (after.0 + 1..=self.space.agents.len() as u64).map(AgentNo);
                let looks = numbers.map(|number| self.look_at_agent(number));
                let shown = looks.filter(|look| is_meant(filter, look)).take(*limit);
                InspectResult::Agents(shown.collect())
            }
        };
        Ok(OpResult::Inspected(Box::new(seen)))
    }

    fn look(&self, number: DeliveryNo) -> Option<DeliveryInspection> {
        let delivery = self.space.delivery(number).filter(|one| one.is_open())?;
        let (state, held) = match delivery.phase {
            DeliveryPhase::Ready { since, .. } if self.space.is_held(delivery) => {
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
        let session = delivery.session.as_deref().and_then(|id| self.space.session(id));
        let open = open.with_session(session.map(|session| session.number));
        let holder = delivery.to.agent_no();
        let agent = holder.map(|number| self.space.agent(number));
        let listening = self.space.consumers.iter().filter(|one| Some(one.agent) == holder).count();
        Some(DeliveryInspection {
            number,
            open,
            to: self.space.home_name(delivery.to.queue()),
            agent: agent.map(|agent| agent.id.clone()),
            is_away: agent.is_some_and(|agent| agent.presence.is_unavailable()),
            consumers: listening,
            ahead: None,
            lease_period: held,
        })
    }

    /// Counts the ready deliveries before this one: of a higher priority, or older and of the same priority.
    fn ahead(&self, number: DeliveryNo) -> Option<usize> {
        let is_ready = |one: &Delivery| self.space.is_ready(one);
        let this = self.space.delivery(number).filter(|one| is_ready(one))?;
        let here = |one: &Delivery| is_ready(one) && one.to.queue() == this.to.queue();
        let ready = self.space.deliveries_where(here).into_iter();
        let before = ready.filter(|other| {
            let priority = self.space.deliveries[other.0 as usize - 1].priority;
            priority > this.priority || (priority == this.priority && *other < number)
        });
        Some(before.count())
    }

    fn look_at_agent(&self, number: AgentNo) -> AgentInspection {
        let agent = self.space.agent(number).clone();
        let held = self.space.held_by(number);
        let asking = self.space.open_requests().iter().filter(|request| request.from == number).count();
        let waits = self.space.lock_waiters.iter().any(|one| one.agent == number)
            || self.space.task_waiters.iter().any(|one| one.agent == number)
            || self.space.pending_approvals().any(|one| one.agent == Some(number));
        let holds = |task: &&&Task| task.lease().is_some_and(|lease| lease.by == number);
        let tasks: Vec<TaskId> =
            self.space.tasks().iter().filter(holds).map(|task| task.spec.id.clone()).collect();
        let listening = self.space.consumers.iter().filter(|one| one.agent == number).count();
        let status = match agent.presence.status {
            AgentStatus::Idle if !held.is_empty() || !tasks.is_empty() => AgentStatus::Working,
            AgentStatus::Idle if asking > 0 || waits => AgentStatus::Waiting,
            reported => reported,
        };
        let heard = self.space.last_seen[number.0 as usize - 1];
        let silence_ms = self.space.offline_after_ms(number).filter(|_| !self.space.has_open_wait(number));
        AgentInspection {
            number,
            agent,
            status,
            open_deliveries: self.space.open_count(QueueId::Agent(number)),
            leased_deliveries: held.len(),
            consumers: listening,
            open_requests: asking,
            current_delivery: held.first().copied(),
            leased_tasks: tasks.len(),
            current_task: tasks.first().cloned(),
            last_seen_at: self.wall(heard),
            offline_at: silence_ms.map(|silence_ms| self.wall(heard.plus_ms(silence_ms))),
        }
    }

    fn wall(&self, at: Mono) -> Timestamp {
        Timestamp((self.now.wall.0 + at.0).saturating_sub(self.now.mono.0))
    }
}

fn is_meant(filter: &AgentFilter, look: &AgentInspection) -> bool {
    let AgentFilter { id, capability, action, role, status } = filter;
    let agent = &look.agent;
    !agent.removed
        && id.as_ref().is_none_or(|id| *id == agent.id)
        && capability.as_ref().is_none_or(|one| agent.capabilities.contains(one))
        && action.as_ref().is_none_or(|one| agent.supported_actions.contains(one))
        && role.is_none_or(|role| role == agent.role)
        && status.is_none_or(|status| status == look.status)
}
