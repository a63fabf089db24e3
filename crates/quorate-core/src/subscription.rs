//! Subscriptions of agents to topics, and the backfill of earlier messages.

use crate::ids::{AgentId, AgentNo, ScopeNo, Seq};
use crate::limits::{DELIVERIES_PER_COMMIT_MAX, HISTORY_LAST_MAX};
use crate::message::Priority;
use crate::refused::{Code, Refused};
use crate::time::Timestamp;
use crate::topic::Pattern;

/// The earlier messages that a new subscriber requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// From this record on.
    Seq(Seq),
    /// Since this time.
    Time(Timestamp),
    /// At most this many of the newest.
    Last(u32),
}

/// A durable subscription of one agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// The subscriber.
    pub agent: AgentId,
    /// Number of the subscriber.
    pub agent_number: AgentNo,
    /// Pattern of topics.
    pub pattern: Pattern,
    /// The record that created it; later messages are delivered as they are sent.
    pub since: Seq,
    /// Current state.
    pub state: SubscriptionState,
}

/// The state of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionState {
    /// Messages are delivered as they are sent.
    Active,
    /// Messages are delivered as they are sent; earlier ones are still being backfilled, from this position on.
    CatchingUp(History),
    /// Unsubscribed.
    Ended,
}

impl Subscription {
    /// The id of its item. Patterns contain no spaces, so the id can be split again.
    #[must_use]
    pub fn id(&self) -> String {
        Self::item_id(&self.agent, &self.pattern)
    }

    /// The id of the item for this agent and pattern.
    #[must_use]
    pub fn item_id(agent: &AgentId, pattern: &Pattern) -> String {
        format!("{agent} {pattern}")
    }

    /// The outstanding backfill, if any.
    #[must_use]
    pub fn pending_backfill(&self) -> Option<History> {
        match self.state {
            SubscriptionState::CatchingUp(history) => Some(history),
            SubscriptionState::Active | SubscriptionState::Ended => None,
        }
    }
}

/// `subscribe`: subscribes an agent to a pattern of topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribe {
    /// The subscriber.
    pub agent: AgentId,
    /// Pattern of topics.
    pub pattern: Pattern,
    /// Earlier messages to backfill, if the subscription is new.
    pub history: Option<History>,
}

impl Subscribe {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        match self.history {
            Some(History::Last(last)) if !(1..=HISTORY_LAST_MAX).contains(&last) => {
                Err(Refused::new(Code::LimitExceeded, format!("invalid history: the last {last} messages"))
                    .limit(u64::from(HISTORY_LAST_MAX))
                    .hint(format!(
                        "request the last 1 to {HISTORY_LAST_MAX} messages, or start from a record or time"
                    )))
            }
            _ => Ok(()),
        }
    }
}

/// An earlier message to backfill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlierMessage {
    /// The sender; `None` is the hub.
    pub from: Option<AgentId>,
    /// The session named by the message.
    pub session_id: Option<String>,
    /// The correlation id of the message.
    pub correlation_id: Option<String>,
    /// Position and delivery properties. Its `scope` is resolved when the backfill is decided.
    pub message: RecordedMessage,
}

/// A message in the log, with the properties that its deliveries inherit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedMessage {
    /// The record that contains it.
    pub seq: Seq,
    /// Index within the record.
    pub n: u32,
    /// Delivery order.
    pub priority: Priority,
    /// Delivery attempts before it is dead-lettered.
    pub attempts_max: u16,
    /// Expiry, if any.
    pub expires_at: Option<Timestamp>,
    /// The scope that the delivery belongs to.
    pub scope: Option<ScopeNo>,
}

/// Delivers earlier messages to a subscriber that requested them. Issued by the hub, which reads them from the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backfill {
    /// The subscriber.
    pub agent: AgentId,
    /// Pattern of the subscription.
    pub pattern: Pattern,
    /// The outstanding history when the scan started (compare-and-set): if it has changed, another backfill got there first.
    pub expected: History,
    /// The messages, oldest first.
    pub messages: Vec<EarlierMessage>,
    /// Position to continue from; the backfill is complete once it reaches the start of the subscription.
    pub next: Seq,
}

impl Backfill {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let count = self.messages.len();
        if count <= DELIVERIES_PER_COMMIT_MAX {
            return Ok(());
        }
        Err(Refused::new(Code::LimitExceeded, format!("too many messages in one backfill: {count}"))
            .limit(DELIVERIES_PER_COMMIT_MAX as u64))
    }
}
