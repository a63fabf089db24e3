//! Sessions.

use std::collections::BTreeMap;

use quorate_core::{
    AddKind, AddToSession, AgentId, ChangeSession, OpenSession, Refused, Seq, Session as CoreSession,
    SessionChange as CoreChange, SessionId, SessionStatus, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::json::{Json, Raw, deserialize_in_two_passes};
use crate::payload;
use crate::reading::{Reading, named};
#[cfg(feature = "schema")]
use crate::schema;

/// A session to open.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSession<'a> {
    /// The caller's own id; by default the hub assigns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
    /// The agent that leads it; by default the agent of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<AgentId>,
    /// The agents that take part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 1000)))]
    pub participants: Vec<AgentId>,
    /// A title for people; the id by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub title: Option<String>,
    /// What is to be done: any JSON, kept byte for byte.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub task: Option<Json<'a>>,
}

impl NewSession<'_> {
    /// The operation.
    ///
    /// # Errors
    /// None today; the form is that of the other requests.
    pub fn read(self, reading: &Reading<'_>) -> Result<OpenSession, Refused> {
        let title = self.title.or_else(|| self.id.as_ref().map(ToString::to_string));
        Ok(OpenSession {
            id: self.id,
            coordinator: self.coordinator.or_else(|| reading.agent.cloned()),
            participants: self.participants,
            title: title.unwrap_or_else(|| "untitled".into()),
            task: reading.optional(self.task.as_ref())?,
        })
    }

    /// A session as a client opens it.
    ///
    /// # Errors
    /// `INVALID` if the task is not JSON.
    pub fn new(open: &OpenSession) -> Result<NewSession<'static>, Refused> {
        Ok(NewSession {
            id: open.id.clone(),
            coordinator: open.coordinator.clone(),
            participants: open.participants.clone(),
            title: Some(open.title.clone()),
            task: open.task.as_ref().map(|task| payload::json_of(&task.bytes, None)).transpose()?,
        })
    }
}

/// A change of a session: pause, resume, complete or fail; with an agent, join or leave.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionChange {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Why.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::Sentence"))]
    pub reason: String,
    /// The agent that joins or leaves; by default the agent of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}

/// What changes in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the words say it")]
pub enum SessionVerb {
    Pause,
    Resume,
    Complete,
    Fail,
    Join,
    Leave,
}

impl SessionChange {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no session, or no agent to join or leave, is named.
    pub fn read(
        self,
        verb: SessionVerb,
        reading: &Reading<'_>,
        path: Option<SessionId>,
    ) -> Result<ChangeSession, Refused> {
        let session = named("session", path, self.session)?;
        let change = match verb {
            SessionVerb::Pause => CoreChange::Pause,
            SessionVerb::Resume => CoreChange::Resume,
            SessionVerb::Complete => CoreChange::Complete,
            SessionVerb::Fail => CoreChange::Fail,
            SessionVerb::Join => CoreChange::Join(reading.agent(self.agent)?),
            SessionVerb::Leave => CoreChange::Leave(reading.agent(self.agent)?),
        };
        Ok(ChangeSession { session, change, reason: self.reason })
    }

    /// A change as a client sends it, with the name of its operation.
    #[must_use]
    pub fn new(change: &ChangeSession) -> (&'static str, Self) {
        let (name, agent) = match &change.change {
            CoreChange::Pause => ("session.pause", None),
            CoreChange::Resume => ("session.resume", None),
            CoreChange::Complete => ("session.complete", None),
            CoreChange::Fail => ("session.fail", None),
            CoreChange::Join(agent) => ("session.join", Some(agent.clone())),
            CoreChange::Leave(agent) => ("session.leave", Some(agent.clone())),
        };
        (name, Self { session: Some(change.session.clone()), reason: change.reason.clone(), agent })
    }
}

/// An addition to the record of a session.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionAddition<'a> {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// What it is.
    pub kind: AddKind,
    /// Any JSON, kept byte for byte; with a `contentType`, a string in base64.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub body: Option<Json<'a>>,
    /// The media type of the body, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// Why.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::Sentence"))]
    pub rationale: String,
}

impl SessionAddition<'_> {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no session is named, or the body is not what its content type promises.
    pub fn read(self, reading: &Reading<'_>, path: Option<SessionId>) -> Result<AddToSession, Refused> {
        Ok(AddToSession {
            session: named("session", path, self.session)?,
            kind: self.kind,
            body: reading.payload(self.body.as_ref(), self.content_type.as_deref())?,
            content_type: self.content_type,
            rationale: self.rationale,
        })
    }

    /// An addition as a client sends it.
    ///
    /// # Errors
    /// `INVALID` if the body is not what its content type promises.
    pub fn new(add: &AddToSession) -> Result<SessionAddition<'static>, Refused> {
        Ok(SessionAddition {
            session: Some(add.session.clone()),
            kind: add.kind,
            body: Some(payload::json_of(&add.body.bytes, add.content_type.as_deref())?),
            content_type: add.content_type.clone(),
            rationale: add.rationale.clone(),
        })
    }
}

/// A session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// A title for people.
    pub title: String,
    /// The agent that leads it; `null` for an operator.
    pub coordinator: Option<AgentId>,
    /// The agents that take or took part.
    pub participants: Vec<Participant>,
    /// Its state.
    pub status: SessionStatus,
    /// Since when it is in that state.
    pub since: Timestamp,
    /// Why it is in that state.
    pub reason: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The number of additions of each kind.
    pub added: BTreeMap<String, u64>,
}

impl Session {
    /// Whether the agent takes part now.
    #[must_use]
    pub fn has(&self, agent: &str) -> bool {
        self.participants.iter().any(|one| one.agent.as_str() == agent && one.left_at.is_none())
    }

    /// The number of additions of a kind.
    #[must_use]
    pub fn count(&self, kind: AddKind) -> u64 {
        self.added.get(kind.as_str()).copied().unwrap_or(0)
    }
}

/// A participant of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Participant {
    /// The agent.
    pub agent: AgentId,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it left.
    pub left_at: Option<Timestamp>,
}

impl From<&CoreSession> for Session {
    fn from(session: &CoreSession) -> Self {
        let participants = session.participants.iter().map(|one| Participant {
            agent: one.agent.clone(),
            joined_at: one.joined_at,
            left_at: one.left_at,
        });
        let added = AddKind::ALL.into_iter().map(|kind| (kind.as_str().to_owned(), session.count(kind)));
        Self {
            id: session.id.clone(),
            title: session.title.clone(),
            coordinator: session.coordinator.clone(),
            participants: participants.collect(),
            status: session.status,
            since: session.since,
            reason: session.reason.clone(),
            opened_at: session.opened_at,
            added: added.collect(),
        }
    }
}

/// A session with its task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionWithTask {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// The rest.
    #[serde(flatten)]
    pub more: SessionTask,
}

deserialize_in_two_passes!(SessionWithTask { session, more });

/// The task of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionTask {
    /// What is to be done, as it was sent.
    pub task: Option<Raw>,
}

/// An addition that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AddedToSession"))]
pub struct SessionAdded {
    /// Its number among those of its kind, starting at 1.
    pub n: Option<u64>,
    /// The record.
    pub seq: Option<Seq>,
}

/// A line of the timeline of a session.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineLine {
    /// The record, when, and by whom.
    #[serde(flatten)]
    pub record: TimelineRecord,
    /// What happened.
    #[serde(flatten)]
    pub what: TimelineEvent,
}

deserialize_in_two_passes!(TimelineLine { record, what });

/// The record of a line of a timeline.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineRecord {
    /// The record.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The principal.
    pub by: String,
}

/// What happened in a session. `kind` tells the forms apart.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum TimelineEvent {
    /// A message.
    Message(TimelineMessage),
    /// A change of the session.
    Changed(TimelineChange),
    /// An addition.
    Added(TimelineAddition),
}

/// A message of a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct TimelineMessage {
    /// `message`.
    pub kind: String,
    /// The message.
    pub message: Box<crate::message::Message>,
}

/// A change of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct TimelineChange {
    /// `changed`.
    pub kind: String,
    /// What changed.
    pub verb: String,
    /// The agent that joined or left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The state of the session since.
    pub status: SessionStatus,
    /// Why.
    pub reason: String,
}

/// An addition to a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
pub struct TimelineAddition {
    /// `decision`, `artifact`, `finding`, `blocker` or `note`.
    pub kind: AddKind,
    /// Its number among those of its kind, starting at 1.
    pub n: u64,
    /// As it was sent.
    pub body: Raw,
    /// The media type of the body, unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Why.
    pub rationale: String,
}

impl<'de> Deserialize<'de> for TimelineEvent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        let raw = <&'de serde_json::value::RawValue>::deserialize(deserializer)?;
        let Kind { kind } = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        let event = match kind.as_str() {
            "message" => serde_json::from_str(raw.get()).map(Self::Message),
            "changed" => serde_json::from_str(raw.get()).map(Self::Changed),
            _ => serde_json::from_str(raw.get()).map(Self::Added),
        };
        event.map_err(serde::de::Error::custom)
    }
}
