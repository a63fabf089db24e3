//! Subscriptions, and bringing earlier messages to those who asked for them.

use crate::commit::OpResult;
use crate::decide::Draft;
use crate::effect::Effect;
use crate::ids::{AgentId, AgentNo, SessionNo};
use crate::item::{Item, Verb};
use crate::limits::{DELIVERIES_PER_COMMIT_MAX, INBOX_MAX, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_PER_AGENT_MAX};
use crate::recipient::Home;
use crate::refused::{Code, Refused};
use crate::subscription::{BringHistory, History, Letter, Subscribe, Subscription, SubscriptionState};
use crate::topic::Pattern;

impl Draft<'_> {
    /// Who subscribes already hears how that stands; nothing is brought to it a second time.
    pub(super) fn subscribe(&mut self, asked: &Subscribe) -> Result<OpResult, Refused> {
        self.require_own(&asked.agent, "subscribe for")?;
        let number = self.known(&asked.agent)?;
        if let Some(known) = self.subscription(&asked.agent, &asked.pattern) {
            return Ok(OpResult::Subscribed { since: known.since, wanted: known.wanted() });
        }
        let subscriptions = &self.working.items().subscriptions;
        let limits = [
            ("agent", subscriptions.of(number).count(), SUBSCRIPTIONS_PER_AGENT_MAX),
            ("space", self.working.topics().len(), SUBSCRIPTIONS_MAX),
        ];
        for (what, count, max) in limits {
            if count >= max {
                return Err(Refused::new(
                    Code::LimitExceeded,
                    format!("the {what} has {count} subscriptions"),
                )
                .limit(max as u64)
                .passes()
                .hint("subscribe with fewer patterns that say more: `*` is any word, `>` is the rest"));
            }
        }
        let state = asked.history.map_or(SubscriptionState::Active, SubscriptionState::CatchingUp);
        let new = Subscription {
            agent: asked.agent.clone(),
            number,
            pattern: asked.pattern.clone(),
            since: self.seq,
            state,
        };
        self.change(Verb::Subscribed, Item::Subscription(Box::new(new)));
        Ok(OpResult::Subscribed { since: self.seq, wanted: asked.history })
    }

    pub(super) fn unsubscribe(&mut self, agent: &AgentId, pattern: &Pattern) -> Result<OpResult, Refused> {
        self.require_own(agent, "unsubscribe for")?;
        self.known(agent)?;
        let Some(known) = self.subscription(agent, pattern).cloned() else {
            return Err(not_subscribed(agent, pattern));
        };
        self.end_subscription(known);
        Ok(OpResult::Done)
    }

    /// An agent that goes subscribes to nothing any more.
    pub(super) fn unsubscribe_all(&mut self, agent: AgentNo) {
        let all: Vec<_> = self.working.items().subscriptions.of(agent).cloned().collect();
        all.into_iter().for_each(|one| self.end_subscription(one));
    }

    fn end_subscription(&mut self, subscription: Subscription) {
        let ended = Subscription { state: SubscriptionState::Ended, ..subscription };
        self.change(Verb::Unsubscribed, Item::Subscription(Box::new(ended)));
    }

    fn subscription(&self, agent: &AgentId, pattern: &Pattern) -> Option<&Subscription> {
        self.working.items().subscriptions.get(&Subscription::id_of(agent, pattern))
    }

    /// Delivers earlier messages anew. What has expired, what the subscriber sent itself and what the policy does not let
    /// through is left out: it asked for what it could have had.
    pub(super) fn bring_history(&mut self, history: &BringHistory) -> Result<OpResult, Refused> {
        let BringHistory { agent, pattern, wanted, messages, next } = history;
        let known = self.subscription(agent, pattern).filter(|known| known.wanted() == Some(*wanted));
        let Some(known) = known.cloned() else { return Err(not_subscribed(agent, pattern)) };
        if messages.iter().any(|earlier| earlier.letter.seq >= known.since) {
            return Err(Refused::new(
                Code::Invalid,
                "a message of the history is newer than the subscription",
            ));
        }
        let letters: Vec<Letter> = { messages.iter() }
            .filter(|earlier| earlier.from.as_ref() != Some(agent))
            .filter(|earlier| earlier.letter.expires_at.is_none_or(|at| at > self.now.wall))
            .filter(|earlier| self.map().may_reach(earlier.from.as_ref(), known.number))
            .map(|earlier| Letter {
                session: self.session_named(earlier.session_id.as_deref()),
                ..earlier.letter
            })
            .collect();
        self.make_room(known.number, letters.len())?;
        if !letters.is_empty() {
            let first = self.working.next_delivery();
            self.emit(Effect::Brought { agent: known.number, first, letters });
            self.working.stir(Home::Agent(known.number));
        }
        let state = match *next >= known.since {
            true => SubscriptionState::Active,
            false => SubscriptionState::CatchingUp(History::Seq(*next)),
        };
        if state != known.state {
            let item = Item::Subscription(Box::new(Subscription { state, ..known }));
            self.change(Verb::HistoryBrought, item);
        }
        Ok(OpResult::Done)
    }

    fn session_named(&self, id: Option<&str>) -> Option<SessionNo> {
        self.working.items().sessions.get(id?).map(|session| session.number)
    }

    fn make_room(&mut self, agent: AgentNo, count: usize) -> Result<(), Refused> {
        self.deliveries += count;
        if self.deliveries > DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the commit makes too many deliveries")
                .limit(DELIVERIES_PER_COMMIT_MAX as u64));
        }
        if self.working.inbox(agent).open + count > INBOX_MAX {
            return Err(Refused::new(
                Code::QueueFull,
                "the inbox of the subscriber has no room for its history",
            )
            .limit(INBOX_MAX as u64));
        }
        Ok(())
    }
}

fn not_subscribed(agent: &AgentId, pattern: &Pattern) -> Refused {
    Refused::new(Code::NotFound, format!("agent {agent} does not subscribe to {pattern}"))
        .hint("a subscription is named by the very pattern with which it was made")
}
