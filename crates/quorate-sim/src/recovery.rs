//! Recovery after a fault: opens the data directory, completes unfinished calls, drains every inbox, replays all
//! acknowledged calls, and compares the contents of the store with the history of its clients.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::{Commit, DeliveryNo, Op, Principal, RegisterAgent, Seq, SpaceName, Version};
use quorate_engine::{Engine, Error, Space};
use quorate_sqlite::{Disk, OpenError, Options, SqliteStore};
use quorate_store::{Entropy, ReadQuery, ReadResult, Store, SystemClock};

use crate::check::{self, CheckStats, InvariantViolation, StoreContents};
use crate::history::{
    Call, CallOp, Event, LockOp, ObservedDelivery, agent_id, digest, send_call, unresolved_calls,
};
use crate::load::{self, Recorder};
use quorate_core::{error_chain, hex};

/// Upper bound on waits that normally end immediately. It only prevents a hanging test.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Records per page.
const PAGE: usize = 1000;

/// Opens a data directory with an engine and returns the default space.
///
/// # Errors
/// The reason why it does not open, as text.
pub async fn open(directory: &Path, options: Options) -> Result<Space, String> {
    let opened = Engine::start(SystemClock::new(), Entropy::system(), |context| {
        let store = SqliteStore::open(directory, options, context)?;
        Ok::<Arc<dyn Store>, OpenError>(store)
    });
    let engine = opened.map_err(|error| error_chain(&error))?;
    let name = SpaceName::new("default").map_err(|error| error_chain(&error))?;
    engine.space(name).await.map_err(|error| error_chain(&error))
}

/// Returns the event that records the head of an opened store.
#[must_use]
pub fn opened_event(space: &Space) -> Event {
    let head = space.published().head;
    Event::Opened { head: head.seq.0, hash: hex::encode(&head.hash) }
}

/// Creates a recorder that collects events in memory.
#[must_use]
pub fn recorder() -> (Recorder, Arc<Mutex<Vec<Event>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let output = Arc::clone(&events);
    let record: Recorder =
        Arc::new(move |event| output.lock().unwrap_or_else(PoisonError::into_inner).push(event));
    (record, events)
}

/// Takes the recorded events.
#[must_use]
pub fn take_events(events: &Mutex<Vec<Event>>) -> Vec<Event> {
    std::mem::take(&mut events.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Checks a data directory after a fault against a history.
///
/// # Errors
/// Every violated invariant.
pub async fn check(directory: &Path, mut history: Vec<Event>) -> Result<CheckStats, Vec<InvariantViolation>> {
    let single = |invariant, detail: String| vec![InvariantViolation { invariant, detail }];
    let space = open(directory, Options::default()).await.map_err(|error| {
        single("opens after any covered fault", format!("the directory does not open: {error}"))
    })?;
    let outcome = work(&space, &mut history).await;
    let contents = read_contents(&space, &history).await;
    space.engine().close().await;
    let mut violations = outcome.err().unwrap_or_default();
    if let Err(error) = integrity(directory) {
        violations.push(InvariantViolation { invariant: "the database is intact", detail: error });
    }
    let stats = match contents {
        Ok(contents) => check::check_all(&history, &contents, &mut violations),
        Err(error) => {
            violations.push(InvariantViolation { invariant: "reads succeed", detail: error_chain(&error) });
            CheckStats::default()
        }
    };
    if violations.is_empty() { Ok(stats) } else { Err(violations) }
}

/// Completes unfinished calls, drains the inboxes and replays all acknowledged calls.
async fn work(space: &Space, history: &mut Vec<Event>) -> Result<(), Vec<InvariantViolation>> {
    let (record, events) = recorder();
    record(opened_event(space));
    load::repeat_calls(space, unresolved_calls(history), &record).await;
    let drained = drain(space, &record).await;
    history.extend(take_events(&events));
    let failed = |error: Error| {
        let detail = format!("the hub does not work after the fault: {}", error_chain(&error));
        vec![InvariantViolation { invariant: "I27 every call completes and the backlog drains", detail }]
    };
    drained.map_err(failed)?;
    replay_calls(space, history).await
}

/// Registers every agent again, which releases all leases, and acks every delivery.
async fn drain(space: &Space, record: &Recorder) -> Result<(), Error> {
    let names: Vec<String> = space.published().agents.iter().map(|(_, agent)| agent.id.to_string()).collect();
    for name in &names {
        let op = Op::RegisterAgent(RegisterAgent::named(agent_id(name)));
        space.commit(Commit::new(Principal::Agent(agent_id(name)), vec![op])).await?;
    }
    let mut published = space.follow();
    let mut count = 0;
    loop {
        let counts = published.borrow_and_update().counts;
        if counts.ready + counts.scheduled + counts.leased == 0 {
            return Ok(());
        }
        let mut claimed_count = 0;
        for name in &names {
            let principal = Principal::Agent(agent_id(name));
            let claimed = space.claim(&principal, None, &agent_id(name), 64, 60_000, Duration::ZERO).await?;
            for delivery in claimed {
                let Some(received) = ObservedDelivery::from_delivery(name, &delivery) else { continue };
                let (lease, by) = (received.lease, name.clone());
                record(Event::Received(received));
                claimed_count += 1;
                count += 1;
                let call = Call { id: format!("drain-{count}"), by, op: CallOp::Ack { lease, stale: false } };
                record(Event::Started(call.clone()));
                record(send_call(space, &call).await);
            }
        }
        // The remaining deliveries are not due yet: the next sweep changes the published state.
        if claimed_count == 0 && tokio::time::timeout(WAIT_MAX, published.changed()).await.is_err() {
            return Ok(());
        }
    }
}

/// I3: replays every acknowledged call. Each response is the same, and no record is written.
async fn replay_calls(space: &Space, history: &[Event]) -> Result<(), Vec<InvariantViolation>> {
    let calls: std::collections::HashMap<&str, &Call> = history
        .iter()
        .filter_map(
            |event| if let Event::Started(call) = event { Some((call.id.as_str(), call)) } else { None },
        )
        .collect();
    let head = space.published().head.seq;
    let mut violations = Vec::new();
    let mut replays = tokio::task::JoinSet::new();
    for event in history {
        let Event::Done { call, response } = event else { continue };
        let Some(call) = calls.get(call.as_str()) else { continue };
        let (space, call, response) = (space.clone(), (*call).clone(), response.clone());
        // Concurrently: one at a time would cost one sync each.
        replays.spawn(async move { (send_call(&space, &call).await, call, response) });
    }
    while let Some(joined) = replays.join_next().await {
        let Ok((replayed, call, before)) = joined else { continue };
        let same =
            matches!(&replayed, Event::Done { response, .. } if response.matches(&before, call.is_keyed()));
        if !same {
            let detail = format!("{call:?} got response {before:?}, and then {replayed:?}");
            violations
                .push(InvariantViolation { invariant: "I3 a replayed call has the same response", detail });
        }
    }
    let after = space.published().head.seq;
    if after != head {
        let detail = format!("replayed calls moved the head from {head} to {after}");
        violations.push(InvariantViolation { invariant: "I3 a replayed call has no effect", detail });
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// Reads the full contents of the store.
async fn read_contents(space: &Space, history: &[Event]) -> Result<StoreContents, Error> {
    let published = space.published();
    let mut records = Vec::new();
    loop {
        let page = space.log(Seq(records.len() as u64 + 1), PAGE).await?;
        let more = page.len() == PAGE;
        records.extend(page);
        if !more {
            break;
        }
    }
    let store = space.engine().store();
    let info = store.spaces().into_iter().find(|info| info.number == space.number());
    let id = info.expect("the open space").id;
    let mut dead = Vec::new();
    loop {
        let after = dead
            .last()
            .map_or(DeliveryNo(0), |dead_letter: &quorate_store::StoredDeadLetter| dead_letter.delivery);
        let page = space.dead_letters(None, after, PAGE).await?;
        if page.is_empty() {
            break;
        }
        dead.extend(page);
    }
    let counts = published.counts;
    let created = counts.ready
        + counts.scheduled
        + counts.leased
        + counts.acked
        + counts.dead
        + counts.expired
        + counts.purged;
    let mut states = Vec::new();
    while (states.len() as u64) < created {
        let first = DeliveryNo(states.len() as u64 + 1);
        let count = (created - states.len() as u64).min(PAGE as u64) as u32;
        match store.read(space.number(), vec![ReadQuery::Deliveries { first, count }]).await?.pop() {
            Some(ReadResult::Deliveries(page)) if !page.is_empty() => states.extend(page),
            _ => break,
        }
    }
    let mut entries = std::collections::BTreeMap::new();
    for event in history {
        if let Event::Started(Call {
            op: CallOp::Put { key, .. } | CallOp::Step { key, .. } | CallOp::Lock(LockOp::Write { key, .. }),
            ..
        }) = event
            && !entries.contains_key(key)
        {
            let name = quorate_core::Key::new(key)?;
            let versions = space.history(&name, Version(0), 1_000_000).await?.into_iter();
            let versions = versions.map(|entry| {
                let content = entry.content.map_or(String::new(), |content| digest(&content.bytes));
                (entry.version.head.version.0, content)
            });
            entries.insert(key.clone(), versions.collect::<Vec<_>>());
        }
    }
    Ok(StoreContents { id, published, records, dead, states, entries })
}

/// Opens the database of a data directory like a hub, so that damage of a page is found, and changes are valid.
///
/// # Errors
/// If SQLite cannot open it.
pub fn database(directory: &Path) -> rusqlite::Result<rusqlite::Connection> {
    Disk::new().open(&directory.join("quorate.db"), rusqlite::OpenFlags::default())
}

/// Runs SQLite's integrity check.
fn integrity(directory: &Path) -> Result<(), String> {
    let connection = database(directory).map_err(|error| error_chain(&error))?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| error_chain(&error))?;
    if verdict == "ok" { Ok(()) } else { Err(verdict) }
}
