//! What all requests share: the engine with its spaces, and the table of routes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, Weak};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use quorate_core::{Code, IdempotencyKey, Principal, Refused, SpaceName, SpaceNo};
use quorate_engine::{Engine, Error, Flags, Space};
use tokio::sync::{Mutex, Semaphore};
use tower::ServiceExt as _;

use crate::bulk::Bulk;
use crate::deliberations::Drivers;
use crate::exclusive::Exclusive;
use crate::making::{Made, Making};
use crate::observe::{self, Observed};
use crate::otlp::Exporter;
use crate::rate::Rates;
use crate::routes::webhooks::UNAUTHENTICATED_MAX;
use crate::settings::Settings;
use crate::sign_in::Codes;
use crate::wire::told::Before;
use crate::ws::Seats;
use crate::{guard, routes, unread};

/// A hub that answers requests.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    engine: Arc<Engine>,
    /// Where conduct flags are kept: a store of its own, so that nothing of the other depends on them.
    private: Arc<Engine>,
    settings: Settings,
    /// Spaces that were asked for: opening one starts its sweep.
    spaces: RwLock<BTreeMap<SpaceName, Space>>,
    /// The WebSocket of each agent that has one.
    seats: Seats,
    /// Who calls how often.
    rates: Rates,
    /// Codes that wait to be turned into tokens.
    codes: Codes,
    /// Messages to many, as the first of them was told.
    told: Before,
    /// What the hub knows of itself.
    observed: Observed,
    /// Runs lists, exports and event streams.
    bulk: Bulk,
    /// What a space has under way once at a time.
    exclusive: Exclusive,
    /// What drives deliberations.
    drivers: Drivers,
    /// For webhook events whose sender is not authenticated yet.
    webhook_permits: Semaphore,
    /// Which spaces were made under a key.
    made: Mutex<Made>,
    /// Whether the hub is about to end.
    ends: AtomicBool,
}

/// An app that may be gone.
pub(crate) struct WeakApp(Weak<Inner>);

impl WeakApp {
    pub(crate) fn upgrade(&self) -> Option<App> {
        self.0.upgrade().map(App)
    }
}

impl App {
    /// Permits for webhook events whose sender is not authenticated yet.
    pub(crate) fn webhook_permits(&self) -> &Semaphore {
        &self.0.webhook_permits
    }

    /// Serves the spaces of an engine, and keeps their conduct flags in another. Those that exist are opened: their time goes on, whether anybody asks or not.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn new(engine: Arc<Engine>, private: Arc<Engine>, settings: Settings) -> Result<Self, Error> {
        engine.keep_flags_in(Arc::clone(&private));
        let rates = Rates::new(settings.limits);
        let bulk = Bulk::new(settings.limits.bulk_reads);
        let exporter = settings
            .otlp
            .as_ref()
            .and_then(|otlp| Exporter::start(otlp, Arc::clone(engine.clock()), Arc::clone(engine.chance())));
        let app = Self(Arc::new(Inner {
            engine,
            private,
            settings,
            spaces: RwLock::default(),
            seats: Seats::default(),
            rates,
            codes: Codes::default(),
            told: Before::default(),
            observed: Observed::new(exporter),
            bulk,
            exclusive: Exclusive::default(),
            drivers: Drivers::default(),
            webhook_permits: Semaphore::new(UNAUTHENTICATED_MAX),
            made: Mutex::default(),
            ends: AtomicBool::new(false),
        }));
        app.make_space(SpaceName::new(DEFAULT_SPACE)?).await?;
        for info in app.engine().store().spaces() {
            let space = app.make_space(info.name).await?;
            app.drivers().take_up(&space).await?;
        }
        app.check_webhooks()?;
        Ok(app)
    }

    /// What comes from outside must have somewhere to go. A space is not made for it: a slip of the pen would be a tenant.
    fn check_webhooks(&self) -> Result<(), Refused> {
        let lost = self.settings().webhooks.iter().find(|one| self.space(one.space()).is_none());
        lost.map_or(Ok(()), |lost| {
            let detail = format!(
                "webhook {} goes to space {:?}, which there is not",
                lost.name(),
                lost.space().as_str()
            );
            Err(Refused::new(Code::NotFound, detail)
                .hint("start the hub without it, make the space with POST /v1/spaces, and start it again"))
        })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn seats(&self) -> &Seats {
        &self.0.seats
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    pub(crate) fn codes(&self) -> &Codes {
        &self.0.codes
    }

    pub(crate) fn told(&self) -> &Before {
        &self.0.told
    }

    pub(crate) fn observed(&self) -> &Observed {
        &self.0.observed
    }

    pub(crate) fn bulk(&self) -> &Bulk {
        &self.0.bulk
    }

    pub(crate) fn exclusive(&self) -> &Exclusive {
        &self.0.exclusive
    }

    pub(crate) fn drivers(&self) -> &Drivers {
        &self.0.drivers
    }

    pub(crate) fn downgrade(&self) -> WeakApp {
        WeakApp(Arc::downgrade(&self.0))
    }

    /// From here on the hub is not ready for more.
    pub(crate) fn end(&self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ends(&self) -> bool {
        self.0.ends.load(Ordering::Relaxed)
    }

    /// A space that exists.
    pub(crate) fn space(&self, name: &SpaceName) -> Option<Space> {
        self.spaces().get(name).cloned()
    }

    /// The flags of a space that exists.
    pub(crate) fn flags(&self, space: SpaceNo) -> Option<Flags> {
        self.engine().flags(space)
    }

    /// All spaces, by name.
    pub(crate) fn spaces(&self) -> RwLockReadGuard<'_, BTreeMap<SpaceName, Space>> {
        self.0.spaces.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A space; made if there is none.
    pub(crate) async fn make_space(&self, name: SpaceName) -> Result<Space, Error> {
        let space = self.engine().space(name.clone()).await?;
        self.0.spaces.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), space.clone());
        observe::begin(self, &name, &space);
        Ok(space)
    }

    /// Makes a space for somebody; says whether it was there before, or what it said under the same key.
    pub(crate) async fn new_space(
        &self,
        by: &Principal,
        key: Option<IdempotencyKey>,
        name: &SpaceName,
    ) -> Result<bool, Error> {
        // One after the other: of two at once only one can have made it.
        let mut made = self.0.made.lock().await;
        let now = self.engine().clock().now().mono;
        if let Some(was_new) = made.answered(by, key.as_ref(), name, now)? {
            return Ok(was_new);
        }
        let is_new = self.space(name).is_none();
        self.make_space(name.clone()).await?;
        made.note(Making { by: by.clone(), key, name: name.clone(), is_new, at: now });
        Ok(is_new)
    }

    /// All routes, with what every request goes through.
    pub(crate) fn router(&self) -> Router {
        let guarded = axum::middleware::from_fn_with_state(self.clone(), guard::check);
        let watched = axum::middleware::from_fn_with_state(self.clone(), observe::watch);
        let settled = axum::middleware::from_fn(unread::settle);
        routes::all().layer(guarded).layer(watched).layer(settled).with_state(self.clone())
    }

    /// The engine underneath, and the one for flags. For tests that start another server on them.
    #[must_use]
    pub fn engines_for_tests(&self) -> [Arc<Engine>; 2] {
        [&self.0.engine, &self.0.private].map(Arc::clone)
    }

    /// Answers one request without a socket. For tests.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        match self.router().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// The space of whoever names none.
pub(crate) const DEFAULT_SPACE: &str = "default";
