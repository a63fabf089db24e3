//! Whether the shared memory fits together: entries that were built on what is not there, on what was replaced since, or
//! on each other; and tasks that are done and have no result. A look, not a change: it writes nothing, since all it finds is on record already.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{
    Item, ItemKind, ItemRange, Key, Seq, SpaceNo, TaskId, TaskState, TaskStatus, Timestamp, Version,
};
use quorate_store::{Clock, Read, Rows, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::dependencies::Dependencies;
use crate::error::Error;
use crate::space::Space;

/// Tasks that are looked at.
const TASKS_MAX: usize = 100_000;
/// Tasks that are read at once.
const PAGE: usize = 1000;
/// Findings that a check lists.
const FINDINGS_MAX: usize = 100;

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// When it began.
    pub at: Timestamp,
    /// The newest record then.
    pub seq: Seq,
    /// Entries that were built on others, of which each was looked at.
    pub entries: u64,
    /// Tasks that ended with a result or should have, each of which was looked at.
    pub tasks: u64,
    /// Whether that were all; one check looks at 100,000 entries and at 100,000 tasks.
    pub complete: bool,
    /// Dependencies on entries that are not there.
    pub dangling: u64,
    /// Dependencies on versions that were replaced since.
    pub stale: u64,
    /// Groups of entries that were built on each other.
    pub cyclic: u64,
    /// Tasks that are done, wholly or in part, and have no result.
    pub resultless: u64,
    /// The first 100 findings: cycles, then what is dangling, then what has no result, then what is stale.
    pub findings: Vec<Finding>,
}

/// Something that does not fit together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// Entries that were built on each other, each on the next and the last on the first.
    Cycle {
        /// The entries.
        keys: Vec<Key>,
    },
    /// An entry that was built on one that is not there, or not any more.
    Dangling {
        /// The entry.
        key: Key,
        /// Its version.
        version: Version,
        /// What it was built on.
        on: Key,
        /// The version of that; 0 = it was not there then, either.
        on_version: Version,
    },
    /// An entry that was built on a version that is not the newest any more.
    Stale {
        /// The entry.
        key: Key,
        /// Its version.
        version: Version,
        /// What it was built on.
        on: Key,
        /// The version of that; 0 = it was not there then.
        on_version: Version,
        /// The newest version of that.
        now: Version,
    },
    /// A task that is done, wholly or in part, without a result.
    Resultless {
        /// Which task.
        task: TaskId,
        /// How it ended.
        status: TaskStatus,
    },
}

impl Check {
    /// Whether everything fits together.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.complete && self.dangling + self.stale + self.cyclic + self.resultless == 0
    }

    async fn of(store: &Arc<dyn Store>, clock: &dyn Clock, space: SpaceNo) -> Result<Self, Error> {
        let published = store.published(space).ok_or(StoreError::NoSpace)?;
        let seq = published.borrow().head.seq;
        let at = clock.now().wall;
        let found = Dependencies::read(store, space).await?;
        let (mut dangling, mut stale) = (Vec::new(), Vec::new());
        let mut counts = [0; 2];
        for entry in &found.entries {
            for on in &entry.on {
                let live = on.now.filter(|head| !head.deleted);
                let (key, version) = (entry.key.clone(), entry.version);
                let (name, on_version) = (on.key.clone(), on.version);
                match live {
                    Some(now) if now.version == on.version => {}
                    Some(now) => {
                        counts[1] += 1;
                        keep(
                            &mut stale,
                            Finding::Stale { key, version, on: name, on_version, now: now.version },
                        );
                    }
                    None => {
                        counts[0] += 1;
                        keep(&mut dangling, Finding::Dangling { key, version, on: name, on_version });
                    }
                }
            }
        }
        let ended = Ended::read(store, space).await?;
        let cycles = found.cycles();
        let cyclic = cycles.len() as u64;
        let cycles = cycles.into_iter().map(|keys| Finding::Cycle { keys });
        let findings = cycles.chain(dangling).chain(ended.findings).chain(stale).take(FINDINGS_MAX).collect();
        let [dangling, stale] = counts;
        Ok(Self {
            at,
            seq,
            entries: found.entries.len() as u64,
            tasks: ended.tasks,
            complete: found.complete && ended.complete,
            dangling,
            stale,
            cyclic,
            resultless: ended.resultless,
            findings,
        })
    }
}

/// Tasks that ended with a result or should have.
#[derive(Default)]
struct Ended {
    tasks: u64,
    resultless: u64,
    findings: Vec<Finding>,
    complete: bool,
}

impl Ended {
    async fn read(store: &Arc<dyn Store>, space: SpaceNo) -> Result<Self, Error> {
        let mut found = Self { complete: true, ..Self::default() };
        let (mut after, mut seen) = (None, 0);
        loop {
            let page =
                Read::Items { kind: ItemKind::Task, range: ItemRange::ById(after.clone()), limit: PAGE };
            let rows = store.read(space, vec![page]).await?;
            let Some(Rows::Items(page)) = rows.into_iter().next() else {
                return Err(StoreError::Read("tasks were not answered".into()).into());
            };
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.item.key().id);
            seen += page.len();
            page.iter().for_each(|listed| found.look_at(&listed.item));
            if seen >= TASKS_MAX {
                found.complete = page.len() < PAGE;
                return Ok(found);
            }
        }
    }

    fn look_at(&mut self, item: &Item) {
        let Item::Task(task) = item else { return };
        if let TaskState::Done(end) | TaskState::Partial(end) = &task.state {
            self.tasks += 1;
            if end.result.is_none() {
                self.resultless += 1;
                let (task, status) = (task.spec.id.clone(), task.status());
                keep(&mut self.findings, Finding::Resultless { task, status });
            }
        }
    }
}

fn keep(findings: &mut Vec<Finding>, finding: Finding) {
    if findings.len() < FINDINGS_MAX {
        findings.push(finding);
    }
}

impl Space {
    /// Looks whether the shared memory fits together, now. Entries may change while it looks: each finding was true when it
    /// was looked at.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn check(&self) -> Result<Arc<Check>, Error> {
        let engine = self.engine();
        let check = Arc::new(Check::of(&engine.store, &*engine.clock, self.number()).await?);
        engine.checks.tell(self.number(), &check);
        Ok(check)
    }

    /// Looks again and again, so long after the last look. The newest setting counts.
    pub fn check_every(&self, every: Duration) {
        let engine = self.engine();
        let (store, clock) = (Arc::clone(&engine.store), Arc::clone(&engine.clock));
        engine.checks.repeat(store, clock, self.number(), every);
    }

    /// What the last check found, asked for or by time.
    #[must_use]
    pub fn last_check(&self) -> Option<Arc<Check>> {
        self.follow_checks().borrow().clone()
    }

    /// Follows what checks find.
    #[must_use]
    pub fn follow_checks(&self) -> watch::Receiver<Option<Arc<Check>>> {
        self.engine().checks.follow(self.number())
    }
}

/// The checks of a hub: what the last one of each space found, and those that repeat.
#[derive(Clone, Default)]
pub(crate) struct Checks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: HashMap<SpaceNo, watch::Sender<Option<Arc<Check>>>>,
    timers: HashMap<SpaceNo, JoinHandle<()>>,
}

impl Checks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, space: SpaceNo, check: &Arc<Check>) {
        self.lock().last.entry(space).or_default().send_replace(Some(Arc::clone(check)));
    }

    fn follow(&self, space: SpaceNo) -> watch::Receiver<Option<Arc<Check>>> {
        self.lock().last.entry(space).or_default().subscribe()
    }

    fn repeat(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>, space: SpaceNo, every: Duration) {
        let checks = self.clone();
        let timer = tokio::spawn(async move {
            loop {
                clock.pass(every).await;
                match Check::of(&store, &*clock, space).await {
                    Ok(check) => checks.tell(space, &Arc::new(check)),
                    Err(Error::Store(StoreError::Closed | StoreError::Failed(_) | StoreError::NoSpace)) => {
                        return;
                    }
                    // It may pass; the next look is not far.
                    Err(error) => {
                        let (space, code) = (space.0, error.code().as_str());
                        tracing::warn!(space, code, "a consistency check failed and is repeated");
                    }
                }
            }
        });
        if let Some(old) = self.lock().timers.insert(space, timer) {
            old.abort();
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().timers.drain().for_each(|(_, timer)| timer.abort());
    }
}
