//! Whether a record could follow on the ones before it. A hub writes only what its state allows; whoever forges a
//! history with a whole chain may not know all the rules, and folding takes them for granted.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::limits::{AGENTS_MAX, DELIVERIES_PER_COMMIT_MAX, NUMBER_MAX};
use quorate_core::{
    AccessToken, AgentNo, Body, DeliveryNo, Effect, Found, Item, Key, NewDelivery, Next, Recipient, Record,
    ReturnCause, Seq, Timestamp, Token, TokenDigest, TokenId, TokenState, Version, World,
};

use super::rows::LAST;

/// Deliveries that became dead letters, with the tries they had.
pub(super) type Died = Vec<(DeliveryNo, u16)>;

/// Checks the effects of a record against the world before it, one after the other.
pub(super) fn check(world: &World, record: &Record, body: &Body) -> Result<Died, String> {
    let makes = |effect: &Effect| matches!(effect, Effect::SpaceCreated { .. });
    let genesis = match body.effects.as_slice() {
        [Effect::SpaceCreated { id, .. }] => record.seq == Seq(1) && *id == world.working.id,
        effects => record.seq != Seq(1) && !effects.iter().any(makes),
    };
    require(genesis, "the first record, and only that, makes the space")?;
    let mut draft = Draft {
        world,
        seq: record.seq,
        parts: body.parts.len() as u64,
        agents: world.working.agents().len() as u64,
        pools: world.working.pool_count() as u64,
        next_delivery: world.working.kept().next_delivery,
        deliveries: BTreeMap::new(),
        versions: BTreeMap::new(),
        erased: BTreeSet::new(),
        secrets: BTreeMap::new(),
        died: Vec::new(),
    };
    for effect in &body.effects {
        draft.effect(effect).map_err(|why| format!("{}: {why}", effect.as_str()))?;
    }
    Ok(draft.died)
}

/// Where a delivery stands.
#[derive(Clone, Copy)]
enum Standing {
    Waiting { attempt: u16 },
    Held { token: Token, attempt: u16 },
    Dead,
    Over,
}

/// The world, with what the record did so far.
struct Draft<'w> {
    world: &'w World,
    seq: Seq,
    parts: u64,
    agents: u64,
    pools: u64,
    next_delivery: u64,
    deliveries: BTreeMap<DeliveryNo, Standing>,
    versions: BTreeMap<&'w Key, Version>,
    erased: BTreeSet<(Seq, u32)>,
    /// Which token a secret is known to be of, where the record changed that.
    secrets: BTreeMap<TokenDigest, Option<TokenId>>,
    died: Died,
}

impl<'w> Draft<'w> {
    fn effect(&mut self, effect: &'w Effect) -> Result<(), String> {
        match effect {
            Effect::SpaceCreated { .. } => Ok(()),
            Effect::Restored { generation } => {
                let before = self.world.working.head.generation;
                require(*generation > before && generation.0 <= NUMBER_MAX >> 24, "a generation goes up")
            }
            Effect::AgentRegistered { number, .. } => {
                require((1..=self.agents + 1).contains(&number.0), "numbers of agents are dense")?;
                self.agents = self.agents.max(number.0);
                require(self.agents <= AGENTS_MAX as u64, "there are too many agents")
            }
            Effect::AgentRemoved { number } => self.known(*number),
            Effect::Sent { first, deliveries, .. } => self.sent(*first, deliveries),
            Effect::Leased { deliveries, .. } => {
                deliveries.iter().try_for_each(|held| self.leased(held.delivery, held.token))
            }
            Effect::Acked { delivery, token, .. } => {
                self.held(*delivery, *token).map(|_| self.over(*delivery))
            }
            Effect::Returned { delivery, token, cause, next, .. } => {
                self.returned(*delivery, *token, *cause, *next)
            }
            Effect::Expired { delivery, .. } => self.waiting(*delivery).map(|_| self.over(*delivery)),
            Effect::Purged { delivery, .. } => match self.standing(*delivery) {
                Some(Standing::Waiting { .. } | Standing::Held { .. }) => {
                    self.over(*delivery);
                    Ok(())
                }
                _ => Err(format!("delivery {delivery} is not open")),
            },
            Effect::Redriven { delivery, to, .. } => {
                self.reachable(*to)?;
                let dead = matches!(self.standing(*delivery), Some(Standing::Dead));
                require(dead, "the delivery is not a dead letter")?;
                self.deliveries.insert(*delivery, Standing::Waiting { attempt: 0 });
                Ok(())
            }
            Effect::Written { key, version, part, restores, .. } => {
                let earlier = restores.filter(|restored| restored.seq < self.seq);
                let own = earlier.is_some() || u64::from(*part) < self.parts;
                require(own, "the record has no such part")?;
                let before = restores.is_none_or(|one| one.seq <= self.seq && one.version < *version);
                require(before, "only an earlier version is brought back")?;
                self.version(key, *version)
            }
            Effect::Deleted { key, version } => self.version(key, *version),
            Effect::Erased { seq, part } => {
                let target = (*seq, *part);
                let new = self.erased.insert(target) && !self.world.erased.contains(&target);
                require(new && *seq < self.seq, "the part is not one that can be erased")
            }
            Effect::Changed { item: Item::Pool(pool), .. } => {
                self.pools += 1;
                require(pool.number.0 == self.pools, "numbers of pools are dense")
            }
            Effect::Changed { item: Item::Subscription(subscription), .. } => self.known(subscription.number),
            Effect::Changed { item: Item::Token(token), .. } => self.token(token),
            // The effect holds the whole new state, so it fits whatever came before.
            Effect::Changed { .. } | Effect::WaitAborted { .. } => Ok(()),
            Effect::SessionAdded { part, .. } => {
                require(u64::from(*part) < self.parts, "the record has no such part")
            }
            Effect::AckedMany { deliveries } => deliveries
                .iter()
                .try_for_each(|held| self.held(held.delivery, held.token).map(|_| self.over(held.delivery))),
            Effect::Taken { agent, deliveries, .. } => {
                self.known(*agent)?;
                deliveries.iter().try_for_each(|held| self.leased(held.delivery, held.token))
            }
            Effect::Brought { agent, first, letters } => {
                self.known(*agent)?;
                let to = NewDelivery { to: (*agent).into(), lease: None };
                self.sent(*first, &vec![to; letters.len()])
            }
            Effect::Barred { delivery, .. } => {
                let tried = self.waiting(*delivery)?;
                self.died.push((*delivery, tried));
                self.deliveries.insert(*delivery, Standing::Dead);
                Ok(())
            }
            Effect::AgentStatus { number, .. } => self.known(*number),
        }
    }

    /// A secret lets one bearer in. Were it known twice, who comes in would be a matter of chance.
    fn token(&mut self, token: &AccessToken) -> Result<(), String> {
        let known = self.secrets.get(&token.digest).copied();
        let before = known.unwrap_or_else(|| {
            // At the beginning of time nothing has expired.
            match self.world.working.tokens().find(&token.digest, Timestamp(0)) {
                Found::Active(token) | Found::Expired(token) => Some(token.id),
                Found::Unknown => None,
            }
        });
        require(before.is_none_or(|id| id == token.id), "the secret is that of another token")?;
        let after = (token.state == TokenState::Active).then_some(token.id);
        self.secrets.insert(token.digest, after);
        Ok(())
    }

    fn sent(&mut self, first: DeliveryNo, deliveries: &[NewDelivery]) -> Result<(), String> {
        require(first.0 == self.next_delivery, "numbers of deliveries are dense")?;
        require(deliveries.len() <= DELIVERIES_PER_COMMIT_MAX, "there are too many deliveries")?;
        for delivery in deliveries {
            self.reachable(delivery.to)?;
            let standing = match delivery.lease {
                Some((token, _)) => Standing::Held { token, attempt: 1 },
                None => Standing::Waiting { attempt: 0 },
            };
            self.deliveries.insert(DeliveryNo(self.next_delivery), standing);
            self.next_delivery += 1;
        }
        require(self.next_delivery <= LAST, "there are too many deliveries")
    }

    fn leased(&mut self, number: DeliveryNo, token: Token) -> Result<(), String> {
        let tried = self.waiting(number)?;
        let attempt = tried.checked_add(1).ok_or("the delivery was tried too often")?;
        self.deliveries.insert(number, Standing::Held { token, attempt });
        Ok(())
    }

    fn returned(
        &mut self,
        number: DeliveryNo,
        token: Token,
        cause: ReturnCause,
        next: Next,
    ) -> Result<(), String> {
        // Somebody offline gives back what it holds, and also what only waits for it.
        let tried = match (cause, token) {
            (ReturnCause::Offline, Token(0)) => self.waiting(number)?,
            _ => self.held(number, token)?,
        };
        let attempt = if cause == ReturnCause::Released { tried.saturating_sub(1) } else { tried };
        let standing = match next {
            Next::Ready | Next::Scheduled(_) => Standing::Waiting { attempt },
            Next::Redirected(agent) => {
                self.known(agent)?;
                Standing::Waiting { attempt }
            }
            Next::Dead => {
                self.died.push((number, tried));
                Standing::Dead
            }
            Next::Expired => Standing::Over,
        };
        self.deliveries.insert(number, standing);
        Ok(())
    }

    fn over(&mut self, number: DeliveryNo) {
        self.deliveries.insert(number, Standing::Over);
    }

    fn standing(&self, number: DeliveryNo) -> Option<Standing> {
        if let Some(standing) = self.deliveries.get(&number) {
            return Some(*standing);
        }
        if let Some(open) = self.world.working.open(number) {
            let attempt = open.attempt;
            return Some(match open.token() {
                Some(token) => Standing::Held { token, attempt },
                None => Standing::Waiting { attempt },
            });
        }
        self.world.dead.contains_key(&number).then_some(Standing::Dead)
    }

    fn waiting(&self, number: DeliveryNo) -> Result<u16, String> {
        match self.standing(number) {
            Some(Standing::Waiting { attempt }) => Ok(attempt),
            _ => Err(format!("delivery {number} is not waiting")),
        }
    }

    fn held(&self, number: DeliveryNo, token: Token) -> Result<u16, String> {
        match self.standing(number) {
            Some(Standing::Held { token: current, attempt }) if current == token => Ok(attempt),
            _ => Err(format!("delivery {number} is not held under token {token}")),
        }
    }

    fn known(&self, agent: AgentNo) -> Result<(), String> {
        require((1..=self.agents).contains(&agent.0), "there is no such agent")
    }

    fn reachable(&self, to: Recipient) -> Result<(), String> {
        to.agent_no().map_or(Ok(()), |agent| self.known(agent))?;
        let pool = to.pool_no().is_none_or(|pool| (1..=self.pools).contains(&pool.0));
        require(pool, "there is no such pool")
    }

    fn version(&mut self, key: &'w Key, version: Version) -> Result<(), String> {
        let stored = || self.world.entries.get(key).and_then(|versions| versions.last());
        let before = self.versions.get(key).copied().or_else(|| stored().map(|newest| newest.head.version));
        require(before.is_none_or(|before| version > before), "a version goes up")?;
        require(version.0 <= NUMBER_MAX, "a version is at most 2^53 - 1")?;
        self.versions.insert(key, version);
        Ok(())
    }
}

fn require(true_enough: bool, rule: &str) -> Result<(), String> {
    if true_enough { Ok(()) } else { Err(rule.into()) }
}
