//! The engine of one hub: its spaces over a single store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use quorate_core::{Principal, SpaceName, SpaceNo, StartProcedure, Timestamp};
use quorate_store::{BoxFuture, Clock, Entropy, Sink, Store, StoreContext, StoreError};
use tokio::task::JoinHandle;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use crate::admission::{Admission, Options};
use crate::audit::Auditor;
use crate::causes::CauseCache;
use crate::consistency::ConsistencyChecks;
use crate::ephemeral::EphemeralCounters;
use crate::error::Error;
use crate::flags::Flags;
use crate::heartbeats::HeartbeatBuffer;
use crate::lock_wait::PendingLocks;
use crate::mailboxes::Mailboxes;
use crate::procedures::ProcedureAdmission;
use crate::space::Space;
use crate::sweep;
use crate::timers::Timers;
use crate::violations::Violations;

/// Background sweep of one space, and the state that all handles of the space share.
struct SpaceSweep {
    heartbeats: Arc<HeartbeatBuffer>,
    ephemeral: Arc<EphemeralCounters>,
    task: JoinHandle<()>,
}

/// The engine of one hub.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) violations: Violations,
    pub(crate) admission: Arc<Admission>,
    mailboxes: Arc<Mailboxes>,
    timers: Arc<Timers>,
    sweeps: Mutex<HashMap<SpaceNo, SpaceSweep>>,
    pub(crate) checks: ConsistencyChecks,
    pub(crate) pending_locks: PendingLocks,
    pub(crate) causes: CauseCache,
    pub(crate) auditor: Auditor,
    /// Engine whose spaces store the conduct flags of the spaces of this engine.
    private: RwLock<Option<Arc<Engine>>>,
    procedure_admission: RwLock<Option<ProcedureAdmission>>,
    flags: RwLock<HashMap<SpaceNo, Flags>>,
    /// Timestamp in the ID of the last conduct flag.
    flag: AtomicU64,
}

impl Engine {
    /// Returns the timestamp for the ID of a new conduct flag. It is greater than that of every earlier flag, even
    /// within a millisecond.
    pub(crate) fn next_flag_time(&self, now: Timestamp) -> Timestamp {
        let next = |last: u64| last.saturating_add(1).max(now.0);
        let update = self.flag.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        Timestamp(update.map_or(now.0, next))
    }

    /// Starts an engine over the store that `open` creates. The store uses the clock and entropy of the engine and
    /// dispatches to its mailboxes.
    ///
    /// # Errors
    /// The error of `open`.
    pub fn start<E>(
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        open: impl FnOnce(StoreContext) -> Result<Arc<dyn Store>, E>,
    ) -> Result<Arc<Self>, E> {
        Self::start_with(Options::default(), clock, entropy, open)
    }

    /// Starts an engine with options.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_with<E>(
        options: Options,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        open: impl FnOnce(StoreContext) -> Result<Arc<dyn Store>, E>,
    ) -> Result<Arc<Self>, E> {
        let mailboxes = Arc::new(Mailboxes::default());
        let timers = Arc::new(Timers::default());
        let (sink_mailboxes, sink_timers) = (Arc::clone(&mailboxes), Arc::clone(&timers));
        let sink: Sink = Arc::new(move |dispatch| {
            sink_timers.update(dispatch.space, dispatch.wake);
            sink_mailboxes.dispatch(dispatch);
        });
        let context = StoreContext { clock: Arc::clone(&clock), entropy: Arc::clone(&entropy), sink };
        let store = open(context)?;
        let admission = Admission::new(options, Arc::clone(&entropy));
        let (violations, checks) = (Violations::default(), ConsistencyChecks::default());
        let (sweeps, pending_locks) = (Mutex::default(), PendingLocks::default());
        let (causes, auditor) = (CauseCache::default(), Auditor::default());
        Ok(Arc::new(Self {
            store,
            clock,
            entropy,
            admission,
            violations,
            mailboxes,
            timers,
            sweeps,
            checks,
            pending_locks,
            causes,
            auditor,
            private: RwLock::default(),
            procedure_admission: RwLock::default(),
            flags: RwLock::default(),
            flag: AtomicU64::default(),
        }))
    }

    /// Stores the conduct flags of every space that is opened from now on in a space of the same name of another
    /// engine, over a separate store.
    pub fn store_flags_in(&self, private: Arc<Self>) {
        *self.private.write().unwrap_or_else(PoisonError::into_inner) = Some(private);
    }

    /// Returns the flags of a space that was opened; `None` if this engine stores no flags.
    #[must_use]
    pub fn flags(&self, space: SpaceNo) -> Option<Flags> {
        self.flags.read().unwrap_or_else(PoisonError::into_inner).get(&space).cloned()
    }

    /// Checks every procedure that is started from now on, before its commit is passed to the writer. The runtime of
    /// procedures assigns the driver here. Keep no strong reference to this engine in it.
    pub fn on_procedure_start<F>(&self, admission: F)
    where
        F: for<'a> Fn(
                &'a Space,
                &'a Principal,
                StartProcedure,
            ) -> BoxFuture<'a, Result<StartProcedure, Error>>
            + Send
            + Sync
            + 'static,
    {
        let admission: ProcedureAdmission = Arc::new(admission);
        *self.procedure_admission.write().unwrap_or_else(PoisonError::into_inner) = Some(admission);
    }

    pub(crate) fn procedure_admission(&self) -> Option<ProcedureAdmission> {
        self.procedure_admission.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the engine that stores the flags, if there is one.
    #[must_use]
    pub fn private_engine(&self) -> Option<Arc<Self>> {
        self.private.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens a space, creating it if it does not exist, and starts its timers.
    ///
    /// # Errors
    /// `SECRET_DETECTED` for the name of a new space, or a storage failure.
    pub async fn space(self: &Arc<Self>, name: SpaceName) -> Result<Space, Error> {
        let existed = self.store.spaces().iter().any(|info| info.name == name);
        if !existed {
            self.admission.admit_space(&name)?;
        }
        let number = self.store.space(name.clone()).await?;
        if let Some(private) = self.private_engine() {
            // The private space is created together with the public one, so that its existence reveals nothing.
            // No tracing subscriber: log output must not depend on conduct flags.
            let private_space = Box::pin(private.space(name)).with_subscriber(NoSubscriber::default());
            let flags = Flags::in_space(private_space.await?);
            if self.violations.is_empty(number) {
                self.violations.load(number, flags.space()).await?;
            }
            self.flags.write().unwrap_or_else(PoisonError::into_inner).insert(number, flags);
        }
        let published = self.store.published(number).ok_or(StoreError::Closed)?;
        if !existed {
            // A new log needs no audit.
            self.record_audit(number, published.borrow().head.seq);
        }
        let subscribed = !published.borrow().topics.is_empty();
        let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !sweeps.contains_key(&number);
        let sweep = sweeps.entry(number).or_insert_with(|| {
            let heartbeats = Arc::new(HeartbeatBuffer::default());
            let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
            let (published, timer) = (published.clone(), self.timers.of_space(number));
            let batching = self.admission.options().heartbeat_batching;
            let sweep = sweep::run(store, clock, number, published, timer, Arc::clone(&heartbeats), batching);
            let ephemeral = Arc::default();
            SpaceSweep { heartbeats, ephemeral, task: tokio::spawn(sweep.with_current_subscriber()) }
        });
        let (mailboxes, heartbeats) = (Arc::clone(&self.mailboxes), Arc::clone(&sweep.heartbeats));
        let ephemeral = Arc::clone(&sweep.ephemeral);
        drop(sweeps);
        let space = Space::new(Arc::clone(self), number, published, mailboxes, heartbeats, ephemeral);
        if is_new && subscribed {
            let space = space.clone();
            let catch_up = async move {
                if let Err(error) = space.resume_backfills().await {
                    // The backfill is retried when the agent subscribes again.
                    let (space, code) = (space.number().0, error.code().as_str());
                    tracing::warn!(space, code, "failed to backfill subscriptions");
                }
            };
            tokio::spawn(catch_up.with_current_subscriber());
        }
        Ok(space)
    }

    /// Returns the underlying store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the source of random bytes.
    #[must_use]
    pub fn entropy(&self) -> &Arc<Entropy> {
        &self.entropy
    }

    /// Returns the clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Resolves when the storage has failed permanently. The hub should then be stopped.
    #[must_use]
    pub fn failure(&self) -> BoxFuture<'static, StoreError> {
        self.store.failure()
    }

    /// Writes everything that is queued, then stops.
    pub async fn close(&self) {
        for (_, sweep) in self.sweeps.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            sweep.task.abort();
        }
        self.checks.stop();
        for space in self.violations.unwritten() {
            if let Some(flags) = self.flags(space) {
                // They are also listed in the log output of the calls; a full disk must not keep the hub from closing.
                let _ = self.violations.write(space, flags.space()).await;
            }
        }
        self.store.close().await;
        self.mailboxes.close_all();
        if let Some(private) = self.private_engine() {
            Box::pin(private.close()).await;
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for (_, sweep) in self.sweeps.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            sweep.task.abort();
        }
        self.checks.stop();
    }
}
