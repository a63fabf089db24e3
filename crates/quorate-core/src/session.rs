//! Sessions: joint work with a coordinator, participants and contributions. Contributions are stored in the log; the
//! session itself only counts them.

use crate::effect::Effect;
use crate::ids::{AgentId, Key, ScopeNo, SessionId};
use crate::item::{Item, Verb};
use crate::limits::{SESSION_PARTICIPANTS_MAX, TITLE_CHARS_MAX};
use crate::message::{Payload, check_label, check_reason, is_json};
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// The status of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionStatus {
    /// In progress.
    Active,
    /// Its deliveries are held until it is resumed.
    Paused,
    /// Ended successfully; accepts no further changes.
    Completed,
    /// Failed; accepts no further changes.
    Failed,
}

crate::text_serde::serde_names!(SessionStatus);

impl SessionStatus {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Active, Self::Paused, Self::Completed, Self::Failed];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_closed(self) -> bool {
        match self {
            Self::Active | Self::Paused => false,
            Self::Completed | Self::Failed => true,
        }
    }
}

/// A current or former participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Participant {
    /// The participating agent.
    pub agent: AgentId,
    /// Time of joining.
    pub joined_at: Timestamp,
    /// Time of leaving; `None` while it participates.
    pub left_at: Option<Timestamp>,
}

/// The kind of a contribution to a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ContributionKind {
    /// A decision.
    Decision,
    /// A work product.
    Artifact,
    /// A finding.
    Finding,
    /// An obstacle.
    Blocker,
    /// Anything else.
    Note,
}

crate::text_serde::serde_names!(ContributionKind);

impl ContributionKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Decision, Self::Artifact, Self::Finding, Self::Blocker, Self::Note];

    /// The stored number. Never changes.
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

    /// The name on the wire.
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

/// A session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Id of the session.
    pub id: SessionId,
    /// Number, derived from the record that opened it.
    pub number: ScopeNo,
    /// The coordinating agent; `None` is the hub.
    pub coordinator: Option<AgentId>,
    /// Current and former participants, ordered by their last join or leave.
    pub participants: Vec<Participant>,
    /// Title.
    pub title: String,
    /// Payload part with the task description in the opening record, if any.
    pub task: Option<u32>,
    /// Current status.
    pub status: SessionStatus,
    /// Start of the current status.
    pub since: Timestamp,
    /// Reason of the current status; may be empty.
    pub reason: String,
    /// Time of opening.
    pub opened_at: Timestamp,
    /// Number of contributions by kind, in the order of [`ContributionKind::ALL`].
    pub contributions: [u64; ContributionKind::ALL.len()],
}

impl Session {
    /// Whether this agent currently participates.
    #[must_use]
    pub fn has_participant(&self, agent: &AgentId) -> bool {
        self.participants
            .iter()
            .any(|participant| participant.agent == *agent && participant.left_at.is_none())
    }

    /// The agent that joined or left with this change, if it was one of those: the last participant.
    #[must_use]
    pub fn changed_participant(&self, verb: Verb) -> Option<&AgentId> {
        let moved = matches!(verb, Verb::SessionJoined | Verb::SessionLeft);
        self.participants.last().filter(|_| moved).map(|participant| &participant.agent)
    }

    /// Number of contributions of a kind.
    #[must_use]
    pub fn contribution_count(&self, kind: ContributionKind) -> u64 {
        self.contributions[usize::from(kind.number())]
    }

    /// Counts a contribution, the `n`-th of its kind.
    pub fn count_contribution(&mut self, kind: ContributionKind, n: u64) {
        self.contributions[usize::from(kind.number())] = n;
    }

    /// Adds a participant; a former one rejoins.
    pub(crate) fn join(&mut self, agent: AgentId, now: Timestamp) {
        self.participants.retain(|participant| participant.agent != agent);
        self.participants.push(Participant { agent, joined_at: now, left_at: None });
    }

    /// Marks a participant as having left.
    pub(crate) fn leave(&mut self, agent: &AgentId, now: Timestamp) {
        if let Some(index) = self.participants.iter().position(|participant| participant.agent == *agent) {
            let participant = self.participants.remove(index);
            self.participants.push(Participant { left_at: Some(now), ..participant });
        }
    }
}

/// `session.open`: opens a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenSession {
    /// Client-chosen id; generated by the hub if omitted.
    pub id: Option<SessionId>,
    /// The coordinator. An agent can only name itself; the hub may name any agent, or coordinate it itself.
    pub coordinator: Option<AgentId>,
    /// Initial participants, in addition to the coordinator.
    pub participants: Vec<AgentId>,
    /// Title.
    pub title: String,
    /// Task description, as JSON.
    pub task: Option<Payload>,
}

/// A change to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionChange {
    /// `session.join`: an agent joins.
    Join(AgentId),
    /// `session.leave`: an agent leaves.
    Leave(AgentId),
    /// `session.pause`: holds its deliveries.
    Pause,
    /// `session.resume`: releases its deliveries.
    Resume,
    /// `session.complete`: ends it successfully.
    Complete,
    /// `session.fail`: ends it as failed.
    Fail,
}

/// Changes the status or participants of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeSession {
    /// Id of the session.
    pub session: SessionId,
    /// The change.
    pub change: SessionChange,
    /// Reason; may be empty. Stored if the status changes.
    pub reason: String,
}

/// Adds a contribution to a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddToSession {
    /// Id of the session.
    pub session: SessionId,
    /// Kind of the contribution.
    pub kind: ContributionKind,
    /// Content.
    pub body: Payload,
    /// Media type of the content; `None` is JSON.
    pub content_type: Option<String>,
    /// Rationale; may be empty.
    pub rationale: String,
}

impl OpenSession {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if let Some(id) = self.id.as_ref().filter(|id| id.is_generated()) {
            return Err(Refused::new(
                Code::Invalid,
                format!("invalid session id {id}: reserved for generated ids"),
            )
            .hint("choose an id that does not have the form ses_0-17-0, or omit it"));
        }
        let chars = self.title.chars().count();
        let problem = match self.title.chars().position(char::is_control) {
            Some(at) => Some(format!("the title contains a control character at position {}", at + 1)),
            None if chars == 0 || chars > TITLE_CHARS_MAX => {
                Some(format!("invalid title: {chars} characters"))
            }
            None => None,
        };
        if let Some(problem) = problem {
            return Err(Refused::new(Code::Invalid, problem)
                .limit(TITLE_CHARS_MAX as u64)
                .hint(format!("use 1 to {TITLE_CHARS_MAX} printable characters; put details into task")));
        }
        if self.participants.len() > SESSION_PARTICIPANTS_MAX {
            return Err(too_many_participants(self.participants.len()));
        }
        self.task.as_ref().map_or(Ok(()), Payload::check)
    }
}

pub(crate) fn too_many_participants(participants: usize) -> Refused {
    Refused::new(Code::LimitExceeded, format!("too many participants: {participants}"))
        .limit(SESSION_PARTICIPANTS_MAX as u64)
        .hint("former participants count as well; open another session")
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
        check_label("contentType", self.content_type.as_deref().unwrap_or(""))?;
        check_reason("rationale", &self.rationale)
    }
}

/// An entry of the shared memory that belongs to a session. Agents that may not add to the session do not write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionEntry {
    /// `sessions/ID/state`: the part of the shared state that is not in the session itself. Agents write it only with the
    /// version that their change is based on.
    State,
    /// `sessions/ID/guidance`: the newest guidance.
    Guidance,
}

impl SessionEntry {
    /// All values.
    pub const ALL: [Self; 2] = [Self::State, Self::Guidance];

    fn suffix(self) -> &'static str {
        match self {
            Self::State => "/state",
            Self::Guidance => "/guidance",
        }
    }

    /// Returns the key of this entry of a session.
    ///
    /// # Errors
    /// `INVALID` if the key is too long.
    pub fn key(self, session: &SessionId) -> Result<Key, Refused> {
        Key::new(format!("{SESSION_KEYS}{session}{}", self.suffix()))
    }

    /// Returns the session and the kind of the entry with this key, if it is such an entry.
    #[must_use]
    pub fn of(key: &Key) -> Option<(SessionId, Self)> {
        let rest = key.as_str().strip_prefix(SESSION_KEYS)?;
        let find = |entry: Self| Some((SessionId::new(rest.strip_suffix(entry.suffix())?).ok()?, entry));
        Self::ALL.into_iter().find_map(find)
    }
}

/// Prefix of the keys of all entries of sessions.
const SESSION_KEYS: &str = "sessions/";

/// The kind of an entry in a session's timeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TimelineKind {
    /// A message that names the session.
    Message,
    /// A change of the session's status or participants.
    Change,
    /// A contribution.
    Contribution(ContributionKind),
}

impl TimelineKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Message,
        Self::Change,
        Self::Contribution(ContributionKind::Decision),
        Self::Contribution(ContributionKind::Artifact),
        Self::Contribution(ContributionKind::Finding),
        Self::Contribution(ContributionKind::Blocker),
        Self::Contribution(ContributionKind::Note),
    ];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Change => "changed",
            Self::Contribution(kind) => kind.as_str(),
        }
    }

    /// The stored number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Message => 0,
            Self::Change => 1,
            Self::Contribution(kind) => 2 + kind.number(),
        }
    }
}

impl Effect {
    /// Returns the session and kind of this effect's timeline entry, if it has one. A message belongs to the timeline of the
    /// session that it names, whether or not that session was ever opened.
    #[must_use]
    pub fn timeline_entry(&self) -> Option<(&str, TimelineKind)> {
        match self {
            Self::Sent { message, .. } => Some((message.session_id.as_deref()?, TimelineKind::Message)),
            Self::ContributionAdded { session, kind, .. } => {
                Some((session.as_str(), TimelineKind::Contribution(*kind)))
            }
            Self::Changed { item: Item::Session(session), .. } => {
                Some((session.id.as_str(), TimelineKind::Change))
            }
            _ => None,
        }
    }
}
