//! Sessions and their timelines as everybody sees them.

use std::sync::Arc;

use quorate_core::{
    AddKind, AgentId, Message, MessageId, Participant, Payload, Seq, Session, SessionId, SessionStatus,
    Timestamp, Verb,
};

/// Where a session is, who takes part, and how much was added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Who leads it; `None` is the hub itself.
    pub coordinator: Option<AgentId>,
    /// Who takes part or did, in the order of their last coming or going.
    pub participants: Vec<Participant>,
    /// What it is about, in a few words.
    pub title: String,
    /// Where it is.
    pub status: SessionStatus,
    /// Since when it is there.
    pub since: Timestamp,
    /// Why it is there; may be empty.
    pub reason: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// How much of each kind was added, in the order of [`AddKind::ALL`].
    pub added: [u64; AddKind::ALL.len()],
}

impl SessionInfo {
    /// Whether this agent takes part now.
    #[must_use]
    pub fn has(&self, agent: &str) -> bool {
        self.participants.iter().any(|one| one.agent.as_str() == agent && one.left_at.is_none())
    }

    /// How much of a kind was added.
    #[must_use]
    pub fn count(&self, kind: AddKind) -> u64 {
        self.added[usize::from(kind.number())]
    }
}

impl From<Session> for SessionInfo {
    fn from(session: Session) -> Self {
        Self {
            id: session.id,
            coordinator: session.coordinator,
            participants: session.participants,
            title: session.title,
            status: session.status,
            since: session.since,
            reason: session.reason,
            opened_at: session.opened_at,
            added: session.added,
        }
    }
}

/// One line of a session's timeline.
#[derive(Clone, Debug)]
pub struct TimelineLine {
    /// The record; the next page begins after it.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// Who: `agent:ID` or `system`.
    pub by: String,
    /// What.
    pub what: Happening,
}

/// What happened in a session.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A message that names it.
    Message {
        /// Its id.
        id: MessageId,
        /// The message.
        message: Arc<Message>,
    },
    /// It changed.
    Changed {
        /// How.
        verb: Verb,
        /// Who joined or left, if somebody did.
        agent: Option<AgentId>,
        /// Where it was since then.
        status: SessionStatus,
        /// Why; may be empty.
        reason: String,
    },
    /// Something was added.
    Added {
        /// What it is.
        kind: AddKind,
        /// The how many-th of its kind, counted from 1.
        n: u64,
        /// The thing itself.
        body: Payload,
        /// What the bytes of it are; `None` is JSON.
        content_type: Option<String>,
        /// Why; may be empty.
        rationale: String,
    },
}

impl From<quorate_engine::TimelineLine> for TimelineLine {
    fn from(line: quorate_engine::TimelineLine) -> Self {
        let what = match line.what {
            quorate_engine::Happening::Message { id, message } => Happening::Message { id, message },
            quorate_engine::Happening::Changed { verb, session } => Happening::Changed {
                verb,
                agent: session.moved_by(verb).cloned(),
                status: session.status,
                reason: session.reason,
            },
            quorate_engine::Happening::Added(one) => Happening::Added {
                kind: one.kind,
                n: one.n,
                body: one.body,
                content_type: one.content_type,
                rationale: one.rationale,
            },
        };
        Self { seq: line.seq, at: line.at, by: line.by, what }
    }
}
