//! Reads of entries, messages and dead letters, all from durable state.

use std::sync::Arc;

use quorate_core::limits::PAGE_BYTES_MAX;
use quorate_core::{
    AgentId, ClientId, Code, DeliveryId, DeliveryNo, Destination, Effect, Key, Message, MessageId, Payload,
    QueueId, Record, Refused, Seq, Timestamp, Version, codec,
};
use quorate_store::{
    AsOf, ReadQuery, ReadResult, StoreError, StoredDeadLetter, StoredDeliveryState, StoredEntry,
    StoredMessage,
};

use crate::error::Error;
use crate::space::Space;

/// Minimum and maximum number of entries read together.
const BATCH_MIN: usize = 8;
const BATCH_MAX: usize = 64;

/// Message with the state of its deliveries.
#[derive(Clone, Debug)]
pub struct MessageView {
    /// Message ID.
    pub id: MessageId,
    /// Time at which the message was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
    /// One delivery per recipient.
    pub deliveries: Vec<DeliveryView>,
}

/// State of a delivery.
#[derive(Clone, Debug)]
pub struct DeliveryView {
    /// Delivery ID.
    pub id: DeliveryId,
    /// Recipient; `can:CAPABILITY` for a message to a capability.
    pub agent: AgentId,
    /// Current state.
    pub state: StoredDeliveryState,
}

impl Space {
    pub(crate) async fn read_one(&self, read: ReadQuery) -> Result<ReadResult, Error> {
        let rows = self.engine().store.read(self.number(), vec![read]).await?;
        rows.into_iter().next().ok_or_else(|| StoreError::Read("the store returned no result".into()).into())
    }

    /// Returns a version of an entry, including tombstones; `None` if it does not exist.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn entry(&self, key: &Key, when: AsOf) -> Result<Option<StoredEntry>, Error> {
        match self.read_one(ReadQuery::Entry { key: key.clone(), when }).await? {
            ReadResult::Entry(entry) => Ok(entry),
            other => Err(unexpected_result(&other)),
        }
    }

    /// Returns the versions of an entry after this one, oldest first.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn history(&self, key: &Key, after: Version, limit: usize) -> Result<Vec<StoredEntry>, Error> {
        self.query_entries(ReadQuery::History { key: key.clone(), after, limit }).await
    }

    /// Returns the live entries with this key prefix, by key.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn entries(
        &self,
        prefix: &str,
        after: Option<Key>,
        limit: usize,
    ) -> Result<Vec<StoredEntry>, Error> {
        let prefix = prefix.to_owned();
        self.query_entries(ReadQuery::Entries { prefix, entry_type: None, author: None, after, limit }).await
    }

    /// Returns the entries that match a query.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn query_entries(&self, read: ReadQuery) -> Result<Vec<StoredEntry>, Error> {
        match self.read_one(read).await? {
            ReadResult::Entries(entries) => Ok(entries),
            other => Err(unexpected_result(&other)),
        }
    }

    /// Returns at most `limit` entries that match a query, and whether there may be more. The page ends with the
    /// entry that brings its content to [`PAGE_BYTES_MAX`]. Entries are read in chunks, so that large ones are never
    /// all in memory.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn entries_page(
        &self,
        mut read: ReadQuery,
        limit: usize,
    ) -> Result<(Vec<StoredEntry>, bool), Error> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        loop {
            // Estimate from the average size so far; start with a few.
            let average = bytes / page.len().max(1) + 1;
            let fit = if page.is_empty() { 0 } else { (PAGE_BYTES_MAX - bytes) / average };
            let batch = fit.clamp(BATCH_MIN, BATCH_MAX).min(limit - page.len());
            continue_after(&mut read, page.last(), batch);
            let more = self.query_entries(read.clone()).await?;
            let is_last = more.len() < batch;
            for entry in more {
                bytes += entry.content.as_ref().map_or(0, |content| content.bytes.len());
                page.push(entry);
                if page.len() == limit || bytes >= PAGE_BYTES_MAX {
                    return Ok((page, true));
                }
            }
            if is_last {
                return Ok((page, false));
            }
        }
    }

    /// Returns a message with the state of each delivery.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for an ID of an earlier generation; or a storage failure.
    pub async fn message(&self, id: MessageId) -> Result<MessageView, Error> {
        let missing = || Refused::new(Code::NotFound, format!("there is no message {id}"));
        if self.published().generations.at_seq(id.seq) != id.generation {
            return Err(missing()
                .hint("the id may belong to history that was replaced by a restore from a backup")
                .into());
        }
        match self.read_one(ReadQuery::Message { seq: id.seq, n: id.n }).await? {
            ReadResult::Message(Some(stored)) => self.with_deliveries(stored).await,
            ReadResult::Message(None) => Err(missing().into()),
            other => Err(unexpected_result(&other)),
        }
    }

    /// Returns the message with a client-assigned ID.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn message_by_client_id(&self, id: &ClientId) -> Result<MessageView, Error> {
        match self.read_one(ReadQuery::MessageByClientId(id.clone())).await? {
            ReadResult::Message(Some(stored)) => self.with_deliveries(stored).await,
            ReadResult::Message(None) => {
                Err(Refused::new(Code::NotFound, format!("there is no message {id}")).into())
            }
            other => Err(unexpected_result(&other)),
        }
    }

    async fn with_deliveries(&self, stored: StoredMessage) -> Result<MessageView, Error> {
        let count = stored.recipients.len() as u32;
        let states =
            match self.read_one(ReadQuery::Deliveries { first: stored.first_delivery, count }).await? {
                ReadResult::Deliveries(states) => states,
                other => return Err(unexpected_result(&other)),
            };
        let published = self.published();
        let deliveries =
            stored.recipients.iter().zip(states).enumerate().filter_map(|(index, (to, state))| {
                // A delivery from a pool is listed under the capability, regardless of its current holder.
                let agent = match to.queue() {
                    QueueId::Agent(agent) => published.agents.get(agent)?.id.clone(),
                    QueueId::Pool(_) => AgentId::new(stored.message.to.to_string()).ok()?,
                };
                let id =
                    published.generations.delivery_id(DeliveryNo(stored.first_delivery.0 + index as u64));
                Some(DeliveryView { id, agent, state: state? })
            });
        Ok(MessageView {
            id: published.generations.message_id(stored.seq, stored.n),
            at: stored.at,
            message: Arc::clone(&stored.message),
            deliveries: deliveries.collect(),
        })
    }

    /// Returns the destination of a message without reading its payload, so that it works even if the payload is
    /// damaged.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn destination(&self, id: MessageId) -> Result<Destination, Error> {
        let missing = || StoreError::Corrupt(format!("message {id} is missing in the log").into());
        let records = self.records_without_payloads(id.seq, 1).await?;
        let record = records.first().filter(|record| record.seq == id.seq).ok_or_else(missing)?;
        let body = codec::read_without_payload(record).map_err(|error| undecodable_record(record, &error))?;
        let sent = body.effects.into_iter().filter_map(|effect| match effect {
            Effect::Sent { message, .. } => Some(message.to.clone()),
            _ => None,
        });
        Ok({ sent }.nth(id.n as usize).ok_or_else(missing)?)
    }

    /// Returns the dead letters after this one, oldest first, of one agent or of all.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown agent, or a storage failure.
    pub async fn dead_letters(
        &self,
        agent: Option<&AgentId>,
        after: DeliveryNo,
        limit: usize,
    ) -> Result<Vec<StoredDeadLetter>, Error> {
        let agent = match agent {
            Some(id) => Some(
                self.published()
                    .agents
                    .number(id)
                    .ok_or_else(|| Refused::new(Code::NotFound, format!("there is no agent {id}")))?,
            ),
            None => None,
        };
        match self.read_one(ReadQuery::DeadLetters { agent, after, limit }).await? {
            ReadResult::DeadLetters(dead_letters) => Ok(dead_letters),
            other => Err(unexpected_result(&other)),
        }
    }

    /// Reads records of the log from a position on, without their payloads. Large records can make the result shorter
    /// than `max` even if there are more.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn records_without_payloads(&self, from: Seq, max: usize) -> Result<Vec<Record>, Error> {
        Ok(self.engine().store.log_bodies(self.number(), from, max).await?)
    }

    /// Reads all records between two positions, without their payloads.
    pub(crate) async fn records_between(&self, from: Seq, end: Seq) -> Result<Vec<Record>, Error> {
        let mut records: Vec<Record> = Vec::new();
        loop {
            let next = records.last().map_or(from, |last| Seq(last.seq.0 + 1));
            let missing = end.0.saturating_sub(next.0) as usize;
            if missing == 0 {
                return Ok(records);
            }
            let more = self.records_without_payloads(next, missing).await?;
            if more.is_empty() {
                return Ok(records);
            }
            records.extend(more);
        }
    }

    /// Reads records of the log from a position on.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn log(&self, from: Seq, max: usize) -> Result<Vec<Record>, Error> {
        Ok(self.engine().store.log(self.number(), from, max).await?)
    }
}

/// Continues a query after an entry, with a new limit.
fn continue_after(read: &mut ReadQuery, last: Option<&StoredEntry>, batch: usize) {
    match read {
        ReadQuery::Entries { after, limit, .. } => {
            *limit = batch;
            *after = last.map(|last| last.key.clone()).or_else(|| after.take());
        }
        ReadQuery::History { after, limit, .. } => {
            *limit = batch;
            *after = last.map_or(*after, |last| last.version.head.version);
        }
        _ => {}
    }
}

pub(crate) fn unexpected_result(rows: &ReadResult) -> Error {
    let kind = match rows {
        ReadResult::Entry(_) => "an entry",
        ReadResult::Entries(_) => "entries",
        ReadResult::Message(_) => "a message",
        ReadResult::Deliveries(_) => "deliveries",
        ReadResult::DeadLetters(_) => "dead letters",
        ReadResult::Seq(_) => "a position",
        ReadResult::Item(_) => "an item",
        ReadResult::Items(_) => "items",
        ReadResult::Dependencies(_) => "dependencies",
        ReadResult::Record(_) => "a record",
        ReadResult::Timeline(_) => "a timeline",
        ReadResult::Part(_) => "a payload",
    };
    StoreError::Read(format!("unexpected result of a read: {kind}").into()).into()
}

/// Returns a payload of a record, as it was written; `None` if it does not exist.
pub(crate) fn payload_of(record: &Record, part: u32) -> Result<Option<Payload>, Error> {
    match codec::payload_part(record, part).map_err(|error| undecodable_record(record, &error))? {
        Some(payload) if !payload.is_intact() => Err(StoreError::corrupt_payload(record.seq).into()),
        found => Ok(found),
    }
}

/// Creates the error for a record that cannot be decoded.
pub(crate) fn undecodable_record(record: &Record, error: &codec::DecodeError) -> Error {
    StoreError::Corrupt(format!("record {}: {error}", record.seq).into()).into()
}
