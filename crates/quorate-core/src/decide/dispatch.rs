//! Dispatch of deliveries: claims, credit, sweeps, redrive and purge.

use crate::commit::{OpResult, WaitMode};
use crate::decide::{DecideError, Draft, LeasedDelivery};
use crate::destination::Destination;
use crate::effect::{Effect, EndState, LoggedLease, ReturnCause};
use crate::ids::{AgentId, AgentNo, ConsumerId, DeliveryId, DeliveryNo, LeaseToken};
use crate::limits::{CONSUMERS_PER_AGENT_MAX, IN_FLIGHT_MAX, INBOX_MAX, PURGE_MAX, SWEEP_MAX};
use crate::lookup::DeadDelivery;
use crate::pool::PoolAccess;
use crate::recipient::QueueId;
use crate::refused::{Code, Refused};
use crate::working::{Consumer, OpenDelivery, WorkingState};

impl Draft<'_> {
    pub(super) fn claim(
        &mut self,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        wait: WaitMode,
    ) -> Result<OpResult, DecideError> {
        self.require_self(agent, "claim from the inbox of")?;
        let number = self.require_agent(agent)?;
        let leased = self.lease_next(number, max, lease_ms)?;
        let credit = max - leased.len() as u32;
        match wait {
            WaitMode::Once(id) if leased.is_empty() => {
                self.add_consumer(id, number, credit, lease_ms, true)?
            }
            WaitMode::Standing(id) => self.add_consumer(id, number, credit, lease_ms, false)?,
            WaitMode::Once(_) | WaitMode::NoWait => {}
        }
        Ok(OpResult::Claimed(leased))
    }

    fn add_consumer(
        &mut self,
        id: ConsumerId,
        agent: AgentNo,
        credit: u32,
        lease_ms: u64,
        once: bool,
    ) -> Result<(), Refused> {
        if self.working.inbox(agent).consumers() >= CONSUMERS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many consumers wait for this inbox")
                .limit(CONSUMERS_PER_AGENT_MAX as u64)
                .retryable()
                .hint("use fewer consumers, each with more credit"));
        }
        let ticket = self.working.next_ticket();
        self.working.set_consumer(id, Some(Consumer { id, agent, credit, lease_ms, once, ticket }));
        Ok(())
    }

    /// Grants credit to a consumer. A closed consumer is not an error: its agent may have registered again.
    pub(super) fn grant_credit(&mut self, id: ConsumerId, credit: u32) -> OpResult {
        if self.grant_task_credit(id, credit) {
            return OpResult::Done;
        }
        if let Some(consumer) = self.working.consumer(id).copied() {
            let credit = consumer.credit.saturating_add(credit);
            let ticket = if consumer.credit == 0 { self.working.next_ticket() } else { consumer.ticket };
            self.working.set_consumer(id, Some(Consumer { credit, ticket, ..consumer }));
            self.working.schedule_dispatch_to(consumer.agent);
        }
        OpResult::Done
    }

    /// Leases up to `max` deliveries to an agent, from its inbox and the pools that it serves, in one order.
    fn lease_next(
        &mut self,
        agent: AgentNo,
        max: u32,
        lease_ms: u64,
    ) -> Result<Vec<LeasedDelivery>, DecideError> {
        let capacity = IN_FLIGHT_MAX.saturating_sub(self.working.inbox(agent).leased.len());
        let max = (max as usize).min(capacity);
        let mut leased = Vec::new();
        while leased.len() < max
            && let Some(delivery) = self.choose(agent)?
        {
            let token = self.working.next_token();
            self.emit_leased(agent, delivery, token, lease_ms);
            let open = self.working.open(delivery).copied().expect("it was just leased");
            leased.push(LeasedDelivery {
                delivery,
                token,
                attempt: open.attempt,
                lease_ms,
                seq: open.seq,
                n: open.n(),
                message: None,
            });
        }
        Ok(leased)
    }

    /// Appends the lease to the previous effect if both belong to the same batch, so that a batch is one effect.
    fn emit_leased(&mut self, agent: AgentNo, delivery: DeliveryNo, token: LeaseToken, lease_ms: u64) {
        let Some(origin) = self.working.open(delivery).map(OpenDelivery::origin) else { return };
        let deliveries = vec![LoggedLease { delivery, token, origin }];
        let effect = match origin.to.pool_no() {
            Some(_) => Effect::LeasedFromPool { agent, lease_ms, deliveries },
            None => Effect::Leased { lease_ms, deliveries },
        };
        self.working.apply(&effect, self.seq, &mut self.messages, self.now);
        match (self.effects.last_mut(), effect) {
            (
                Some(Effect::Leased { lease_ms: previous_lease_ms, deliveries }),
                Effect::Leased { lease_ms, deliveries: more },
            ) if *previous_lease_ms == lease_ms => deliveries.extend(more),
            (
                Some(Effect::LeasedFromPool {
                    agent: previous_agent,
                    lease_ms: previous_lease_ms,
                    deliveries,
                }),
                Effect::LeasedFromPool { agent, lease_ms, deliveries: more },
            ) if *previous_lease_ms == lease_ms && *previous_agent == agent => deliveries.extend(more),
            (_, effect) => self.effects.push(effect),
        }
    }

    /// Returns the next delivery for an agent. Ends deliveries that have expired, or that the policy no longer allows.
    fn choose(&mut self, agent: AgentNo) -> Result<Option<DeliveryNo>, DecideError> {
        loop {
            let inbox = self.working.inbox(agent);
            let choice = match inbox.pools() {
                [] => inbox.choose(self.now.wall),
                pools => {
                    let pools = pools.iter().map(|pool| self.working.inbox_at(QueueId::Pool(*pool)));
                    inbox.choose_with_pools(pools, self.now.wall)
                }
            };
            let Some(choice) = choice else { return Ok(None) };
            let Some(open) = self.working.open(choice.number).copied() else { return Ok(None) };
            let (delivery, origin) = (choice.number, open.origin());
            if open.expires <= self.now.wall {
                self.end_delivery(delivery, EndState::Expired, Effect::Expired { delivery, origin });
            } else if self.is_denied_by_policy(&open, agent)? {
                self.end_delivery(delivery, EndState::Dead, Effect::DeniedByPolicy { delivery, origin });
            } else {
                self.working.set_fairness(agent, choice.fairness);
                return Ok(Some(delivery));
            }
        }
    }

    /// Dispatches deliveries that became ready during this commit to waiting consumers.
    pub(super) fn dispatch_deliveries(&mut self) -> Result<(), DecideError> {
        for queue in self.working.take_scheduled_dispatch() {
            while self.working.inbox_at(queue).has_ready()
                && let Some(consumer) = self.next_consumer(queue)
            {
                // Deliveries of a pool are spread over its consumers, one at a time.
                let only_inbox = self.working.inbox(consumer.agent).pools().is_empty();
                let limit = if only_inbox { consumer.credit } else { 1 };
                let leased = self.lease_next(consumer.agent, limit, consumer.lease_ms)?;
                if leased.is_empty() {
                    break;
                }
                self.working.spend_credit(consumer.id, leased.len() as u32);
                self.working.record_activity(consumer.agent, self.now);
                self.dispatched.extend(leased.into_iter().map(|delivery| (consumer.id, delivery)));
            }
        }
        Ok(())
    }

    /// Returns the consumer that gets the next delivery of an inbox or pool.
    pub(super) fn next_consumer(&self, queue: QueueId) -> Option<Consumer> {
        match queue {
            QueueId::Agent(agent) => {
                let id = self.working.inbox(agent).first_waiting_consumer()?;
                self.working.consumer(id).copied()
            }
            QueueId::Pool(pool) => self.working.first_consumer_with_capacity(pool, IN_FLIGHT_MAX),
        }
    }

    /// Closes a consumer and all its waits. The wait counts as activity of its agent until now.
    pub(super) fn close_consumer(&mut self, id: ConsumerId) -> OpResult {
        let consumer = self.working.consumer(id).copied();
        let inbox_agent = consumer.map(|consumer| consumer.agent);
        let task_agent = || self.working.tasks().claimers().get(id).map(|claimer| claimer.agent);
        if let Some(agent) = inbox_agent.or_else(task_agent) {
            self.working.record_activity(agent, self.now);
        }
        self.working.set_consumer(id, None);
        // A claim ends after each call; a stream ends with its connection.
        if let Some(Consumer { agent, once: false, .. }) = consumer
            && self.working.inbox(agent).consumers() == 0
        {
            self.working.set_disconnected(agent, Some(self.now.mono));
        }
        self.working.set_task_claimer(id, None);
        self.cancel_lock_wait(id);
        self.working.set_task_waiter(id, None, self.now);
        for request in self.working.items().requests.of_listener(id) {
            self.remove_listener(request, id);
        }
        OpResult::Done
    }

    /// Processes timeouts. Bounded: the next sweep runs immediately if there is more to do.
    pub(super) fn sweep(&mut self) -> Result<OpResult, DecideError> {
        for delivery in self.working.expired_leases(self.now.mono, SWEEP_MAX) {
            self.return_delivery(delivery, ReturnCause::LeaseExpired, String::new(), None);
        }
        for delivery in self.working.expired_messages(self.now.wall, SWEEP_MAX) {
            self.expire_delivery(delivery);
        }
        self.sweep_items()?;
        self.sweep_presence()?;
        self.break_deadlocks();
        Ok(OpResult::Done)
    }

    pub(super) fn redrive(&mut self, delivery: DeliveryId) -> Result<OpResult, DecideError> {
        let number = self.working.generations().resolve(delivery)?;
        let not_dead = || {
            Refused::new(Code::NotFound, format!("{delivery} is not a dead letter"))
                .hint("it may have been redriven already; list the dead letters")
        };
        let dead = self.dead_letter(number)?.ok_or_else(not_dead)?;
        let queue = dead.to.queue();
        if let QueueId::Agent(agent) = queue
            && self.working.agents().get(agent).is_none_or(|agent| agent.removed)
        {
            let refused =
                Refused::new(Code::UnknownRecipient, format!("the recipient of {delivery} was removed"));
            return Err(refused.into());
        }
        self.check_redrive(&dead)?;
        if self.working.inbox_at(queue).open >= INBOX_MAX {
            return Err(Refused::new(Code::QueueFull, "the inbox of the recipient is full")
                .limit(INBOX_MAX as u64)
                .into());
        }
        self.emit(Effect::Redriven {
            delivery: number,
            to: dead.to,
            seq: dead.seq,
            n: dead.n,
            priority: dead.priority,
            attempts_max: dead.attempts_max,
            expires_at: dead.expires_at,
            scope: dead.scope,
        });
        self.working.schedule_dispatch(queue);
        Ok(OpResult::Done)
    }

    /// Returns a dead letter, including the effects of this commit.
    fn dead_letter(&self, number: DeliveryNo) -> Result<Option<DeadDelivery>, DecideError> {
        if self.working.open(number).is_some() {
            return Ok(None);
        }
        match self.ended_in_commit(number) {
            Some(ended) => Ok((ended.state == EndState::Dead).then(|| DeadDelivery::from_open(&ended.open))),
            None => Ok(self.lookup.dead_delivery(number)?),
        }
    }

    /// Purges the open deliveries of an inbox, or of the pools of a capability. `inbox` is an agent id or
    /// `can:CAPABILITY`.
    pub(super) fn purge(&mut self, inbox: &AgentId) -> Result<OpResult, Refused> {
        let numbers = match inbox.as_str().parse() {
            Ok(Destination::Can(capability)) => {
                let pools = [PoolAccess::AnyCapable, PoolAccess::Coordinators];
                let pools = pools.map(|access| self.working.pools().find(&capability, access));
                let queues = pools.into_iter().flatten().map(QueueId::Pool);
                queues.flat_map(|queue| self.working.open_of(queue)).take(PURGE_MAX).collect::<Vec<_>>()
            }
            _ => {
                self.require_self(inbox, "purge the inbox of")?;
                self.working.open_of(QueueId::Agent(self.require_agent(inbox)?)).take(PURGE_MAX).collect()
            }
        };
        let count = numbers.len() as u32;
        for delivery in numbers {
            self.purge_delivery(delivery);
        }
        Ok(OpResult::Purged { count })
    }

    /// Expires an open delivery.
    pub(super) fn expire_delivery(&mut self, delivery: DeliveryNo) {
        if let Some(origin) = self.working.open(delivery).map(OpenDelivery::origin) {
            self.end_delivery(delivery, EndState::Expired, Effect::Expired { delivery, origin });
        }
    }

    /// Purges an open delivery.
    pub(super) fn purge_delivery(&mut self, delivery: DeliveryNo) {
        if let Some(origin) = self.working.open(delivery).map(OpenDelivery::origin) {
            self.end_delivery(delivery, EndState::Purged, Effect::Purged { delivery, origin });
        }
    }
}

impl WorkingState {
    /// Returns the open deliveries of an inbox or pool: ready, scheduled, held, leased. Scans all
    /// scheduled, held and leased deliveries: not for hot paths.
    fn open_of(&self, queue: QueueId) -> impl Iterator<Item = DeliveryNo> {
        let is_in_queue =
            move |number: &DeliveryNo| self.open(*number).map(|open| open.to.queue()) == Some(queue);
        let leased: Vec<_> = match queue {
            QueueId::Agent(agent) => self.inbox(agent).leased.iter().copied().filter(is_in_queue).collect(),
            QueueId::Pool(_) => self.all_leased().into_iter().filter(is_in_queue).collect(),
        };
        let later = self.scheduled_deliveries().chain(self.held_deliveries()).filter(is_in_queue);
        self.inbox_at(queue).ready_numbers().chain(later).chain(leased)
    }
}
