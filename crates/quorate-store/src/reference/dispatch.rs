//! Dispatch of deliveries: claims, credit, the order of an inbox, sweep, redrive and purge.

use quorate_core::{
    AgentId, AgentNo, Code, ConsumerId, DeliveryId, DeliveryNo, EndState, IfUnavailable, LeaseToken,
    LeasedDelivery, OpResult, QueueId, Refused, Timestamp, WaitMode, limits,
};

use crate::reference::leases::unknown_delivery;
use crate::reference::space::{Consumer, DeliveryPhase, Fairness};
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn claim(
        &mut self,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        wait: WaitMode,
    ) -> Result<OpResult, Refused> {
        let number = self.require_own_agent(agent)?;
        let leased = self.take(number, max, lease_ms);
        let credit = max - leased.len() as u32;
        let (id, once) = match wait {
            WaitMode::Once(id) if leased.is_empty() => (id, true),
            WaitMode::Standing(id) => (id, false),
            WaitMode::Once(_) | WaitMode::NoWait => return Ok(OpResult::Claimed(leased)),
        };
        let count = self.space.consumers.iter().filter(|consumer| consumer.agent == number).count();
        if count >= limits::CONSUMERS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many consumers wait for this inbox")
                .limit(limits::CONSUMERS_PER_AGENT_MAX as u64));
        }
        self.space.consumers.retain(|consumer| consumer.id != id);
        self.space.consumers.push(Consumer { id, agent: number, credit, lease_ms, once });
        self.space.disconnected.remove(&number);
        Ok(OpResult::Claimed(leased))
    }

    /// Grants credit to a consumer. A consumer without credit moves to the end of the queue.
    pub(super) fn grant_credit(&mut self, id: ConsumerId, credit: u32) -> OpResult {
        if self.grant_task_credit(id, credit) {
            return OpResult::Done;
        }
        if let Some(index) = self.space.consumers.iter().position(|consumer| consumer.id == id) {
            let mut consumer = self.space.consumers.remove(index);
            let position = if consumer.credit == 0 { self.space.consumers.len() } else { index };
            consumer.credit = consumer.credit.saturating_add(credit);
            self.space.consumers.insert(position, consumer);
            self.space.queue_dispatch_of_agent(consumer.agent);
        }
        OpResult::Done
    }

    /// Closes a consumer of any kind. Its agent counts as active until now. Request waiters are not notified.
    pub(super) fn close_consumer(&mut self, id: ConsumerId) -> OpResult {
        self.cancel_lock_wait(id);
        let consumer = self.space.consumers.iter().find(|consumer| consumer.id == id).copied();
        let inbox_agent = consumer.map(|consumer| consumer.agent);
        let claimer = self.space.task_runtime.claimers.iter().find(|claimer| claimer.id == id);
        if let Some(agent) = inbox_agent.or(claimer.map(|claimer| claimer.agent)) {
            self.record_activity(agent);
        }
        self.close_task_claim(id);
        self.space.consumers.retain(|consumer| consumer.id != id);
        if let Some(Consumer { agent, once: false, .. }) = consumer
            && !self.space.consumers.iter().any(|other| other.agent == agent)
        {
            self.space.disconnected.insert(agent, self.now.mono);
        }
        for request in self.space.requests_awaited_by(id) {
            self.remove_waiter(request, id);
        }
        self.remove_task_waiter(id);
        OpResult::Done
    }

    /// Returns the consumer that is served next from an inbox or a pool. A pool skips agents at their in-flight limit.
    pub(super) fn next_consumer(&self, queue: QueueId) -> Option<Consumer> {
        let mut waiting =
            self.space.consumers.iter().filter(|consumer| self.space.can_serve(consumer, queue));
        let has_room = |consumer: &&Consumer| self.space.leased_count(consumer.agent) < limits::IN_FLIGHT_MAX;
        match queue {
            QueueId::Agent(_) => waiting.next().copied(),
            QueueId::Pool(_) => waiting.find(has_room).copied(),
        }
    }

    /// Spends credit. The consumer moves to the end of the queue, or leaves it if it is a one-time consumer.
    pub(super) fn spend_credit(&mut self, id: ConsumerId, count: u32) {
        if let Some(index) = self.space.consumers.iter().position(|consumer| consumer.id == id) {
            let mut consumer = self.space.consumers.remove(index);
            consumer.credit -= count;
            if !consumer.once {
                self.space.consumers.push(consumer);
            }
        }
    }

    pub(super) fn next_token(&mut self) -> LeaseToken {
        self.space.last_token = (self.space.last_token + 1).max(self.space.number_floor());
        LeaseToken(self.space.last_token)
    }

    /// Leases up to `max` deliveries to an agent, in order.
    fn take(&mut self, agent: AgentNo, max: u32, lease_ms: u64) -> Vec<LeasedDelivery> {
        let mut leased = Vec::new();
        while (leased.len() as u32) < max
            && self.space.leased_count(agent) < limits::IN_FLIGHT_MAX
            && let Some(number) = self.next_delivery(agent)
        {
            let token = self.next_token();
            let deadline = self.now.mono.plus_ms(lease_ms);
            let (since, seq) = (Some(self.now.wall), self.seq);
            let delivery = self.space.delivery_mut(number);
            delivery.phase = DeliveryPhase::Leased { token, lease_ms, deadline, since, seq };
            delivery.to = delivery.to.held_by(agent);
            delivery.attempt += 1;
            leased.push(LeasedDelivery {
                delivery: number,
                token,
                attempt: delivery.attempt,
                lease_ms,
                seq: delivery.seq,
                n: delivery.n,
                message: None,
            });
            self.changed = true;
        }
        leased
    }

    /// Returns the next delivery for an agent. Ends expired deliveries and those that the policy no longer allows.
    fn next_delivery(&mut self, agent: AgentNo) -> Option<DeliveryNo> {
        loop {
            let (number, fairness) = self.choose(agent)?;
            if self.space.delivery_mut(number).is_expired(self.now.wall) {
                self.end_delivery(number, EndState::Expired, String::new());
                continue;
            }
            if self.is_denied_by_policy(number, agent) {
                self.lost_request_code = Code::PolicyViolation;
                self.end_delivery(number, EndState::Dead, "no longer allowed by policy".into());
                self.lost_request_code = Code::Cancelled;
                continue;
            }
            self.space.fairness[agent.0 as usize - 1] = fairness;
            return Some(number);
        }
    }

    /// Chooses the oldest delivery of the highest priority, except that a lower priority is served after 64 higher ones
    /// or after 60 s.
    fn choose(&self, agent: AgentNo) -> Option<(DeliveryNo, Fairness)> {
        let space = &self.space;
        let fairness = space.fairness[agent.0 as usize - 1];
        let ready = space.deliveries_where(|delivery| {
            space.is_ready(delivery) && space.may_take(agent, delivery.to.queue())
        });
        let delivery_of = |number: &DeliveryNo| &space.deliveries[number.0 as usize - 1];
        let highest = ready.iter().map(|number| delivery_of(number).priority).max()?;
        let top = *ready.iter().find(|number| delivery_of(number).priority == highest)?;
        let since = |number: &DeliveryNo| match delivery_of(number).phase {
            DeliveryPhase::Ready { since, .. } => since,
            DeliveryPhase::Scheduled { .. } | DeliveryPhase::Leased { .. } | DeliveryPhase::Ended { .. } => {
                Timestamp(u64::MAX)
            }
        };
        // The longest-waiting delivery of any lower priority.
        let lower = ready.iter().filter(|number| delivery_of(number).priority < highest);
        let Some(lower) = lower.min_by_key(|number| (since(number), **number)).copied() else {
            return Some((top, Fairness { passed_over: 0, ..fairness }));
        };
        let waited_since = since(&lower).max(fairness.lower_served_at);
        let waited_long = waited_since.plus_ms(limits::STARVATION_MS) <= self.now.wall;
        if fairness.passed_over >= limits::STARVATION_COUNT || waited_long {
            return Some((lower, Fairness { passed_over: 0, lower_served_at: self.now.wall }));
        }
        Some((top, Fairness { passed_over: fairness.passed_over + 1, ..fairness }))
    }

    /// Delivers ready messages to waiting consumers, inbox by inbox, in round-robin order.
    pub(super) fn dispatch_deliveries(&mut self) {
        for queue in std::mem::take(&mut self.space.dispatch_queue) {
            while self.space.has_ready(queue)
                && let Some(consumer) = self.next_consumer(queue)
            {
                // An agent with pools takes one delivery at a time, which spreads pool deliveries over the waiting
                // consumers.
                let has_pools = !self.space.pools_of(consumer.agent).is_empty();
                let max = if has_pools { 1 } else { consumer.credit };
                let leased = self.take(consumer.agent, max, consumer.lease_ms);
                if leased.is_empty() {
                    break;
                }
                self.spend_credit(consumer.id, leased.len() as u32);
                self.record_activity(consumer.agent);
                self.dispatched.extend(leased.into_iter().map(|delivery| (consumer.id, delivery)));
            }
        }
    }

    /// Applies all due timers: returns deliveries with expired leases, ends expired messages, and so on. Bounded per
    /// call.
    pub(super) fn sweep(&mut self) -> Result<OpResult, Refused> {
        let now = self.now;
        let deadline = |phase: &DeliveryPhase| match phase {
            DeliveryPhase::Leased { deadline, .. } => Some(*deadline),
            DeliveryPhase::Ready { .. } | DeliveryPhase::Scheduled { .. } | DeliveryPhase::Ended { .. } => {
                None
            }
        };
        let mut expired_leases = self
            .space
            .deliveries_where(|delivery| deadline(&delivery.phase).is_some_and(|at| at <= now.mono));
        expired_leases.sort_by_key(|number| {
            (self.space.delivery(*number).map(|delivery| deadline(&delivery.phase)), *number)
        });
        for number in expired_leases.into_iter().take(limits::SWEEP_MAX) {
            self.return_delivery(number, "its last lease expired");
        }
        let mut expired = self.space.deliveries_where(|delivery| {
            delivery.is_open() && !delivery.is_leased() && delivery.is_expired(now.wall)
        });
        expired.sort_by_key(|number| {
            (self.space.delivery(*number).map(|delivery| delivery.expires_at), *number)
        });
        for number in expired.into_iter().take(limits::SWEEP_MAX) {
            self.end_delivery(number, EndState::Expired, String::new());
        }
        self.expire_holds();
        self.sweep_tasks();
        self.time_out_requests();
        self.sweep_tokens();
        self.expire_approvals();
        self.check_presence();
        self.check_deadlocks();
        Ok(OpResult::Done)
    }

    /// Returns a dead letter to its inbox with its attempt count reset.
    pub(super) fn redrive(&mut self, id: DeliveryId) -> Result<OpResult, Refused> {
        let number = self.space.resolve_delivery(id).ok_or_else(|| unknown_delivery(id))?;
        let delivery = self.space.delivery(number).ok_or_else(|| unknown_delivery(id))?;
        if !matches!(delivery.phase, DeliveryPhase::Ended { state: EndState::Dead, .. }) {
            return Err(unknown_delivery(id));
        }
        let queue = delivery.to.queue();
        if let QueueId::Agent(agent) = queue
            && self.space.agent(agent).removed
        {
            return Err(Refused::new(Code::UnknownRecipient, format!("the recipient of {id} was removed")));
        }
        self.check_redrive(number)?;
        if self.space.open_count(queue) >= limits::INBOX_MAX {
            return Err(Refused::new(Code::QueueFull, "the inbox is full").limit(limits::INBOX_MAX as u64));
        }
        let delivery = self.space.delivery_mut(number);
        delivery.phase = DeliveryPhase::Ready { since: self.now.wall, by_time: false };
        delivery.to = delivery.to.without_holder();
        delivery.attempt = 0;
        // A redriven delivery is queued even if its recipient is unavailable.
        delivery.if_unavailable = IfUnavailable::Queue;
        self.changed = true;
        self.space.queue_dispatch(queue);
        Ok(OpResult::Done)
    }

    /// Ends open deliveries of an inbox, or of the pools of a capability: ready ones by priority, then scheduled, held
    /// by a session, and leased ones. `inbox` is an agent id or `can:CAPABILITY`.
    pub(super) fn purge(&mut self, inbox: &AgentId) -> Result<OpResult, Refused> {
        let queues = match inbox.as_str().strip_prefix("can:") {
            Some(capability) if !capability.is_empty() => {
                let mut pools = self.space.pools();
                pools.retain(|pool| pool.capability.as_str() == capability);
                pools.sort_by_key(|pool| pool.access);
                pools.iter().map(|pool| QueueId::Pool(pool.number)).collect()
            }
            _ => vec![QueueId::Agent(self.require_own_agent(inbox)?)],
        };
        let mut all = Vec::new();
        for queue in queues {
            let space = &self.space;
            let mut open =
                space.deliveries_where(|delivery| delivery.is_open() && delivery.to.queue() == queue);
            open.sort_by_key(|number| {
                let delivery = &space.deliveries[number.0 as usize - 1];
                let order = match delivery.phase {
                    DeliveryPhase::Ready { .. } if space.is_paused(delivery) => (2, 0, Timestamp(0)),
                    DeliveryPhase::Ready { .. } => {
                        (0, u16::MAX - level_and_rank(delivery.priority), Timestamp(0))
                    }
                    DeliveryPhase::Scheduled { due } => (1, 0, due),
                    DeliveryPhase::Leased { .. } | DeliveryPhase::Ended { .. } => (3, 0, Timestamp(0)),
                };
                (order, *number)
            });
            all.extend(open);
        }
        all.truncate(limits::PURGE_MAX);
        let count = all.len() as u32;
        for number in all {
            self.end_delivery(number, EndState::Purged, String::new());
        }
        Ok(OpResult::Purged { count })
    }
}

fn level_and_rank(priority: quorate_core::Priority) -> u16 {
    u16::from(priority.level) << 8 | u16::from(priority.rank)
}
