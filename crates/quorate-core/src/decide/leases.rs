//! Operations of the lease holder of a delivery: ack, nack, extend. A stale lease token is refused and changes nothing.

use crate::commit::{Extend, LeaseRef, Nack, NackAction, OpResult};
use crate::decide::{DecideError, Draft, EndedDelivery, LeasedDelivery};
use crate::effect::{DeliveryOrigin, Effect, EndState, LoggedLease, ReturnCause, ReturnOutcome};
use crate::ids::{AgentId, DeliveryId, DeliveryNo, Seq};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused, RequestEnd, StaleReference};
use crate::retry;
use crate::working::OpenDelivery;

/// Outcome for one delivery of an `AckMany` operation.
enum AckOutcome {
    /// Ended by this commit.
    Now(LoggedLease),
    /// Ended by this earlier record.
    Earlier(Seq),
}

impl Draft<'_> {
    pub(super) fn ack(&mut self, lease: LeaseRef) -> Result<OpResult, DecideError> {
        let number = self.working.generations().resolve(lease.delivery)?;
        if self.working.open(number).is_none() {
            return Ok(OpResult::Acked { seq: self.repeat_ack(lease, number)? });
        }
        let origin = self.held(lease, number)?.origin();
        let effect = Effect::Acked { delivery: number, token: lease.token, origin };
        self.end_delivery(number, EndState::Acked, effect);
        Ok(OpResult::Acked { seq: self.seq })
    }

    /// Acknowledges several deliveries in one effect. A refusal lists every stale lease.
    pub(super) fn ack_many(&mut self, leases: &[LeaseRef]) -> Result<OpResult, DecideError> {
        let mut deliveries = Vec::with_capacity(leases.len());
        let mut earlier = Vec::new();
        let mut stale: Option<Refused> = None;
        for (index, lease) in leases.iter().enumerate() {
            match self.ack_one_of_many(*lease) {
                Ok(AckOutcome::Now(acked)) => deliveries.push(acked),
                Ok(AckOutcome::Earlier(seq)) => earlier.push((index as u32, seq)),
                Err(DecideError::Refused(refused)) if refused.code == Code::StaleLease => {
                    let reference = StaleReference {
                        op: 0,
                        item: lease.delivery.to_string(),
                        code: Code::StaleLease,
                        token: Some(lease.token),
                        ended_by: refused.facts.ended_by,
                        ended_request: refused.facts.ended_request,
                    };
                    stale.get_or_insert(refused).facts.stale.push(reference);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(refused) = stale {
            return Err(refused.into());
        }
        if !deliveries.is_empty() {
            // Already applied one by one, so that each ack sees those before it.
            let effect = Effect::AckedMany { deliveries };
            self.lookup.add_effect(&effect);
            self.effects.push(effect);
        }
        Ok(OpResult::AckedMany { earlier })
    }

    /// Ends a delivery, or returns the record that already ended it.
    fn ack_one_of_many(&mut self, lease: LeaseRef) -> Result<AckOutcome, DecideError> {
        let number = self.working.generations().resolve(lease.delivery)?;
        if self.working.open(number).is_none() {
            return self.repeat_ack(lease, number).map(AckOutcome::Earlier);
        }
        let open = self.held(lease, number)?;
        self.working.remove_acked(number);
        self.ended.push(EndedDelivery { delivery: number, state: EndState::Acked, open });
        // The ended lease frees capacity for the next one.
        if let Some(agent) = open.to.agent_no() {
            self.working.schedule_dispatch_to(agent);
        }
        Ok(AckOutcome::Now(LoggedLease { delivery: number, token: lease.token, origin: open.origin() }))
    }

    /// Handles a repeated ack: with the same token it gets the same answer, the record that ended the delivery.
    fn repeat_ack(&mut self, lease: LeaseRef, number: DeliveryNo) -> Result<Seq, DecideError> {
        if let Some(ended) = self.ended_in_commit(number).filter(|ended| self.is_party(ended.open.to)) {
            if ended.state == EndState::Acked && ended.open.token() == Some(lease.token) {
                return Ok(self.seq);
            }
            let EndedDelivery { state, open, .. } = *ended;
            return Err(self.ended_lease(lease, number, (state, open.origin(), None))?.into());
        }
        match self.lookup.delivery_end(number)?.filter(|ended| self.is_party(ended.origin.to)) {
            Some(ended) if ended.state == EndState::Acked && ended.token == lease.token => {
                Ok(self.accept_repeated_end(lease.delivery, lease.token, ended.seq)?)
            }
            Some(ended) => {
                let end = (ended.state, ended.origin, Some(ended.seq));
                Err(self.ended_lease(lease, number, end)?.into())
            }
            None => Err(not_found(lease.delivery).into()),
        }
    }

    /// Returns the refusal for a lease whose delivery has ended, in this record or in this commit.
    fn ended_lease(
        &self,
        lease: LeaseRef,
        number: DeliveryNo,
        (state, origin, ended_by): (EndState, DeliveryOrigin, Option<Seq>),
    ) -> Result<Refused, DecideError> {
        let ended = match state {
            EndState::Expired | EndState::Purged => {
                self.request_that_ended(number, origin.message_position(), ended_by)?
            }
            EndState::Acked | EndState::Dead => None,
        };
        Ok(match ended {
            Some(ended) => unneeded_lease(lease, ended),
            None => stale_lease(lease, &format!("the delivery is {}", state.as_str())),
        })
    }

    pub(super) fn nack(&mut self, nack: &Nack) -> Result<OpResult, DecideError> {
        let number = self.working.generations().resolve(nack.lease.delivery)?;
        self.require_lease(nack.lease, number)?;
        let action = self.nack_action(number, nack.action);
        let cause = match action {
            NackAction::Release => ReturnCause::Released,
            NackAction::Retry { .. } | NackAction::DeadLetter => ReturnCause::Nacked,
        };
        self.return_delivery(number, cause, nack.reason.clone(), Some(action));
        Ok(OpResult::Done)
    }

    /// Returns the action of a nack. While its session or procedure is paused, a nack without a delay releases the
    /// delivery: the agent could not process it, and it is held from then on.
    fn nack_action(&self, number: DeliveryNo, action: NackAction) -> NackAction {
        let scope = self.working.open(number).and_then(OpenDelivery::scope);
        match action {
            NackAction::Retry { delay_ms: None } if self.working.is_paused(scope) => NackAction::Release,
            NackAction::Retry { .. } | NackAction::Release | NackAction::DeadLetter => action,
        }
    }

    pub(super) fn extend(&mut self, extend: Extend) -> Result<OpResult, DecideError> {
        let number = self.working.generations().resolve(extend.lease.delivery)?;
        self.require_lease(extend.lease, number)?;
        self.extend_lease(number, extend.lease_ms);
        Ok(OpResult::Done)
    }

    /// Returns the leased deliveries of an agent, lowest number first, and restarts their leases.
    pub(super) fn resume_leases(&mut self, agent: &AgentId, lease_ms: u64) -> Result<OpResult, Refused> {
        self.require_self(agent, "resume the deliveries of")?;
        let number = self.require_agent(agent)?;
        let mut leased = Vec::new();
        for delivery in self.working.inbox(number).leased.clone() {
            let Some(open) = self.working.open(delivery).copied() else { continue };
            let Some(token) = open.token() else { continue };
            self.extend_lease(delivery, lease_ms);
            let (seq, n, attempt) = (open.seq, open.n(), open.attempt);
            leased.push(LeasedDelivery { delivery, token, attempt, lease_ms, seq, n, message: None });
        }
        Ok(OpResult::Claimed(leased))
    }

    fn extend_lease(&mut self, number: DeliveryNo, lease_ms: u64) {
        let current_ms = self.working.lease_ms(number).unwrap_or(0);
        self.working.extend_lease(number, lease_ms, self.now);
        if lease_ms > current_ms {
            self.extended_leases.push(number);
        }
    }

    fn require_lease(&self, lease: LeaseRef, number: DeliveryNo) -> Result<(), DecideError> {
        if self.working.open(number).is_some() {
            return Ok(self.held(lease, number).map(drop)?);
        }
        let in_commit = self.ended_in_commit(number);
        let ended = match in_commit.map(|ended| (ended.state, ended.open.origin(), None)) {
            Some(ended) => Some(ended),
            None => {
                let ended = self.lookup.delivery_end(number)?;
                ended.map(|ended| (ended.state, ended.origin, Some(ended.seq)))
            }
        };
        Err(match ended.filter(|(_, origin, _)| self.is_party(origin.to)) {
            Some(end) => self.ended_lease(lease, number, end)?.into(),
            None => not_found(lease.delivery).into(),
        })
    }

    /// Whether the principal may know of deliveries to this recipient. Others get the same refusals as for a delivery that
    /// does not exist.
    fn is_party(&self, to: Recipient) -> bool {
        let Some(actor) = self.actor else { return true };
        let serves = |pool| {
            let agent = self.working.agents().get(actor);
            let pool = self.working.pools().get(pool);
            agent.zip(pool).is_some_and(|(agent, pool)| pool.is_open_to(agent))
        };
        to.agent_no() == Some(actor) || to.pool_no().is_some_and(serves)
    }

    /// Returns the delivery, if the caller is its recipient and holds its current lease token.
    fn held(&self, lease: LeaseRef, number: DeliveryNo) -> Result<OpenDelivery, Refused> {
        let open = self.working.open(number).filter(|open| self.is_party(open.to));
        let open = *open.ok_or_else(|| not_found(lease.delivery))?;
        // A delivery of a pool may have been leased to another agent since.
        if self.actor.is_some_and(|actor| open.to.agent_no() != Some(actor)) {
            return Err(stale_lease(
                lease,
                "the delivery is leased to another agent, or waiting in its pool",
            ));
        }
        match open.token() {
            Some(token) if token == lease.token => Ok(open),
            Some(_) => Err(stale_lease(lease, "the delivery is leased again")),
            None => Err(stale_lease(lease, "the delivery is waiting for redelivery")),
        }
    }

    /// Returns a delivery to its inbox or pool for redelivery, or dead-letters it after the last attempt.
    pub(super) fn return_delivery(
        &mut self,
        delivery: DeliveryNo,
        cause: ReturnCause,
        reason: String,
        action: Option<NackAction>,
    ) {
        let Some(open) = self.working.open(delivery).copied() else { return };
        let token = open.token().unwrap_or_default();
        let next = self.return_outcome(&open, action);
        let origin = open.origin();
        let effect = Effect::Returned { delivery, token, cause, reason, next, origin };
        match next {
            ReturnOutcome::Dead => self.end_delivery(delivery, EndState::Dead, effect),
            ReturnOutcome::Expired => self.end_delivery(delivery, EndState::Expired, effect),
            ReturnOutcome::Ready | ReturnOutcome::Scheduled(_) | ReturnOutcome::Redirected(_) => {
                self.emit(effect);
                self.working.schedule_dispatch(open.to.queue());
                if let Some(agent) = open.to.agent_no() {
                    self.working.schedule_dispatch_to(agent);
                }
            }
        }
    }

    fn return_outcome(&self, open: &OpenDelivery, action: Option<NackAction>) -> ReturnOutcome {
        if action == Some(NackAction::DeadLetter) {
            return ReturnOutcome::Dead;
        }
        if open.expires <= self.now.wall {
            return ReturnOutcome::Expired;
        }
        if action == Some(NackAction::Release) {
            return ReturnOutcome::Ready;
        }
        if open.attempt >= open.attempts_max {
            return ReturnOutcome::Dead;
        }
        let Some(NackAction::Retry { delay_ms }) = action else { return ReturnOutcome::Ready };
        let retries = u32::from(open.attempt).saturating_sub(1);
        match delay_ms.unwrap_or_else(|| retry::backoff_ms(retries)) {
            0 => ReturnOutcome::Ready,
            delay_ms => ReturnOutcome::Scheduled(self.now.wall.plus_ms(delay_ms)),
        }
    }
}

fn stale_lease(lease: LeaseRef, reason: &str) -> Refused {
    let LeaseRef { delivery, token } = lease;
    Refused::new(Code::StaleLease, format!("lease {token} of {delivery} has ended: {reason}"))
        .hint("discard this work; if it is not done, it is redelivered under a new lease token")
}

/// Returns the refusal for a lease that ended with its request.
fn unneeded_lease(lease: LeaseRef, ended: RequestEnd) -> Refused {
    let request = ended.request;
    let reason = match ended.code {
        Code::Cancelled => format!("request {request} was cancelled"),
        Code::Timeout => format!("request {request} timed out"),
        Code::Conflict => format!("another agent answered request {request}"),
        code => format!("request {request} failed with {code}"),
    };
    stale_lease(lease, &reason)
        .hint("discard this work: its answer is not needed, and the delivery is not redelivered")
        .ended_request(ended)
}

pub(super) fn not_found(delivery: DeliveryId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no delivery {delivery}"))
        .hint("use the delivery id that the claim returned")
}
