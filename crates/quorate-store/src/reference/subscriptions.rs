//! Subscriptions, and delivery of topic history to new subscribers.

use quorate_core::{
    AgentId, AgentNo, Backfill, Code, History, Item, ItemKey, ItemKind, OpResult, Pattern, QueueId,
    Recipient, Refused, Subscribe, Subscription, SubscriptionState, Topic, limits,
};

use crate::reference::space::{Delivery, DeliveryPhase, Space};
use crate::reference::transaction::Transaction;

/// Whether a pattern matches a topic, token by token: `*` matches one token, `>` one or more at the end.
pub(super) fn pattern_matches(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern, topic) {
        ([], []) => true,
        ([">"], [_, ..]) => true,
        (["*", pattern @ ..], [_, topic @ ..]) => pattern_matches(pattern, topic),
        ([token, pattern @ ..], [topic_token, topic @ ..]) => {
            token == topic_token && pattern_matches(pattern, topic)
        }
        (_, _) => false,
    }
}

impl Space {
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.items.values().filter_map(|item| match item {
            Item::Subscription(subscription) => Some(&**subscription),
            _ => None,
        })
    }

    pub(super) fn subscribers(&self, topic: &Topic) -> Vec<AgentNo> {
        let topic: Vec<&str> = topic.as_str().split('.').collect();
        let is_match = |subscription: &&Subscription| {
            let pattern: Vec<&str> = subscription.pattern.as_str().split('.').collect();
            pattern_matches(&pattern, &topic)
        };
        let mut numbers: Vec<_> =
            self.subscriptions().filter(is_match).map(|subscription| subscription.agent_number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn subscription(&self, agent: &AgentId, pattern: &Pattern) -> Option<Subscription> {
        let key = ItemKey::new(ItemKind::Subscription, format!("{agent} {pattern}"));
        match self.items.get(&key) {
            Some(Item::Subscription(subscription)) => Some((**subscription).clone()),
            _ => None,
        }
    }
}

impl Transaction<'_> {
    pub(super) fn subscribe(&mut self, request: &Subscribe) -> Result<OpResult, Refused> {
        let agent_number = self.require_own_agent(&request.agent)?;
        if let Some(existing) = self.space.subscription(&request.agent, &request.pattern) {
            return Ok(OpResult::Subscribed { since: existing.since, backfill: pending_history(&existing) });
        }
        let own = self
            .space
            .subscriptions()
            .filter(|subscription| subscription.agent_number == agent_number)
            .count();
        let all = self.space.subscriptions().count();
        for (count, max) in [(own, limits::SUBSCRIPTIONS_PER_AGENT_MAX), (all, limits::SUBSCRIPTIONS_MAX)] {
            if count >= max {
                return Err(Refused::new(Code::LimitExceeded, "too many subscriptions").limit(max as u64));
            }
        }
        let state = match request.history {
            Some(history) => SubscriptionState::CatchingUp(history),
            None => SubscriptionState::Active,
        };
        let (agent, pattern) = (request.agent.clone(), request.pattern.clone());
        let new = Subscription { agent, agent_number, pattern, since: self.seq, state };
        self.set_item(Item::Subscription(Box::new(new)));
        Ok(OpResult::Subscribed { since: self.seq, backfill: request.history })
    }

    pub(super) fn unsubscribe(&mut self, agent: &AgentId, pattern: &Pattern) -> Result<OpResult, Refused> {
        self.require_own_agent(agent)?;
        let Some(subscription) = self.space.subscription(agent, pattern) else {
            return Err(Refused::new(Code::NotFound, "unknown subscription"));
        };
        self.end_subscription(subscription);
        Ok(OpResult::Done)
    }

    pub(super) fn unsubscribe_all(&mut self, agent: AgentNo) {
        let own: Vec<_> = self
            .space
            .subscriptions()
            .filter(|subscription| subscription.agent_number == agent)
            .cloned()
            .collect();
        own.into_iter().for_each(|subscription| self.end_subscription(subscription));
    }

    fn end_subscription(&mut self, subscription: Subscription) {
        let ended = Subscription { state: SubscriptionState::Ended, ..subscription };
        self.set_item(Item::Subscription(Box::new(ended)));
    }

    /// Creates deliveries of earlier messages for a subscriber that requested them.
    pub(super) fn backfill(&mut self, history: &Backfill) -> Result<OpResult, Refused> {
        let subscription = self.space.subscription(&history.agent, &history.pattern);
        let Some(subscription) =
            subscription.filter(|subscription| pending_history(subscription) == Some(history.expected))
        else {
            return Err(Refused::new(Code::NotFound, "no subscription requests this history"));
        };
        if history.messages.iter().any(|earlier| earlier.message.seq >= subscription.since) {
            return Err(Refused::new(Code::Invalid, "invalid history"));
        }
        let mut deliveries = Vec::new();
        for earlier in &history.messages {
            let own = earlier.from.as_ref() == Some(&history.agent);
            let expired = earlier.message.expires_at.is_some_and(|at| at <= self.now.wall);
            if !own && !expired && self.is_reachable(earlier.from.as_ref(), subscription.agent_number) {
                let session = self.space.open_session_id(earlier.session_id.as_deref());
                let to = Recipient::agent(subscription.agent_number);
                let procedure = self.space.driven_procedure(earlier.correlation_id.as_deref(), to);
                deliveries.push((earlier.message, session, procedure));
            }
        }
        self.deliveries += deliveries.len();
        if self.deliveries > limits::DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many deliveries in one commit")
                .limit(limits::DELIVERIES_PER_COMMIT_MAX as u64));
        }
        let queue = QueueId::Agent(subscription.agent_number);
        if self.space.open_count(queue) + deliveries.len() > limits::INBOX_MAX {
            return Err(Refused::new(Code::QueueFull, "the inbox is full").limit(limits::INBOX_MAX as u64));
        }
        for (message, session, procedure) in deliveries {
            self.space.deliveries.push(Delivery {
                to: Recipient::agent(subscription.agent_number),
                seq: message.seq,
                n: message.n,
                priority: message.priority,
                attempts_max: message.attempts_max,
                expires_at: message.expires_at,
                attempt: 0,
                session,
                procedure,
                if_unavailable: quorate_core::IfUnavailable::Queue,
                phase: DeliveryPhase::Ready { since: self.now.wall, by_time: false },
            });
            self.changed = true;
        }
        self.space.queue_dispatch(queue);
        let state = if history.next >= subscription.since {
            SubscriptionState::Active
        } else {
            SubscriptionState::CatchingUp(History::Seq(history.next))
        };
        if state != subscription.state {
            self.set_item(Item::Subscription(Box::new(Subscription { state, ..subscription })));
        }
        Ok(OpResult::Done)
    }
}

fn pending_history(subscription: &Subscription) -> Option<History> {
    match subscription.state {
        SubscriptionState::CatchingUp(history) => Some(history),
        SubscriptionState::Active | SubscriptionState::Ended => None,
    }
}
