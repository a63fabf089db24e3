//! Read-only inspection of the state at the head.

use crate::commit::OpResult;
use crate::decide::{Draft, No};
use crate::ids::{AgentId, AgentNo, DeliveryNo, Seq};
use crate::inspect::{AgentFilter, AgentLook, DeliveryLook, Inspect, Inspected};
use crate::limits::VIEW_MAX;
use crate::presence::Status;
use crate::recipient::Home;
use crate::registry::Agent;
use crate::time::{Mono, Timestamp};

impl Draft<'_> {
    pub(super) fn inspect(&self, query: &Inspect) -> Result<OpResult, No> {
        let result = match query {
            Inspect::Deliveries { message, first, count } => {
                self.inspect_deliveries(*message, *first, *count)
            }
            Inspect::Inbox { agent, after, limit } => self.inspect_inbox(agent, *after, *limit)?,
            Inspect::Agents { filter, after, limit } => self.inspect_agents(filter, *after, *limit),
        };
        Ok(OpResult::Inspected(Box::new(result)))
    }

    fn inspect_deliveries(&self, message: Option<(Seq, u32)>, first: DeliveryNo, count: u32) -> Inspected {
        let count = (count as usize).min(VIEW_MAX);
        let numbers = (first.0..).map(DeliveryNo).take(count);
        let mut deliveries: Vec<_> = numbers.map(|number| self.inspect_delivery(number)).collect();
        if let [Some(one)] = &mut deliveries[..] {
            one.ahead = self.working.inbox_at(one.open.to.home()).ahead_of(one.open.priority, first);
        }
        let request = message.and_then(|(seq, n)| self.working.items().requests.of_message(seq, n)).cloned();
        let request = request.and_then(|request| {
            let until = self.working.request_deadline(&request)?;
            Some((request, self.wall_at(until)))
        });
        Inspected::Deliveries { deliveries, request }
    }

    fn inspect_delivery(&self, number: DeliveryNo) -> Option<DeliveryLook> {
        let open = *self.working.open(number)?;
        let holder = open.to.agent_no();
        let agent = holder.and_then(|agent| self.working.agents().get(agent));
        let lease = self.working.lease(number).filter(|_| open.token().is_some());
        Some(DeliveryLook {
            number,
            open,
            to: self.recipient_name(open.to.back_home()),
            agent: agent.map(|agent| agent.id.clone()),
            is_away: agent.is_some_and(|agent| agent.presence.is_away()),
            listening: holder.map_or(0, |agent| self.working.inbox(agent).consumers()),
            ahead: None,
            held: lease.map(|lease| (lease.since, self.wall_at(lease.deadline))),
        })
    }

    fn inspect_inbox(&self, agent: &AgentId, after: DeliveryNo, limit: usize) -> Result<Inspected, No> {
        let number = self.known(agent)?;
        let inbox = self.working.inbox(number);
        let of_agent = |delivery: &DeliveryNo| {
            self.working.open(*delivery).is_some_and(|open| open.to.home() == Home::Agent(number))
        };
        let elsewhere = self.working.scheduled().chain(self.working.held()).filter(of_agent);
        let all = inbox.ready_numbers().chain(inbox.leased.iter().copied()).chain(elsewhere);
        let mut numbers: Vec<_> = all.filter(|delivery| *delivery > after).collect();
        numbers.sort_unstable();
        let page = numbers.into_iter().take(limit.min(VIEW_MAX));
        Ok(Inspected::Inbox(page.filter_map(|delivery| self.inspect_delivery(delivery)).collect()))
    }

    fn inspect_agents(&self, filter: &AgentFilter, after: AgentNo, limit: usize) -> Inspected {
        let agents = self.working.agents();
        let one = filter.id.as_ref().map(|id| agents.number(id));
        let is_selected = |number: &AgentNo| *number > after && one.is_none_or(|one| one == Some(*number));
        let matching = agents.iter().filter(|(number, agent)| is_selected(number) && filter.means(agent));
        let agents_found = matching.map(|(number, agent)| self.inspect_agent(number, agent));
        let agents_found =
            agents_found.filter(|found| filter.status.is_none_or(|status| status == found.status));
        Inspected::Agents(agents_found.take(limit.min(VIEW_MAX)).collect())
    }

    fn inspect_agent(&self, number: AgentNo, agent: &Agent) -> AgentLook {
        let inbox = self.working.inbox(number);
        let asking = self.working.items().requests.count_of(number);
        let waits = self.working.locks().waits_of(number)
            + self.working.tasks().awaited().count_of(number)
            + self.working.items().approvals.count_of(number);
        let tasks = self.working.tasks().held(number);
        let first = tasks.first().and_then(|no| self.working.tasks().by_number(*no));
        let status = match agent.presence.status {
            Status::Idle if !inbox.leased.is_empty() || !tasks.is_empty() => Status::Working,
            Status::Idle if asking > 0 || waits > 0 => Status::Waiting,
            reported => reported,
        };
        let (last_activity, offline_at) = self.working.last_heard(number);
        AgentLook {
            number,
            agent: agent.clone(),
            status,
            open: inbox.open,
            leased: inbox.leased.len(),
            listening: inbox.consumers(),
            asking,
            current: inbox.leased.first().copied(),
            tasks: tasks.len(),
            current_task: first.map(|task| task.spec.id.clone()),
            heard_at: self.wall_at(last_activity),
            offline_at: offline_at
                .filter(|_| !self.working.is_listened_for(number))
                .map(|at| self.wall_at(at)),
        }
    }

    /// Converts a monotonic reading to wall-clock time, assuming that the wall clock does not jump in between.
    fn wall_at(&self, at: Mono) -> Timestamp {
        let (now, wall) = (self.now.mono.0, self.now.wall.0);
        Timestamp(if at.0 >= now { wall.saturating_add(at.0 - now) } else { wall.saturating_sub(now - at.0) })
    }
}
