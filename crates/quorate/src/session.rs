//! Sessions: a piece of common work, with what was decided, made and found out on record.

mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_api::Error;
use quorate_api::payload;
use quorate_core::{
    AddKind, AddToSession, AgentId, ChangeSession, Commit, Epoch, LineKind, Op, OpResult, OpenSession, Page,
    Principal, Receipt, Seq, SessionChange, SessionId, StoreError, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{from_json, to_json};
use crate::link::Link;

pub use view::{
    SessionInfo, TimelineAddition, TimelineChange, TimelineEvent, TimelineLine, TimelineMessage,
    TimelineRecord,
};

/// A session, led or added to in somebody's name. It need not be open yet.
#[derive(Clone)]
pub struct Session {
    link: Arc<dyn Link>,
    principal: Principal,
    epoch: Option<Epoch>,
    id: String,
}

/// Something that was added to a session.
#[derive(Clone, Debug)]
pub struct Added {
    /// The how many-th of its kind, counted from 1.
    pub n: u64,
    /// Who added it: `agent:ID` or `system`.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at: Timestamp,
    /// The record that holds it.
    pub seq: Seq,
    /// Why; may be empty.
    pub rationale: String,
    body: Vec<u8>,
}

impl Added {
    /// The thing itself, typed.
    ///
    /// # Errors
    /// `INVALID` if it is not of that shape, or was erased.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(&self.body)
    }
}

impl Session {
    pub(crate) fn new(link: Arc<dyn Link>, principal: Principal, epoch: Option<Epoch>, id: String) -> Self {
        Self { link, principal, epoch, id }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    async fn commit(&self, op: Op) -> Result<Receipt, Error> {
        let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) };
        self.link.commit(commit).await
    }

    fn named(&self) -> Result<SessionId, Error> {
        Ok(SessionId::new(&self.id)?)
    }

    /// Opens it, with what is to be done and who takes part besides whoever opens it. Opening it again in the same way
    /// changes nothing.
    ///
    /// # Errors
    /// `DUPLICATE` if the id is another session's, `NOT_FOUND` for an unknown agent, or a failure of the storage.
    pub async fn open(&self, title: &str, task: impl Serialize, participants: &[&str]) -> Result<(), Error> {
        let open = OpenSession {
            id: Some(self.named()?),
            coordinator: None,
            participants: participants.iter().map(AgentId::new).collect::<Result<_, _>>()?,
            title: title.to_owned(),
            task: Some(self.link.seal(to_json(task)?.into())),
        };
        self.commit(Op::OpenSession(open)).await.map(drop)
    }

    async fn change(&self, change: SessionChange, reason: &str) -> Result<(), Error> {
        let change = ChangeSession { session: self.named()?, change, reason: reason.to_owned() };
        self.commit(Op::ChangeSession(change)).await.map(drop)
    }

    /// Lets an agent take part.
    ///
    /// # Errors
    /// `FORBIDDEN` unless it is for its coordinator or the hub, another refusal, or a failure of the storage.
    pub async fn join(&self, agent: &str) -> Result<(), Error> {
        self.change(SessionChange::Join(AgentId::new(agent)?), "").await
    }

    /// Lets an agent take part no longer. An agent may leave by itself.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub async fn leave(&self, agent: &str) -> Result<(), Error> {
        self.change(SessionChange::Leave(AgentId::new(agent)?), "").await
    }

    /// Holds its messages until it is resumed. What somebody works on already runs on.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub async fn pause(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Pause, reason).await
    }

    /// Lets its messages go out again, in order.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub async fn resume(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Resume, reason).await
    }

    /// Closes it with a result: it takes nothing more.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub async fn complete(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Complete, reason).await
    }

    /// Closes it without a result: it takes nothing more.
    ///
    /// # Errors
    /// As [`Session::join`].
    pub async fn fail(&self, reason: &str) -> Result<(), Error> {
        self.change(SessionChange::Fail, reason).await
    }

    /// Adds something, with the reason for it. Gives the how many-th of its kind it is.
    ///
    /// # Errors
    /// `FORBIDDEN` unless it is by somebody who takes part, `SESSION_CLOSED`, or a failure of the storage.
    pub async fn add(&self, kind: AddKind, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        let add = AddToSession {
            session: self.named()?,
            kind,
            body: self.link.seal(to_json(body)?.into()),
            content_type: None,
            rationale: rationale.to_owned(),
        };
        match self.commit(Op::AddToSession(add)).await?.results.first() {
            Some(OpResult::SessionAdded { n }) => Ok(*n),
            _ => Err(StoreError::Read("an addition was not answered".into()).into()),
        }
    }

    /// Adds what was decided.
    ///
    /// # Errors
    /// As [`Session::add`].
    pub async fn add_decision(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(AddKind::Decision, body, rationale).await
    }

    /// Adds what was made.
    ///
    /// # Errors
    /// As [`Session::add`].
    pub async fn add_artifact(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(AddKind::Artifact, body, rationale).await
    }

    /// Adds what was found out.
    ///
    /// # Errors
    /// As [`Session::add`].
    pub async fn add_finding(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(AddKind::Finding, body, rationale).await
    }

    /// Adds what stands in the way.
    ///
    /// # Errors
    /// As [`Session::add`].
    pub async fn add_blocker(&self, body: impl Serialize, rationale: &str) -> Result<u64, Error> {
        self.add(AddKind::Blocker, body, rationale).await
    }

    /// Adds anything else.
    ///
    /// # Errors
    /// As [`Session::add`].
    pub async fn add_note(&self, body: impl Serialize) -> Result<u64, Error> {
        self.add(AddKind::Note, body, "").await
    }

    /// Where it is, who takes part, and how much was added.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn info(&self) -> Result<SessionInfo, Error> {
        self.link.session(self.named()?).await
    }

    /// What is to be done, typed.
    ///
    /// # Errors
    /// `NOT_FOUND`, `INVALID` if it is not of that shape, or a failure of the storage.
    pub async fn task<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let task = self.link.session_task(self.named()?).await?;
        from_json(task.as_ref().map_or(b"null", |task| &task.bytes[..]))
    }

    /// The first things of a kind that were added after this record, oldest first; 0 is from the beginning.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn added(&self, kind: AddKind, after: Seq, limit: usize) -> Result<Vec<Added>, Error> {
        let lines = self.lines(Some(LineKind::Added(kind)), Page::After(after), limit).await?;
        Ok(lines.into_iter().filter_map(Added::of).collect())
    }

    /// The first decisions.
    ///
    /// # Errors
    /// As [`Session::added`].
    pub async fn decisions(&self, limit: usize) -> Result<Vec<Added>, Error> {
        self.added(AddKind::Decision, Seq(0), limit).await
    }

    /// Its timeline after this record, oldest first; 0 is from the beginning. To go on, give the last record that came.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn timeline(&self, after: Seq, limit: usize) -> Result<Vec<TimelineLine>, Error> {
        self.lines(None, Page::After(after), limit).await
    }

    /// The newest lines of its timeline, newest first.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn newest(&self, limit: usize) -> Result<Vec<TimelineLine>, Error> {
        self.lines(None, Page::Before(Seq(u64::MAX)), limit).await
    }

    /// Lines of so many records, or of all that there are: a page ends when it is full.
    async fn lines(
        &self,
        kind: Option<LineKind>,
        mut page: Page,
        limit: usize,
    ) -> Result<Vec<TimelineLine>, Error> {
        let (mut lines, mut records) = (Vec::new(), 0);
        loop {
            let (more, rest) = self.link.timeline(self.named()?, kind, page, limit - records).await?;
            records += more.iter().map(|line| line.record.seq).collect::<BTreeSet<_>>().len();
            lines.extend(more);
            page = match (rest, page) {
                (Some(seq), Page::After(_)) if records < limit => Page::After(seq),
                (Some(seq), Page::Before(_)) if records < limit => Page::Before(seq),
                _ => return Ok(lines),
            };
        }
    }
}

impl Added {
    fn of(line: TimelineLine) -> Option<Self> {
        let TimelineRecord { seq, at, by } = line.record;
        match line.what {
            TimelineEvent::Added(TimelineAddition { n, body, content_type, rationale, .. }) => {
                let body = payload::received(&body, content_type.as_deref()).ok()?.bytes.to_vec();
                Some(Self { n, by, at, seq, rationale, body })
            }
            TimelineEvent::Message(_) | TimelineEvent::Changed(_) => None,
        }
    }
}
