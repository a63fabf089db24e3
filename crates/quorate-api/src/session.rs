//! Sessions: joint work of several agents, with a timeline.

use std::collections::BTreeMap;

use quorate_core::{
    AddToSession, AgentId, ChangeSession, ContributionKind, OpenSession, Refused, Seq,
    Session as CoreSession, SessionChange as CoreChange, SessionId, SessionStatus, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::json::{Json, RawJson, deserialize_in_two_passes};
use crate::parse_context::{ParseContext, path_or_body};
use crate::payload;
#[cfg(feature = "schema")]
use crate::schema;

/// Session to open.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSession<'a> {
    /// Client-assigned ID; the hub assigns one by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
    /// Agent that leads the session; the agent of the access token by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<AgentId>,
    /// Participating agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 1000)))]
    pub participants: Vec<AgentId>,
    /// Display title. By default the ID given in this request, or `untitled` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub title: Option<String>,
    /// Description of the joint work: any JSON, stored byte for byte. Not a task of `/v1/tasks`.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub task: Option<Json<'a>>,
}

impl NewSession<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// Never fails today. The signature matches that of the other requests.
    pub fn into_core(self, context: &ParseContext<'_>) -> Result<OpenSession, Refused> {
        let title = self.title.or_else(|| self.id.as_ref().map(ToString::to_string));
        Ok(OpenSession {
            id: self.id,
            coordinator: self.coordinator.or_else(|| context.agent.cloned()),
            participants: self.participants,
            title: title.unwrap_or_else(|| "untitled".into()),
            task: context.optional_payload(self.task.as_ref())?,
        })
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the task is not JSON.
    pub fn new(open: &OpenSession) -> Result<NewSession<'static>, Refused> {
        Ok(NewSession {
            id: open.id.clone(),
            coordinator: open.coordinator.clone(),
            participants: open.participants.clone(),
            title: Some(open.title.clone()),
            task: open.task.as_ref().map(|task| payload::encode(&task.bytes, None)).transpose()?,
        })
    }
}

/// Change of a session: pause, resume, complete or fail; join or leave for an agent.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionChange {
    /// Session ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Reason for the change.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::ReasonText"))]
    pub reason: String,
    /// Agent that joins or leaves; the agent of the access token by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
}

/// Kind of change of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum SessionAction {
    Pause,
    Resume,
    Complete,
    Fail,
    Join,
    Leave,
}

impl SessionChange {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the session, or the agent to join or leave, is missing.
    pub fn into_core(
        self,
        action: SessionAction,
        context: &ParseContext<'_>,
        path: Option<SessionId>,
    ) -> Result<ChangeSession, Refused> {
        let session = path_or_body("session", path, self.session)?;
        let change = match action {
            SessionAction::Pause => CoreChange::Pause,
            SessionAction::Resume => CoreChange::Resume,
            SessionAction::Complete => CoreChange::Complete,
            SessionAction::Fail => CoreChange::Fail,
            SessionAction::Join => CoreChange::Join(context.agent(self.agent)?),
            SessionAction::Leave => CoreChange::Leave(context.agent(self.agent)?),
        };
        Ok(ChangeSession { session, change, reason: self.reason })
    }

    /// Creates the request body that a client sends, with the name of the operation.
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

/// Contribution to add to a session.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionContribution<'a> {
    /// Session ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Kind of contribution.
    pub kind: ContributionKind,
    /// Any JSON, stored byte for byte. With a `contentType` other than JSON, a string: plain text for `text/…`,
    /// base64 otherwise.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub body: Option<Json<'a>>,
    /// Media type of the body. Omit it for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 128)))]
    pub content_type: Option<String>,
    /// Reason for the contribution.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "schema::ReasonText"))]
    pub rationale: String,
}

impl SessionContribution<'_> {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the session is missing, or the body does not match its content type.
    pub fn into_core(
        self,
        context: &ParseContext<'_>,
        path: Option<SessionId>,
    ) -> Result<AddToSession, Refused> {
        Ok(AddToSession {
            session: path_or_body("session", path, self.session)?,
            kind: self.kind,
            body: context.payload(self.body.as_ref(), self.content_type.as_deref())?,
            content_type: self.content_type,
            rationale: self.rationale,
        })
    }

    /// Creates the request body that a client sends.
    ///
    /// # Errors
    /// `INVALID` if the body does not match its content type.
    pub fn new(add: &AddToSession) -> Result<SessionContribution<'static>, Refused> {
        Ok(SessionContribution {
            session: Some(add.session.clone()),
            kind: add.kind,
            body: Some(payload::encode(&add.body.bytes, add.content_type.as_deref())?),
            content_type: add.content_type.clone(),
            rationale: add.rationale.clone(),
        })
    }
}

/// A session: joint work of several agents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Unique identifier.
    pub id: SessionId,
    /// Display title.
    pub title: String,
    /// Agent that leads the session; `null` for an operator.
    pub coordinator: Option<AgentId>,
    /// Current and former participants.
    pub participants: Vec<Participant>,
    /// Current status.
    pub status: SessionStatus,
    /// Time of the last change of status.
    pub since: Timestamp,
    /// Reason for the last change of status.
    pub reason: String,
    /// Time at which the session was opened.
    pub opened_at: Timestamp,
    /// Number of contributions, by kind.
    pub added: BTreeMap<String, u64>,
}

impl Session {
    /// Whether the agent currently participates.
    #[must_use]
    pub fn has_participant(&self, agent: &str) -> bool {
        self.participants
            .iter()
            .any(|participant| participant.agent.as_str() == agent && participant.left_at.is_none())
    }

    /// Returns the number of contributions of a kind.
    #[must_use]
    pub fn contribution_count(&self, kind: ContributionKind) -> u64 {
        self.added.get(kind.as_str()).copied().unwrap_or(0)
    }
}

/// Participant of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Participant {
    /// Agent ID.
    pub agent: AgentId,
    /// Time at which the agent joined.
    pub joined_at: Timestamp,
    /// Time at which the agent left; `null` while it participates.
    pub left_at: Option<Timestamp>,
}

impl From<&CoreSession> for Session {
    fn from(session: &CoreSession) -> Self {
        let participants = session.participants.iter().map(|participant| Participant {
            agent: participant.agent.clone(),
            joined_at: participant.joined_at,
            left_at: participant.left_at,
        });
        let added = ContributionKind::ALL
            .into_iter()
            .map(|kind| (kind.as_str().to_owned(), session.contribution_count(kind)));
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

/// Session with the description of its work.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionWithTask {
    /// The session.
    #[serde(flatten)]
    pub session: Session,
    /// Description of its work.
    #[serde(flatten)]
    pub more: SessionTask,
}

deserialize_in_two_passes!(SessionWithTask { session, more });

/// Description of the work of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionTask {
    /// Description of the joint work, as it was sent; `null` if there is none. Not a task of `/v1/tasks`.
    pub task: Option<RawJson>,
}

/// Result of adding a contribution to a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AddedToSession"))]
pub struct AddedToSession {
    /// Number of the contribution among those of its kind, starting at 1. Never `null` in this version.
    pub n: Option<u64>,
    /// Sequence number of the record. Never `null` in this version.
    pub seq: Option<Seq>,
}

/// Entry of the timeline of a session.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineEntry {
    /// Record of the entry.
    #[serde(flatten)]
    pub record: TimelineRecord,
    /// Event of the entry.
    #[serde(flatten)]
    pub event: TimelineEvent,
}

deserialize_in_two_passes!(TimelineEntry { record, event });

/// Record of a timeline entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineRecord {
    /// Sequence number of the record.
    pub seq: Seq,
    /// Time of the commit.
    pub at: Timestamp,
    /// Principal that made the commit.
    pub by: String,
}

/// Event in a session. `kind` discriminates the variants.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum TimelineEvent {
    /// A message.
    Message(TimelineMessage),
    /// A change of the session.
    Changed(TimelineChange),
    /// A contribution.
    Added(TimelineContribution),
}

/// Message of a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct TimelineMessage {
    /// Always `message`.
    pub kind: String,
    /// The message.
    pub message: Box<crate::message::Message>,
}

/// Change of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct TimelineChange {
    /// Always `changed`.
    pub kind: String,
    /// Name of the effect.
    pub verb: String,
    /// Agent that joined or left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// New status of the session.
    pub status: SessionStatus,
    /// Reason for the change.
    pub reason: String,
}

/// Contribution to a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
pub struct TimelineContribution {
    /// Kind of contribution: `decision`, `artifact`, `finding`, `blocker` or `note`.
    pub kind: ContributionKind,
    /// Number of the contribution among those of its kind, starting at 1.
    pub n: u64,
    /// Body, as it was sent.
    pub body: RawJson,
    /// Media type of the body. Omitted for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Reason for the contribution.
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

/// Page of the timeline of a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Timeline {
    /// Entries, in log order.
    pub timeline: Vec<TimelineEntry>,
    /// Cursor of the next page; `null` on the last page.
    pub cursor: Option<String>,
}

/// Filter and page of a timeline.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TimelineQuery {
    /// Only entries of this kind.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["message", "changed", "decision", "artifact", "finding", "blocker", "note", null])))]
    pub kind: Option<String>,
    /// Newest first instead of oldest first.
    pub newest: Option<bool>,
    /// Maximum number of items in a page; 100 by default.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Limit>"))]
    pub limit: Option<usize>,
    /// Cursor of the previous page; omit it for the first page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
}
