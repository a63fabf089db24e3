//! Follows the log for the ends of tasks, approvals and child procedures that runs wait for. One reader serves all
//! runs of a runtime, and it reads nothing while none waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{Effect, Item, ItemKey, ItemKind, Seq, codec};
use quorate_engine::{Error, Space};
use tokio::sync::{Notify, mpsc};

use super::inbox::Incoming;
use super::{commit_backoff, ends_runtime};

/// Number of records that are read together.
const PAGE: usize = 256;

/// An item that a run waits for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Waited {
    /// The item.
    pub(super) key: ItemKey,
    /// Id of the output that created it.
    pub(super) output: String,
}

/// Items that runs wait for.
pub(super) struct Changes {
    space: Space,
    waits: Mutex<Waits>,
    added: Notify,
}

#[derive(Default)]
struct Waits {
    runs: HashMap<ItemKey, Vec<(String, mpsc::UnboundedSender<Incoming>)>>,
    /// Next record to read.
    next: Seq,
}

impl Changes {
    pub(super) fn new(space: Space) -> Arc<Self> {
        Arc::new(Self { space, waits: Mutex::default(), added: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies a run of the end of an item. Read the item after this call: an earlier end is not reported.
    pub(super) fn wait_for(&self, waited: Waited, run: &mpsc::UnboundedSender<Incoming>) {
        let mut waits = self.lock();
        if waits.runs.is_empty() {
            waits.next = Seq(self.space.published().head.seq.0 + 1);
            self.added.notify_one();
        }
        let runs = waits.runs.entry(waited.key).or_default();
        // A run that was loaded again waits once.
        runs.retain(|(_, other)| !other.is_closed() && !other.same_channel(run));
        runs.push((waited.output, run.clone()));
    }

    /// Withdraws the wait of a run for an item.
    pub(super) fn forget(&self, waited: &Waited, run: &mpsc::UnboundedSender<Incoming>) {
        let mut waits = self.lock();
        if let Some(runs) = waits.runs.get_mut(&waited.key) {
            runs.retain(|(_, other)| !other.same_channel(run));
            if runs.is_empty() {
                waits.runs.remove(&waited.key);
            }
        }
    }

    /// Returns the next record to read, if a run waits for an item.
    fn next(&self) -> Option<Seq> {
        let waits = self.lock();
        (!waits.runs.is_empty()).then_some(waits.next)
    }

    /// Follows the log until the hub is closed. A failed read is repeated: runs wait for what it returns.
    pub(super) async fn follow(self: Arc<Self>) {
        let (mut published, mut backoff) = (self.space.follow(), commit_backoff());
        loop {
            let Some(next) = self.next() else {
                self.added.notified().await;
                continue;
            };
            if published.borrow_and_update().head.seq < next {
                if published.changed().await.is_err() {
                    return;
                }
                continue;
            }
            match self.read_page(next).await {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    let code = error.code().as_str();
                    tracing::error!(code, "procedure runtime: cannot follow the log");
                    if ends_runtime(&error) {
                        return;
                    }
                    let engine = self.space.engine();
                    backoff.wait(&**engine.clock(), engine.entropy()).await;
                }
            }
        }
    }

    async fn read_page(&self, next: Seq) -> Result<(), Error> {
        let records = self.space.log(next, PAGE).await?;
        let mut waits = self.lock();
        for record in &records {
            waits.next = Seq(record.seq.0 + 1);
            // Records that this release cannot read are reported by the audit.
            let Ok(body) = codec::read_without_payload(record) else { continue };
            for effect in body.effects {
                let Effect::Changed { item, .. } = effect else { continue };
                if !has_ended(&item) {
                    continue;
                }
                let key = item.key();
                for (output, run) in waits.runs.remove(&key).unwrap_or_default() {
                    // A closed run has no use for it.
                    let _ = run.send(Incoming::Ended(Waited { key: key.clone(), output }));
                }
            }
        }
        Ok(())
    }
}

/// Whether an item that a procedure can wait for has ended.
pub(super) fn has_ended(item: &Item) -> bool {
    match item {
        Item::Task(task) => task.status().has_ended(),
        Item::Approval(approval) => !approval.is_pending(),
        Item::Procedure(procedure) => procedure.status.has_ended(),
        _ => false,
    }
}

impl Waited {
    pub(super) fn task(id: &str, output: &str) -> Self {
        Self { key: ItemKey::new(ItemKind::Task, id), output: output.to_owned() }
    }

    pub(super) fn approval(id: &str, output: &str) -> Self {
        Self { key: ItemKey::new(ItemKind::Approval, id), output: output.to_owned() }
    }

    pub(super) fn procedure(id: &str, output: &str) -> Self {
        Self { key: ItemKey::new(ItemKind::Procedure, id), output: output.to_owned() }
    }
}
