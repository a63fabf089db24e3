//! Subscriptions, and delivery of earlier messages to subscribers that requested history.

use crate::commit::OpResult;
use crate::decide::Draft;
use crate::effect::Effect;
use crate::ids::{AgentId, AgentNo};
use crate::item::{Item, Verb};
use crate::limits::{DELIVERIES_PER_COMMIT_MAX, INBOX_MAX, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_PER_AGENT_MAX};
use crate::recipient::QueueId;
use crate::refused::{Code, Refused};
use crate::subscription::{Backfill, History, RecordedMessage, Subscribe, Subscription, SubscriptionState};
use crate::topic::Pattern;

impl Draft<'_> {
    /// Subscribes an agent. A repeated subscription returns the current state and does not deliver history again.
    pub(super) fn subscribe(&mut self, subscribe: &Subscribe) -> Result<OpResult, Refused> {
        self.require_self(&subscribe.agent, "subscribe for")?;
        let agent_number = self.require_agent(&subscribe.agent)?;
        if let Some(existing) = self.subscription(&subscribe.agent, &subscribe.pattern) {
            return Ok(OpResult::Subscribed { since: existing.since, backfill: existing.pending_backfill() });
        }
        let subscriptions = &self.working.items().subscriptions;
        let limits = [
            ("agent", subscriptions.of_agent(agent_number).count(), SUBSCRIPTIONS_PER_AGENT_MAX),
            ("space", self.working.subscription_tree().len(), SUBSCRIPTIONS_MAX),
        ];
        for (owner, count, max) in limits {
            if count >= max {
                return Err(Refused::new(
                    Code::LimitExceeded,
                    format!("the {owner} has {count} subscriptions"),
                )
                .limit(max as u64)
                .retryable()
                .hint("use fewer, wider patterns: `*` matches one word, `>` matches the rest"));
            }
        }
        let state = subscribe.history.map_or(SubscriptionState::Active, SubscriptionState::CatchingUp);
        let new = Subscription {
            agent: subscribe.agent.clone(),
            agent_number,
            pattern: subscribe.pattern.clone(),
            since: self.seq,
            state,
        };
        self.change_item(Verb::Subscribed, Item::Subscription(Box::new(new)));
        Ok(OpResult::Subscribed { since: self.seq, backfill: subscribe.history })
    }

    pub(super) fn unsubscribe(&mut self, agent: &AgentId, pattern: &Pattern) -> Result<OpResult, Refused> {
        self.require_self(agent, "unsubscribe for")?;
        self.require_agent(agent)?;
        let Some(existing) = self.subscription(agent, pattern).cloned() else {
            return Err(not_subscribed(agent, pattern));
        };
        self.end_subscription(existing);
        Ok(OpResult::Done)
    }

    /// Ends all subscriptions of an agent that is being removed.
    pub(super) fn unsubscribe_all(&mut self, agent: AgentNo) {
        let all: Vec<_> = self.working.items().subscriptions.of_agent(agent).cloned().collect();
        all.into_iter().for_each(|subscription| self.end_subscription(subscription));
    }

    fn end_subscription(&mut self, subscription: Subscription) {
        let ended = Subscription { state: SubscriptionState::Ended, ..subscription };
        self.change_item(Verb::Unsubscribed, Item::Subscription(Box::new(ended)));
    }

    fn subscription(&self, agent: &AgentId, pattern: &Pattern) -> Option<&Subscription> {
        self.working.items().subscriptions.get(&Subscription::item_id(agent, pattern))
    }

    /// Delivers earlier messages to a subscriber. Leaves out expired messages, the subscriber's own messages, and
    /// messages that the policy does not allow.
    pub(super) fn backfill(&mut self, backfill: &Backfill) -> Result<OpResult, Refused> {
        let Backfill { agent, pattern, expected, messages, next } = backfill;
        let existing = self
            .subscription(agent, pattern)
            .filter(|existing| existing.pending_backfill() == Some(*expected));
        let Some(existing) = existing.cloned() else { return Err(not_subscribed(agent, pattern)) };
        if messages.iter().any(|earlier| earlier.message.seq >= existing.since) {
            return Err(Refused::new(
                Code::Invalid,
                "a message of the history is not older than the subscription",
            ));
        }
        let recorded: Vec<RecordedMessage> = { messages.iter() }
            .filter(|earlier| earlier.from.as_ref() != Some(agent))
            .filter(|earlier| earlier.message.expires_at.is_none_or(|at| at > self.now.wall))
            .filter(|earlier| self.routing().can_reach(earlier.from.as_ref(), existing.agent_number))
            .map(|earlier| RecordedMessage {
                scope: self.working.scope_of_earlier(earlier, existing.agent_number),
                ..earlier.message
            })
            .collect();
        self.check_capacity(existing.agent_number, recorded.len())?;
        if !recorded.is_empty() {
            let first = self.working.next_delivery();
            self.emit(Effect::Backfilled { agent: existing.agent_number, first, messages: recorded });
            self.working.schedule_dispatch(QueueId::Agent(existing.agent_number));
        }
        let state = match *next >= existing.since {
            true => SubscriptionState::Active,
            false => SubscriptionState::CatchingUp(History::Seq(*next)),
        };
        if state != existing.state {
            let item = Item::Subscription(Box::new(Subscription { state, ..existing }));
            self.change_item(Verb::Backfilled, item);
        }
        Ok(OpResult::Done)
    }

    fn check_capacity(&mut self, agent: AgentNo, count: usize) -> Result<(), Refused> {
        self.deliveries += count;
        if self.deliveries > DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the commit creates too many deliveries")
                .limit(DELIVERIES_PER_COMMIT_MAX as u64));
        }
        if self.working.inbox(agent).open + count > INBOX_MAX {
            return Err(Refused::new(
                Code::QueueFull,
                "the inbox of the subscriber has no capacity for the history",
            )
            .limit(INBOX_MAX as u64));
        }
        Ok(())
    }
}

fn not_subscribed(agent: &AgentId, pattern: &Pattern) -> Refused {
    Refused::new(Code::NotFound, format!("agent {agent} has no subscription to {pattern}"))
        .hint("use the exact pattern of the subscription")
}
