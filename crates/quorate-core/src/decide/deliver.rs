//! Handing deliveries out: claims, credit, and what time alone brings about.

use crate::commit::{OpResult, Principal, Waiting};
use crate::decide::{Draft, Handed, No};
use crate::effect::{Effect, EndState, ReturnCause};
use crate::ids::{AgentId, AgentNo, ConsumerId, DeliveryId, DeliveryNo};
use crate::limits::{CONSUMERS_PER_AGENT_MAX, IN_FLIGHT_MAX, INBOX_MAX, PURGE_MAX, SWEEP_MAX};
use crate::refused::{Code, Refused};
use crate::rows::Dead;
use crate::working::{Consumer, Open};

impl Draft<'_> {
    pub(super) fn claim(
        &mut self,
        agent: &AgentId,
        max: u32,
        lease_ms: u64,
        waiting: Waiting,
    ) -> Result<OpResult, Refused> {
        self.require_own(agent, "claim from the inbox of")?;
        let number = self.known(agent)?;
        let taken = self.take(number, max, lease_ms);
        let credit = max - taken.len() as u32;
        match waiting {
            Waiting::Once(id) if taken.is_empty() => self.wait(id, number, credit, lease_ms, true)?,
            Waiting::Standing(id) => self.wait(id, number, credit, lease_ms, false)?,
            Waiting::Once(_) | Waiting::No => {}
        }
        Ok(OpResult::Claimed(taken))
    }

    fn wait(
        &mut self,
        id: ConsumerId,
        agent: AgentNo,
        credit: u32,
        lease_ms: u64,
        once: bool,
    ) -> Result<(), Refused> {
        if self.working.inbox(agent).consumers() >= CONSUMERS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many claims wait for this inbox")
                .limit(CONSUMERS_PER_AGENT_MAX as u64)
                .hint("let fewer consumers wait, each for more deliveries"));
        }
        let turn = self.working.next_turn();
        self.working.set_consumer(id, Some(Consumer { agent, credit, lease_ms, once, turn }));
        Ok(())
    }

    /// More credit for a consumer. One that is gone is not an error: the agent was started again meanwhile.
    pub(super) fn grant(&mut self, id: ConsumerId, credit: u32) -> OpResult {
        if self.grant_tasks(id, credit) {
            return OpResult::Done;
        }
        if let Some(consumer) = self.working.consumer(id).copied() {
            let credit = consumer.credit.saturating_add(credit);
            let turn = if consumer.credit == 0 { self.working.next_turn() } else { consumer.turn };
            self.working.set_consumer(id, Some(Consumer { credit, turn, ..consumer }));
            self.working.stir(consumer.agent);
        }
        OpResult::Done
    }

    /// Takes up to `max` deliveries in the order of the inbox and leases them, in one effect.
    fn take(&mut self, agent: AgentNo, max: u32, lease_ms: u64) -> Vec<Handed> {
        let room = IN_FLIGHT_MAX.saturating_sub(self.working.inbox(agent).leased.len());
        let max = (max as usize).min(room);
        let mut handed = Vec::new();
        while handed.len() < max
            && let Some(delivery) = self.choose(agent)
        {
            let token = self.working.next_token();
            self.emit_leased(delivery, token, lease_ms);
            let open = self.working.open(delivery).copied().expect("it was just leased");
            handed.push(Handed {
                delivery,
                token,
                attempt: open.attempt,
                lease_ms,
                seq: open.seq,
                n: open.n(),
                message: None,
            });
        }
        handed
    }

    /// Adds the lease to the previous effect where it is of the same take, so that a batch is one effect.
    fn emit_leased(&mut self, delivery: DeliveryNo, token: crate::ids::Token, lease_ms: u64) {
        let one = Effect::Leased { lease_ms, deliveries: vec![(delivery, token)] };
        match self.effects.last_mut() {
            Some(Effect::Leased { lease_ms: same, deliveries }) if *same == lease_ms => {
                deliveries.push((delivery, token));
                self.working.apply(&one, self.seq, &mut self.messages, self.now);
            }
            _ => self.emit(one),
        }
    }

    /// The delivery that goes out next; ends those that expired while they waited.
    fn choose(&mut self, agent: AgentNo) -> Option<DeliveryNo> {
        loop {
            let choice = self.working.inbox(agent).choose(self.now.wall)?;
            let open = self.working.open(choice.number)?;
            if open.expires <= self.now.wall {
                self.end(choice.number, EndState::Expired, Effect::Expired { delivery: choice.number });
                continue;
            }
            self.working.set_fairness(agent, choice.fairness);
            return Some(choice.number);
        }
    }

    /// Hands out what became ready during this commit to those who wait for it.
    pub(super) fn hand_out_stirred(&mut self) {
        for agent in self.working.take_stirred() {
            while self.working.inbox(agent).has_ready()
                && let Some(id) = self.working.inbox(agent).first_in_line()
                && let Some(consumer) = self.working.consumer(id).copied()
            {
                let taken = self.take(agent, consumer.credit, consumer.lease_ms);
                if taken.is_empty() {
                    break;
                }
                self.working.spend_credit(id, taken.len() as u32);
                self.working.hear_of(agent, self.now);
                self.handed.extend(taken.into_iter().map(|handed| (id, handed)));
            }
        }
    }

    /// The consumer waits no longer. Whoever listened until now was there until now.
    pub(super) fn close(&mut self, id: ConsumerId) -> OpResult {
        let of_inbox = self.working.consumer(id).map(|consumer| consumer.agent);
        let of_tasks = || self.working.tasks().line().get(id).map(|claimer| claimer.agent);
        if let Some(agent) = of_inbox.or_else(of_tasks) {
            self.working.hear_of(agent, self.now);
        }
        self.working.set_consumer(id, None);
        self.working.set_claimer(id, None);
        self.wait_no_longer(id);
        for request in self.working.items().requests.of_waiter(id) {
            self.working.set_listener(&request, None, self.now);
        }
        OpResult::Done
    }

    /// What time alone brings about. Bounded: what is left over is found by the next sweep, at once.
    pub(super) fn sweep(&mut self) -> Result<OpResult, No> {
        self.require_system("sweep")?;
        for delivery in self.working.lapsed(self.now.mono, SWEEP_MAX) {
            self.give_back(delivery, ReturnCause::Lapsed, String::new(), None);
        }
        for delivery in self.working.expired(self.now.wall, SWEEP_MAX) {
            self.end(delivery, EndState::Expired, Effect::Expired { delivery });
        }
        self.sweep_items()?;
        self.sweep_presence()?;
        self.sweep_waits();
        Ok(OpResult::Done)
    }

    pub(super) fn redrive(&mut self, delivery: DeliveryId) -> Result<OpResult, No> {
        self.require_system("redrive dead letters")?;
        let number = self.working.eras().resolve(delivery)?;
        let not_dead = || {
            Refused::new(Code::NotFound, format!("{delivery} is not a dead letter"))
                .hint("it may have been redriven already; list the dead letters")
        };
        let dead = self.dead_letter(number)?.ok_or_else(not_dead)?;
        let agent = self.working.agents().get(dead.agent);
        if agent.is_none_or(|agent| agent.removed) {
            let refused =
                Refused::new(Code::UnknownRecipient, format!("the recipient of {delivery} was removed"));
            return Err(refused.into());
        }
        if self.working.inbox(dead.agent).open >= INBOX_MAX {
            return Err(Refused::new(Code::QueueFull, "the inbox of the recipient is full")
                .limit(INBOX_MAX as u64)
                .into());
        }
        self.emit(Effect::Redriven {
            delivery: number,
            agent: dead.agent,
            seq: dead.seq,
            n: dead.n,
            priority: dead.priority,
            attempts_max: dead.attempts_max,
            expires_at: dead.expires_at,
            session: dead.session,
        });
        self.working.stir(dead.agent);
        Ok(OpResult::Done)
    }

    /// A dead letter as this commit left it.
    fn dead_letter(&self, number: DeliveryNo) -> Result<Option<Dead>, No> {
        if self.working.open(number).is_some() {
            return Ok(None);
        }
        match self.ended_here(number) {
            Some(ended) => Ok((ended.state == EndState::Dead).then(|| Dead::of(&ended.open))),
            None => Ok(self.rows.dead(number)?),
        }
    }

    pub(super) fn purge(&mut self, agent: &AgentId) -> Result<OpResult, Refused> {
        if let Principal::Agent(_) = &self.commit.principal {
            self.require_own(agent, "purge the inbox of")?;
        }
        let number = self.known(agent)?;
        let numbers = self.working.open_of(number, PURGE_MAX);
        let count = numbers.len() as u32;
        for delivery in numbers {
            self.end(delivery, EndState::Purged, Effect::Purged { delivery });
        }
        Ok(OpResult::Purged { count })
    }
}

impl crate::working::Working {
    /// The open deliveries of one recipient, waiting ones first. Looks at all scheduled ones: not for hot paths.
    fn open_of(&self, agent: AgentNo, max: usize) -> Vec<DeliveryNo> {
        let inbox = self.inbox(agent);
        let is_theirs = |number: &DeliveryNo| self.open(*number).map(Open::agent) == Some(agent);
        let scheduled = self.scheduled().chain(self.held()).filter(is_theirs);
        inbox.ready_numbers().chain(scheduled).chain(inbox.leased.iter().copied()).take(max).collect()
    }
}
