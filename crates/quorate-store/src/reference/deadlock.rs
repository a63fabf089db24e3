//! Deadlock detection: a fixpoint over all waits finds those that can never end.

use quorate_core::{
    AgentNo, ApprovalId, Code, ConsumerEvent, ConsumerId, DeliveryId, DeliveryNo, Item, MessageId, QueueId,
    Refused, ReplyState, RequestState, Seq, Task, TaskId, TaskState, Timestamp, WaitEdge, limits,
};

use crate::reference::locks::LockWaiter;
use crate::reference::space::{DeliveryPhase, Space};
use crate::reference::transaction::Transaction;

/// Maximum rounds of cycle breaking per check.
const ROUNDS: usize = 16;

/// Possible supplier of something that a wait needs.
enum Source {
    /// Held by an agent since a record.
    Held { agent: AgentNo, within: Option<DeliveryNo>, since: Seq },
    /// Ready for an agent to claim.
    Unclaimed(AgentNo),
    /// Blocked by another wait.
    Ahead(WaitId),
}

/// Identity of a wait.
#[derive(Clone, PartialEq)]
enum WaitId {
    Locks(ConsumerId),
    Answers(MessageId),
    Task(ConsumerId),
    /// A blocked task, which is a wait without a waiter.
    Blocked(TaskId),
    /// A pending approval, which a person has to decide.
    Person(ApprovalId),
}

/// Node of the wait-for graph. The list of waits is ordered by age, oldest first.
struct Wait {
    id: WaitId,
    agent: Option<AgentNo>,
    within: Option<DeliveryNo>,
    since: Seq,
    /// Needs, each with its description and its possible suppliers.
    needs: Vec<(String, Vec<Source>)>,
    /// Whether it can end without intervention.
    ends: bool,
}

/// Wait-for graph of a space.
struct WaitGraph<'a> {
    space: &'a Space,
    waits: Vec<Wait>,
}

impl Transaction<'_> {
    /// Runs a deadlock check if one is due, and cancels the youngest wait of each cycle.
    pub(super) fn check_deadlocks(&mut self) {
        let due = self.space.deadlock_check_at.is_some_and(|at| at <= self.now.mono);
        if !due || !self.space.has_waits() {
            return;
        }
        self.space.deadlock_check_at = Some(self.now.mono.plus_ms(limits::DEADLOCK_CHECK_MS));
        let mut graph = WaitGraph { space: self.space, waits: waits_of(self.space, self.now.wall) };
        graph.propagate();
        let mut refusals = Vec::new();
        for _ in 0..ROUNDS {
            let cycles = graph.cycles();
            if cycles.is_empty() {
                break;
            }
            for cycle in &cycles {
                let mut refused = Refused::new(Code::Deadlock, "the waits form a cycle");
                refused.facts.cycle = cycle.iter().filter_map(|wait| graph.describe(*wait)).collect();
                refusals.push((graph.waits[cycle[0]].id.clone(), refused));
            }
            for cycle in cycles {
                graph.waits[cycle[0]].ends = true;
            }
            graph.propagate();
        }
        for (wait, refused) in refusals {
            self.changed = true;
            match wait {
                WaitId::Locks(id) => {
                    self.cancel_lock_wait(id);
                    self.consumer_events.push((id, ConsumerEvent::Refused(refused)));
                }
                WaitId::Answers(id) => {
                    let request = self.space.request(id).expect("the wait exists");
                    let state = RequestState::Failed { code: Code::Deadlock, reason: String::new() };
                    self.end_request(request, state, refused);
                }
                WaitId::Task(id) => {
                    self.remove_task_waiter(id);
                    self.consumer_events.push((id, ConsumerEvent::Refused(refused)));
                }
                WaitId::Blocked(_) | WaitId::Person(_) => {}
            }
        }
    }

    /// Schedules a deadlock check when the first wait begins.
    pub(super) fn schedule_deadlock_check(&mut self) {
        if !self.space.has_waits() {
            self.space.deadlock_check_at = Some(self.now.mono.plus_ms(limits::DEADLOCK_CHECK_MS));
        }
    }

    /// Returns the newest record at the beginning of a wait.
    pub(super) fn wait_start_seq(&self) -> Seq {
        if self.changed { self.seq } else { self.space.newest_seq() }
    }

    pub(super) fn next_wait_ordinal(&mut self) -> u64 {
        self.space.wait_count += 1;
        self.space.wait_count
    }

    /// Resolves a delivery id if the agent holds its lease.
    pub(super) fn leased_by(&self, agent: AgentNo, id: DeliveryId) -> Option<DeliveryNo> {
        let number = self.space.resolve_delivery(id)?;
        let delivery = self.space.delivery(number)?;
        (delivery.to.agent_no() == Some(agent) && delivery.is_leased()).then_some(number)
    }
}

impl Space {
    pub(super) fn has_waits(&self) -> bool {
        !self.lock_waiters.is_empty() || !self.request_waiters.is_empty() || !self.task_waiters.is_empty()
    }

    /// Counts the deliveries and tasks leased by an agent.
    fn leases_of(&self, agent: AgentNo) -> usize {
        let held = |item: &&Item| match item {
            Item::Task(task) => matches!(&task.state, TaskState::Leased(lease) if lease.by == agent),
            _ => false,
        };
        self.leased_count(agent) + self.items.values().filter(held).count()
    }

    /// Whether an agent has a consumer with credit.
    fn has_credit(&self, agent: AgentNo) -> bool {
        self.consumers.iter().any(|consumer| consumer.agent == agent && consumer.credit > 0)
    }

    /// Returns the supplier of the answer to a delivery of a request.
    fn answer_source(&self, number: DeliveryNo, now: Timestamp) -> Option<Source> {
        let delivery = self.delivery(number)?;
        match delivery.phase {
            DeliveryPhase::Leased { seq, .. } => {
                Some(Source::Held { agent: delivery.to.agent_no()?, within: Some(number), since: seq })
            }
            DeliveryPhase::Ready { since, .. }
                if self.is_ready(delivery) && since.plus_ms(limits::DEADLOCK_CHECK_MS) <= now =>
            {
                match delivery.to.queue() {
                    QueueId::Agent(agent) => Some(Source::Unclaimed(agent)),
                    QueueId::Pool(_) => None,
                }
            }
            DeliveryPhase::Ready { .. } | DeliveryPhase::Scheduled { .. } | DeliveryPhase::Ended { .. } => {
                None
            }
        }
    }

    /// Returns the supplier of the end of a task.
    fn task_end_source(&self, task: &Task, now: Timestamp) -> Option<Source> {
        let id = &task.spec.id;
        match &task.state {
            TaskState::Leased(lease) => {
                let since = self.task_runtime.leased_in.get(id).copied().unwrap_or(Seq(0));
                Some(Source::Held { agent: lease.by, within: None, since })
            }
            TaskState::Blocked { held_by } if held_by.is_empty() => {
                Some(Source::Ahead(WaitId::Blocked(id.clone())))
            }
            TaskState::Ready { since } if since.plus_ms(limits::DEADLOCK_CHECK_MS) <= now => {
                let agent = task.spec.agent?;
                (!self.has_claim_for_own_tasks(agent)).then_some(Source::Unclaimed(agent))
            }
            _ => None,
        }
    }
}

fn waits_of(space: &Space, now: Timestamp) -> Vec<Wait> {
    let queue = space.lock_queue();
    let needs = |waiter: &LockWaiter| {
        let before = queue.iter().position(|other| other.id == waiter.id).unwrap_or(0);
        let mut needs = Vec::new();
        for name in &waiter.names {
            let ahead = queue[..before].iter().rev().find(|other| other.names.contains(name));
            let lock = space.lock(name);
            if let Some(ahead) = ahead {
                needs.push((format!("lock {name}"), vec![Source::Ahead(WaitId::Locks(ahead.id))]));
            } else if let Some(lock) = lock
                && lock.grants.len() >= lock.capacity as usize
            {
                let held = lock.grants.iter().map(|grant| Source::Held {
                    agent: grant.holder,
                    within: grant.within,
                    since: grant.seq,
                });
                needs.push((format!("lock {name}"), held.collect()));
            }
        }
        needs
    };
    // Ordered by the record after which they began; within a record, requests come before lock and task waits.
    let mut waits: Vec<((Seq, bool, u64), Wait)> = Vec::new();
    for waiter in &space.lock_waiters {
        let LockWaiter { agent, within, since, ordinal, .. } = *waiter;
        let (id, agent) = (WaitId::Locks(waiter.id), Some(agent));
        let wait = Wait { id, agent, within, since, needs: needs(waiter), ends: false };
        waits.push(((since, true, ordinal), wait));
    }
    for waiter in &space.task_waiters {
        let source = space.task(&waiter.task).and_then(|task| space.task_end_source(task, now));
        let needs = source.map(|source| (format!("task {}", waiter.task), vec![source]));
        let (id, agent, since) = (WaitId::Task(waiter.id), Some(waiter.agent), waiter.since);
        let needs = needs.into_iter().collect();
        let wait = Wait { id, agent, within: waiter.within, since, needs, ends: false };
        waits.push(((since, true, waiter.ordinal), wait));
    }
    for (request_id, waiters) in &space.request_waiters {
        let request = space.request(*request_id).expect("the request exists");
        let mut needs = Vec::new();
        for (index, outcome) in request.recipients.iter().enumerate() {
            let delivery = DeliveryNo(request.first_delivery.0 + index as u64);
            if let (ReplyState::Pending, Some(source)) = (outcome.reply, space.answer_source(delivery, now)) {
                needs.push((
                    format!("an answer of {}", space.queue_name(outcome.recipient.queue())),
                    vec![source],
                ));
            }
        }
        let (id, agent) = (WaitId::Answers(*request_id), Some(request.from));
        let wait = Wait { id, agent, within: waiters.within, since: request_id.seq, needs, ends: false };
        waits.push(((request_id.seq, false, u64::from(request_id.n)), wait));
    }
    for approval in space.pending_approvals() {
        // Only a person can end this wait, so it has a need without suppliers.
        let (id, since) = (WaitId::Person(approval.id.clone()), approval.seq);
        let needs = vec![(String::new(), Vec::new())];
        if approval.agent.is_some() {
            let wait = Wait { id, agent: approval.agent, within: None, since, needs, ends: false };
            waits.push(((since, false, u64::MAX), wait));
        }
    }
    waits.sort_by_key(|(age, _)| *age);
    let mut all: Vec<Wait> = blocked_tasks(space, now);
    all.extend(waits.into_iter().map(|(_, wait)| wait));
    all
}

/// Returns the waits of blocked tasks, which count as older than all others.
fn blocked_tasks(space: &Space, now: Timestamp) -> Vec<Wait> {
    let mut waits = Vec::new();
    for task in space.tasks() {
        if let TaskState::Blocked { held_by } = &task.state
            && held_by.is_empty()
        {
            let open = task.spec.depends_on.iter().filter_map(|id| space.task(id));
            let sources = open.filter_map(|other| space.task_end_source(other, now));
            let needs = sources.map(|source| (String::new(), vec![source])).collect();
            let id = WaitId::Blocked(task.spec.id.clone());
            waits.push(Wait { id, agent: None, within: None, since: Seq(0), needs, ends: false });
        }
    }
    waits
}

impl WaitGraph<'_> {
    fn index_of(&self, id: &WaitId) -> usize {
        self.waits.iter().position(|wait| wait.id == *id).expect("the wait exists")
    }

    /// Returns the waits that block an agent from finishing what it holds, and whether they are known to block exactly
    /// that.
    fn blocking(&self, agent: AgentNo, within: Option<DeliveryNo>) -> (Vec<usize>, bool) {
        let is_own = |wait: &&usize| self.waits[**wait].agent == Some(agent);
        let all: Vec<usize> = (0..self.waits.len()).collect();
        let own: Vec<usize> = all.iter().filter(is_own).copied().collect();
        let own_within = |within: Option<DeliveryNo>| {
            let same = |wait: &&usize| self.waits[**wait].within == within;
            own.iter().filter(same).copied().collect::<Vec<_>>()
        };
        match within {
            Some(_) if !own_within(within).is_empty() => (own_within(within), true),
            Some(_) => (own_within(None), false),
            None => (own, false),
        }
    }

    fn is_free(&self, wait: usize, source: &Source) -> bool {
        let (agent, within, since) = match source {
            Source::Ahead(other) => return self.waits[self.index_of(other)].ends,
            Source::Unclaimed(agent) if self.space.has_credit(*agent) => return true,
            Source::Unclaimed(agent) => (*agent, None, Seq(0)),
            Source::Held { agent, within, since } => (*agent, *within, *since),
        };
        if Some(agent) == self.waits[wait].agent {
            return true;
        }
        let (blocking, is_exact) = self.blocking(agent, within);
        let wait_count = self.waits.iter().filter(|other| other.agent == Some(agent)).count();
        if !is_exact && self.space.leases_of(agent) > wait_count {
            return true;
        }
        let mut begun_since = blocking.iter().filter(|other| self.waits[**other].since >= since);
        let none_begun = begun_since.clone().next().is_none();
        none_begun || begun_since.any(|other| self.waits[*other].ends)
    }

    fn is_met(&self, wait: usize, need: usize) -> bool {
        self.waits[wait].needs[need].1.iter().any(|source| self.is_free(wait, source))
    }

    /// Returns the first need of a wait that is not met.
    fn unmet_need(&self, wait: usize) -> Option<usize> {
        (0..self.waits[wait].needs.len()).find(|need| !self.is_met(wait, *need))
    }

    /// Marks every wait that can end, until a fixpoint is reached.
    fn propagate(&mut self) {
        loop {
            let can = |wait: &usize| !self.waits[*wait].ends && self.unmet_need(*wait).is_none();
            let Some(next) = (0..self.waits.len()).find(can) else { return };
            self.waits[next].ends = true;
        }
    }

    /// Returns the wait that blocks this one, or `None` if a person does.
    fn next(&self, wait: usize) -> Option<usize> {
        let need = self.unmet_need(wait).expect("a wait that cannot end has an unmet need");
        let (agent, within) = match self.waits[wait].needs[need].1.first()? {
            Source::Ahead(other) => return Some(self.index_of(other)),
            Source::Held { agent, within, .. } => (*agent, *within),
            Source::Unclaimed(agent) => (*agent, None),
        };
        Some(*self.blocking(agent, within).0.last().expect("something blocks it"))
    }

    /// Returns each cycle once, rotated so that its youngest wait comes first.
    fn cycles(&self) -> Vec<Vec<usize>> {
        let mut cycles: Vec<Vec<usize>> = Vec::new();
        for start in (0..self.waits.len()).filter(|wait| !self.waits[*wait].ends) {
            // After as many steps as there are waits, the walk is inside the cycle that it leads to.
            let Some(inside) = self.waits.iter().try_fold(start, |wait, _| self.next(wait)) else { continue };
            let mut cycle = vec![inside];
            while let Some(next) = self.next(cycle[cycle.len() - 1]).filter(|next| *next != inside) {
                cycle.push(next);
            }
            let youngest = cycle.iter().max().copied().unwrap_or(inside);
            let index = cycle.iter().position(|wait| *wait == youngest).unwrap_or(0);
            cycle.rotate_left(index);
            if !cycles.contains(&cycle) {
                cycles.push(cycle);
            }
        }
        cycles.sort();
        cycles
    }

    /// Describes a wait for the refusal; `None` for a blocked task, which has no waiter.
    fn describe(&self, wait: usize) -> Option<WaitEdge> {
        let Wait { agent, needs, .. } = &self.waits[wait];
        let agent = self.space.agent((*agent)?).id.to_string();
        let need = self.unmet_need(wait).expect("a wait that cannot end has an unmet need");
        Some(WaitEdge { agent, waits_for: needs[need].0.clone() })
    }
}
