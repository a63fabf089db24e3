//! The promises, each as a comparison of what clients were told with what the store holds. Nothing here asks the code
//! that made the decisions; only the fold of the log is core's, and it is compared with the live state.

mod chain;
mod locks;
mod memory;
mod messages;
mod trail;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use quorate_core::{Record, SpaceId};
use quorate_store::{DeadLetter, DeliveryState, Published};

use crate::history::{Answer, Call, Event};
pub use trail::{Trail, Trails, Writing};

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which promise.
    pub promise: &'static str,
    /// How it shows.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)
    }
}

/// How much was checked. A run with too little of it proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Calls that were acknowledged.
    pub acknowledged: usize,
    /// Calls that were definitely refused.
    pub refused: usize,
    /// Calls whose end was unknown for a while.
    pub unknown: usize,
    /// Deliveries received.
    pub received: usize,
    /// Deliveries received more than once.
    pub again: usize,
    /// Records in the log.
    pub records: usize,
    /// Dead letters.
    pub dead: usize,
    /// Fences given out.
    pub fences: usize,
    /// Writes refused because their fence was stale.
    pub stale: usize,
}

/// Everything that the store holds.
#[derive(Debug)]
pub struct Found {
    /// The identity of the space.
    pub id: SpaceId,
    /// Its published state.
    pub published: Arc<Published>,
    /// Its log.
    pub records: Vec<Record>,
    /// Its dead letters.
    pub dead: Vec<DeadLetter>,
    /// Where each delivery is, from the first on.
    pub states: Vec<Option<DeliveryState>>,
    /// The history of each entry: version and digest of the content.
    pub entries: BTreeMap<String, Vec<(u64, String)>>,
}

/// What clients know, in a form that is quick to ask.
pub(crate) struct Told<'a> {
    pub(crate) history: &'a [Event],
    pub(crate) calls: HashMap<&'a str, &'a Call>,
    pub(crate) done: HashMap<&'a str, &'a Answer>,
    pub(crate) refused: HashMap<&'a str, &'a str>,
}

/// Checks every promise.
pub fn all(history: &[Event], found: &Found, violations: &mut Vec<Violation>) -> Tally {
    let told = Told::of(history, violations);
    let mut report = Report { violations };
    let trails = Trails::of(found, &mut report);
    chain::check(&told, found, &mut report);
    messages::check(&told, found, &trails, &mut report);
    memory::check(&told, found, &trails, &mut report);
    locks::check(&told, found, &mut report);
    tally(&told, found)
}

impl<'a> Told<'a> {
    fn of(history: &'a [Event], violations: &mut Vec<Violation>) -> Self {
        let mut told = Self { history, calls: HashMap::new(), done: HashMap::new(), refused: HashMap::new() };
        for event in history {
            match event {
                Event::Started(call) => drop(told.calls.insert(&call.id, call)),
                Event::Refused { call, code } => drop(told.refused.insert(call, code)),
                Event::Done { call, answer } => {
                    let keyed = told.calls.get(call.as_str()).is_some_and(|call| call.is_keyed());
                    if let Some(before) = told.done.insert(call, answer)
                        && !before.same_as(answer, keyed)
                    {
                        let what = format!("{call} was answered {before:?}, and then {answer:?}");
                        violations.push(Violation { promise: "I3 one answer", what });
                    }
                }
                Event::Late { what } => {
                    let promise = "acknowledged is visible";
                    violations.push(Violation { promise, what: what.clone() });
                }
                Event::Opened { .. } | Event::Unknown { .. } | Event::Received(_) | Event::Saw { .. } => {}
            }
        }
        told
    }
}

fn tally(told: &Told<'_>, found: &Found) -> Tally {
    let received = told.history.iter().filter_map(|event| match event {
        Event::Received(received) => Some(received.lease.delivery),
        _ => None,
    });
    let received: Vec<u64> = received.collect();
    let mut each = received.clone();
    each.sort_unstable();
    each.dedup();
    Tally {
        acknowledged: told.done.len(),
        refused: told.refused.len(),
        unknown: told.history.iter().filter(|event| matches!(event, Event::Unknown { .. })).count(),
        again: received.len() - each.len(),
        received: received.len(),
        records: found.records.len(),
        dead: found.dead.len(),
        fences: told.done.values().map(|answer| answer.fences.len()).sum(),
        stale: told.refused.values().filter(|code| **code == "STALE_FENCE").count(),
    }
}

/// Where violations are written down.
pub(crate) struct Report<'a> {
    violations: &'a mut Vec<Violation>,
}

impl Report<'_> {
    pub(crate) fn add(&mut self, promise: &'static str, what: impl Into<String>) {
        self.violations.push(Violation { promise, what: what.into() });
    }

    /// Notes a violation unless the condition holds.
    pub(crate) fn require(&mut self, holds: bool, promise: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.add(promise, what());
        }
    }
}
