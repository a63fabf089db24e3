//! Lists of the messages sent in a space, newest first.

use quorate_core::limits::PAGE_BYTES_MAX;
use quorate_core::{AgentId, Effect, MessageId, Record, Seq, SessionId, TimelineKind, codec};
use quorate_store::{ReadQuery, ReadResult, StoreError, StoredMessage, TimelinePage};

use crate::error::Error;
use crate::reads::unexpected_result;
use crate::space::Space;
use crate::yielder::Yielder;

pub use quorate_api::query::{ListedMessage, MessageCursor, MessageFilter, MessagesPage, OutboxPage};

/// Number of records read together.
const PAGE: u64 = 64;
/// Maximum number of records scanned for one page of a list of messages.
const SCANNED_MAX: u64 = 10_000;
/// Maximum number of records of a session scanned for one page.
const SESSION_PAGE: usize = 256;

impl Space {
    /// Returns the messages before a position, newest first. A page can be short and still have a cursor: the scan
    /// limit was reached, or its payloads reached [`PAGE_BYTES_MAX`].
    ///
    /// # Errors
    /// Storage failures.
    pub async fn messages(
        &self,
        filter: &MessageFilter,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> Result<MessagesPage, Error> {
        let sent = self.sent(filter, before, limit).await?;
        let mut page = MessagesPage { messages: Vec::new(), cursor: sent.cursor };
        let mut bytes = 0;
        let mut missing = sent.messages.len();
        // Messages of the same record are read together, so that it is decoded once.
        for ids in sent.messages.chunk_by(|previous, next| previous.seq == next.seq) {
            for (id, stored) in ids.iter().zip(self.stored(ids).await?) {
                missing -= 1;
                let Some(StoredMessage { at, message, .. }) = stored else { continue };
                bytes += message.payload.bytes.len();
                page.messages.push(ListedMessage { id: *id, at, message });
                if bytes >= PAGE_BYTES_MAX && missing > 0 {
                    page.cursor = MessageCursor { seq: id.seq, n: id.n }.unless_exhausted();
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    /// Reads stored messages, in the order of their IDs.
    async fn stored(&self, ids: &[MessageId]) -> Result<Vec<Option<StoredMessage>>, Error> {
        let reads = ids.iter().map(|id| ReadQuery::Message { seq: id.seq, n: id.n }).collect();
        let rows = self.engine().store.read(self.number(), reads).await?;
        let stored = rows.into_iter().map(|row| match row {
            ReadResult::Message(stored) => Ok(stored),
            other => Err(unexpected_result(&other)),
        });
        stored.collect()
    }

    /// Returns the messages that an agent sent before a position, newest first. A page can be short and still have a
    /// cursor: the scan limit was reached.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn outbox(
        &self,
        agent: &AgentId,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> Result<OutboxPage, Error> {
        let filter = MessageFilter { from: Some(agent.clone()), ..MessageFilter::default() };
        self.sent(&filter, before, limit).await
    }

    /// Returns the IDs of messages before a position, newest first. Reads no payloads.
    async fn sent(
        &self,
        filter: &MessageFilter,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> Result<OutboxPage, Error> {
        let head = MessageCursor::before_record(Seq(self.published().head.seq.0 + 1));
        let mut before = before.unwrap_or(head).min(head);
        let last = Seq(before.seq.0.saturating_sub(SCANNED_MAX)).max(Seq(1));
        let (mut messages, mut yielder) = (Vec::new(), Yielder::default());
        loop {
            // The previous page may have ended within a record: its remaining messages come first.
            let end = Seq(before.seq.0 + u64::from(before.n > 0));
            let records = match &filter.session {
                Some(session) => self.session_records_before(session, end).await?,
                None if end <= last => break,
                None => self.records_before(end, last).await?,
            };
            let is_last = records.is_empty() || filter.session.is_some() && records.len() < SESSION_PAGE;
            for record in &records {
                let found = self.sent_in(record, filter)?;
                for id in found.into_iter().filter(|id| MessageCursor { seq: id.seq, n: id.n } < before) {
                    messages.push(id);
                    if messages.len() == limit {
                        let cursor = MessageCursor { seq: id.seq, n: id.n }.unless_exhausted();
                        return Ok(OutboxPage { messages, cursor });
                    }
                }
                before = MessageCursor::before_record(record.seq);
                yielder.after_record(record).await;
            }
            if is_last {
                return Ok(OutboxPage { messages, cursor: None });
            }
        }
        Ok(OutboxPage { messages, cursor: before.unless_exhausted() })
    }

    /// Reads the records before this one, newest first, without their payloads.
    async fn records_before(&self, before: Seq, last: Seq) -> Result<Vec<Record>, Error> {
        let from = Seq(before.0.saturating_sub(PAGE)).max(last);
        let mut records = self.records_between(from, before).await?;
        records.reverse();
        Ok(records)
    }

    /// Reads the records before this one with messages of a session, newest first, using the timeline index.
    async fn session_records_before(&self, session: &SessionId, before: Seq) -> Result<Vec<Record>, Error> {
        let (session, kind) = (session.as_str().into(), Some(TimelineKind::Message));
        let read =
            ReadQuery::Timeline { session, kind, page: TimelinePage::Before(before), limit: SESSION_PAGE };
        let seqs = match self.read_one(read).await? {
            ReadResult::Timeline(seqs) => seqs,
            other => return Err(unexpected_result(&other)),
        };
        let mut records = Vec::with_capacity(seqs.len());
        for seq in seqs {
            records.extend(self.records_without_payloads(seq, 1).await?);
        }
        Ok(records)
    }

    /// Returns the messages of a record that match the filter, newest first.
    fn sent_in(&self, record: &Record, filter: &MessageFilter) -> Result<Vec<MessageId>, Error> {
        let body = codec::read_without_payload(record)
            .map_err(|error| StoreError::Corrupt(error.to_string().into()))?;
        let published = self.published();
        let mut found = Vec::new();
        let mut n = 0;
        for effect in body.effects {
            let Effect::Sent { message, deliveries, .. } = effect else { continue };
            let id = published.generations.message_id(record.seq, n);
            n += 1;
            let received_by = |agent: &AgentId| {
                let number = published.agents.number(agent);
                deliveries.iter().any(|delivery| number.is_some() && delivery.to.agent_no() == number)
            };
            let sent_by = |agent: &AgentId| message.from.as_ref() == Some(agent);
            let matches = filter.from.as_ref().is_none_or(&sent_by)
                && filter.to.as_ref().is_none_or(&received_by)
                && filter.kind.is_none_or(|kind| message.kind == kind)
                && filter
                    .session
                    .as_ref()
                    .is_none_or(|id| message.session_id.as_deref() == Some(id.as_str()))
                && filter.participant.as_ref().is_none_or(|agent| sent_by(agent) || received_by(agent));
            if matches {
                found.push(id);
            }
        }
        found.reverse();
        Ok(found)
    }
}
