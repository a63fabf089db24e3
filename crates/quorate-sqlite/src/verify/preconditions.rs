//! Checks that the effects of a record are possible in the state before it. A hub only writes records that its state
//! allows. A forged history may have an intact hash chain but violate these rules, and replaying relies on them.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::limits::{AGENTS_MAX, DELIVERIES_PER_COMMIT_MAX, NUMBER_MAX};
use quorate_core::{
    AccessToken, AgentNo, Body, DeliveryNo, Effect, Item, Key, LeaseToken, NewDelivery, Recipient, Record,
    ReplayedSpace, ReturnCause, ReturnOutcome, Seq, Timestamp, TokenDigest, TokenId, TokenLookup, TokenState,
    Version,
};

use super::raw_rows::ROW_NUMBER_MAX;

/// Deliveries that became dead letters, with their number of attempts.
pub(super) type NewDeadLetters = Vec<(DeliveryNo, u16)>;

/// Checks the effects of a record, in order, against the state before it. Returns the deliveries that were dead-lettered.
pub(super) fn check(space: &ReplayedSpace, record: &Record, body: &Body) -> Result<NewDeadLetters, String> {
    let creates = |effect: &Effect| matches!(effect, Effect::SpaceCreated { .. });
    let genesis = match body.effects.as_slice() {
        [Effect::SpaceCreated { id, .. }] => record.seq == Seq(1) && *id == space.working.id,
        effects => record.seq != Seq(1) && !effects.iter().any(creates),
    };
    require(genesis, "only the first record creates the space")?;
    let mut draft = Draft {
        space,
        seq: record.seq,
        parts: body.parts.len() as u64,
        agents: space.working.agents().len() as u64,
        pools: space.working.pool_count() as u64,
        next_delivery: space.working.stored_counters().next_delivery,
        deliveries: BTreeMap::new(),
        versions: BTreeMap::new(),
        erased: BTreeSet::new(),
        secrets: BTreeMap::new(),
        dead_letters: Vec::new(),
    };
    for effect in &body.effects {
        draft.effect(effect).map_err(|reason| format!("{}: {reason}", effect.as_str()))?;
    }
    Ok(draft.dead_letters)
}

/// State of a delivery.
#[derive(Clone, Copy)]
enum DeliveryStage {
    Waiting { attempt: u16 },
    Leased { token: LeaseToken, attempt: u16 },
    Dead,
    Ended,
}

/// State before the record, with the effects of the record that were checked so far.
struct Draft<'w> {
    space: &'w ReplayedSpace,
    seq: Seq,
    parts: u64,
    agents: u64,
    pools: u64,
    next_delivery: u64,
    deliveries: BTreeMap<DeliveryNo, DeliveryStage>,
    versions: BTreeMap<&'w Key, Version>,
    erased: BTreeSet<(Seq, u32)>,
    /// Access token of each secret, where the record changed it; `None` if it was revoked or expired.
    secrets: BTreeMap<TokenDigest, Option<TokenId>>,
    dead_letters: NewDeadLetters,
}

impl<'w> Draft<'w> {
    fn effect(&mut self, effect: &'w Effect) -> Result<(), String> {
        match effect {
            Effect::SpaceCreated { .. } => Ok(()),
            Effect::SpaceRestored { generation } => {
                let before = self.space.working.head.generation;
                require(
                    *generation > before && generation.0 <= NUMBER_MAX >> 24,
                    "a generation must increase",
                )
            }
            Effect::AgentRegistered { number, .. } => {
                require((1..=self.agents + 1).contains(&number.0), "agent numbers must be dense")?;
                self.agents = self.agents.max(number.0);
                require(self.agents <= AGENTS_MAX as u64, "too many agents")
            }
            Effect::AgentRemoved { number } => self.agent_exists(*number),
            Effect::Sent { first, deliveries, .. } => self.sent(*first, deliveries),
            Effect::Leased { deliveries, .. } => {
                deliveries.iter().try_for_each(|held| self.leased(held.delivery, held.token))
            }
            Effect::Acked { delivery, token, .. } => {
                self.held(*delivery, *token).map(|_| self.end(*delivery))
            }
            Effect::Returned { delivery, token, cause, next, .. } => {
                self.returned(*delivery, *token, *cause, *next)
            }
            // Also a leased one: it ends with its request.
            Effect::Expired { delivery, .. } | Effect::Purged { delivery, .. } => match self.stage(*delivery)
            {
                Some(DeliveryStage::Waiting { .. } | DeliveryStage::Leased { .. }) => {
                    self.end(*delivery);
                    Ok(())
                }
                _ => Err(format!("delivery {delivery} is not open")),
            },
            Effect::Redriven { delivery, to, .. } => {
                self.recipient_exists(*to)?;
                let dead = matches!(self.stage(*delivery), Some(DeliveryStage::Dead));
                require(dead, "the delivery is not a dead letter")?;
                self.deliveries.insert(*delivery, DeliveryStage::Waiting { attempt: 0 });
                Ok(())
            }
            Effect::Written { key, version, part, restores, .. } => {
                let earlier = restores.filter(|restored| restored.seq < self.seq);
                let own = earlier.is_some() || u64::from(*part) < self.parts;
                require(own, "the record has no such part")?;
                let before = restores.is_none_or(|old| old.seq <= self.seq && old.version < *version);
                require(before, "only an earlier version can be restored")?;
                self.version(key, *version)
            }
            Effect::Deleted { key, version } => self.version(key, *version),
            Effect::Erased { seq, part } => {
                let target = (*seq, *part);
                let new = self.erased.insert(target) && !self.space.erased.contains(&target);
                require(new && *seq < self.seq, "the part cannot be erased")
            }
            Effect::Changed { item: Item::Pool(pool), .. } => {
                self.pools += 1;
                require(pool.number.0 == self.pools, "pool numbers must be dense")
            }
            Effect::Changed { item: Item::Subscription(subscription), .. } => {
                self.agent_exists(subscription.agent_number)
            }
            Effect::Changed { item: Item::Token(token), .. } => self.token(token),
            // The effect contains the complete new state, so it is possible in any state.
            Effect::Changed { .. } | Effect::WaitAborted { .. } => Ok(()),
            Effect::ContributionAdded { part, .. } => {
                require(u64::from(*part) < self.parts, "the record has no such part")
            }
            Effect::AckedMany { deliveries } => deliveries
                .iter()
                .try_for_each(|held| self.held(held.delivery, held.token).map(|_| self.end(held.delivery))),
            Effect::LeasedFromPool { agent, deliveries, .. } => {
                self.agent_exists(*agent)?;
                deliveries.iter().try_for_each(|held| self.leased(held.delivery, held.token))
            }
            Effect::Backfilled { agent, first, messages } => {
                self.agent_exists(*agent)?;
                let to = NewDelivery { to: (*agent).into(), lease: None };
                self.sent(*first, &vec![to; messages.len()])
            }
            Effect::DeniedByPolicy { delivery, .. } => {
                let attempts = self.waiting(*delivery)?;
                self.dead_letters.push((*delivery, attempts));
                self.deliveries.insert(*delivery, DeliveryStage::Dead);
                Ok(())
            }
            Effect::PresenceChanged { number, .. } => self.agent_exists(*number),
        }
    }

    /// Checks that a secret belongs to one access token only. Otherwise its principal would be ambiguous.
    fn token(&mut self, token: &AccessToken) -> Result<(), String> {
        let changed = self.secrets.get(&token.digest).copied();
        let before = changed.unwrap_or_else(|| {
            // At time 0 no token has expired.
            match self.space.working.tokens().find(&token.digest, Timestamp(0)) {
                TokenLookup::Active(token) | TokenLookup::Expired(token) => Some(token.id),
                TokenLookup::Unknown => None,
            }
        });
        require(before.is_none_or(|id| id == token.id), "the secret belongs to another token")?;
        let after = (token.state == TokenState::Active).then_some(token.id);
        self.secrets.insert(token.digest, after);
        Ok(())
    }

    fn sent(&mut self, first: DeliveryNo, deliveries: &[NewDelivery]) -> Result<(), String> {
        require(first.0 == self.next_delivery, "delivery numbers must be dense")?;
        require(deliveries.len() <= DELIVERIES_PER_COMMIT_MAX, "too many deliveries")?;
        for delivery in deliveries {
            self.recipient_exists(delivery.to)?;
            let stage = match delivery.lease {
                Some((token, _)) => DeliveryStage::Leased { token, attempt: 1 },
                None => DeliveryStage::Waiting { attempt: 0 },
            };
            self.deliveries.insert(DeliveryNo(self.next_delivery), stage);
            self.next_delivery += 1;
        }
        require(self.next_delivery <= ROW_NUMBER_MAX, "too many deliveries")
    }

    fn leased(&mut self, number: DeliveryNo, token: LeaseToken) -> Result<(), String> {
        let attempts = self.waiting(number)?;
        let attempt = attempts.checked_add(1).ok_or("the delivery has too many attempts")?;
        self.deliveries.insert(number, DeliveryStage::Leased { token, attempt });
        Ok(())
    }

    fn returned(
        &mut self,
        number: DeliveryNo,
        token: LeaseToken,
        cause: ReturnCause,
        next: ReturnOutcome,
    ) -> Result<(), String> {
        // When an agent goes offline, its leased deliveries are returned, and also those that wait for it.
        let attempts = match (cause, token) {
            (ReturnCause::Offline, LeaseToken(0)) => self.waiting(number)?,
            _ => self.held(number, token)?,
        };
        let attempt = if cause == ReturnCause::Released { attempts.saturating_sub(1) } else { attempts };
        let stage = match next {
            ReturnOutcome::Ready | ReturnOutcome::Scheduled(_) => DeliveryStage::Waiting { attempt },
            ReturnOutcome::Redirected(agent) => {
                self.agent_exists(agent)?;
                DeliveryStage::Waiting { attempt }
            }
            ReturnOutcome::Dead => {
                self.dead_letters.push((number, attempts));
                DeliveryStage::Dead
            }
            ReturnOutcome::Expired => DeliveryStage::Ended,
        };
        self.deliveries.insert(number, stage);
        Ok(())
    }

    fn end(&mut self, number: DeliveryNo) {
        self.deliveries.insert(number, DeliveryStage::Ended);
    }

    fn stage(&self, number: DeliveryNo) -> Option<DeliveryStage> {
        if let Some(stage) = self.deliveries.get(&number) {
            return Some(*stage);
        }
        if let Some(open) = self.space.working.open(number) {
            let attempt = open.attempt;
            return Some(match open.token() {
                Some(token) => DeliveryStage::Leased { token, attempt },
                None => DeliveryStage::Waiting { attempt },
            });
        }
        self.space.dead.contains_key(&number).then_some(DeliveryStage::Dead)
    }

    fn waiting(&self, number: DeliveryNo) -> Result<u16, String> {
        match self.stage(number) {
            Some(DeliveryStage::Waiting { attempt }) => Ok(attempt),
            _ => Err(format!("delivery {number} is not waiting")),
        }
    }

    fn held(&self, number: DeliveryNo, token: LeaseToken) -> Result<u16, String> {
        match self.stage(number) {
            Some(DeliveryStage::Leased { token: current, attempt }) if current == token => Ok(attempt),
            _ => Err(format!("delivery {number} is not leased with token {token}")),
        }
    }

    fn agent_exists(&self, agent: AgentNo) -> Result<(), String> {
        require((1..=self.agents).contains(&agent.0), "there is no such agent")
    }

    fn recipient_exists(&self, to: Recipient) -> Result<(), String> {
        to.agent_no().map_or(Ok(()), |agent| self.agent_exists(agent))?;
        let pool = to.pool_no().is_none_or(|pool| (1..=self.pools).contains(&pool.0));
        require(pool, "there is no such pool")
    }

    fn version(&mut self, key: &'w Key, version: Version) -> Result<(), String> {
        let stored = || self.space.entries.get(key).and_then(|versions| versions.last());
        let before = self.versions.get(key).copied().or_else(|| stored().map(|newest| newest.head.version));
        require(before.is_none_or(|before| version > before), "a version must increase")?;
        require(version.0 <= NUMBER_MAX, "a version must be at most 2^53 - 1")?;
        self.versions.insert(key, version);
        Ok(())
    }
}

fn require(condition: bool, rule: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(rule.into()) }
}
