//! Sessions: shared pieces of work with a coordinator, participants and a timeline.

mod read_models;

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_api::Error;
use quorate_api::payload;
use quorate_core::{
    AddToSession, AgentId, ChangeSession, Commit, ContributionKind, Epoch, Op, OpResult, OpenSession,
    Principal, Receipt, Seq, SessionChange, SessionId, StoreError, TimelineKind, TimelinePage, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{from_json, to_json};
use crate::backend::Backend;

pub use read_models::{
    SessionInfo, TimelineChange, TimelineContribution, TimelineEntry, TimelineEvent, TimelineMessage,
    TimelineRecord,
};

/// Handle to a session, accessed as one principal. The session does not have to exist yet.
#[derive(Clone)]
pub struct Session {
    backend: Arc<dyn Backend>,
    principal: Principal,
    epoch: Option<Epoch>,
    id: String,
}

/// A contribution to a session.
#[derive(Clone, Debug)]
pub struct SessionContribution {
    /// Number among the contributions of the same kind, starting at 1.
    pub n: u64,
    /// Principal that added it: `agent:ID` or `system`.
    pub by: String,
    /// Time at which it was added, in milliseconds since the Unix epoch.
    pub at: Timestamp,
    /// Sequence number of the record that contains it.
    pub seq: Seq,
    /// Rationale; can be empty.
    pub rationale: String,
    body: Vec<u8>,
}

impl SessionContribution {
    /// Deserializes the content.
    ///
    /// # Errors
    /// Returns `INVALID` if the content does not match the type or was erased.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(&self.body)
    }
}

impl Session {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        principal: Principal,
        epoch: Option<Epoch>,
        id: String,
    ) -> Self {
        Self { backend, principal, epoch, id }
    }

    /// Returns the session id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    async fn commit(&self, op: Op) -> Result<Receipt, Error> {
        let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) };
        self.backend.commit(commit).await
    }

    fn session_id(&self) -> Result<SessionId, Error> {
        Ok(SessionId::new(&self.id)?)
    }

    /// Opens the session with a title, a task description and participants. The principal that opens it is the
    /// coordinator.
    ///
    /// Opening it again with the same arguments is idempotent.
    ///
    /// # Errors
    /// Returns `DUPLICATE` if another session has the id, `NOT_FOUND` for an unknown agent, or a storage error.
    pub async fn open(&self, title: &str, task: impl Serialize, participants: &[&str]) -> Result<(), Error> {
        let open = OpenSession {
            id: Some(self.session_id()?),
            coordinator: None,
            participants: participants.iter().map(AgentId::new).collect::<Result<_, _>>()?,
            title: title.to_owned(),
            task: Some(self.backend.seal(to_json(task)?.into())),
        };
        self.commit(Op::OpenSession(open)).await.map(drop)
    }

    async fn change(&self, change: SessionChange, reason: &str) -> Result<(), Error> {
        let change = ChangeSession { session: self.session_id()?, change, reason: reason.to_owned() };
        self.commit(Op::ChangeSession(change)).await.map(drop)
    }

    /// Adds a participant.
    ///
    /// # Errors
    /// Returns `FORBIDDEN` unless called by the coordinator or the hub, `SESSION_CLOSED`, or a storage error.
    pub async fn join(&self, agent: &str) -> Result<(), Error> {
        self.change(SessionChange::Join(AgentId::new(agent)?), "").await
    }

    /// Removes a participant. An agent can also remove itself.
    ///
    /// # Errors
    /// See [`Session::join`].
    pub async fn leave(&self, agent: &str) -> Result<(), Error> {
        self.change(SessionChange::Leave(AgentId::new(agent)?), "").await
    }

    /// Pauses the session: its messages are held until it is resumed. Deliveries in progress continue.
    ///
    /// # Errors
    /// See [`Session::join`].
    pub async fn pause(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Pause, reason).await
    }

    /// Resumes the session: held messages are delivered in order.
    ///
    /// # Errors
    /// See [`Session::join`].
    pub async fn resume(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Resume, reason).await
    }

    /// Closes the session as completed. A closed session accepts no further changes.
    ///
    /// # Errors
    /// See [`Session::join`].
    pub async fn complete(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Complete, reason).await
    }

    /// Closes the session as failed. A closed session accepts no further changes.
    ///
    /// # Errors
    /// See [`Session::join`].
    pub async fn fail(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Fail, reason).await
    }

    /// Adds a contribution with its rationale. Returns its number among the contributions of the same kind.
    ///
    /// # Errors
    /// Returns `FORBIDDEN` if the caller is not a participant, `SESSION_CLOSED`, or a storage error.
    pub async fn add(
        &self,
        kind: ContributionKind,
        body: impl Serialize,
        rationale: &str,
    ) -> Result<u64, Error> {
        let add = AddToSession {
            session: self.session_id()?,
            kind,
            body: self.backend.seal(to_json(body)?.into()),
            content_type: None,
            rationale: rationale.to_owned(),
        };
        match self.commit(Op::AddToSession(add)).await?.results.first() {
            Some(OpResult::ContributionAdded { n }) => Ok(*n),
            _ => Err(StoreError::Read("the commit returned no contribution number".into()).into()),
        }
    }

    /// Adds a decision.
    ///
    /// # Errors
    /// See [`Session::add`].
    pub async fn add_decision(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(ContributionKind::Decision, body, rationale).await
    }

    /// Adds an artifact.
    ///
    /// # Errors
    /// See [`Session::add`].
    pub async fn add_artifact(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(ContributionKind::Artifact, body, rationale).await
    }

    /// Adds a finding.
    ///
    /// # Errors
    /// See [`Session::add`].
    pub async fn add_finding(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(ContributionKind::Finding, body, rationale).await
    }

    /// Adds a blocker.
    ///
    /// # Errors
    /// See [`Session::add`].
    pub async fn add_blocker(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(ContributionKind::Blocker, body, rationale).await
    }

    /// Adds a note.
    ///
    /// # Errors
    /// See [`Session::add`].
    pub async fn add_note(&self, body: impl Serialize) -> Result<u64, Error> {
        self.add(ContributionKind::Note, body, "").await
    }

    /// Returns the status, the participants and the number of contributions.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn info(&self) -> Result<SessionInfo, Error> {
        self.backend.session(self.session_id()?).await
    }

    /// Deserializes the task description.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `INVALID` if the task description does not match the type, or a storage error.
    pub async fn task<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let task = self.backend.session_task(self.session_id()?).await?;
        from_json(task.as_ref().map_or(b"null", |task| &task.bytes[..]))
    }

    /// Returns the contributions of one kind after a sequence number, oldest first; 0 starts at the beginning.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn contributions(
        &self,
        kind: ContributionKind,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<SessionContribution>, Error> {
        let entries = self
            .timeline_entries(Some(TimelineKind::Contribution(kind)), TimelinePage::After(after), limit)
            .await?;
        Ok(entries.into_iter().filter_map(SessionContribution::from_entry).collect())
    }

    /// Returns the first decisions.
    ///
    /// # Errors
    /// See [`Session::contributions`].
    pub async fn decisions(&self, limit: usize) -> Result<Vec<SessionContribution>, Error> {
        self.contributions(ContributionKind::Decision, Seq(0), limit).await
    }

    /// Returns the timeline after a sequence number, oldest first; 0 starts at the beginning. To get the next page,
    /// pass the last sequence number returned.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn timeline(&self, after: Seq, limit: usize) -> Result<Vec<TimelineEntry>, Error> {
        self.timeline_entries(None, TimelinePage::After(after), limit).await
    }

    /// Returns the newest entries of the timeline, newest first.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn newest_entries(&self, limit: usize) -> Result<Vec<TimelineEntry>, Error> {
        self.timeline_entries(None, TimelinePage::Before(Seq(u64::MAX)), limit).await
    }

    /// Reads timeline entries page by page until `limit` records are read or the timeline ends.
    async fn timeline_entries(
        &self,
        kind: Option<TimelineKind>,
        mut page: TimelinePage,
        limit: usize,
    ) -> Result<Vec<TimelineEntry>, Error> {
        let (mut entries, mut records) = (Vec::new(), 0);
        loop {
            let (page_entries, next) =
                self.backend.timeline(self.session_id()?, kind, page, limit - records).await?;
            records += page_entries.iter().map(|entry| entry.record.seq).collect::<BTreeSet<_>>().len();
            entries.extend(page_entries);
            page = match (next, page) {
                (Some(seq), TimelinePage::After(_)) if records < limit => TimelinePage::After(seq),
                (Some(seq), TimelinePage::Before(_)) if records < limit => TimelinePage::Before(seq),
                _ => return Ok(entries),
            };
        }
    }
}

impl SessionContribution {
    fn from_entry(entry: TimelineEntry) -> Option<Self> {
        let TimelineRecord { seq, at, by } = entry.record;
        match entry.event {
            TimelineEvent::Added(TimelineContribution { n, body, content_type, rationale, .. }) => {
                let body = payload::decode_received(&body, content_type.as_deref()).ok()?.bytes.to_vec();
                Some(Self { n, by, at, seq, rationale, body })
            }
            TimelineEvent::Message(_) | TimelineEvent::Changed(_) => None,
        }
    }
}
