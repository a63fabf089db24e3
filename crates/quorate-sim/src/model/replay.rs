//! Replay: applying all records to an empty space gives the contents of the live tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::hash_chain::{self, RecordHeader};
use quorate_core::{
    AgentRegistry, DeliveryNo, DeliveryStateCounts, EntryVersion, Item, ItemKey, ItemKind, Key,
    OpenDeliveryState, Record, ReplayedSpace, Seq, Version,
};
use quorate_store::{
    ListedItem, PublishedState, ReadQuery, ReadResult, SpaceInfo, Store, StoredDeliveryState,
};

use super::comparable::{deliveries_created, normalized};
use super::lockstep::check_same;
use super::plan::KEYS;
use super::resolve::entry_key;

/// Published states by sequence number.
pub(super) type PublishedStates = BTreeMap<Seq, Arc<PublishedState>>;

/// Replays the records of a space and compares the result with the states published along the way and with the current
/// contents of the store.
pub(super) async fn compare(
    store: &dyn Store,
    info: &SpaceInfo,
    records: &[Record],
    published_states: &PublishedStates,
) -> Result<(), String> {
    let mut space = ReplayedSpace::new(info.id);
    let mut previous = hash_chain::genesis_hash(info.id);
    for (index, record) in records.iter().enumerate() {
        check_same("the sequence number of a record", &record.seq, &Seq(index as u64 + 1))?;
        let Record { seq, at, format, kind, principal, .. } = record;
        let header = RecordHeader { seq: *seq, at: *at, format: *format, kind: *kind, principal };
        previous = hash_chain::record_hash(&previous, &header, &record.body);
        check_same("the chain", &record.hash, &previous)?;
        space.apply(record).map_err(|error| format!("record {seq}: {error}"))?;
        if let Some(published) = published_states.get(seq) {
            let replayed = &space.working;
            check_same::<AgentRegistry>(
                &format!("the agents after #{seq}"),
                &published.agents,
                replayed.agents(),
            )?;
            let counts = (by_record(published.counts), by_record(replayed.counts()));
            check_same(&format!("the counts after #{seq}"), &counts.0, &counts.1)?;
            check_same(&format!("the tasks after #{seq}"), &published.tasks, &replayed.task_counts())?;
            check_same(
                &format!("the tokens after #{seq}"),
                &published.tokens.list(),
                &replayed.tokens().list(),
            )?;
        }
    }
    let published = store.published(info.number).ok_or("the space is missing")?;
    let published = published.borrow().clone();
    check_same("the head", &published.head, &space.working.head)?;
    check_same::<AgentRegistry>("the agents", &published.agents, space.working.agents())?;
    check_same("the generations", &published.generations, space.working.generations())?;
    check_same("the counts", &by_record(published.counts), &by_record(space.working.counts()))?;
    check_same(
        "the deliveries created",
        &deliveries_created(published.counts),
        &(space.working.stored_counters().next_delivery - 1),
    )?;
    check_same("the policy", &published.policy, space.working.active_policy())?;
    check_same("the subscriptions", &published.topics.len(), &space.working.subscription_tree().len())?;
    check_same("the tokens", &published.tokens.list(), &space.working.tokens().list())?;
    deliveries(store, info, &space).await?;
    items(store, info, &space).await?;
    tasks(store, info, &space).await?;
    entries(store, info, &space).await
}

async fn tasks(store: &dyn Store, info: &SpaceInfo, space: &ReplayedSpace) -> Result<(), String> {
    let live = read(store, info, ReadQuery::items(ItemKind::Task, 100_000)).await?;
    let replayed = space.items.iter().filter(|(key, _)| key.kind == ItemKind::Task);
    let replayed = replayed.map(|entry| listed(space, entry)).collect();
    check_same("replayed tasks", &live, &normalized(ReadResult::Items(replayed)))
}

fn listed(space: &ReplayedSpace, (key, item): (&ItemKey, &Item)) -> ListedItem {
    let created = space.creations.get(key).expect("item has a creation position");
    ListedItem { created, item: item.clone() }
}

/// Merges ready and scheduled deliveries: a delivery that falls due writes no record.
fn by_record(counts: DeliveryStateCounts) -> DeliveryStateCounts {
    DeliveryStateCounts { ready: counts.ready + counts.scheduled, scheduled: 0, ..counts }
}

async fn read(store: &dyn Store, info: &SpaceInfo, query: ReadQuery) -> Result<ReadResult, String> {
    let rows = store.read(info.number, vec![query]).await.map_err(|error| error.to_string())?;
    rows.into_iter().next().map(normalized).ok_or_else(|| "no result".into())
}

async fn deliveries(store: &dyn Store, info: &SpaceInfo, space: &ReplayedSpace) -> Result<(), String> {
    let count = space.working.stored_counters().next_delivery - 1;
    let mut replayed = Vec::new();
    for number in (1..=count).map(DeliveryNo) {
        let open = space.working.open(number).map(|open| {
            let state = match open.state {
                OpenDeliveryState::Ready { since } | OpenDeliveryState::Held { since } => {
                    OpenDeliveryState::Scheduled { due: since }
                }
                other => other,
            };
            StoredDeliveryState::Open { state, attempt: open.attempt }
        });
        let ended = space.ended.get(&number);
        let ended = ended.map(|ended| StoredDeliveryState::Ended { state: ended.state, seq: ended.seq });
        replayed.push(open.or(ended));
    }
    let count = u32::try_from(count).expect("plans are short");
    let live = read(store, info, ReadQuery::Deliveries { first: DeliveryNo(1), count }).await?;
    check_same("replayed deliveries", &live, &ReadResult::Deliveries(replayed))?;
    let dead_letters =
        read(store, info, ReadQuery::DeadLetters { agent: None, after: DeliveryNo(0), limit: 100_000 });
    let ReadResult::DeadLetters(dead_letters) = dead_letters.await? else {
        return Err("expected dead letters".into());
    };
    let live: Vec<_> =
        dead_letters.iter().map(|letter| (letter.delivery, letter.to, letter.seq, letter.n)).collect();
    let replayed: Vec<_> =
        space.dead.iter().map(|(number, dead)| (*number, dead.to, dead.seq, dead.n)).collect();
    check_same("replayed dead letters", &live, &replayed)
}

async fn items(store: &dyn Store, info: &SpaceInfo, space: &ReplayedSpace) -> Result<(), String> {
    let mut live = Vec::new();
    for kind in ItemKind::ALL.iter().copied() {
        match read(store, info, ReadQuery::items(kind, 100_000)).await? {
            ReadResult::Items(found) => live.extend(found),
            _ => return Err("expected items".into()),
        }
    }
    let mut replayed: Vec<_> = space.items.iter().map(|entry| listed(space, entry)).collect();
    replayed.sort_by_key(|listed| listed.item.key());
    live.sort_by_key(|listed| listed.item.key());
    check_same("replayed items", &ReadResult::Items(live), &normalized(ReadResult::Items(replayed)))
}

async fn entries(store: &dyn Store, info: &SpaceInfo, space: &ReplayedSpace) -> Result<(), String> {
    let mut live: BTreeMap<Key, Vec<EntryVersion>> = BTreeMap::new();
    // Tasks that failed have entries too.
    let keys: BTreeSet<Key> = (0..KEYS.len()).map(entry_key).chain(space.entries.keys().cloned()).collect();
    for key in keys {
        let history = ReadQuery::History { key: key.clone(), after: Version(0), limit: 100_000 };
        let ReadResult::Entries(found) = read(store, info, history).await? else {
            return Err("expected a history".into());
        };
        for entry in found {
            let position = entry.version.content_part;
            let erased = entry.content.as_ref().is_some_and(quorate_core::Payload::is_erased);
            check_same(
                "the erased payloads",
                &erased,
                &position.is_some_and(|position| space.erased.contains(&position)),
            )?;
            live.entry(key.clone()).or_default().push(entry.version);
        }
    }
    check_same("replayed entries", &live, &space.entries)
}
