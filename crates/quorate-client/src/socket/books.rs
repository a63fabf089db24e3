//! What a connection has asked for, holds and may take: kept over breaks, so that nothing is lost and nothing is done twice.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use quorate::link::{Delivery, Over};
use quorate::{Code, Error, Remote};
use quorate_core::{DeliveryId, LeaseRef, Mono, Now};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// Ends of deliveries that are remembered: what the hub may still send again after it was told.
const SETTLED_MAX: usize = 16_384;
/// Bytes of deliveries that may come: messages and their number bound them already.
const BYTES: u64 = 1 << 50;

/// Frames that may be unanswered when a connection is new; twice as many with each answer. A connection that breaks again
/// and again would else carry the same first frames again and again, and never an answer.
const WINDOW_FIRST: usize = 4;

/// A delivery under one lease.
type Held = (DeliveryId, u64);

/// The answer to a frame, as JSON.
pub(super) type Told = Result<String, Error>;

/// A frame that was not answered yet.
pub(super) struct Frame {
    /// What it says, without its number: `"commit":{…}`.
    pub(super) says: String,
    pub(super) answer: Option<oneshot::Sender<Told>>,
    /// Whether it may be said again after a break: it has a key, or an id.
    pub(super) repeatable: bool,
    pub(super) since: Mono,
    pub(super) slot: Option<OwnedSemaphorePermit>,
    /// Its number on this connection.
    n: u64,
    /// Whether the hub may have heard it.
    ever_said: bool,
}

impl Frame {
    pub(super) fn new(says: String, repeatable: bool, now: Now) -> Self {
        Self { says, answer: None, repeatable, since: now.mono, slot: None, n: 0, ever_said: false }
    }

    fn answer(self, told: Told) {
        // Whoever asked may have gone.
        let _ = self.answer.map(|answer| answer.send(told));
    }
}

#[derive(Default)]
pub(super) struct Books {
    /// What was asked and not answered, in the order of asking.
    frames: VecDeque<Frame>,
    /// How many of them were said on this connection: the first ones.
    said: usize,
    /// How many may be said without an answer.
    window: usize,
    last_n: u64,
    /// What came and nobody took yet.
    inbox: VecDeque<Delivery>,
    /// What is in hand, here or in the inbox.
    held: HashSet<Held>,
    settled: Settled,
    /// How many more deliveries may come. Below 0 for a while if more came again than were known.
    free: i64,
    /// What was granted on this connection, and what came.
    granted: i64,
    came: i64,
    /// Deliveries that come again on this connection.
    resumed: i64,
    /// Since when nothing was answered, after a break.
    down_since: Option<Mono>,
    pub(super) closing: bool,
    /// Nothing more comes, and why: `None` is because it was closed.
    pub(super) end: Option<Option<Error>>,
}

/// The newest ends of deliveries.
#[derive(Default)]
struct Settled {
    known: HashSet<Held>,
    order: VecDeque<Held>,
}

impl Settled {
    fn add(&mut self, held: Held) {
        if self.known.insert(held) {
            self.order.push_back(held);
        }
        if self.order.len() > SETTLED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

fn held_of(lease: &LeaseRef) -> Held {
    (lease.delivery, lease.token.0)
}

impl Books {
    pub(super) fn with_room(room: u32) -> Self {
        Self { free: i64::from(room), ..Self::default() }
    }

    /// Puts a frame in line. Refused when nothing more is said.
    pub(super) fn ask(&mut self, frame: Frame) {
        match &self.end {
            None => self.frames.push_back(frame),
            Some(end) => frame.answer(Err(end.clone().unwrap_or_else(closed))),
        }
    }

    /// A new connection: what was not answered is said again, in order.
    pub(super) fn begin(&mut self, resumed: u32) {
        (self.said, self.last_n, self.granted, self.came) = (0, 0, 0, 0);
        self.resumed = i64::from(resumed);
        self.window = WINDOW_FIRST;
    }

    /// What to say next, if anything.
    pub(super) fn next_text(&mut self) -> Option<String> {
        let may_come = self.free.max(0) + std::mem::take(&mut self.resumed);
        if !self.closing && self.granted - self.came < may_come {
            self.granted = self.came + may_come;
            self.last_n += 1;
            let (n, messages) = (self.last_n, self.granted);
            return Some(format!("{{\"n\":{n},\"credit\":{{\"messages\":{messages},\"bytes\":{BYTES}}}}}"));
        }
        if self.said >= self.window {
            return None;
        }
        let frame = self.frames.get_mut(self.said)?;
        self.said += 1;
        self.last_n += 1;
        (frame.n, frame.ever_said) = (self.last_n, true);
        Some(format!("{{\"n\":{},{}}}", frame.n, frame.says))
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.frames.is_empty()
    }

    /// An answer came. Says whether the hub does not know what came of it, so that it must be asked again.
    pub(super) fn answered(&mut self, n: u64, told: Told) -> bool {
        let Some(at) = self.frames.iter().take(self.said).position(|frame| frame.n == n) else {
            // The answer to a credit.
            return false;
        };
        self.down_since = None;
        self.window = self.window.saturating_mul(2);
        let unknown = matches!(&told, Err(Error::Remote(remote)) if !remote.nothing_applied);
        if unknown && self.frames[at].repeatable {
            return true;
        }
        if let Some(frame) = self.frames.remove(at) {
            self.said -= 1;
            frame.answer(told);
        }
        false
    }

    /// A delivery came. Given back if it is new and nobody wants it any more.
    pub(super) fn deliver(&mut self, delivery: Delivery) -> Option<LeaseRef> {
        self.came += 1;
        let Some(lease) = delivery.lease else {
            if !self.closing {
                self.inbox.push_back(delivery);
            }
            return None;
        };
        let held = held_of(&lease);
        if self.settled.known.contains(&held) || self.held.contains(&held) {
            // It comes again after a break, and is in hand or done with.
            return None;
        }
        if self.closing {
            self.settled.add(held);
            return Some(lease);
        }
        self.free -= 1;
        self.held.insert(held);
        self.inbox.push_back(delivery);
        None
    }

    pub(super) fn take(&mut self) -> Option<Delivery> {
        self.inbox.pop_front()
    }

    /// The leases of what came and nobody took.
    pub(super) fn untaken(&mut self) -> Vec<LeaseRef> {
        let leases: Vec<_> = self.inbox.drain(..).filter_map(|delivery| delivery.lease).collect();
        leases.iter().for_each(|lease| self.settled.add(held_of(lease)));
        leases
    }

    /// A delivery is over, and there is room for another one.
    pub(super) fn over(&mut self, lease: &LeaseRef, over: Over) {
        let held = held_of(lease);
        if self.held.remove(&held) {
            self.free += 1;
        }
        if over == Over::Settled {
            self.settled.add(held);
        }
    }

    /// Somebody took a delivery in another way: it is not for this inbox, should it come again.
    pub(super) fn taken_elsewhere(&mut self, lease: &LeaseRef) {
        self.settled.add(held_of(lease));
    }

    /// The connection broke. What cannot be said again is answered with what is known of it: nothing.
    pub(super) fn broke(&mut self, now: Now, url: &str) {
        self.down_since.get_or_insert(now.mono);
        self.said = 0;
        self.drop_frames(url, |frame| !frame.repeatable && frame.ever_said);
    }

    /// Gives up what waited for longer than this for a connection.
    pub(super) fn give_up(&mut self, now: Now, keep_trying: Duration, url: &str) {
        let Some(down_since) = self.down_since else { return };
        let bound = u64::try_from(keep_trying.as_millis()).unwrap_or(u64::MAX);
        self.drop_frames(url, |frame| now.mono.0.saturating_sub(frame.since.max(down_since).0) >= bound);
    }

    fn drop_frames(&mut self, url: &str, which: impl Fn(&Frame) -> bool) {
        let (dropped, kept) = self.frames.drain(..).partition::<VecDeque<_>, _>(which);
        self.frames = kept;
        for frame in dropped {
            let unknown = frame.ever_said;
            frame.answer(Err(away(url, unknown)));
        }
    }

    /// Nothing more comes and nothing more is said.
    pub(super) fn finish(&mut self, why: Option<Error>) {
        for frame in self.frames.drain(..) {
            let told = why.clone().unwrap_or_else(closed);
            frame.answer(Err(told));
        }
        self.said = 0;
        self.inbox.clear();
        self.end.get_or_insert(why);
    }
}

fn away(url: &str, unknown: bool) -> Error {
    let hint = if unknown {
        "whether it took effect is unknown: repeat it with the same idempotency key"
    } else {
        "nothing was changed; try again when the hub is back"
    };
    Remote {
        code: Code::Unavailable,
        detail: format!("the connection to the hub at {url} broke, and did not come back in time"),
        hint: hint.to_owned(),
        nothing_applied: !unknown,
    }
    .into()
}

pub(super) fn closed() -> Error {
    Remote {
        code: Code::Unavailable,
        detail: "the connection was closed".to_owned(),
        hint: "connect again".to_owned(),
        nothing_applied: true,
    }
    .into()
}

#[cfg(test)]
mod tests;
