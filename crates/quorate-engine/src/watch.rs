//! Watching the shared memory: reads the log from a position on, then follows its head. No change is missed, and a
//! slow watcher does not delay others: it reads the log at its own pace.

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_core::{Effect, Payload, Record, Seq, codec};
use quorate_store::{PublishedState, StoreError};
use tokio::sync::watch;

use crate::error::Error;
use crate::reads::{payload_of, undecodable_record};
use crate::space::Space;

pub use quorate_api::received::MemoryEntryChange;

/// Number of records read together.
const PAGE: usize = 256;

/// Changes of all entries with a key prefix, in order.
pub struct Watch {
    space: Space,
    prefix: String,
    /// Next record to read.
    next: Seq,
    published: watch::Receiver<Arc<PublishedState>>,
    pending: VecDeque<MemoryEntryChange>,
}

impl Space {
    /// Watches the entries with this key prefix, starting at a record; 1 is the beginning.
    #[must_use]
    pub fn watch(&self, prefix: &str, from: Seq) -> Watch {
        Watch {
            space: self.clone(),
            prefix: prefix.to_owned(),
            next: Seq(from.0.max(1)),
            published: self.follow(),
            pending: VecDeque::new(),
        }
    }
}

impl Watch {
    /// Waits for the next change.
    ///
    /// # Errors
    /// Storage failures, or the hub was closed.
    pub async fn next(&mut self) -> Result<MemoryEntryChange, Error> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Ok(change);
            }
            let head = self.published.borrow_and_update().head.seq;
            if self.next <= head {
                self.read_page().await?;
            } else if self.published.changed().await.is_err() {
                return Err(StoreError::Closed.into());
            }
        }
    }

    async fn read_page(&mut self) -> Result<(), Error> {
        let records = self.space.log(self.next, PAGE).await?;
        for record in &records {
            self.queue_changes(record).await?;
            self.next = Seq(record.seq.0 + 1);
        }
        Ok(())
    }

    async fn queue_changes(&mut self, record: &Record) -> Result<(), Error> {
        for effect in codec::read_body(record).map_err(|error| undecodable_record(record, &error))?.effects {
            let (key, version, location) = match effect {
                Effect::Written { key, version, part, restores, .. } => {
                    (key, version, Some((restores.map_or(record.seq, |restored| restored.seq), part)))
                }
                Effect::Deleted { key, version } => (key, version, None),
                _ => continue,
            };
            if !key.as_str().starts_with(&self.prefix) {
                continue;
            }
            let content = match location {
                Some((seq, part)) if seq == record.seq => payload_of(record, part)?,
                // After a rollback, the content is stored in the record that wrote it first.
                Some((seq, part)) => self.content(seq, part).await?,
                None => None,
            };
            let author = record.principal.clone();
            self.pending.push_back(MemoryEntryChange {
                seq: record.seq,
                at: record.at,
                author,
                key,
                version,
                content,
            });
        }
        Ok(())
    }

    async fn content(&self, seq: Seq, part: u32) -> Result<Option<Payload>, Error> {
        match self.space.log(seq, 1).await?.first() {
            Some(record) => payload_of(record, part),
            None => Ok(None),
        }
    }
}
