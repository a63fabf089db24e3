//! Invariants, each checked by comparing the history of the clients with the contents of the store. The checks do not
//! use the decision code under test; only the replay of the log is core's, and its result is compared with the live
//! state.

mod chain;
mod locks;
mod log_trace;
mod memory;
mod messages;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use quorate_core::{Record, SpaceId};
use quorate_store::{PublishedState, StoredDeadLetter, StoredDeliveryState};

use crate::history::{Call, Event, ResponseSummary};
pub use log_trace::{DeliveryTrace, EntryWrite, LogTrace};

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvariantViolation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// Observed violation.
    pub detail: String,
}

impl fmt::Display for InvariantViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// Amount of data that was checked. A run with too little data proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckStats {
    /// Calls that were acknowledged.
    pub acknowledged: usize,
    /// Calls that were definitely refused.
    pub refused: usize,
    /// Calls whose outcome was unknown at some point.
    pub unknown: usize,
    /// Deliveries received.
    pub received: usize,
    /// Redeliveries received.
    pub redelivered: usize,
    /// Records in the log.
    pub records: usize,
    /// Dead letters.
    pub dead: usize,
    /// Fences granted.
    pub fences: usize,
    /// Writes refused because their fence was stale.
    pub stale_fences: usize,
}

/// Contents of the store after recovery.
#[derive(Debug)]
pub struct StoreContents {
    /// Id of the space.
    pub id: SpaceId,
    /// Published state.
    pub published: Arc<PublishedState>,
    /// Log records.
    pub records: Vec<Record>,
    /// Dead letters.
    pub dead: Vec<StoredDeadLetter>,
    /// State of each delivery, starting with number 1.
    pub states: Vec<Option<StoredDeliveryState>>,
    /// History of each entry: version and digest of the content.
    pub entries: BTreeMap<String, Vec<(u64, String)>>,
}

/// Index of the client history.
pub(crate) struct ClientIndex<'a> {
    pub(crate) history: &'a [Event],
    pub(crate) calls: HashMap<&'a str, &'a Call>,
    pub(crate) done: HashMap<&'a str, &'a ResponseSummary>,
    pub(crate) refused: HashMap<&'a str, &'a str>,
}

/// Checks every invariant.
pub fn check_all(
    history: &[Event],
    contents: &StoreContents,
    violations: &mut Vec<InvariantViolation>,
) -> CheckStats {
    let clients = ClientIndex::of(history, violations);
    let mut report = ViolationReport { violations };
    let log = LogTrace::from_log(contents, &mut report);
    chain::check(&clients, contents, &mut report);
    messages::check(&clients, contents, &log, &mut report);
    memory::check(&clients, contents, &log, &mut report);
    locks::check(&clients, contents, &mut report);
    check_stats(&clients, contents)
}

impl<'a> ClientIndex<'a> {
    fn of(history: &'a [Event], violations: &mut Vec<InvariantViolation>) -> Self {
        let mut clients =
            Self { history, calls: HashMap::new(), done: HashMap::new(), refused: HashMap::new() };
        for event in history {
            match event {
                Event::Started(call) => drop(clients.calls.insert(&call.id, call)),
                Event::Refused { call, code } => drop(clients.refused.insert(call, code)),
                Event::Done { call, response } => {
                    let keyed = clients.calls.get(call.as_str()).is_some_and(|call| call.is_keyed());
                    if let Some(before) = clients.done.insert(call, response)
                        && !before.matches(response, keyed)
                    {
                        let detail = format!("{call} got response {before:?}, and then {response:?}");
                        violations.push(InvariantViolation { invariant: "I3 one response", detail });
                    }
                }
                Event::NotVisible { change } => {
                    let invariant = "an acknowledged change is visible";
                    violations.push(InvariantViolation { invariant, detail: change.clone() });
                }
                Event::Opened { .. }
                | Event::Unknown { .. }
                | Event::Received(_)
                | Event::EntryRead { .. } => {}
            }
        }
        clients
    }
}

fn check_stats(clients: &ClientIndex<'_>, contents: &StoreContents) -> CheckStats {
    let received = clients.history.iter().filter_map(|event| match event {
        Event::Received(received) => Some(received.lease.delivery),
        _ => None,
    });
    let received: Vec<u64> = received.collect();
    let mut distinct = received.clone();
    distinct.sort_unstable();
    distinct.dedup();
    CheckStats {
        acknowledged: clients.done.len(),
        refused: clients.refused.len(),
        unknown: clients.history.iter().filter(|event| matches!(event, Event::Unknown { .. })).count(),
        redelivered: received.len() - distinct.len(),
        received: received.len(),
        records: contents.records.len(),
        dead: contents.dead.len(),
        fences: clients.done.values().map(|response| response.fences.len()).sum(),
        stale_fences: clients.refused.values().filter(|code| **code == "STALE_FENCE").count(),
    }
}

/// Collects violations.
pub(crate) struct ViolationReport<'a> {
    violations: &'a mut Vec<InvariantViolation>,
}

impl ViolationReport<'_> {
    pub(crate) fn add(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.violations.push(InvariantViolation { invariant, detail: detail.into() });
    }

    /// Adds a violation unless the condition holds.
    pub(crate) fn require(&mut self, holds: bool, invariant: &'static str, detail: impl FnOnce() -> String) {
        if !holds {
            self.add(invariant, detail());
        }
    }
}
