//! Bodies of webhook events, which the hub reads before it can check their signature. Their number is limited. When the
//! limit is reached, a new upload evicts the oldest one of the webhook with more than its fair share, else of such an
//! address, else the oldest one if it is slow. So a client without a secret cannot keep signed events out by sending
//! bodies that never end.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{Code, Mono, Refused};
use tokio::sync::oneshot;

use crate::rate_limit::network_of;

/// Maximum number of concurrent events whose sender is not authenticated yet.
pub(crate) const UPLOADS_MAX: usize = 64;
/// After this time an upload is slow, and makes room for any other. It is protected before: otherwise, under load, each
/// new event would end an older one, and none would succeed.
pub(crate) const SLOW_UPLOAD_MS: u64 = 1_000;

/// Uploads in progress.
#[derive(Default)]
pub(crate) struct Uploads(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last: u64,
    /// Oldest first.
    open: Vec<OpenUpload>,
}

struct OpenUpload {
    id: u64,
    owner: Owner,
    started_at: Mono,
    evict: oneshot::Sender<()>,
}

/// Who an upload is attributed to.
#[derive(Clone, PartialEq, Eq)]
struct Owner {
    /// Name of the webhook; `None` for all names that do not exist.
    webhook: Option<String>,
    /// Network of the sender; `None` in tests without a connection.
    network: Option<IpAddr>,
}

/// An upload. It ends when it is dropped.
pub(crate) struct Upload {
    state: Arc<Mutex<State>>,
    id: u64,
    evicted: oneshot::Receiver<()>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uploads {
    /// Starts an upload, and ends another one if all slots are in use.
    ///
    /// # Errors
    /// `OVERLOADED` if no other upload has to make room.
    pub(crate) fn start(
        &self,
        webhook: Option<&str>,
        peer: Option<IpAddr>,
        now: Mono,
    ) -> Result<Upload, Refused> {
        let owner = Owner { webhook: webhook.map(str::to_owned), network: peer.map(network_of) };
        let (evict, evicted) = oneshot::channel();
        let mut state = lock(&self.0);
        if state.open.len() >= UPLOADS_MAX {
            let index = state.over_share(&owner).or_else(|| state.slow(now)).ok_or_else(overloaded)?;
            let _ = state.open.remove(index).evict.send(());
        }
        state.last += 1;
        let id = state.last;
        state.open.push(OpenUpload { id, owner, started_at: now, evict });
        Ok(Upload { state: Arc::clone(&self.0), id, evicted })
    }
}

impl Upload {
    /// Awaits the body, unless the upload has to make room for another one.
    ///
    /// # Errors
    /// `OVERLOADED` in that case, or the error of reading.
    pub(crate) async fn read<T>(
        &mut self,
        body: impl Future<Output = Result<T, Refused>>,
    ) -> Result<T, Refused> {
        tokio::select! {
            body = body => body,
            Ok(()) = &mut self.evicted => Err(overloaded()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        lock(&self.state).open.retain(|upload| upload.id != self.id);
    }
}

impl State {
    /// Returns the oldest upload of the webhook, or of the address at the same webhook, that would still have more
    /// uploads than the new owner if it lost one.
    fn over_share(&self, new: &Owner) -> Option<usize> {
        let all = || self.open.iter().map(|upload| &upload.owner);
        let of_webhook = |webhook: &Option<String>| {
            all().filter(|owner| owner.webhook == *webhook).map(|owner| &owner.network).collect::<Vec<_>>()
        };
        let webhook = larger(all().map(|owner| &owner.webhook), &new.webhook);
        let (webhook, network) = match webhook {
            // Of its addresses, the one with the most uploads; any of them if each has one.
            Some(webhook) => (webhook, larger(of_webhook(webhook).into_iter(), &None)),
            None => (&new.webhook, Some(larger(of_webhook(&new.webhook).into_iter(), &new.network)?)),
        };
        let is_over_share = |owner: &Owner| {
            owner.webhook == *webhook && network.is_none_or(|network| owner.network == *network)
        };
        self.open.iter().position(|upload| is_over_share(&upload.owner))
    }

    /// Returns the oldest upload if it is slow.
    fn slow(&self, now: Mono) -> Option<usize> {
        let oldest = self.open.first()?;
        (now.0.saturating_sub(oldest.started_at.0) >= SLOW_UPLOAD_MS).then_some(0)
    }
}

/// Returns the most frequent value, if it occurs at least two times more than `own`.
fn larger<'a, T: Eq + Hash>(values: impl Iterator<Item = &'a T>, own: &T) -> Option<&'a T> {
    let mut counts: HashMap<&T, usize> = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let own = counts.get(own).copied().unwrap_or(0);
    counts
        .into_iter()
        .filter(|(_, count)| *count > own + 1)
        .max_by_key(|(_, count)| *count)
        .map(|(value, _)| value)
}

fn overloaded() -> Refused {
    Refused::new(Code::Overloaded, "too many concurrent webhook events whose signature is not checked yet")
        .limit(UPLOADS_MAX as u64)
        .hint("retry later, and send the body of an event at once")
}
