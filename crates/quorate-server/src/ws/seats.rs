//! One WebSocket an agent: the newer one wins, and the older one is told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{AgentId, SpaceNo};
use tokio::sync::{oneshot, watch};

/// How long a newer connection waits for the older one to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(3);

type Place = (SpaceNo, AgentId);

/// Who sits where.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<State>);

#[derive(Default)]
struct State {
    taken: Mutex<HashMap<Place, Sitting>>,
    last: AtomicU64,
}

struct Sitting {
    id: u64,
    /// Used once, by whoever comes next.
    rise: Option<oneshot::Sender<()>>,
    gone: watch::Receiver<()>,
}

/// The seat of a connection, for as long as it lasts.
pub(crate) struct Seat {
    seats: Seats,
    place: Place,
    id: u64,
    rise: oneshot::Receiver<()>,
    /// When it is dropped, this connection has gone.
    _gone: watch::Sender<()>,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Sitting>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the seat of an agent, and waits until whoever sat there has gone.
    pub(crate) async fn take(&self, space: SpaceNo, agent: &AgentId) -> Seat {
        let id = self.0.last.fetch_add(1, Ordering::Relaxed);
        let (call, rise) = oneshot::channel();
        let (here, gone) = watch::channel(());
        let place = (space, agent.clone());
        let earlier = self.lock().insert(place.clone(), Sitting { id, rise: Some(call), gone });
        let seat = Seat { seats: self.clone(), place, id, rise, _gone: here };
        if let Some(Sitting { rise, mut gone, .. }) = earlier {
            rise.map(|rise| rise.send(()));
            let _ = tokio::time::timeout(GONE_WITHIN, gone.changed()).await;
        }
        seat
    }
}

impl Seat {
    /// Ends when a newer connection takes the seat.
    pub(crate) async fn lost(&mut self) {
        let _ = (&mut self.rise).await;
    }

    /// Whether a newer connection has taken it.
    pub(crate) fn is_lost(&self) -> bool {
        self.seats.lock().get(&self.place).is_none_or(|sitting| sitting.id != self.id)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        if taken.get(&self.place).is_some_and(|sitting| sitting.id == self.id) {
            taken.remove(&self.place);
        }
    }
}
