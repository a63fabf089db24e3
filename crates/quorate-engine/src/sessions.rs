//! Sessions as callers see them: opening, changing, adding, and the timeline from the log.

use std::sync::Arc;

use quorate_core::limits::PAGE_BYTES_MAX;
use quorate_core::{
    AddKind, AddToSession, ChangeSession, Commit, Effect, Epoch, Item, LineKind, Message, MessageId, Op,
    OpResult, OpenSession, Payload, Principal, Record, Seq, Session, SessionId, Timestamp, Verb, codec,
};
use quorate_store::{Page, Read, Rows, StoreError};

use crate::error::Error;
use crate::items::Noun as _;
use crate::reads::{part_of, unreadable};
use crate::space::Space;

/// Records of a timeline that one call reads.
pub const TIMELINE_MAX: usize = 256;

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
        /// How. Whoever joined or left is its last participant.
        verb: Verb,
        /// What it was since then.
        session: Box<Session>,
    },
    /// Something was added.
    Added(Addition),
}

/// Something that was added to a session.
#[derive(Clone, Debug)]
pub struct Addition {
    /// What it is.
    pub kind: AddKind,
    /// The how many-th of its kind, counted from 1.
    pub n: u64,
    /// The thing itself.
    pub body: Payload,
    /// What the bytes of it are; `None` is JSON.
    pub content_type: Option<String>,
    /// Why; may be empty.
    pub rationale: String,
}

impl Space {
    /// Opens a session. Gives its id.
    ///
    /// # Errors
    /// `DUPLICATE` if the id is another session's, another refusal, or a failure of the storage.
    pub async fn open_session(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        open: OpenSession,
    ) -> Result<SessionId, Error> {
        match self.session_op(principal, epoch, Op::OpenSession(open)).await? {
            OpResult::SessionOpened { id } => Ok(id),
            _ => Err(unanswered()),
        }
    }

    /// Changes a session: who takes part, and where it is.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN`, `SESSION_CLOSED`, or a failure of the storage.
    pub async fn change_session(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        change: ChangeSession,
    ) -> Result<(), Error> {
        self.session_op(principal, epoch, Op::ChangeSession(change)).await.map(drop)
    }

    /// Adds to a session. Gives the how many-th of its kind it is.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN`, `SESSION_CLOSED`, or a failure of the storage.
    pub async fn add_to_session(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        add: AddToSession,
    ) -> Result<u64, Error> {
        match self.session_op(principal, epoch, Op::AddToSession(add)).await? {
            OpResult::SessionAdded { n } => Ok(n),
            _ => Err(unanswered()),
        }
    }

    async fn session_op(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        op: Op,
    ) -> Result<OpResult, Error> {
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        receipt.results.into_iter().next().ok_or_else(unanswered)
    }

    /// What the session is to do; `None` if nobody said.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn session_task(&self, session: &Session) -> Result<Option<Payload>, Error> {
        let Some(part) = session.task else { return Ok(None) };
        match self.read_one(Read::Record(session.number.record())).await? {
            Rows::Record(Some(record)) => part_of(&record, part),
            _ => Ok(None),
        }
    }

    /// A page of the timeline of a session: additions, changes and the messages that name it, in the order of the log, all
    /// or of one kind, and from where to go on. A page covers up to 256 records, and ends with the one that brings it to
    /// [`PAGE_BYTES_MAX`]; a record may have several lines. A name that nobody opened has a
    /// timeline too, if messages name it.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is neither a session nor a message of that name, or a failure of the storage.
    pub async fn timeline(
        &self,
        id: &SessionId,
        kind: Option<LineKind>,
        page: Page,
        limit: usize,
    ) -> Result<(Vec<TimelineLine>, Option<Seq>), Error> {
        let limit = limit.min(TIMELINE_MAX);
        let timeline = Read::Timeline { session: id.as_str().into(), kind, page, limit };
        let Rows::Timeline(seqs) = self.read_one(timeline).await? else { return Err(unanswered()) };
        let (mut lines, mut bytes) = (Vec::new(), 0);
        let mut is_full = seqs.len() == limit;
        for (index, seq) in seqs.iter().enumerate() {
            let Rows::Record(record) = self.read_one(Read::Record(*seq)).await? else {
                return Err(unanswered());
            };
            let Some(record) = record else { continue };
            bytes += record.payload.len();
            let mut of_record = self.lines_of(id, kind, &record)?;
            if let Page::Before(_) = page {
                of_record.reverse();
            }
            lines.extend(of_record);
            if bytes >= PAGE_BYTES_MAX && index + 1 < seqs.len() {
                is_full = true;
                break;
            }
        }
        if lines.is_empty() {
            self.require_timeline(id).await?;
        }
        let cursor = lines.last().filter(|_| is_full).map(|last: &TimelineLine| last.seq);
        Ok((lines, cursor))
    }

    /// A page may be empty; a name of which nobody ever heard is an error.
    async fn require_timeline(&self, id: &SessionId) -> Result<(), Error> {
        let first =
            Read::Timeline { session: id.as_str().into(), kind: None, page: Page::After(Seq(0)), limit: 1 };
        match self.read_one(first).await? {
            Rows::Timeline(seqs) if seqs.is_empty() => Err(Session::not_found(id).into()),
            _ => Ok(()),
        }
    }

    fn lines_of(
        &self,
        id: &SessionId,
        kind: Option<LineKind>,
        record: &Record,
    ) -> Result<Vec<TimelineLine>, Error> {
        let body = codec::read_body(record).map_err(|why| unreadable(record, &why))?;
        let eras = Arc::clone(&self.published().eras);
        let mut lines = Vec::new();
        let mut n = 0;
        for effect in body.effects {
            let wanted = effect
                .line()
                .is_some_and(|(session, of)| session == id.as_str() && kind.is_none_or(|kind| kind == of));
            let what = match effect {
                Effect::Sent { message, .. } => {
                    n += 1;
                    if wanted && !message.payload.is_intact() {
                        return Err(StoreError::damaged_payload(record.seq).into());
                    }
                    Happening::Message { id: eras.message_id(record.seq, n - 1), message }
                }
                Effect::Changed { verb, item: Item::Session(session) } => {
                    Happening::Changed { verb, session: Box::new(session) }
                }
                Effect::SessionAdded { kind, n, part, content_type, rationale, .. } => {
                    let body = part_of(record, part)?.ok_or_else(unanswered)?;
                    Happening::Added(Addition { kind, n, body, content_type, rationale })
                }
                _ => continue,
            };
            if wanted {
                lines.push(TimelineLine {
                    seq: record.seq,
                    at: record.at,
                    by: record.principal.clone(),
                    what,
                });
            }
        }
        Ok(lines)
    }
}

fn unanswered() -> Error {
    StoreError::Read("a question about a session was not answered".into()).into()
}
