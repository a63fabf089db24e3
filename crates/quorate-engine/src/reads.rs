//! Reading: entries, messages, dead letters. All from what is on disk.

use std::sync::Arc;

use quorate_core::limits::PAGE_BYTES_MAX;
use quorate_core::{
    AgentId, ClientId, Code, DeliveryId, DeliveryNo, Destination, Effect, Home, Key, Message, MessageId,
    Payload, Record, Refused, Seq, Timestamp, Version, codec,
};
use quorate_store::{DeadLetter, DeliveryState, Entry, Read, Rows, StoreError, StoredMessage, When};

use crate::error::Error;
use crate::space::Space;

/// Entries that are read at once, at least and at most.
const ENTRIES_AT_ONCE_MIN: usize = 8;
const ENTRIES_AT_ONCE_MAX: usize = 64;

/// A message and where its deliveries are.
#[derive(Clone, Debug)]
pub struct MessageView {
    /// Its id.
    pub id: MessageId,
    /// When it was sent.
    pub at: Timestamp,
    /// The message.
    pub message: Arc<Message>,
    /// One for each recipient.
    pub deliveries: Vec<DeliveryView>,
}

/// Where one delivery is.
#[derive(Clone, Debug)]
pub struct DeliveryView {
    /// Its id.
    pub id: DeliveryId,
    /// The recipient; `can:CAPABILITY` for what one of several takes.
    pub agent: AgentId,
    /// Where it is.
    pub state: DeliveryState,
}

impl Space {
    pub(crate) async fn read_one(&self, what: Read) -> Result<Rows, Error> {
        let rows = self.engine().store.read(self.number(), vec![what]).await?;
        rows.into_iter().next().ok_or_else(|| StoreError::Read("the store gave no answer".into()).into())
    }

    /// One version of an entry, tombstones included; `None` if there was none.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn entry(&self, key: &Key, when: When) -> Result<Option<Entry>, Error> {
        match self.read_one(Read::Entry { key: key.clone(), when }).await? {
            Rows::Entry(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    /// The versions of an entry after this one, oldest first.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn history(&self, key: &Key, after: Version, limit: usize) -> Result<Vec<Entry>, Error> {
        self.entries_of(Read::History { key: key.clone(), after, limit }).await
    }

    /// The live entries whose key begins so, by key.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn entries(&self, prefix: &str, after: Option<Key>, limit: usize) -> Result<Vec<Entry>, Error> {
        let prefix = prefix.to_owned();
        self.entries_of(Read::Entries { prefix, entry_type: None, author: None, after, limit }).await
    }

    /// Entries by any filter.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn entries_of(&self, what: Read) -> Result<Vec<Entry>, Error> {
        match self.read_one(what).await? {
            Rows::Entries(entries) => Ok(entries),
            other => Err(unexpected(&other)),
        }
    }

    /// Entries by any filter, at most so many, and whether there may be more: the page ends with the entry that brings its
    /// contents to [`PAGE_BYTES_MAX`]. They are read in pieces, so that large ones are never all in memory.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn entries_page(&self, mut what: Read, limit: usize) -> Result<(Vec<Entry>, bool), Error> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        loop {
            // As many as fit if the next ones are like those before; a few at first.
            let of_one = bytes / page.len().max(1) + 1;
            let fit = if page.is_empty() { 0 } else { (PAGE_BYTES_MAX - bytes) / of_one };
            let at_once = fit.clamp(ENTRIES_AT_ONCE_MIN, ENTRIES_AT_ONCE_MAX).min(limit - page.len());
            go_on(&mut what, page.last(), at_once);
            let more = self.entries_of(what.clone()).await?;
            let is_last = more.len() < at_once;
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

    /// A message with the state of each delivery.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for an id of a history that a restore replaced; or a failure of the storage.
    pub async fn message(&self, id: MessageId) -> Result<MessageView, Error> {
        let missing = || Refused::new(Code::NotFound, format!("there is no message {id}"));
        if self.published().eras.of_seq(id.seq) != id.generation {
            return Err(missing()
                .hint("it may be of a history that a restore from a backup replaced")
                .into());
        }
        match self.read_one(Read::Message { seq: id.seq, n: id.n }).await? {
            Rows::Message(Some(stored)) => self.with_deliveries(stored).await,
            Rows::Message(None) => Err(missing().into()),
            other => Err(unexpected(&other)),
        }
    }

    /// The message that bears a client's id.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn message_by_client_id(&self, id: &ClientId) -> Result<MessageView, Error> {
        match self.read_one(Read::MessageByClientId(id.clone())).await? {
            Rows::Message(Some(stored)) => self.with_deliveries(stored).await,
            Rows::Message(None) => {
                Err(Refused::new(Code::NotFound, format!("there is no message {id}")).into())
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn with_deliveries(&self, stored: StoredMessage) -> Result<MessageView, Error> {
        let count = stored.recipients.len() as u32;
        let states = match self.read_one(Read::Deliveries { first: stored.first, count }).await? {
            Rows::Deliveries(states) => states,
            other => return Err(unexpected(&other)),
        };
        let published = self.published();
        let deliveries =
            stored.recipients.iter().zip(states).enumerate().filter_map(|(index, (to, state))| {
                // What is for whoever can do something is under that name, whoever holds it now.
                let agent = match to.home() {
                    Home::Agent(agent) => published.agents.get(agent)?.id.clone(),
                    Home::Pool(_) => AgentId::new(stored.message.to.to_string()).ok()?,
                };
                let id = published.eras.delivery_id(DeliveryNo(stored.first.0 + index as u64));
                Some(DeliveryView { id, agent, state: state? })
            });
        Ok(MessageView {
            id: published.eras.message_id(stored.seq, stored.n),
            at: stored.at,
            message: Arc::clone(&stored.message),
            deliveries: deliveries.collect(),
        })
    }

    /// Where a message was sent to. Its payload is not read, so it does not matter whether that is whole.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn destination(&self, id: MessageId) -> Result<Destination, Error> {
        let missing = || StoreError::Damaged(format!("the log has no message {id}").into());
        let records = self.bodies(id.seq, 1).await?;
        let record = records.first().filter(|record| record.seq == id.seq).ok_or_else(missing)?;
        let body = codec::read_bare(record).map_err(|why| unreadable(record, &why))?;
        let sent = body.effects.into_iter().filter_map(|effect| match effect {
            Effect::Sent { message, .. } => Some(message.to.clone()),
            _ => None,
        });
        Ok({ sent }.nth(id.n as usize).ok_or_else(missing)?)
    }

    /// The dead letters after this one, oldest first, of one agent or of all.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown agent, or a failure of the storage.
    pub async fn dead_letters(
        &self,
        agent: Option<&AgentId>,
        after: DeliveryNo,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let agent = match agent {
            Some(id) => Some(
                self.published()
                    .agents
                    .number(id)
                    .ok_or_else(|| Refused::new(Code::NotFound, format!("there is no agent {id}")))?,
            ),
            None => None,
        };
        match self.read_one(Read::DeadLetters { agent, after, limit }).await? {
            Rows::DeadLetters(letters) => Ok(letters),
            other => Err(unexpected(&other)),
        }
    }

    /// Records of the log from a position on, without their payloads. There may be fewer than `max`, and more after them,
    /// where they are large.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn bodies(&self, from: Seq, max: usize) -> Result<Vec<Record>, Error> {
        Ok(self.engine().store.bodies(self.number(), from, max).await?)
    }

    /// All records from one position up to before another, without their payloads.
    pub(crate) async fn bodies_between(&self, from: Seq, end: Seq) -> Result<Vec<Record>, Error> {
        let mut records: Vec<Record> = Vec::new();
        loop {
            let next = records.last().map_or(from, |last| Seq(last.seq.0 + 1));
            let missing = end.0.saturating_sub(next.0) as usize;
            if missing == 0 {
                return Ok(records);
            }
            let more = self.bodies(next, missing).await?;
            if more.is_empty() {
                return Ok(records);
            }
            records.extend(more);
        }
    }

    /// Records of the log from a position on.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn log(&self, from: Seq, max: usize) -> Result<Vec<Record>, Error> {
        Ok(self.engine().store.log(self.number(), from, max).await?)
    }
}

/// The same list after an entry, so many of it.
fn go_on(what: &mut Read, last: Option<&Entry>, at_once: usize) {
    match what {
        Read::Entries { after, limit, .. } => {
            *limit = at_once;
            *after = last.map(|last| last.key.clone()).or_else(|| after.take());
        }
        Read::History { after, limit, .. } => {
            *limit = at_once;
            *after = last.map_or(*after, |last| last.version.head.version);
        }
        _ => {}
    }
}

pub(crate) fn unexpected(rows: &Rows) -> Error {
    let kind = match rows {
        Rows::Entry(_) => "an entry",
        Rows::Entries(_) => "entries",
        Rows::Message(_) => "a message",
        Rows::Deliveries(_) => "deliveries",
        Rows::DeadLetters(_) => "dead letters",
        Rows::Seq(_) => "a position",
        Rows::Item(_) => "an item",
        Rows::Items(_) => "items",
        Rows::Built(_) => "dependencies",
        Rows::Record(_) => "a record",
        Rows::Timeline(_) => "a timeline",
        Rows::Part(_) => "a payload",
    };
    StoreError::Read(format!("the store answered with {kind}, which was not asked for").into()).into()
}

/// A payload part of a record, as it was written; `None` if there is no such part.
pub(crate) fn part_of(record: &Record, part: u32) -> Result<Option<Payload>, Error> {
    match codec::part(record, part).map_err(|why| unreadable(record, &why))? {
        Some(payload) if !payload.is_intact() => Err(StoreError::damaged_payload(record.seq).into()),
        found => Ok(found),
    }
}

/// The error of a record that cannot be read.
pub(crate) fn unreadable(record: &Record, why: &codec::Unreadable) -> Error {
    StoreError::Damaged(format!("record {}: {why}", record.seq).into()).into()
}
