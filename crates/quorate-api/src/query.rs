//! Queries of the library and the network client, and pages of messages.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use quorate_core::{
    AgentId, Epoch, Message, MessageId, MessageType, Principal, Refused, Seq, SessionId, TaskStatus,
    Timestamp,
};

use crate::page::invalid_cursor;

/// Which messages.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Only those that this agent sent.
    pub from: Option<AgentId>,
    /// Only those that went to this agent.
    pub to: Option<AgentId>,
    /// Only those of this type.
    pub kind: Option<MessageType>,
    /// Only those that name this session.
    pub session: Option<SessionId>,
    /// Only those that this agent sent or got.
    pub of: Option<AgentId>,
}

/// A message of a list.
#[derive(Clone, Debug)]
pub struct ListedMessage {
    /// Its id.
    pub id: MessageId,
    /// When it was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
}

/// A place among messages, newest first: what comes next is older than message `n` of record `seq`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Before {
    /// The record.
    pub seq: Seq,
    /// Which message of it; 0: all of it is newer.
    pub n: u32,
}

impl Before {
    /// Before everything of a record.
    #[must_use]
    pub fn record(seq: Seq) -> Self {
        Self { seq, n: 0 }
    }

    /// Where to go on; `None` where nothing is older. The first record holds no message.
    #[must_use]
    pub fn cursor(self) -> Option<Self> {
        Some(self).filter(|before| *before > Self::record(Seq(1)))
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.n {
            0 => write!(f, "{}", self.seq),
            n => write!(f, "{}-{n}", self.seq),
        }
    }
}

impl FromStr for Before {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let (seq, n) = text.split_once('-').unwrap_or((text, "0"));
        let read = seq.parse().ok().zip(n.parse().ok()).map(|(seq, n)| Self { seq: Seq(seq), n });
        read.filter(|read| read.to_string() == text).ok_or_else(invalid_cursor)
    }
}

/// A page of messages, newest first.
#[derive(Clone, Debug, Default)]
pub struct MessagesPage {
    /// The messages.
    pub messages: Vec<ListedMessage>,
    /// Where older ones are; `None` if there are none.
    pub cursor: Option<Before>,
}

/// What was sent, newest first, and where to go on.
#[derive(Clone, PartialEq, Debug)]
pub struct OutboxPage {
    /// The messages.
    pub messages: Vec<MessageId>,
    /// Where older ones are; `None` if there are none.
    pub cursor: Option<Before>,
}

/// Which tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskFilter {
    /// Only those in this state.
    pub status: Option<TaskStatus>,
    /// Only those of this type.
    pub task_type: Option<String>,
    /// Only those that are for this agent by name, or that it holds or ended.
    pub agent: Option<AgentId>,
}

/// Who wants tasks, and which.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskClaim {
    /// Who acts.
    pub principal: Principal,
    /// The start of the agent that acts; checked when present.
    pub epoch: Option<Epoch>,
    /// Who takes them.
    pub agent: AgentId,
    /// Of which types; none = of all that the agent said it can do.
    pub types: Vec<String>,
    /// How long the leases last; `None` = as each task says.
    pub lease_ms: Option<u64>,
}
