//! Sessions and their timelines as they are shown.

use std::collections::BTreeMap;

use quorate::{AddKind, Error, Happening, Participant, Seq, SessionInfo, SessionStatus, TimelineLine, Verb};
use quorate_core::{AgentId, Payload, SessionId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::{MessageIn, durable};
use super::{At, Text, named, payload, strange};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionIn<'a> {
    id: Text<SessionId>,
    title: String,
    coordinator: Option<Text<AgentId>>,
    participants: Vec<ParticipantIn>,
    status: String,
    since: At,
    reason: String,
    opened_at: At,
    added: BTreeMap<String, u64>,
    #[serde(borrow)]
    task: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParticipantIn {
    agent: Text<AgentId>,
    joined_at: At,
    left_at: Option<At>,
}

#[derive(Deserialize)]
pub(crate) struct SessionsIn<'a> {
    #[serde(borrow)]
    pub(crate) sessions: Vec<SessionIn<'a>>,
    pub(crate) cursor: Option<String>,
}

impl SessionIn<'_> {
    /// What is to be done, if somebody said.
    pub(crate) fn task(&self) -> Result<Option<Payload>, Error> {
        self.task.map(|task| payload(Some(task), None)).transpose()
    }

    pub(crate) fn read(self) -> Result<SessionInfo, Error> {
        let participants = self.participants.into_iter().map(|one| Participant {
            agent: one.agent.0,
            joined_at: one.joined_at.0,
            left_at: one.left_at.map(|at| at.0),
        });
        Ok(SessionInfo {
            id: self.id.0,
            coordinator: self.coordinator.map(|agent| agent.0),
            participants: participants.collect(),
            title: self.title,
            status: status_of(&self.status)?,
            since: self.since.0,
            reason: self.reason,
            opened_at: self.opened_at.0,
            added: AddKind::ALL.map(|kind| self.added.get(kind.as_str()).copied().unwrap_or_default()),
        })
    }
}

fn status_of(word: &str) -> Result<SessionStatus, Error> {
    named(&SessionStatus::ALL, SessionStatus::as_str, word)
}

#[derive(Deserialize)]
pub(crate) struct TimelineIn<'a> {
    #[serde(borrow)]
    pub(crate) timeline: Vec<LineIn<'a>>,
    pub(crate) cursor: Option<Text<u64>>,
}

/// A line; which fields are there depends on its kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LineIn<'a> {
    seq: u64,
    at: At,
    by: String,
    kind: String,
    #[serde(borrow)]
    message: Option<MessageIn<'a>>,
    verb: Option<String>,
    agent: Option<Text<AgentId>>,
    status: Option<String>,
    reason: Option<String>,
    n: Option<u64>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    content_type: Option<String>,
    rationale: Option<String>,
}

impl LineIn<'_> {
    pub(crate) fn read(self) -> Result<TimelineLine, Error> {
        let missing = || strange(&"a line of a timeline says too little");
        let what = match self.kind.as_str() {
            "message" => {
                let (id, _, message) = durable(self.message.ok_or_else(missing)?.read()?)?;
                Happening::Message { id, message }
            }
            "changed" => Happening::Changed {
                verb: named(Verb::ALL, Verb::as_str, &self.verb.ok_or_else(missing)?)?,
                agent: self.agent.map(|agent| agent.0),
                status: status_of(&self.status.ok_or_else(missing)?)?,
                reason: self.reason.unwrap_or_default(),
            },
            kind => Happening::Added {
                kind: named(&AddKind::ALL, AddKind::as_str, kind)?,
                n: self.n.ok_or_else(missing)?,
                body: payload(self.body, self.content_type.as_deref())?,
                content_type: self.content_type,
                rationale: self.rationale.unwrap_or_default(),
            },
        };
        Ok(TimelineLine { seq: Seq(self.seq), at: self.at.0, by: self.by, what })
    }
}
