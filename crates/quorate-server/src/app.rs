//! Shared state of all requests: the engine with its spaces, and the router.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use quorate_core::{Code, IdempotencyKey, Principal, Refused, SpaceName, SpaceNo};
use quorate_engine::{Engine, Error, Flags, Space};
use quorate_procedures::{ProcedureHost, Registry};
use tokio::sync::Mutex;
use tower::ServiceExt as _;

use crate::bulk::BulkReads;
use crate::caller_activity::AgentConnections;
use crate::exclusive_jobs::ExclusiveJobs;
use crate::large_requests::LargeRequests;
use crate::observe::{self, Telemetry};
use crate::otlp::Exporter;
use crate::rate_limit::RateLimits;
use crate::settings::Settings;
use crate::sign_in_codes::SignInCodes;
use crate::space_keys::{CreatedSpace, CreatedSpaces};
use crate::uploads::Uploads;
use crate::wire::message_cache::MessageCache;
use crate::ws::ActiveConnections;
use crate::{middleware, routes};

/// A hub that serves requests.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    /// Engine for conduct flags. They have a store of their own, so that no other data depends on them.
    flag_engine: Arc<Engine>,
    settings: Settings,
    /// Open spaces. Opening a space starts its sweep.
    spaces: RwLock<BTreeMap<SpaceName, Space>>,
    /// Active WebSocket of each connected agent.
    active_connections: ActiveConnections,
    /// Waiting calls and event streams of each agent.
    agent_connections: AgentConnections,
    /// Rate limits per principal and per address.
    rates: RateLimits,
    /// Sign-in codes that were not redeemed yet.
    sign_in_codes: SignInCodes,
    /// Rendered messages with several recipients.
    message_cache: MessageCache,
    /// Metrics, traces and request logs.
    telemetry: Telemetry,
    /// Runs lists, exports and event streams.
    bulk: BulkReads,
    /// Jobs that run at most once per space at a time.
    exclusive_jobs: ExclusiveJobs,
    /// Drivers of deliberations.
    procedures: Arc<ProcedureHost>,
    /// Webhook events whose sender is not authenticated yet.
    uploads: Uploads,
    /// Requests of more than the default size.
    large_requests: LargeRequests,
    /// Idempotency keys of created spaces.
    created_spaces: Mutex<CreatedSpaces>,
    /// Whether the hub is shutting down.
    is_shutting_down: AtomicBool,
}

/// A weak reference to an [`App`].
pub(crate) struct WeakApp(Weak<Inner>);

impl WeakApp {
    pub(crate) fn upgrade(&self) -> Option<App> {
        self.0.upgrade().map(App)
    }
}

impl App {
    /// Returns the webhook events whose sender is not authenticated yet.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.0.uploads
    }

    /// Returns the requests of more than the default size.
    pub(crate) fn large_requests(&self) -> &LargeRequests {
        &self.0.large_requests
    }

    /// Serves the spaces of `engine` and stores their conduct flags in `flag_engine`. Opens all existing spaces, so
    /// that their timers run without a request.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn new(
        engine: Arc<Engine>,
        flag_engine: Arc<Engine>,
        settings: Settings,
    ) -> Result<Self, Error> {
        engine.store_flags_in(Arc::clone(&flag_engine));
        let procedures = ProcedureHost::install(&engine, Registry::standard());
        let rates = RateLimits::new(settings.limits);
        let bulk = BulkReads::new(settings.limits.bulk_reads);
        let exporter = settings
            .otlp
            .as_ref()
            .and_then(|otlp| Exporter::start(otlp, Arc::clone(engine.clock()), Arc::clone(engine.entropy())));
        let app = Self(Arc::new(Inner {
            engine,
            flag_engine,
            settings,
            spaces: RwLock::default(),
            active_connections: ActiveConnections::default(),
            agent_connections: AgentConnections::default(),
            rates,
            sign_in_codes: SignInCodes::default(),
            message_cache: MessageCache::default(),
            telemetry: Telemetry::new(exporter),
            bulk,
            exclusive_jobs: ExclusiveJobs::default(),
            procedures,
            uploads: Uploads::default(),
            large_requests: LargeRequests::default(),
            created_spaces: Mutex::default(),
            is_shutting_down: AtomicBool::new(false),
        }));
        app.open_space(SpaceName::new(DEFAULT_SPACE)?).await?;
        for info in app.engine().store().spaces() {
            let space = app.open_space(info.name).await?;
            app.procedures().resume(&space).await?;
        }
        app.check_webhooks()?;
        Ok(app)
    }

    /// Checks that the space of every webhook exists. It is not created implicitly: a typo would create a tenant.
    fn check_webhooks(&self) -> Result<(), Refused> {
        let unknown = self.settings().webhooks.iter().find(|webhook| self.space(webhook.space()).is_none());
        unknown.map_or(Ok(()), |webhook| {
            let detail =
                format!("webhook {} refers to unknown space {:?}", webhook.name(), webhook.space().as_str());
            Err(Refused::new(Code::NotFound, detail).hint(
                "start the hub without this webhook, create the space with POST /v1/spaces, and restart",
            ))
        })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn agent_connections(&self) -> &AgentConnections {
        &self.0.agent_connections
    }

    pub(crate) fn active_connections(&self) -> &ActiveConnections {
        &self.0.active_connections
    }

    pub(crate) fn rates(&self) -> &RateLimits {
        &self.0.rates
    }

    pub(crate) fn sign_in_codes(&self) -> &SignInCodes {
        &self.0.sign_in_codes
    }

    pub(crate) fn message_cache(&self) -> &MessageCache {
        &self.0.message_cache
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.0.telemetry
    }

    pub(crate) fn bulk(&self) -> &BulkReads {
        &self.0.bulk
    }

    pub(crate) fn exclusive_jobs(&self) -> &ExclusiveJobs {
        &self.0.exclusive_jobs
    }

    pub(crate) fn procedures(&self) -> &ProcedureHost {
        &self.0.procedures
    }

    pub(crate) fn downgrade(&self) -> WeakApp {
        WeakApp(Arc::downgrade(&self.0))
    }

    /// Marks the hub as shutting down: it is no longer ready.
    pub(crate) fn begin_shutdown(&self) {
        self.0.is_shutting_down.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.0.is_shutting_down.load(Ordering::Relaxed)
    }

    /// Returns an open space.
    pub(crate) fn space(&self, name: &SpaceName) -> Option<Space> {
        self.spaces().get(name).cloned()
    }

    /// Returns the conduct flags of a space.
    pub(crate) fn flags(&self, space: SpaceNo) -> Option<Flags> {
        self.engine().flags(space)
    }

    /// Returns all spaces by name.
    pub(crate) fn spaces(&self) -> RwLockReadGuard<'_, BTreeMap<SpaceName, Space>> {
        self.0.spaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a space and creates it if it does not exist.
    pub(crate) async fn open_space(&self, name: SpaceName) -> Result<Space, Error> {
        let space = self.engine().space(name.clone()).await?;
        self.0.spaces.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), space.clone());
        observe::observe_space(self, &name, &space);
        let interval = self.settings().durations.consistency_check;
        if !interval.is_zero() {
            space.check_every(interval);
        }
        Ok(space)
    }

    /// Creates a space. Returns whether it is new; a replay with the same idempotency key returns the first result.
    pub(crate) async fn create_space(
        &self,
        principal: &Principal,
        key: Option<IdempotencyKey>,
        name: &SpaceName,
    ) -> Result<bool, Error> {
        // Serialized: of two concurrent calls only one may report the space as new.
        let mut created = self.0.created_spaces.lock().await;
        let now = self.engine().clock().now().mono;
        if let Some(was_new) = created.replayed(principal, key.as_ref(), name, now)? {
            return Ok(was_new);
        }
        let is_new = self.space(name).is_none();
        self.open_space(name.clone()).await?;
        created.record(CreatedSpace {
            principal: principal.clone(),
            key,
            name: name.clone(),
            is_new,
            at: now,
        });
        Ok(is_new)
    }

    /// Returns the router with all middleware.
    pub(crate) fn router(&self) -> Router {
        let middleware = axum::middleware::from_fn_with_state(self.clone(), middleware::handle);
        routes::router().layer(middleware).with_state(self.clone())
    }

    /// Returns the engine and the engine for conduct flags. For tests that start another server on them.
    #[must_use]
    pub fn engines_for_tests(&self) -> [Arc<Engine>; 2] {
        [&self.0.engine, &self.0.flag_engine].map(Arc::clone)
    }

    /// Handles one request without a socket. For tests.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        match self.router().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Space of the hub admins, and default space of webhooks.
pub(crate) const DEFAULT_SPACE: &str = "default";
