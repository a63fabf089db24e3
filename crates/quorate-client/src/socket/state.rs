//! State of a socket that survives reconnects: unanswered frames, held deliveries and credit. It ensures that nothing
//! is lost and nothing is handled twice.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use quorate::backend::{LeaseEvent, ReceivedDelivery, WorkOutcome};
use quorate::{Code, Error, RemoteError};
use quorate_core::{DeliveryId, LeaseRef, Mono, Now};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Maximum number of remembered settled deliveries. The hub can send a delivery again that was settled during a
/// connection loss.
const SETTLED_MAX: usize = 16_384;
/// Maximum number of unread events about leases.
const LEASE_EVENTS_MAX: usize = 4_096;
/// Byte credit granted to the hub: unlimited in practice, because the message credit already bounds it.
const CREDIT_BYTES: u64 = 1 << 50;

/// Send window of a new connection: the maximum number of unanswered frames. It doubles with each response. Without
/// it, a connection that keeps breaking would resend all frames each time and never get to a response.
const WINDOW_FIRST: usize = 4;

/// Delivery id and lease token.
type LeaseKey = (DeliveryId, u64);

/// Response to a frame, as JSON.
pub(super) type FrameResult = Result<String, Error>;

/// A frame that awaits its response.
pub(super) struct Frame {
    /// Content without the frame number: `"commit":{…}`.
    pub(super) content: String,
    pub(super) responder: Option<oneshot::Sender<FrameResult>>,
    /// Whether it can be resent after a connection loss: it has an idempotency key or an id.
    pub(super) repeatable: bool,
    pub(super) enqueued_at: Mono,
    pub(super) slot: Option<OwnedSemaphorePermit>,
    /// Frame number on the current connection.
    n: u64,
    /// Whether the hub may have received it.
    was_sent: bool,
}

impl Frame {
    pub(super) fn new(content: String, repeatable: bool, now: Now) -> Self {
        Self {
            content,
            responder: None,
            repeatable,
            enqueued_at: now.mono,
            slot: None,
            n: 0,
            was_sent: false,
        }
    }

    fn respond(self, response: FrameResult) {
        // The caller may have stopped waiting.
        let _ = self.responder.map(|responder| responder.send(response));
    }
}

#[derive(Default)]
pub(super) struct SocketState {
    /// Unanswered frames, in the order of the calls.
    frames: VecDeque<Frame>,
    /// Number of frames sent on the current connection: the first ones of `frames`.
    sent: usize,
    /// Maximum number of unanswered frames.
    window: usize,
    last_n: u64,
    /// Received deliveries that are not consumed yet.
    inbox: VecDeque<ReceivedDelivery>,
    /// Deliveries in the inbox or being handled.
    held: HashSet<LeaseKey>,
    settled: Settled,
    /// Events about leases that are not consumed yet.
    lease_events: VecDeque<LeaseEvent>,
    /// Capacity for further deliveries. Temporarily negative if the hub resends more deliveries than were held.
    free: i64,
    /// Message credit granted on the current connection.
    granted: i64,
    /// Deliveries received on the current connection.
    received: i64,
    /// Deliveries that the hub sends again on the current connection.
    resumed: i64,
    /// Time of the connection loss, until the next response.
    down_since: Option<Mono>,
    pub(super) closing: bool,
    /// Set when the socket has ended; the inner `None` means that it was closed.
    pub(super) outcome: Option<Option<Error>>,
}

/// The most recently settled deliveries.
#[derive(Default)]
struct Settled {
    known: HashSet<LeaseKey>,
    order: VecDeque<LeaseKey>,
}

impl Settled {
    fn add(&mut self, key: LeaseKey) {
        if self.known.insert(key) {
            self.order.push_back(key);
        }
        if self.order.len() > SETTLED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

fn lease_key(lease: &LeaseRef) -> LeaseKey {
    (lease.delivery, lease.token.0)
}

impl SocketState {
    pub(super) fn with_credit(credit: u32) -> Self {
        Self { free: i64::from(credit), ..Self::default() }
    }

    /// Queues a frame, or fails it if the socket has ended.
    pub(super) fn enqueue(&mut self, frame: Frame) {
        match &self.outcome {
            None => self.frames.push_back(frame),
            Some(end) => frame.respond(Err(end.clone().unwrap_or_else(closed))),
        }
    }

    /// Resets the state for a new connection. Unanswered frames are resent in order.
    pub(super) fn start_connection(&mut self, resumed: u32) {
        (self.sent, self.last_n, self.granted, self.received) = (0, 0, 0, 0);
        self.resumed = i64::from(resumed);
        self.window = WINDOW_FIRST;
    }

    /// Returns the next frame to send: a credit grant if capacity is free, else a queued frame within the send
    /// window.
    pub(super) fn next_frame(&mut self) -> Option<String> {
        let available = self.free.max(0) + std::mem::take(&mut self.resumed);
        if !self.closing && self.granted - self.received < available {
            self.granted = self.received + available;
            self.last_n += 1;
            let (n, messages) = (self.last_n, self.granted);
            return Some(format!(
                "{{\"n\":{n},\"credit\":{{\"messages\":{messages},\"bytes\":{CREDIT_BYTES}}}}}"
            ));
        }
        if self.sent >= self.window {
            return None;
        }
        let frame = self.frames.get_mut(self.sent)?;
        self.sent += 1;
        self.last_n += 1;
        (frame.n, frame.was_sent) = (self.last_n, true);
        Some(format!("{{\"n\":{},{}}}", frame.n, frame.content))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.frames.is_empty()
    }

    /// Handles a response. Returns `true` if the outcome is unknown to the hub, so that the frame must be resent.
    pub(super) fn handle_response(&mut self, n: u64, response: FrameResult) -> bool {
        let Some(index) = self.frames.iter().take(self.sent).position(|frame| frame.n == n) else {
            // The response to a credit grant.
            return false;
        };
        self.down_since = None;
        self.window = self.window.saturating_mul(2);
        let unknown = matches!(&response, Err(Error::Remote(remote)) if !remote.nothing_applied);
        if unknown && self.frames[index].repeatable {
            return true;
        }
        if let Some(frame) = self.frames.remove(index) {
            self.sent -= 1;
            frame.respond(response);
        }
        false
    }

    /// Handles a received delivery. Returns its lease if it must be released, because the socket is closing.
    pub(super) fn receive(&mut self, delivery: ReceivedDelivery) -> Option<LeaseRef> {
        self.received += 1;
        let Some(lease) = delivery.lease else {
            if !self.closing {
                self.inbox.push_back(delivery);
            }
            return None;
        };
        let key = lease_key(&lease);
        if self.settled.known.contains(&key) || self.held.contains(&key) {
            // Sent again after a reconnect, and already held or settled.
            return None;
        }
        if self.closing {
            self.settled.add(key);
            return Some(lease);
        }
        self.free -= 1;
        self.held.insert(key);
        self.inbox.push_back(delivery);
        None
    }

    pub(super) fn pop_delivery(&mut self) -> Option<ReceivedDelivery> {
        self.inbox.pop_front()
    }

    /// Queues an event about a lease. If too many are unread, all leases are to be checked instead.
    pub(super) fn push_lease_event(&mut self, event: LeaseEvent) {
        if self.lease_events.len() >= LEASE_EVENTS_MAX {
            self.lease_events.clear();
            self.lease_events.push_back(LeaseEvent::Interrupted);
        }
        self.lease_events.push_back(event);
    }

    pub(super) fn pop_lease_event(&mut self) -> Option<LeaseEvent> {
        self.lease_events.pop_front()
    }

    /// Empties the inbox and returns the leases to release.
    pub(super) fn drain_unread(&mut self) -> Vec<LeaseRef> {
        let leases: Vec<_> = self.inbox.drain(..).filter_map(|delivery| delivery.lease).collect();
        leases.iter().for_each(|lease| self.settled.add(lease_key(lease)));
        leases
    }

    /// Handles the end of a delivery and frees its capacity.
    pub(super) fn end_delivery(&mut self, lease: &LeaseRef, outcome: WorkOutcome) {
        let key = lease_key(lease);
        if self.held.remove(&key) {
            self.free += 1;
        }
        if outcome == WorkOutcome::Settled {
            self.settled.add(key);
        }
    }

    /// Records that a delivery was claimed over HTTP, so that it is ignored if the hub sends it again.
    pub(super) fn mark_claimed(&mut self, lease: &LeaseRef) {
        self.settled.add(lease_key(lease));
    }

    /// Handles a lost connection. Frames that cannot be resent fail with an unknown outcome.
    pub(super) fn handle_disconnect(&mut self, now: Now, url: &str) {
        self.down_since.get_or_insert(now.mono);
        self.sent = 0;
        self.drop_frames(url, |frame| !frame.repeatable && frame.was_sent);
    }

    /// Fails the frames that have waited for a connection longer than the retry timeout.
    pub(super) fn expire_frames(&mut self, now: Now, retry_timeout: Duration, url: &str) {
        let Some(down_since) = self.down_since else { return };
        let timeout_ms = u64::try_from(retry_timeout.as_millis()).unwrap_or(u64::MAX);
        self.drop_frames(url, |frame| {
            now.mono.0.saturating_sub(frame.enqueued_at.max(down_since).0) >= timeout_ms
        });
    }

    fn drop_frames(&mut self, url: &str, predicate: impl Fn(&Frame) -> bool) {
        let (dropped, kept) = self.frames.drain(..).partition::<VecDeque<_>, _>(predicate);
        self.frames = kept;
        for frame in dropped {
            let unknown = frame.was_sent;
            frame.respond(Err(connection_lost(url, unknown)));
        }
    }

    /// Ends the socket and fails all unanswered frames.
    pub(super) fn close(&mut self, error: Option<Error>) {
        for frame in self.frames.drain(..) {
            frame.respond(Err(error.clone().unwrap_or_else(closed)));
        }
        self.sent = 0;
        self.inbox.clear();
        self.outcome.get_or_insert(error);
    }
}

fn connection_lost(url: &str, unknown: bool) -> Error {
    let hint = if unknown {
        "the call may have taken effect: retry it with the same idempotency key"
    } else {
        "nothing was changed; retry when the hub is available"
    };
    RemoteError {
        code: Code::Unavailable,
        detail: format!("lost the connection to the hub at {url}, and could not reconnect in time"),
        hint: hint.to_owned(),
        nothing_applied: !unknown,
    }
    .into()
}

pub(super) fn closed() -> Error {
    RemoteError {
        code: Code::Unavailable,
        detail: "the connection was closed".to_owned(),
        hint: "connect again".to_owned(),
        nothing_applied: true,
    }
    .into()
}

#[cfg(test)]
mod tests;
