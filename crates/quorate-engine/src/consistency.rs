//! Consistency check of the shared memory: entries derived from missing or outdated entries or from each other, and
//! tasks that are done without a result. Read-only: all findings can be derived from the log, so nothing is written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_api::rollback::{ConsistencyCounts, ConsistencyReport, Inconsistency};
use quorate_core::{Item, ItemKind, ItemRange, SpaceNo, TaskState};
use quorate_store::{Clock, ReadQuery, ReadResult, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::dependencies::Dependencies;
use crate::error::Error;
use crate::space::Space;

/// Maximum number of tasks checked by one consistency check.
const TASKS_MAX: usize = 100_000;
/// Number of tasks read together.
const PAGE: usize = 1000;
/// Maximum number of inconsistencies listed by a consistency check.
const FINDINGS_MAX: usize = 100;

/// Checks a space. The findings are ordered: cycles, then dangling entries, then tasks without a result, then stale
/// entries.
async fn run_check(
    store: &Arc<dyn Store>,
    clock: &dyn Clock,
    space: SpaceNo,
) -> Result<ConsistencyReport, Error> {
    let published = store.published(space).ok_or(StoreError::UnknownSpace)?;
    let seq = published.borrow().head.seq;
    let at = clock.now().wall;
    let dependencies = Dependencies::load(store, space).await?;
    let (mut dangling, mut stale) = (Vec::new(), Vec::new());
    let mut counts = [0; 2];
    for entry in &dependencies.entries {
        for source in &entry.sources {
            let live = source.current.filter(|head| !head.deleted);
            let (key, version) = (entry.key.clone(), entry.version);
            let (name, on_version) = (source.key.clone(), source.version);
            match live {
                Some(head) if head.version == source.version => {}
                Some(head) => {
                    counts[1] += 1;
                    push_limited(
                        &mut stale,
                        Inconsistency::Stale {
                            key,
                            version,
                            on: name,
                            on_version,
                            current_version: head.version,
                        },
                    );
                }
                None => {
                    counts[0] += 1;
                    push_limited(
                        &mut dangling,
                        Inconsistency::Dangling { key, version, on: name, on_version },
                    );
                }
            }
        }
    }
    let ended = EndedTasks::read(store, space).await?;
    let cycles = dependencies.cycles();
    let cyclic = cycles.len() as u64;
    let cycles = cycles.into_iter().map(|keys| Inconsistency::Cycle { keys });
    let findings = cycles.chain(dangling).chain(ended.findings).chain(stale).take(FINDINGS_MAX).collect();
    let [dangling, stale] = counts;
    let complete = dependencies.complete && ended.complete;
    let clean = complete && dangling + stale + cyclic + ended.resultless == 0;
    let counts = ConsistencyCounts {
        entries: dependencies.entries.len() as u64,
        tasks: ended.tasks,
        dangling,
        stale,
        cyclic,
        resultless: ended.resultless,
    };
    Ok(ConsistencyReport { clean, at, seq, complete, counts, findings })
}

/// Tasks that are done or partially done.
#[derive(Default)]
struct EndedTasks {
    tasks: u64,
    resultless: u64,
    findings: Vec<Inconsistency>,
    complete: bool,
}

impl EndedTasks {
    async fn read(store: &Arc<dyn Store>, space: SpaceNo) -> Result<Self, Error> {
        let mut tasks = Self { complete: true, ..Self::default() };
        let (mut after, mut seen) = (None, 0);
        loop {
            let page =
                ReadQuery::Items { kind: ItemKind::Task, range: ItemRange::ById(after.clone()), limit: PAGE };
            let rows = store.read(space, vec![page]).await?;
            let Some(ReadResult::Items(page)) = rows.into_iter().next() else {
                return Err(StoreError::Read("unexpected result of a read".into()).into());
            };
            let Some(last) = page.last() else { return Ok(tasks) };
            after = Some(last.item.key().id);
            seen += page.len();
            page.iter().for_each(|listed| tasks.check_item(&listed.item));
            if seen >= TASKS_MAX {
                tasks.complete = page.len() < PAGE;
                return Ok(tasks);
            }
        }
    }

    fn check_item(&mut self, item: &Item) {
        let Item::Task(task) = item else { return };
        if let TaskState::Done(end) | TaskState::Partial(end) = &task.state {
            self.tasks += 1;
            if end.result.is_none() {
                self.resultless += 1;
                let (task, status) = (task.spec.id.clone(), task.status());
                push_limited(&mut self.findings, Inconsistency::Resultless { task, status });
            }
        }
    }
}

fn push_limited(findings: &mut Vec<Inconsistency>, finding: Inconsistency) {
    if findings.len() < FINDINGS_MAX {
        findings.push(finding);
    }
}

impl Space {
    /// Runs a consistency check. Entries can change meanwhile: each finding was true when it was read.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn check(&self) -> Result<Arc<ConsistencyReport>, Error> {
        let engine = self.engine();
        let report = Arc::new(run_check(&engine.store, &*engine.clock, self.number()).await?);
        engine.checks.publish(self.number(), &report);
        Ok(report)
    }

    /// Repeats the check at this interval after the end of the previous one. A new interval replaces the old one.
    pub fn check_every(&self, interval: Duration) {
        let engine = self.engine();
        let (store, clock) = (Arc::clone(&engine.store), Arc::clone(&engine.clock));
        engine.checks.repeat(store, clock, self.number(), interval);
    }

    /// Returns the result of the last check, manual or periodic.
    #[must_use]
    pub fn last_check(&self) -> Option<Arc<ConsistencyReport>> {
        self.follow_checks().borrow().clone()
    }

    /// Follows the results of checks.
    #[must_use]
    pub fn follow_checks(&self) -> watch::Receiver<Option<Arc<ConsistencyReport>>> {
        self.engine().checks.follow(self.number())
    }
}

/// Checks of a hub: the last result of each space, and the periodic checks.
#[derive(Clone, Default)]
pub(crate) struct ConsistencyChecks {
    state: Arc<Mutex<State>>,
    /// Held by the periodic check that runs.
    periodic: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    last: HashMap<SpaceNo, watch::Sender<Option<Arc<ConsistencyReport>>>>,
    timers: HashMap<SpaceNo, JoinHandle<()>>,
}

impl ConsistencyChecks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing has changed since the last check.
    fn is_current(&self, store: &dyn Store, space: SpaceNo) -> bool {
        let head = store.published(space).map(|published| published.borrow().head.seq);
        let state = self.lock();
        let last = state.last.get(&space).and_then(|last| last.borrow().as_ref().map(|report| report.seq));
        head.is_some() && last == head
    }

    fn publish(&self, space: SpaceNo, report: &Arc<ConsistencyReport>) {
        self.lock().last.entry(space).or_default().send_replace(Some(Arc::clone(report)));
    }

    fn follow(&self, space: SpaceNo) -> watch::Receiver<Option<Arc<ConsistencyReport>>> {
        self.lock().last.entry(space).or_default().subscribe()
    }

    fn repeat(&self, store: Arc<dyn Store>, clock: Arc<dyn Clock>, space: SpaceNo, interval: Duration) {
        let checks = self.clone();
        let timer = tokio::spawn(async move {
            loop {
                clock.wait(interval).await;
                // One space at a time: a check reads all entries.
                let turn = checks.periodic.lock().await;
                if checks.is_current(&*store, space) {
                    continue;
                }
                let checked = run_check(&store, &*clock, space).await;
                drop(turn);
                match checked {
                    Ok(report) => checks.publish(space, &Arc::new(report)),
                    Err(Error::Store(
                        StoreError::Closed | StoreError::Failed(_) | StoreError::UnknownSpace,
                    )) => {
                        return;
                    }
                    // The error may be temporary; the next check follows soon.
                    Err(error) => {
                        let (space, code) = (space.0, error.code().as_str());
                        tracing::warn!(
                            space,
                            code,
                            "consistency check failed, retrying at the next interval"
                        );
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
