//! Queries of the library and the network client, and pages of messages.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use quorate_core::{
    AgentId, Epoch, Message, MessageId, MessageType, Principal, Refused, Seq, SessionId, TaskStatus,
    Timestamp, TokenId,
};

use crate::page::invalid_cursor;

/// Filter for a list of messages.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Only messages sent by this agent.
    pub from: Option<AgentId>,
    /// Only messages to this agent.
    pub to: Option<AgentId>,
    /// Only messages of this type.
    pub kind: Option<MessageType>,
    /// Only messages of this session.
    pub session: Option<SessionId>,
    /// Only messages that this agent sent or received.
    pub participant: Option<AgentId>,
}

/// Message in a list.
#[derive(Clone, Debug)]
pub struct ListedMessage {
    /// Message ID.
    pub id: MessageId,
    /// Time at which the message was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
}

/// Cursor in a list of messages, newest first: the next page contains messages older than message `n` of record
/// `seq`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MessageCursor {
    /// Sequence number of the record.
    pub seq: Seq,
    /// Index of the message within the record; 0 excludes the whole record.
    pub n: u32,
}

impl MessageCursor {
    /// Returns the position before all messages of a record.
    #[must_use]
    pub fn before_record(seq: Seq) -> Self {
        Self { seq, n: 0 }
    }

    /// Returns the cursor; `None` if there are no older messages. The first record contains no message.
    #[must_use]
    pub fn unless_exhausted(self) -> Option<Self> {
        Some(self).filter(|before| *before > Self::before_record(Seq(1)))
    }
}

impl fmt::Display for MessageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.n {
            0 => write!(f, "{}", self.seq),
            n => write!(f, "{}-{n}", self.seq),
        }
    }
}

impl FromStr for MessageCursor {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let (seq, n) = text.split_once('-').unwrap_or((text, "0"));
        let cursor = seq.parse().ok().zip(n.parse().ok()).map(|(seq, n)| Self { seq: Seq(seq), n });
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(invalid_cursor)
    }
}

/// Page of messages, newest first.
#[derive(Clone, Debug, Default)]
pub struct MessagesPage {
    /// Messages of this page.
    pub messages: Vec<ListedMessage>,
    /// Cursor of the next, older page; `None` on the last page.
    pub cursor: Option<MessageCursor>,
}

/// Page of sent messages, newest first.
#[derive(Clone, PartialEq, Debug)]
pub struct OutboxPage {
    /// IDs of the messages of this page.
    pub messages: Vec<MessageId>,
    /// Cursor of the next, older page; `None` on the last page.
    pub cursor: Option<MessageCursor>,
}

/// Filter for a list of tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskFilter {
    /// Only tasks in this state.
    pub status: Option<TaskStatus>,
    /// Only tasks of this type.
    pub task_type: Option<String>,
    /// Only tasks that are assigned to this agent, or that it holds or ended.
    pub agent: Option<AgentId>,
}

/// Claim of tasks by an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskClaimQuery {
    /// Principal that makes the call.
    pub principal: Principal,
    /// Epoch of the calling agent; checked if present.
    pub epoch: Option<Epoch>,
    /// Access token of the calling agent, whose grants limit the types.
    pub token: Option<TokenId>,
    /// Agent that claims the tasks.
    pub agent: AgentId,
    /// Task types; if empty, all types for which the agent has a capability.
    pub types: Vec<String>,
    /// Lease duration; `None` for the default of each task.
    pub lease_ms: Option<u64>,
}
