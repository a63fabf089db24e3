//! Operations of a lease holder, and the return of deliveries.

use quorate_core::{
    AgentId, Code, DeliveryId, DeliveryNo, EndState, Extend, LeaseRef, LeasedDelivery, Nack, NackAction,
    OpResult, Principal, Recipient, Refused, StaleReference,
};

use crate::reference::space::DeliveryPhase;
use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn ack(&mut self, lease: LeaseRef) -> Result<OpResult, Refused> {
        let number = self.resolve_lease(lease)?;
        if let Some(DeliveryPhase::Ended { state: EndState::Acked, token, seq, .. }) =
            self.space.delivery(number).map(|delivery| &delivery.phase)
            && *token == lease.token
        {
            let seq = *seq;
            self.accept_repeated_end(lease.delivery.to_string(), lease.token, seq, true)?;
            return Ok(OpResult::Acked { seq });
        }
        self.check_lease(lease, number)?;
        self.end_delivery(number, EndState::Acked, String::new());
        Ok(OpResult::Acked { seq: self.seq })
    }

    /// Acks each lease like a single ack. A refusal lists every stale one.
    pub(super) fn ack_many(&mut self, leases: &[LeaseRef]) -> Result<OpResult, Refused> {
        let mut earlier = Vec::new();
        let mut stale: Option<Refused> = None;
        for (index, lease) in leases.iter().enumerate() {
            let number = self.resolve_lease(*lease)?;
            let was_open = self.space.delivery(number).is_some_and(|delivery| delivery.is_open());
            match self.ack(*lease) {
                Ok(OpResult::Acked { seq }) if !was_open => earlier.push((index as u32, seq)),
                Ok(_) => {}
                Err(refused) if refused.code == Code::StaleLease => {
                    let (item, token) = (lease.delivery.to_string(), Some(lease.token));
                    let (ended_by, ended_request) = (refused.facts.ended_by, refused.facts.ended_request);
                    let refusal = stale.get_or_insert(refused);
                    refusal.facts.stale.push(StaleReference {
                        op: 0,
                        item,
                        code: Code::StaleLease,
                        token,
                        ended_by,
                        ended_request,
                    });
                }
                Err(refused) => return Err(refused),
            }
        }
        stale.map_or(Ok(OpResult::AckedMany { earlier }), Err)
    }

    pub(super) fn nack(&mut self, nack: &Nack) -> Result<OpResult, Refused> {
        let number = self.resolve_lease(nack.lease)?;
        self.check_lease(nack.lease, number)?;
        let reason = if nack.reason.is_empty() { "dead-lettered by its holder" } else { &nack.reason };
        let delivery = self.space.delivery(number).expect("the lease is current");
        let action = match nack.action {
            NackAction::Retry { delay_ms: None } if self.space.is_paused(delivery) => NackAction::Release,
            action => action,
        };
        match action {
            NackAction::DeadLetter => self.end_delivery(number, EndState::Dead, reason.into()),
            NackAction::Release => {
                // A release does not count as an attempt, so the delivery cannot be dead-lettered by it.
                self.space.delivery_mut(number).attempt -= 1;
                self.return_to_inbox(number, 0);
            }
            NackAction::Retry { delay_ms } => {
                let failed = self.space.delivery_mut(number).attempt;
                let backoff_ms = [1_000, 2_000, 4_000, 8_000, 16_000][usize::from(failed - 1).min(4)];
                self.retry_later(number, reason, delay_ms.unwrap_or(backoff_ms));
            }
        }
        Ok(OpResult::Done)
    }

    /// Extends a lease without a record. A restart restores the longest duration that was granted.
    pub(super) fn extend(&mut self, extend: Extend) -> Result<OpResult, Refused> {
        let number = self.resolve_lease(extend.lease)?;
        self.check_lease(extend.lease, number)?;
        let until = self.now.mono.plus_ms(extend.lease_ms);
        if let DeliveryPhase::Leased { deadline, lease_ms, .. } = &mut self.space.delivery_mut(number).phase {
            *deadline = until;
            *lease_ms = extend.lease_ms.max(*lease_ms);
        }
        Ok(OpResult::Done)
    }

    /// Returns the leased deliveries of an agent under their current tokens and renews the leases. Leaves no record.
    pub(super) fn resume_leases(&mut self, agent: &AgentId, duration_ms: u64) -> Result<OpResult, Refused> {
        let number = self.require_own_agent(agent)?;
        let until = self.now.mono.plus_ms(duration_ms);
        let mut resumed = Vec::new();
        for delivery in self.space.held_by(number) {
            let leased = self.space.delivery_mut(delivery);
            let (attempt, seq, n) = (leased.attempt, leased.seq, leased.n);
            if let DeliveryPhase::Leased { token, deadline, lease_ms, .. } = &mut leased.phase {
                *deadline = until;
                *lease_ms = duration_ms.max(*lease_ms);
                let token = *token;
                resumed.push(LeasedDelivery {
                    delivery,
                    token,
                    attempt,
                    lease_ms: duration_ms,
                    seq,
                    n,
                    message: None,
                });
            }
        }
        Ok(OpResult::Claimed(resumed))
    }

    /// Ends a lease without its holder: it expired, or the agent went away.
    pub(super) fn return_delivery(&mut self, number: DeliveryNo, reason: &str) {
        self.retry_later(number, reason, 0);
    }

    fn retry_later(&mut self, number: DeliveryNo, reason: &str, delay_ms: u64) {
        let delivery = self.space.delivery_mut(number);
        if delivery.attempt >= delivery.attempts_max && !delivery.is_expired(self.now.wall) {
            self.end_delivery(number, EndState::Dead, reason.into());
        } else {
            self.return_to_inbox(number, delay_ms);
        }
    }

    /// Returns a leased delivery to its inbox, unless its message has expired.
    fn return_to_inbox(&mut self, number: DeliveryNo, delay_ms: u64) {
        let now = self.now.wall;
        let delivery = self.space.delivery_mut(number);
        if delivery.is_expired(now) {
            self.end_delivery(number, EndState::Expired, String::new());
            return;
        }
        let (queue, holder) = (delivery.to.queue(), delivery.to.agent_no());
        delivery.to = delivery.to.without_holder();
        self.changed = true;
        if delay_ms > 0 {
            delivery.phase = DeliveryPhase::Scheduled { due: now.plus_ms(delay_ms) };
        } else {
            delivery.phase = DeliveryPhase::Ready { since: now, by_time: false };
        }
        self.space.queue_dispatch(queue);
        if let Some(agent) = holder {
            self.space.queue_dispatch_of_agent(agent);
        }
    }

    /// Resolves the delivery of a lease, whether open or ended.
    fn resolve_lease(&self, lease: LeaseRef) -> Result<DeliveryNo, Refused> {
        let exists = |number: &DeliveryNo| {
            self.space.delivery(*number).is_some_and(|delivery| self.may_know_of(delivery.to))
        };
        let number = self.space.resolve_delivery(lease.delivery).filter(exists);
        number.ok_or_else(|| unknown_delivery(lease.delivery))
    }

    /// For an agent, only its own deliveries and those of its pools exist.
    fn may_know_of(&self, to: Recipient) -> bool {
        match (&self.commit.principal, self.actor) {
            (Principal::Agent(_), Some(actor)) => {
                let from_pool = to.pool_no().is_some_and(|pool| self.space.pools_of(actor).contains(&pool));
                to.agent_no() == Some(actor) || from_pool
            }
            _ => true,
        }
    }

    /// Checks that the principal is the recipient or the hub and that the token is the current one.
    fn check_lease(&self, lease: LeaseRef, number: DeliveryNo) -> Result<(), Refused> {
        let stale =
            || Refused::new(Code::StaleLease, format!("the lease of delivery {} has ended", lease.delivery));
        let Some(delivery) = self.space.delivery(number).filter(|delivery| delivery.is_open()) else {
            let mut refused = stale();
            refused.facts.ended_request = self.request_that_ended(lease.delivery, number);
            return Err(refused);
        };
        if let Principal::Agent(_) = self.commit.principal
            && self.actor != delivery.to.agent_no()
        {
            // A pool delivery that is unclaimed or leased by another agent: the lease of the caller has ended.
            return Err(stale());
        }
        match delivery.phase {
            DeliveryPhase::Leased { token, .. } if token == lease.token => Ok(()),
            DeliveryPhase::Leased { .. }
            | DeliveryPhase::Ready { .. }
            | DeliveryPhase::Scheduled { .. }
            | DeliveryPhase::Ended { .. } => Err(stale()),
        }
    }
}

pub(super) fn unknown_delivery(delivery: DeliveryId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no delivery {delivery}"))
}
