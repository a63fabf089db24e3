//! Violations in the private store: one entry each, in a ring, because agents may not read or change them.

use std::sync::Arc;

use quorate_core::{Code, Commit, Key, Op, Principal, PutEntry, SpaceNo, Timestamp, Violation};
use quorate_store::ReadQuery;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::Error;
use crate::space::Space;
use crate::violations::{FLUSH_DELAY, FLUSH_INTERVAL, Recorded, VIOLATIONS_MAX, Violations};

/// Prefix of the keys of the entries.
const PREFIX: &str = "violation/";
/// Entries written by one commit.
const ENTRIES_PER_COMMIT: usize = 100;

/// Stored content of a violation.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    number: u64,
    rule: String,
    principal: String,
    field: String,
    code: String,
    at_ms: u64,
    count: u64,
}

impl Content {
    fn new(recorded: &Recorded) -> Self {
        let Violation { rule, principal, field, code, at, count } = recorded.violation.clone();
        let code = code.as_str().to_owned();
        Self { number: recorded.number, rule, principal, field, code, at_ms: at.0, count }
    }

    /// `None` if the code is unknown.
    fn into_recorded(self) -> Option<Recorded> {
        let Self { number, rule, principal, field, code, at_ms, count } = self;
        let code = Code::ALL.iter().copied().find(|known| known.as_str() == code)?;
        let violation = Violation { rule, principal, field, code, at: Timestamp(at_ms), count };
        Some(Recorded { number, violation, is_dirty: false })
    }
}

impl Violations {
    /// Reads the violations of a space that was opened.
    pub(crate) async fn load(&self, space: SpaceNo, private: &Space) -> Result<(), Error> {
        let read = ReadQuery::Entries {
            prefix: PREFIX.into(),
            entry_type: None,
            author: None,
            after: None,
            limit: VIOLATIONS_MAX,
        };
        let (entries, _) = private.entries_page(read, VIOLATIONS_MAX).await?;
        let parse = |bytes: &[u8]| serde_json::from_slice::<Content>(bytes).ok()?.into_recorded();
        let contents = entries.iter().filter_map(|entry| entry.content.as_ref());
        let mut stored: Vec<_> = contents.filter_map(|content| parse(&content.bytes)).collect();
        stored.sort_by_key(|recorded| recorded.number);
        let mut spaces = self.lock();
        let record = spaces.entry(space).or_default();
        // Only a space that was just opened is empty.
        if record.violations.is_empty() {
            record.last = stored.last().map_or(0, |newest| newest.number);
            record.violations = stored.into();
        }
        Ok(())
    }

    /// Writes what has changed. What could not be written is written with the next change.
    pub(crate) async fn write(&self, space: SpaceNo, private: &Space) -> Result<(), Error> {
        let dirty: Vec<Recorded> = {
            let mut spaces = self.lock();
            let recorded = spaces.get_mut(&space).into_iter().flat_map(|record| &mut record.violations);
            let take =
                |recorded: &mut Recorded| std::mem::take(&mut recorded.is_dirty).then(|| recorded.clone());
            recorded.filter_map(take).collect()
        };
        for batch in dirty.chunks(ENTRIES_PER_COMMIT) {
            let mut ops = Vec::with_capacity(batch.len());
            for recorded in batch {
                ops.push(put(private, recorded)?);
            }
            private.commit_private(Commit::new(Principal::System, ops)).await?;
        }
        Ok(())
    }

    /// Returns the spaces with violations that were not written.
    pub(crate) fn unwritten(&self) -> Vec<SpaceNo> {
        let spaces = self.lock();
        let is_dirty =
            |record: &super::SpaceRecord| record.violations.iter().any(|recorded| recorded.is_dirty);
        spaces.iter().filter(|(_, record)| is_dirty(record)).map(|(space, _)| *space).collect()
    }

    /// Ends the background task of a space unless there is more to write.
    fn end_flush(&self, space: SpaceNo) -> bool {
        let mut spaces = self.lock();
        let Some(record) = spaces.get_mut(&space) else { return true };
        record.is_flushing = record.violations.iter().any(|recorded| recorded.is_dirty);
        !record.is_flushing
    }
}

fn put(private: &Space, recorded: &Recorded) -> Result<Op, Error> {
    let slot = recorded.number % VIOLATIONS_MAX as u64;
    let content = serde_json::to_vec(&Content::new(recorded))
        .map_err(|error| quorate_store::StoreError::Read(error.to_string().into()))?;
    Ok(Op::Put(PutEntry {
        key: Key::new(format!("{PREFIX}{slot:04}"))?,
        expect: None,
        entry_type: "violation".to_owned(),
        content_type: None,
        content: private.seal_private(content),
        depends_on: Vec::new(),
        fence: None,
    }))
}

impl Space {
    /// Starts the background task that writes violations and notifies coordinators. It ends once there is nothing to
    /// write, and does not keep the engine open.
    pub(crate) fn spawn_violation_writer(&self) {
        // Without a runtime there is nothing to run it: the violations are in memory only.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (engine, number) = (Arc::downgrade(self.engine()), self.number());
        let clock = Arc::clone(&self.engine().clock);
        runtime.spawn(async move {
            let mut delay = FLUSH_DELAY;
            loop {
                clock.wait(delay).await;
                let Some(engine) = engine.upgrade() else { return };
                if let Err(error) = flush(&engine, number).await {
                    tracing::warn!(
                        space = number.0,
                        code = error.code().as_str(),
                        "failed to write violations"
                    );
                }
                delay = FLUSH_INTERVAL;
                if engine.violations.end_flush(number) {
                    return;
                }
            }
        });
    }
}

/// Writes the violations of a space and notifies its coordinators.
async fn flush(engine: &Arc<Engine>, number: SpaceNo) -> Result<(), Error> {
    engine.notify_of_violations(number).await;
    match engine.flags(number) {
        Some(flags) => engine.violations.write(number, flags.space()).await,
        None => Ok(()),
    }
}
