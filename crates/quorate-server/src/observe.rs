//! Watching the hub at work: figures, spans, and what is written to the journal.
//!
//! The writer is not asked for anything. What the log says is read from it after it was acknowledged (`fold.rs`), at most
//! four times a second or when somebody looks; what requests say is counted where they are answered (`seen.rs`).

mod errors;
mod fold;
mod handed;
mod histogram;
mod page;
mod seen;
pub(crate) mod spans;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use quorate_core::{Code, Principal, Seq, SpaceName, SpaceNo};
use quorate_engine::{Error, Space};
use tokio::sync::Mutex as AsyncMutex;

use crate::app::App;
use crate::otlp::Exporter;
use errors::Errors;
use fold::Fold;
pub(crate) use handed::{Handed, continued, one_continued};
use histogram::Histogram;
pub(crate) use page::page;
pub(crate) use seen::{Caller, Unobserved, unobserved, watch};

/// How long records gather before they are read.
const GATHER: Duration = Duration::from_millis(250);
/// Pages that are read for somebody who waits for the answer; the rest follows in the background.
const PAGES_FOR_ONE: usize = 20;

/// What is known of requests and connections.
#[derive(Default)]
struct Doors {
    /// By method and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    request_ms: Mutex<BTreeMap<&'static str, Histogram>>,
    errors: Errors,
    connections: AtomicU64,
    sockets: AtomicU64,
}

/// What a hub knows of itself.
#[derive(Default)]
pub(crate) struct Observed {
    doors: Doors,
    spaces: RwLock<BTreeMap<SpaceNo, Arc<Watched>>>,
    /// Which spans were handed out of late.
    pub(crate) handed: Handed,
    pub(crate) exporter: Option<Exporter>,
}

/// One space.
struct Watched {
    fold: AsyncMutex<Fold>,
    /// Of whoever reads on and hands over what has ended: one at a time.
    turn: AsyncMutex<()>,
}

impl Watched {
    fn new(fold: Fold) -> Self {
        Self { fold: AsyncMutex::new(fold), turn: AsyncMutex::default() }
    }
}

/// Counts something for as long as it is there.
pub(crate) struct Presence(App, fn(&Observed) -> &AtomicU64);

impl Drop for Presence {
    fn drop(&mut self) {
        (self.1)(self.0.observed()).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Presence {
    fn new(app: &App, which: fn(&Observed) -> &AtomicU64) -> Self {
        which(app.observed()).fetch_add(1, Ordering::Relaxed);
        Self(app.clone(), which)
    }

    /// A connection.
    pub(crate) fn of_connection(app: &App) -> Self {
        Self::new(app, |observed| &observed.doors.connections)
    }

    /// A WebSocket.
    pub(crate) fn of_socket(app: &App) -> Self {
        Self::new(app, |observed| &observed.doors.sockets)
    }
}

impl Observed {
    pub(crate) fn new(exporter: Option<Exporter>) -> Self {
        Self { exporter, ..Self::default() }
    }

    /// Something was refused, or failed.
    pub(crate) fn refused(&self, by: Option<(SpaceNo, &Principal)>, code: Code) {
        self.doors.errors.count(by, code);
    }

    fn watched(&self, space: SpaceNo) -> Option<Arc<Watched>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(&space).cloned()
    }

    /// Looks at a space with everything that was acknowledged by now, unless there is too much of it.
    pub(crate) async fn look<T>(&self, space: &Space, look: impl FnOnce(&Fold) -> T) -> Result<T, Error> {
        let Some(watched) = self.watched(space.number()) else {
            let head = space.published().head.seq;
            return Ok(look(&Fold::new(head, false)));
        };
        let mut fold = watched.fold.lock().await;
        let head = space.published().head.seq;
        for _ in 0..PAGES_FOR_ONE {
            if fold.page(space, head).await? {
                break;
            }
        }
        Ok(look(&fold))
    }
}

/// Watches a space from now on, for as long as the hub lives.
pub(crate) fn begin(app: &App, name: &SpaceName, space: &Space) {
    let observed = app.observed();
    let number = space.number();
    let mut published = space.follow();
    let head = published.borrow().head.seq;
    let watched = Arc::new(Watched::new(Fold::new(head, observed.exporter.is_some())));
    let mut spaces = observed.spaces.write().unwrap_or_else(PoisonError::into_inner);
    if spaces.contains_key(&number) {
        return;
    }
    spaces.insert(number, Arc::clone(&watched));
    drop(spaces);
    let (app, name) = (app.downgrade(), name.clone());
    tokio::spawn(async move {
        loop {
            // Nobody is kept alive by being watched.
            let Some((app, space)) = app.upgrade().and_then(|app| Some((app.clone(), app.space(&name)?)))
            else {
                return;
            };
            let to = published.borrow_and_update().head.seq;
            // What cannot be read now is read the next time.
            if let Err(error) = catch_up(&app, &space, &watched, to).await {
                if is_closed(&error) {
                    return;
                }
                tracing::warn!(
                    code = error.code().as_str(),
                    "the log could not be read for metrics and spans"
                );
            }
            drop((app, space));
            tokio::time::sleep(GATHER).await;
            if published.changed().await.is_err() {
                return;
            }
        }
    });
}

async fn catch_up(app: &App, space: &Space, watched: &Watched, to: Seq) -> Result<(), Error> {
    // Whoever comes second finds what the first has taken out with the exporter, not on its way there.
    let _turn = watched.turn.lock().await;
    loop {
        let mut fold = watched.fold.lock().await;
        let is_all = fold.page(space, to).await?;
        let finished = fold.take_finished();
        drop(fold);
        if let (Some(exporter), false) = (&app.observed().exporter, finished.is_empty()) {
            export(exporter, space, watched, finished).await?;
        }
        if is_all {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Whether nothing can be read any more.
fn is_closed(error: &Error) -> bool {
    error.code() == Code::Unavailable
}

/// Hands spans that have ended to the exporter, with what their messages say.
async fn export(
    exporter: &Exporter,
    space: &Space,
    watched: &Watched,
    places: Vec<spans::Place>,
) -> Result<(), Error> {
    for place in places {
        let span = watched.fold.lock().await.spans.get_mut(place).map(|span| span.clone());
        let Some(span) = span else { continue };
        let id = space.published().eras.message_id(place.0, place.1);
        let view = match space.message(id).await {
            Ok(view) => view,
            Err(error) if is_closed(&error) => return Err(error),
            // One that cannot be read is no span; the others are.
            Err(_) => continue,
        };
        exporter.push(crate::otlp::span::of_message(space, &span, &view));
    }
    Ok(())
}

impl App {
    /// Hands over what was observed, within a moment. Called before the hub is closed.
    pub async fn settle(&self) {
        if self.observed().exporter.is_none() {
            return;
        }
        let spaces: Vec<Space> = self.spaces().values().cloned().collect();
        for space in &spaces {
            let head = space.published().head.seq;
            if let Some(watched) = self.observed().watched(space.number()) {
                // What cannot be read now is in the log for later.
                let _ = catch_up(self, space, &watched, head).await;
            }
        }
        if let Some(exporter) = &self.observed().exporter {
            exporter.flush().await;
        }
    }
}
