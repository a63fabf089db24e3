//! Dispatch of deliveries: claims, credit, sweeps, redrive and purge.

use crate::commit::{OpResult, Waiting};
use crate::decide::{Draft, Handed, No};
use crate::destination::Destination;
use crate::effect::{Effect, EndState, Holding, ReturnCause};
use crate::ids::{AgentId, AgentNo, ConsumerId, DeliveryId, DeliveryNo, Token};
use crate::limits::{CONSUMERS_PER_AGENT_MAX, IN_FLIGHT_MAX, INBOX_MAX, PURGE_MAX, SWEEP_MAX};
use crate::pool::Takers;
use crate::recipient::Home;
use crate::refused::{Code, Refused};
use crate::rows::Dead;
use crate::working::{Consumer, Open, Working};

impl Draft<'_> {
    pub(super) fn claim(
        &mut self,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        waiting: Waiting,
    ) -> Result<OpResult, No> {
        self.require_own(agent, "claim from the inbox of")?;
        let number = self.known(agent)?;
        let taken = self.lease_next(number, max, lease_ms)?;
        let credit = max - taken.len() as u32;
        match waiting {
            Waiting::Once(id) if taken.is_empty() => self.add_consumer(id, number, credit, lease_ms, true)?,
            Waiting::Standing(id) => self.add_consumer(id, number, credit, lease_ms, false)?,
            Waiting::Once(_) | Waiting::No => {}
        }
        Ok(OpResult::Claimed(taken))
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
                .passes()
                .hint("use fewer consumers, each with more credit"));
        }
        let turn = self.working.next_turn();
        self.working.set_consumer(id, Some(Consumer { id, agent, credit, lease_ms, once, turn }));
        Ok(())
    }

    /// Grants credit to a consumer. A closed consumer is not an error: its agent may have registered again.
    pub(super) fn grant(&mut self, id: ConsumerId, credit: u32) -> OpResult {
        if self.grant_tasks(id, credit) {
            return OpResult::Done;
        }
        if let Some(consumer) = self.working.consumer(id).copied() {
            let credit = consumer.credit.saturating_add(credit);
            let turn = if consumer.credit == 0 { self.working.next_turn() } else { consumer.turn };
            self.working.set_consumer(id, Some(Consumer { credit, turn, ..consumer }));
            self.working.stir_all(consumer.agent);
        }
        OpResult::Done
    }

    /// Leases up to `max` deliveries to an agent, from its inbox and the pools that it serves, in one order.
    fn lease_next(&mut self, agent: AgentNo, max: u32, lease_ms: u64) -> Result<Vec<Handed>, No> {
        let capacity = IN_FLIGHT_MAX.saturating_sub(self.working.inbox(agent).leased.len());
        let max = (max as usize).min(capacity);
        let mut leased = Vec::new();
        while leased.len() < max
            && let Some(delivery) = self.choose(agent)?
        {
            let token = self.working.next_token();
            self.emit_leased(agent, delivery, token, lease_ms);
            let open = self.working.open(delivery).copied().expect("it was just leased");
            leased.push(Handed {
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
    fn emit_leased(&mut self, agent: AgentNo, delivery: DeliveryNo, token: Token, lease_ms: u64) {
        let Some(origin) = self.working.open(delivery).map(Open::origin) else { return };
        let deliveries = vec![Holding { delivery, token, origin }];
        let one = match origin.to.pool_no() {
            Some(_) => Effect::Taken { agent, lease_ms, deliveries },
            None => Effect::Leased { lease_ms, deliveries },
        };
        self.working.apply(&one, self.seq, &mut self.messages, self.now);
        match (self.effects.last_mut(), one) {
            (
                Some(Effect::Leased { lease_ms: same, deliveries }),
                Effect::Leased { lease_ms, deliveries: more },
            ) if *same == lease_ms => deliveries.extend(more),
            (
                Some(Effect::Taken { agent: taker, lease_ms: same, deliveries }),
                Effect::Taken { agent, lease_ms, deliveries: more },
            ) if *same == lease_ms && *taker == agent => deliveries.extend(more),
            (_, one) => self.effects.push(one),
        }
    }

    /// Returns the next delivery for an agent. Ends deliveries that have expired, or that the policy no longer allows.
    fn choose(&mut self, agent: AgentNo) -> Result<Option<DeliveryNo>, No> {
        loop {
            let inbox = self.working.inbox(agent);
            let choice = match inbox.pools() {
                [] => inbox.choose(self.now.wall),
                pools => {
                    let pools = pools.iter().map(|pool| self.working.inbox_at(Home::Pool(*pool)));
                    inbox.choose_with(pools, self.now.wall)
                }
            };
            let Some(choice) = choice else { return Ok(None) };
            let Some(open) = self.working.open(choice.number).copied() else { return Ok(None) };
            let (delivery, origin) = (choice.number, open.origin());
            if open.expires <= self.now.wall {
                self.end(delivery, EndState::Expired, Effect::Expired { delivery, origin });
            } else if self.is_barred(&open, agent)? {
                self.end(delivery, EndState::Dead, Effect::Barred { delivery, origin });
            } else {
                self.working.set_fairness(agent, choice.fairness);
                return Ok(Some(delivery));
            }
        }
    }

    /// Dispatches deliveries that became ready during this commit to waiting consumers.
    pub(super) fn hand_out_stirred(&mut self) -> Result<(), No> {
        for home in self.working.take_stirred() {
            while self.working.inbox_at(home).has_ready()
                && let Some(consumer) = self.next_in_line(home)
            {
                // Deliveries of a pool are spread over its consumers, one at a time.
                let alone = self.working.inbox(consumer.agent).pools().is_empty();
                let limit = if alone { consumer.credit } else { 1 };
                let taken = self.lease_next(consumer.agent, limit, consumer.lease_ms)?;
                if taken.is_empty() {
                    break;
                }
                self.working.spend_credit(consumer.id, taken.len() as u32);
                self.working.hear_of(consumer.agent, self.now);
                self.handed.extend(taken.into_iter().map(|handed| (consumer.id, handed)));
            }
        }
        Ok(())
    }

    /// Returns the consumer that gets the next delivery of an inbox or pool.
    pub(super) fn next_in_line(&self, home: Home) -> Option<Consumer> {
        match home {
            Home::Agent(agent) => {
                let id = self.working.inbox(agent).first_in_line()?;
                self.working.consumer(id).copied()
            }
            Home::Pool(pool) => self.working.first_free(pool, IN_FLIGHT_MAX),
        }
    }

    /// Closes a consumer and all its waits. The wait counts as activity of its agent until now.
    pub(super) fn close(&mut self, id: ConsumerId) -> OpResult {
        let of_inbox = self.working.consumer(id).map(|consumer| consumer.agent);
        let of_tasks = || self.working.tasks().line().get(id).map(|claimer| claimer.agent);
        if let Some(agent) = of_inbox.or_else(of_tasks) {
            self.working.hear_of(agent, self.now);
        }
        self.working.set_consumer(id, None);
        self.working.set_claimer(id, None);
        self.wait_no_longer(id);
        self.working.set_awaiting(id, None, self.now);
        for request in self.working.items().requests.of_listener(id) {
            self.hang_up(request, id);
        }
        OpResult::Done
    }

    /// Processes timeouts. Bounded: the next sweep runs immediately if there is more to do.
    pub(super) fn sweep(&mut self) -> Result<OpResult, No> {
        for delivery in self.working.lapsed(self.now.mono, SWEEP_MAX) {
            self.give_back(delivery, ReturnCause::Lapsed, String::new(), None);
        }
        for delivery in self.working.expired(self.now.wall, SWEEP_MAX) {
            self.expire(delivery);
        }
        self.sweep_items()?;
        self.sweep_presence()?;
        self.sweep_waits();
        Ok(OpResult::Done)
    }

    pub(super) fn redrive(&mut self, delivery: DeliveryId) -> Result<OpResult, No> {
        let number = self.working.eras().resolve(delivery)?;
        let not_dead = || {
            Refused::new(Code::NotFound, format!("{delivery} is not a dead letter"))
                .hint("it may have been redriven already; list the dead letters")
        };
        let dead = self.dead_letter(number)?.ok_or_else(not_dead)?;
        let home = dead.to.home();
        if let Home::Agent(agent) = home
            && self.working.agents().get(agent).is_none_or(|agent| agent.removed)
        {
            let refused =
                Refused::new(Code::UnknownRecipient, format!("the recipient of {delivery} was removed"));
            return Err(refused.into());
        }
        self.check_redrive(&dead)?;
        if self.working.inbox_at(home).open >= INBOX_MAX {
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
            session: dead.session,
        });
        self.working.stir(home);
        Ok(OpResult::Done)
    }

    /// Returns a dead letter, including the effects of this commit.
    fn dead_letter(&self, number: DeliveryNo) -> Result<Option<Dead>, No> {
        if self.working.open(number).is_some() {
            return Ok(None);
        }
        match self.ended_here(number) {
            Some(ended) => Ok((ended.state == EndState::Dead).then(|| Dead::of(&ended.open))),
            None => Ok(self.rows.dead(number)?),
        }
    }

    /// Purges the open deliveries of an inbox, or of the pools of a capability.
    pub(super) fn purge(&mut self, agent: &AgentId) -> Result<OpResult, Refused> {
        let numbers = match agent.as_str().parse() {
            Ok(Destination::Can(capability)) => {
                let pools = [Takers::Anybody, Takers::Coordinators];
                let pools = pools.map(|takers| self.working.pools().find(&capability, takers));
                let homes = pools.into_iter().flatten().map(Home::Pool);
                homes.flat_map(|home| self.working.open_of(home)).take(PURGE_MAX).collect::<Vec<_>>()
            }
            _ => {
                self.require_own(agent, "purge the inbox of")?;
                self.working.open_of(Home::Agent(self.known(agent)?)).take(PURGE_MAX).collect()
            }
        };
        let count = numbers.len() as u32;
        for delivery in numbers {
            self.purge_one(delivery);
        }
        Ok(OpResult::Purged { count })
    }

    /// Expires a waiting delivery.
    pub(super) fn expire(&mut self, delivery: DeliveryNo) {
        if let Some(origin) = self.working.open(delivery).map(Open::origin) {
            self.end(delivery, EndState::Expired, Effect::Expired { delivery, origin });
        }
    }

    /// Purges an open delivery.
    pub(super) fn purge_one(&mut self, delivery: DeliveryNo) {
        if let Some(origin) = self.working.open(delivery).map(Open::origin) {
            self.end(delivery, EndState::Purged, Effect::Purged { delivery, origin });
        }
    }
}

impl Working {
    /// Returns the open deliveries of an inbox or pool: ready, scheduled, held by a paused session, leased. Scans all
    /// scheduled, held and leased deliveries: not for hot paths.
    fn open_of(&self, home: Home) -> impl Iterator<Item = DeliveryNo> {
        let belongs_here =
            move |number: &DeliveryNo| self.open(*number).map(|open| open.to.home()) == Some(home);
        let leased: Vec<_> = match home {
            Home::Agent(agent) => self.inbox(agent).leased.iter().copied().filter(belongs_here).collect(),
            Home::Pool(_) => self.all_leased().into_iter().filter(belongs_here).collect(),
        };
        let later = self.scheduled().chain(self.held()).filter(belongs_here);
        self.inbox_at(home).ready_numbers().chain(later).chain(leased)
    }
}
