//! Subscriptions: which agent wants the messages of which topics.

use crate::ids::{AgentId, AgentNo, Seq, SessionNo};
use crate::limits::{DELIVERIES_PER_COMMIT_MAX, HISTORY_LAST_MAX};
use crate::message::Priority;
use crate::refused::{Code, Refused};
use crate::time::Timestamp;
use crate::topic::Pattern;

/// Which earlier messages a new subscriber wants as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// Those from this record on.
    Seq(Seq),
    /// Those since this time.
    Time(Timestamp),
    /// The newest ones, so many at most.
    Last(u32),
}

/// A durable subscription of one agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// Whose.
    pub agent: AgentId,
    /// The agent's number.
    pub number: AgentNo,
    /// Which topics.
    pub pattern: Pattern,
    /// The record that began it: what was sent later comes by itself.
    pub since: Seq,
    /// Where it stands.
    pub state: SubscriptionState,
}

/// Where a subscription stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionState {
    /// Messages come as they are sent.
    Active,
    /// Messages come as they are sent, and earlier ones are still to be brought, from here on.
    CatchingUp(History),
    /// Over.
    Ended,
}

impl Subscription {
    /// The id of its item. A pattern has no space in it, so the two can be told apart again.
    #[must_use]
    pub fn id(&self) -> String {
        Self::id_of(&self.agent, &self.pattern)
    }

    /// The id of the item of such a subscription.
    #[must_use]
    pub fn id_of(agent: &AgentId, pattern: &Pattern) -> String {
        format!("{agent} {pattern}")
    }

    /// What is still to be brought.
    #[must_use]
    pub fn wanted(&self) -> Option<History> {
        match self.state {
            SubscriptionState::CatchingUp(history) => Some(history),
            SubscriptionState::Active | SubscriptionState::Ended => None,
        }
    }
}

/// `subscribe`: the messages of these topics are for this agent as well, from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribe {
    /// Which agent.
    pub agent: AgentId,
    /// Which topics.
    pub pattern: Pattern,
    /// Which earlier messages it wants; brought when the subscription is new.
    pub history: Option<History>,
}

impl Subscribe {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        match self.history {
            Some(History::Last(last)) if !(1..=HISTORY_LAST_MAX).contains(&last) => {
                Err(Refused::new(Code::LimitExceeded, format!("a history of {last} messages"))
                    .limit(u64::from(HISTORY_LAST_MAX))
                    .hint(format!("ask for the last 1 to {HISTORY_LAST_MAX}, or from a record or a time on")))
            }
            _ => Ok(()),
        }
    }
}

/// An earlier message, as far as a new delivery of it needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Earlier {
    /// Who sent it; `None` is the hub.
    pub from: Option<AgentId>,
    /// The session that it names.
    pub session_id: Option<String>,
    /// Where it lies; the hub finds out itself which session it belongs to now.
    pub letter: Letter,
}

/// A message that lies in the log, with what a delivery of it takes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Letter {
    /// The record that holds it.
    pub seq: Seq,
    /// Which message of that record.
    pub n: u32,
    /// Which goes first.
    pub priority: Priority,
    /// Tries before it becomes a dead letter.
    pub attempts_max: u16,
    /// When it expires, if ever.
    pub expires_at: Option<Timestamp>,
    /// The session that it belongs to, if that is open.
    pub session: Option<SessionNo>,
}

/// Brings earlier messages to a subscriber that asked for them. For the hub, which found them in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BringHistory {
    /// Whose subscription.
    pub agent: AgentId,
    /// Which one.
    pub pattern: Pattern,
    /// What was wanted when the search began: if that is not so any more, somebody else has brought it.
    pub wanted: History,
    /// The messages, oldest first.
    pub messages: Vec<Earlier>,
    /// Where to go on looking; nothing is left to be brought once this is where the subscription began.
    pub next: Seq,
}

impl BringHistory {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let count = self.messages.len();
        if count <= DELIVERIES_PER_COMMIT_MAX {
            return Ok(());
        }
        Err(Refused::new(Code::LimitExceeded, format!("a history of {count} messages at once"))
            .limit(DELIVERIES_PER_COMMIT_MAX as u64))
    }
}
