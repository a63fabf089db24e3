//! Sessions: a piece of common work with a coordinator, participants, and what came of it. What is added stays in the log;
//! the session itself only counts it.

use crate::effect::Effect;
use crate::ids::{AgentId, Generation, Seq, SessionId, SessionNo};
use crate::item::{Item, Verb};
use crate::limits::{SESSION_PARTICIPANTS_MAX, TITLE_CHARS_MAX};
use crate::message::{Payload, check_reason, check_word, is_json};
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// Where a session is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionStatus {
    /// Work goes on.
    Active,
    /// Its messages are held until it is resumed.
    Paused,
    /// Over, with a result. It takes nothing more.
    Completed,
    /// Over, without one. It takes nothing more.
    Failed,
}

crate::text_serde::serde_words!(SessionStatus);

impl SessionStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Paused, Self::Completed, Self::Failed];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_closed(self) -> bool {
        match self {
            Self::Active | Self::Paused => false,
            Self::Completed | Self::Failed => true,
        }
    }
}

/// Somebody who takes part, or did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Participant {
    /// Who.
    pub agent: AgentId,
    /// Since when.
    pub joined_at: Timestamp,
    /// Until when; `None` while it takes part.
    pub left_at: Option<Timestamp>,
}

/// What can be added to a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AddKind {
    /// What was decided.
    Decision,
    /// What was made.
    Artifact,
    /// What was found out.
    Finding,
    /// What stands in the way.
    Blocker,
    /// Anything else.
    Note,
}

crate::text_serde::serde_words!(AddKind);

impl AddKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Decision, Self::Artifact, Self::Finding, Self::Blocker, Self::Note];

    /// The frozen number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Decision => 0,
            Self::Artifact => 1,
            Self::Finding => 2,
            Self::Blocker => 3,
            Self::Note => 4,
        }
    }

    /// The kind with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Artifact => "artifact",
            Self::Finding => "finding",
            Self::Blocker => "blocker",
            Self::Note => "note",
        }
    }
}

/// A piece of common work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its number: where it was opened.
    pub number: SessionNo,
    /// Who leads it; `None` is the hub itself.
    pub coordinator: Option<AgentId>,
    /// Who takes part or did, in the order of their last coming or going.
    pub participants: Vec<Participant>,
    /// What it is about, in a few words.
    pub title: String,
    /// Which part of the record that opened it holds the task, if there is one.
    pub task: Option<u32>,
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

impl Session {
    /// Whether this agent takes part now.
    #[must_use]
    pub fn has(&self, agent: &AgentId) -> bool {
        self.participants.iter().any(|one| one.agent == *agent && one.left_at.is_none())
    }

    /// Who came or went, if that is how it changed: the last participant.
    #[must_use]
    pub fn moved_by(&self, verb: Verb) -> Option<&AgentId> {
        let moved = matches!(verb, Verb::SessionJoined | Verb::SessionLeft);
        self.participants.last().filter(|_| moved).map(|one| &one.agent)
    }

    /// How much of a kind was added.
    #[must_use]
    pub fn count(&self, kind: AddKind) -> u64 {
        self.added[usize::from(kind.number())]
    }

    /// Something was added: it is the `n`-th of its kind.
    pub fn take_in(&mut self, kind: AddKind, n: u64) {
        self.added[usize::from(kind.number())] = n;
    }

    /// Somebody comes. Whoever was there before comes again.
    pub(crate) fn join(&mut self, agent: AgentId, now: Timestamp) {
        self.participants.retain(|one| one.agent != agent);
        self.participants.push(Participant { agent, joined_at: now, left_at: None });
    }

    /// Somebody goes.
    pub(crate) fn leave(&mut self, agent: &AgentId, now: Timestamp) {
        if let Some(at) = self.participants.iter().position(|one| one.agent == *agent) {
            let one = self.participants.remove(at);
            self.participants.push(Participant { left_at: Some(now), ..one });
        }
    }
}

/// Opens a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenSession {
    /// The id that the client chose; the hub makes one if there is none.
    pub id: Option<SessionId>,
    /// Who leads it: the one who opens it. The hub may name anybody it knows, or lead it itself.
    pub coordinator: Option<AgentId>,
    /// Who takes part from the start, besides the coordinator.
    pub participants: Vec<AgentId>,
    /// What it is about, in a few words.
    pub title: String,
    /// What is to be done, as JSON.
    pub task: Option<Payload>,
}

/// What happens to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionChange {
    /// `session.join`: somebody takes part.
    Join(AgentId),
    /// `session.leave`: somebody takes part no longer.
    Leave(AgentId),
    /// `session.pause`: its messages are held.
    Pause,
    /// `session.resume`: its messages go out again.
    Resume,
    /// `session.complete`: over, with a result.
    Complete,
    /// `session.fail`: over, without one.
    Fail,
}

/// Changes a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeSession {
    /// Which one.
    pub session: SessionId,
    /// How.
    pub change: SessionChange,
    /// Why; may be empty. Kept where the status changes.
    pub reason: String,
}

/// Adds something to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddToSession {
    /// Which one.
    pub session: SessionId,
    /// What it is.
    pub kind: AddKind,
    /// The thing itself.
    pub body: Payload,
    /// What the bytes of it are; `None` is JSON.
    pub content_type: Option<String>,
    /// Why; may be empty.
    pub rationale: String,
}

impl OpenSession {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if let Some(id) = self.id.as_ref().filter(|id| id.is_made()) {
            return Err(Refused::new(
                Code::Invalid,
                format!("the session id {id} is one that the hub makes"),
            )
            .hint("choose an id that does not look like ses_0-17-0, or none"));
        }
        let title = self.title.chars().count();
        let wrong = match self.title.chars().position(char::is_control) {
            Some(place) => Some(format!("the title has a control character at place {}", place + 1)),
            None if title == 0 || title > TITLE_CHARS_MAX => {
                Some(format!("the title has {title} characters"))
            }
            None => None,
        };
        if let Some(wrong) = wrong {
            return Err(Refused::new(Code::Invalid, wrong).limit(TITLE_CHARS_MAX as u64).hint(format!(
                "give 1 to {TITLE_CHARS_MAX} printable characters; what is to be done is the task"
            )));
        }
        if self.participants.len() > SESSION_PARTICIPANTS_MAX {
            return Err(too_many(self.participants.len()));
        }
        self.task.as_ref().map_or(Ok(()), Payload::check)
    }
}

pub(crate) fn too_many(participants: usize) -> Refused {
    Refused::new(Code::LimitExceeded, format!("the session has {participants} participants"))
        .limit(SESSION_PARTICIPANTS_MAX as u64)
        .hint("whoever has left counts as well; open further sessions")
}

impl ChangeSession {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        check_reason("reason", &self.reason)
    }
}

impl AddToSession {
    /// Whether the body is declared to be JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        is_json(self.content_type.as_deref())
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.body.check()?;
        check_word("contentType", self.content_type.as_deref().unwrap_or(""))?;
        check_reason("rationale", &self.rationale)
    }
}

/// What a line of a session's timeline is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LineKind {
    /// A message that names the session.
    Message,
    /// The session was opened, paused, …; somebody came or went.
    Change,
    /// Something was added.
    Added(AddKind),
}

impl LineKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Message,
        Self::Change,
        Self::Added(AddKind::Decision),
        Self::Added(AddKind::Artifact),
        Self::Added(AddKind::Finding),
        Self::Added(AddKind::Blocker),
        Self::Added(AddKind::Note),
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Change => "changed",
            Self::Added(kind) => kind.as_str(),
        }
    }

    /// The number under which stores keep it.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Message => 0,
            Self::Change => 1,
            Self::Added(kind) => 2 + kind.number(),
        }
    }
}

impl Effect {
    /// The line that this effect is in the timeline of a session, if it is one. A message belongs to the timeline of the
    /// session that it names, whether or not somebody opened it.
    #[must_use]
    pub fn line(&self) -> Option<(&str, LineKind)> {
        match self {
            Self::Sent { message, .. } => Some((message.session_id.as_deref()?, LineKind::Message)),
            Self::SessionAdded { session, kind, .. } => Some((session.as_str(), LineKind::Added(*kind))),
            Self::Changed { item: Item::Session(session), .. } => {
                Some((session.id.as_str(), LineKind::Change))
            }
            _ => None,
        }
    }
}

impl SessionNo {
    /// The number of the `n`-th session that a record opens. A commit opens 256 at most.
    #[must_use]
    pub(crate) fn opened_at(seq: Seq, n: u32) -> Self {
        Self(seq.0 << 8 | u64::from(n))
    }

    /// The record that opened it.
    #[must_use]
    pub fn record(self) -> Seq {
        Seq(self.0 >> 8)
    }

    /// The id that the hub makes for it.
    pub(crate) fn id(self, generation: Generation) -> SessionId {
        SessionId::made(generation, self.record(), self.0 & 0xff)
    }
}
