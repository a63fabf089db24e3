//! Requests and frames that are larger than the default limit, in spaces whose policy allows them. Their number is
//! limited per space and per principal, so that a space cannot occupy the memory of the hub by raising its limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::{Principal, SpaceNo};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Concurrent requests and frames of one space that are larger than the default limit.
pub(crate) const LARGE_REQUESTS_PER_SPACE_MAX: usize = 8;
/// Concurrent requests and frames of one principal that are larger than the default limit.
pub(crate) const LARGE_REQUESTS_PER_PRINCIPAL_MAX: usize = 2;

/// Large requests in progress.
#[derive(Clone, Default)]
pub(crate) struct LargeRequests(Arc<Mutex<Slots>>);

#[derive(Default)]
struct Slots {
    spaces: HashMap<SpaceNo, Arc<Semaphore>>,
    principals: HashMap<(SpaceNo, String), Arc<Semaphore>>,
}

/// The slot of a large request. It is free again when this is dropped.
pub(crate) struct LargeRequest {
    _principal: OwnedSemaphorePermit,
    _space: OwnedSemaphorePermit,
}

impl LargeRequests {
    /// Waits for a slot, first of the principal, then of the space.
    pub(crate) async fn acquire(self, space: SpaceNo, principal: &Principal) -> LargeRequest {
        let (of_principal, of_space) = self.slots(space, principal.to_text());
        let permits = async { (of_principal.acquire_owned().await, of_space.acquire_owned().await) };
        match permits.await {
            (Ok(principal), Ok(space)) => LargeRequest { _principal: principal, _space: space },
            // The semaphores are never closed.
            _ => std::future::pending().await,
        }
    }

    fn slots(&self, space: SpaceNo, principal: String) -> (Arc<Semaphore>, Arc<Semaphore>) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Unused ones, so that the map does not grow with the number of principals.
        slots.principals.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        slots.spaces.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let of_principal = slots.principals.entry((space, principal));
        let of_principal =
            Arc::clone(of_principal.or_insert_with(|| semaphore(LARGE_REQUESTS_PER_PRINCIPAL_MAX)));
        let of_space = slots.spaces.entry(space).or_insert_with(|| semaphore(LARGE_REQUESTS_PER_SPACE_MAX));
        (of_principal, Arc::clone(of_space))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use quorate_core::AgentId;

    use super::*;

    // Fails under: slots that are shared between spaces or principals, or that are not freed.
    #[tokio::test]
    async fn i16_i21_large_requests_are_limited_per_principal_and_space() {
        let requests = LargeRequests::default();
        let acquire = |space: u64, principal: &str| {
            let principal = Principal::Agent(AgentId::new(principal).expect("valid id"));
            requests.clone().acquire(SpaceNo(space), &principal).now_or_never()
        };
        let alice: Vec<_> = (0..LARGE_REQUESTS_PER_PRINCIPAL_MAX).map(|_| acquire(1, "alice")).collect();
        assert!(alice.iter().all(Option::is_some) && acquire(1, "alice").is_none());
        let others: Vec<_> = (alice.len()..LARGE_REQUESTS_PER_SPACE_MAX)
            .map(|number| acquire(1, &format!("agent-{number}")))
            .collect();
        assert!(others.iter().all(Option::is_some), "each has its own slots");
        assert!(acquire(1, "last").is_none(), "the space has no slot left");
        assert!(acquire(2, "alice").is_some(), "another space is not affected");
        drop(alice);
        assert!(acquire(1, "alice").is_some());
        assert!(acquire(1, "last").is_some());
        drop(others);
        let _ = acquire(1, "zoe");
        let slots = requests.0.lock().expect("not poisoned");
        assert!(slots.principals.len() <= 1, "unused slots are dropped");
    }
}
