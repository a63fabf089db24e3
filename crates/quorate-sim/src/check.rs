//! Invariants, each checked by comparing the history of the clients with the contents of the store. The checks do not
//! use the decision code under test; only the replay of the log is core's, and its result is compared with the live
//! state.

mod chain;
mod locks;
mod memory;
mod messages;
mod trail;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use quorate_core::{Record, SpaceId};
use quorate_store::{DeadLetter, DeliveryState, PublishedState};

use crate::history::{Answer, Call, Event};
pub use trail::{Trail, Trails, Writing};

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Name of the invariant.
    pub promise: &'static str,
    /// Observed violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)
    }
}

/// Amount of data that was checked. A run with too little data proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Calls that were acknowledged.
    pub acknowledged: usize,
    /// Calls that were definitely refused.
    pub refused: usize,
    /// Calls whose outcome was unknown at some point.
    pub unknown: usize,
    /// Deliveries received.
    pub received: usize,
    /// Redeliveries received.
    pub again: usize,
    /// Records in the log.
    pub records: usize,
    /// Dead letters.
    pub dead: usize,
    /// Fences granted.
    pub fences: usize,
    /// Writes refused because their fence was stale.
    pub stale: usize,
}

/// Contents of the store after recovery.
#[derive(Debug)]
pub struct Found {
    /// Id of the space.
    pub id: SpaceId,
    /// Published state.
    pub published: Arc<PublishedState>,
    /// Log records.
    pub records: Vec<Record>,
    /// Dead letters.
    pub dead: Vec<DeadLetter>,
    /// State of each delivery, starting with number 1.
    pub states: Vec<Option<DeliveryState>>,
    /// History of each entry: version and digest of the content.
    pub entries: BTreeMap<String, Vec<(u64, String)>>,
}

/// Index of the client history.
pub(crate) struct Told<'a> {
    pub(crate) history: &'a [Event],
    pub(crate) calls: HashMap<&'a str, &'a Call>,
    pub(crate) done: HashMap<&'a str, &'a Answer>,
    pub(crate) refused: HashMap<&'a str, &'a str>,
}

/// Checks every invariant.
pub fn all(history: &[Event], found: &Found, violations: &mut Vec<Violation>) -> Tally {
    let clients = Told::of(history, violations);
    let mut report = Report { violations };
    let trails = Trails::of(found, &mut report);
    chain::check(&clients, found, &mut report);
    messages::check(&clients, found, &trails, &mut report);
    memory::check(&clients, found, &trails, &mut report);
    locks::check(&clients, found, &mut report);
    tally(&clients, found)
}

impl<'a> Told<'a> {
    fn of(history: &'a [Event], violations: &mut Vec<Violation>) -> Self {
        let mut clients =
            Self { history, calls: HashMap::new(), done: HashMap::new(), refused: HashMap::new() };
        for event in history {
            match event {
                Event::Started(call) => drop(clients.calls.insert(&call.id, call)),
                Event::Refused { call, code } => drop(clients.refused.insert(call, code)),
                Event::Done { call, answer } => {
                    let keyed = clients.calls.get(call.as_str()).is_some_and(|call| call.is_keyed());
                    if let Some(before) = clients.done.insert(call, answer)
                        && !before.same_as(answer, keyed)
                    {
                        let what = format!("{call} got response {before:?}, and then {answer:?}");
                        violations.push(Violation { promise: "I3 one response", what });
                    }
                }
                Event::Late { what } => {
                    let promise = "an acknowledged change is visible";
                    violations.push(Violation { promise, what: what.clone() });
                }
                Event::Opened { .. } | Event::Unknown { .. } | Event::Received(_) | Event::Saw { .. } => {}
            }
        }
        clients
    }
}

fn tally(clients: &Told<'_>, found: &Found) -> Tally {
    let received = clients.history.iter().filter_map(|event| match event {
        Event::Received(received) => Some(received.lease.delivery),
        _ => None,
    });
    let received: Vec<u64> = received.collect();
    let mut distinct = received.clone();
    distinct.sort_unstable();
    distinct.dedup();
    Tally {
        acknowledged: clients.done.len(),
        refused: clients.refused.len(),
        unknown: clients.history.iter().filter(|event| matches!(event, Event::Unknown { .. })).count(),
        again: received.len() - distinct.len(),
        received: received.len(),
        records: found.records.len(),
        dead: found.dead.len(),
        fences: clients.done.values().map(|answer| answer.fences.len()).sum(),
        stale: clients.refused.values().filter(|code| **code == "STALE_FENCE").count(),
    }
}

/// Collects violations.
pub(crate) struct Report<'a> {
    violations: &'a mut Vec<Violation>,
}

impl Report<'_> {
    pub(crate) fn add(&mut self, promise: &'static str, what: impl Into<String>) {
        self.violations.push(Violation { promise, what: what.into() });
    }

    /// Adds a violation unless the condition holds.
    pub(crate) fn require(&mut self, holds: bool, promise: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.add(promise, what());
        }
    }
}
