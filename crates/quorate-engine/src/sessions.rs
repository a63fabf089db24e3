//! Sessions: opening and changing them, adding contributions, and reading the timeline from the log.

use std::sync::Arc;

use quorate_core::limits::PAGE_BYTES_MAX;
use quorate_core::{
    AddToSession, ChangeSession, Commit, ContributionKind, Effect, Epoch, Item, Message, MessageId, Op,
    OpResult, OpenSession, Payload, Principal, Record, Seq, Session, SessionId, TimelineKind, Timestamp,
    Verb, codec,
};
use quorate_store::{ReadQuery, ReadResult, StoreError, TimelinePage};

use crate::error::Error;
use crate::items::StoredItem as _;
use crate::reads::{payload_of, undecodable_record};
use crate::space::Space;

/// Maximum number of records of a session's timeline that one call reads.
pub const TIMELINE_MAX: usize = 256;

/// Entry of a session's timeline.
#[derive(Clone, Debug)]
pub struct RecordedSessionEvent {
    /// Sequence number of the record; the next page begins after it.
    pub seq: Seq,
    /// Time of the commit.
    pub at: Timestamp,
    /// Principal that made the commit: `agent:ID`, `system` and so on.
    pub by: String,
    /// The event.
    pub event: SessionEvent,
}

/// Event in a session.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// A message of the session.
    Message {
        /// Message ID.
        id: MessageId,
        /// The message.
        message: Arc<Message>,
    },
    /// A change of the session.
    Changed {
        /// Kind of change. For a join or leave, the agent is the last participant.
        verb: Verb,
        /// Session after the change.
        session: Box<Session>,
    },
    /// A contribution.
    Added(RecordedContribution),
}

/// Contribution to a session.
#[derive(Clone, Debug)]
pub struct RecordedContribution {
    /// Kind of contribution.
    pub kind: ContributionKind,
    /// Number of the contribution among those of its kind, starting at 1.
    pub n: u64,
    /// Body of the contribution.
    pub body: Payload,
    /// Media type of the body; `None` for JSON.
    pub content_type: Option<String>,
    /// Reason for the contribution; may be empty.
    pub rationale: String,
}

impl Space {
    /// Opens a session and returns its ID.
    ///
    /// # Errors
    /// `DUPLICATE` if the ID is taken by another session, another refusal, or a storage failure.
    pub async fn open_session(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        open: OpenSession,
    ) -> Result<SessionId, Error> {
        match self.session_op(principal, epoch, Op::OpenSession(open)).await? {
            OpResult::SessionOpened { id } => Ok(id),
            _ => Err(unexpected_result()),
        }
    }

    /// Changes the participants or the status of a session.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN`, `SESSION_CLOSED`, or a storage failure.
    pub async fn change_session(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        change: ChangeSession,
    ) -> Result<(), Error> {
        self.session_op(principal, epoch, Op::ChangeSession(change)).await.map(drop)
    }

    /// Adds a contribution to a session and returns its number among those of its kind.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN`, `SESSION_CLOSED`, or a storage failure.
    pub async fn add_to_session(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        add: AddToSession,
    ) -> Result<u64, Error> {
        match self.session_op(principal, epoch, Op::AddToSession(add)).await? {
            OpResult::ContributionAdded { n } => Ok(n),
            _ => Err(unexpected_result()),
        }
    }

    async fn session_op(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        op: Op,
    ) -> Result<OpResult, Error> {
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        receipt.results.into_iter().next().ok_or_else(unexpected_result)
    }

    /// Returns the task of the session; `None` if it has none.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn session_task(&self, session: &Session) -> Result<Option<Payload>, Error> {
        let Some(part) = session.task else { return Ok(None) };
        match self.read_one(ReadQuery::Record(session.number.record())).await? {
            ReadResult::Record(Some(record)) => payload_of(&record, part),
            _ => Ok(None),
        }
    }

    /// Returns a page of the timeline of a session: contributions, changes and messages of the session in log order,
    /// optionally of one kind, with the cursor of the next page. A page covers at most 256 records and ends with the
    /// record that brings it to [`PAGE_BYTES_MAX`]. A record can contribute several entries. A session ID that was
    /// never opened has a timeline if messages refer to it.
    ///
    /// # Errors
    /// `NOT_FOUND` if neither a session nor a message with that session ID exists, or a storage failure.
    pub async fn timeline(
        &self,
        id: &SessionId,
        kind: Option<TimelineKind>,
        page: TimelinePage,
        limit: usize,
    ) -> Result<(Vec<RecordedSessionEvent>, Option<Seq>), Error> {
        let limit = limit.min(TIMELINE_MAX);
        let timeline = ReadQuery::Timeline { session: id.as_str().into(), kind, page, limit };
        let ReadResult::Timeline(seqs) = self.read_one(timeline).await? else {
            return Err(unexpected_result());
        };
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut is_full = seqs.len() == limit;
        for (index, seq) in seqs.iter().enumerate() {
            let ReadResult::Record(record) = self.read_one(ReadQuery::Record(*seq)).await? else {
                return Err(unexpected_result());
            };
            let Some(record) = record else { continue };
            bytes += record.payload.len();
            let mut record_entries = self.entries_of_record(id, kind, &record)?;
            if let TimelinePage::Before(_) = page {
                record_entries.reverse();
            }
            entries.extend(record_entries);
            if bytes >= PAGE_BYTES_MAX && index + 1 < seqs.len() {
                is_full = true;
                break;
            }
        }
        if entries.is_empty() {
            self.require_timeline(id).await?;
        }
        let cursor = entries.last().filter(|_| is_full).map(|last: &RecordedSessionEvent| last.seq);
        Ok((entries, cursor))
    }

    /// A page can be empty, but a session ID that was never used is an error.
    async fn require_timeline(&self, id: &SessionId) -> Result<(), Error> {
        let first = ReadQuery::Timeline {
            session: id.as_str().into(),
            kind: None,
            page: TimelinePage::After(Seq(0)),
            limit: 1,
        };
        match self.read_one(first).await? {
            ReadResult::Timeline(seqs) if seqs.is_empty() => Err(Session::not_found(id).into()),
            _ => Ok(()),
        }
    }

    fn entries_of_record(
        &self,
        id: &SessionId,
        kind: Option<TimelineKind>,
        record: &Record,
    ) -> Result<Vec<RecordedSessionEvent>, Error> {
        let body = codec::read_body(record).map_err(|error| undecodable_record(record, &error))?;
        let generations = Arc::clone(&self.published().generations);
        let mut entries = Vec::new();
        let mut n = 0;
        for effect in body.effects {
            let matches = effect.timeline_entry().is_some_and(|(session, entry_kind)| {
                session == id.as_str() && kind.is_none_or(|kind| kind == entry_kind)
            });
            let event = match effect {
                Effect::Sent { message, .. } => {
                    n += 1;
                    if matches && !message.payload.is_intact() {
                        return Err(StoreError::corrupt_payload(record.seq).into());
                    }
                    SessionEvent::Message { id: generations.message_id(record.seq, n - 1), message }
                }
                Effect::Changed { verb, item: Item::Session(session) } => {
                    SessionEvent::Changed { verb, session: Box::new(session) }
                }
                Effect::ContributionAdded { kind, n, part, content_type, rationale, .. } => {
                    let body = payload_of(record, part)?.ok_or_else(unexpected_result)?;
                    SessionEvent::Added(RecordedContribution { kind, n, body, content_type, rationale })
                }
                _ => continue,
            };
            if matches {
                entries.push(RecordedSessionEvent {
                    seq: record.seq,
                    at: record.at,
                    by: record.principal.clone(),
                    event,
                });
            }
        }
        Ok(entries)
    }
}

fn unexpected_result() -> Error {
    StoreError::Read("unexpected result of a session operation".into()).into()
}
