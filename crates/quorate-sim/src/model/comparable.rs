//! Comparable views of outcomes, dispatches and state, without the parts that may legitimately differ between stores.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AccessToken, ActivePolicy, AgentNo, AgentRegistry, Code, ConsumerEvent, ConsumerId, CreationPosition,
    DeliveryNo, DeliveryStateCounts, Facts, Generation, HolderEvent, Item, ItemKey, ItemKind, ItemRange,
    LeasedDelivery, LeasedTask, Message, NextWake, OpResult, OpenDeliveryState, Payload, Receipt,
    RequestState, Seq, TaskCounts, TaskId, TaskSpec, Timestamp, Version, WaitEdge,
};
use quorate_store::{
    AsOf, BatchDispatch, CommitResult, ListedItem, PublishedState, ReadQuery, ReadResult,
    StoredDeliveryState, StoredEntry, StoredMessage,
};

use super::plan::KEYS;
use super::resolve::{self, client_id, entry_key};

/// An outcome without human-readable text: clients rely on codes and facts.
#[derive(PartialEq, Debug)]
pub(super) enum ComparableOutcome {
    Accepted(Receipt),
    Refused(Code, Box<Facts>),
}

pub(super) fn comparable_outcome(outcome: &CommitResult) -> ComparableOutcome {
    match outcome {
        Ok(receipt) => {
            let mut receipt = receipt.clone();
            leased_tasks_mut(&mut receipt).for_each(|task| task.input = None);
            ComparableOutcome::Accepted(receipt)
        }
        Err(refused) => {
            let mut facts = refused.facts.clone();
            // There may be several cycles; any of them is a valid answer.
            if refused.code == Code::Invalid {
                facts.cycle.truncate(1);
                facts
                    .cycle
                    .iter_mut()
                    .for_each(|edge| *edge = WaitEdge { agent: "some".into(), waits_for: "other".into() });
            }
            ComparableOutcome::Refused(refused.code, facts)
        }
    }
}

/// Everything dispatched to consumers in one step.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Dispatches {
    pub(super) deliveries: Vec<(u64, ConsumerId, LeasedDelivery)>,
    pub(super) dismissed_consumers: Vec<(u64, ConsumerId)>,
    /// Consumer events, sorted by consumer: the order between different consumers is not specified.
    pub(super) events: Vec<(u64, ConsumerId, ComparableEvent)>,
    pub(super) holder_events: Vec<(u64, AgentNo, HolderEvent)>,
}

/// A consumer event without human-readable text.
#[derive(PartialEq, Debug)]
pub(super) enum ComparableEvent {
    Event(ConsumerEvent),
    Refused(Code, Box<Facts>),
}

impl ComparableEvent {
    fn of(event: ConsumerEvent) -> Self {
        match event {
            ConsumerEvent::Refused(refused) => Self::Refused(refused.code, refused.facts),
            other => Self::Event(other),
        }
    }
}

/// Inputs dispatched with tasks. A store may omit any of them, because they can be read from the log.
pub(super) type Inputs = Vec<(Arc<TaskSpec>, Bytes)>;

/// Returns the inputs in the results of task claims.
pub(super) fn claimed_inputs(receipt: &Receipt) -> Inputs {
    let mut receipt = receipt.clone();
    let with_input = |task: &mut LeasedTask| Some((task.task.spec.clone(), task.input.take()?));
    leased_tasks_mut(&mut receipt).filter_map(with_input).collect()
}

fn leased_tasks_mut(receipt: &mut Receipt) -> impl Iterator<Item = &mut LeasedTask> {
    receipt.results.iter_mut().flat_map(|result| match result {
        OpResult::TasksClaimed(task) => task.iter_mut(),
        _ => [].iter_mut(),
    })
}

impl Dispatches {
    pub(super) fn of(batches: Vec<BatchDispatch>) -> (Self, Inputs) {
        let (mut dispatches, mut inputs) = (Self::default(), Vec::new());
        for batch in batches {
            let space = batch.space.0;
            let deliveries = batch.dispatched.into_iter();
            dispatches
                .deliveries
                .extend(deliveries.map(|(consumer, delivery)| (space, consumer, without_salt(delivery))));
            for (consumer, mut event) in batch.consumer_events {
                if let ConsumerEvent::TaskLeased(task) = &mut event {
                    inputs.extend(task.input.take().map(|input| (task.task.spec.clone(), input)));
                }
                dispatches.events.push((space, consumer, ComparableEvent::of(event)));
            }
            let holder_events = batch.holder_events.into_iter();
            dispatches.holder_events.extend(holder_events.map(|(holder, event)| (space, holder, event)));
            dispatches
                .dismissed_consumers
                .extend(batch.dismissed_consumers.into_iter().map(|consumer| (space, consumer)));
        }
        dispatches.events.sort_by_key(|(space, consumer, _)| (*space, *consumer));
        dispatches.holder_events.sort_by_key(|(space, holder, _)| (*space, *holder));
        (dispatches, inputs)
    }
}

/// Replaces the salt of the hub's own messages, which is not specified.
fn without_salt(mut delivery: LeasedDelivery) -> LeasedDelivery {
    if let Some((_, message)) = &mut delivery.message
        && message.from.is_none()
    {
        let message = Arc::make_mut(message);
        message.payload = Payload::seal(message.payload.bytes.clone(), [9; 16]);
    }
    delivery
}

/// Published state without the hash: the model has no hash chain.
#[derive(PartialEq, Debug)]
pub(super) struct ComparableState {
    seq: Seq,
    at: Timestamp,
    generation: Generation,
    agents: AgentRegistry,
    counts: DeliveryStateCounts,
    tasks: TaskCounts,
    wake: NextWake,
    policy: ActivePolicy,
    subscriptions: usize,
    tokens: Vec<Arc<AccessToken>>,
}

pub(super) fn comparable_state(published: &PublishedState) -> ComparableState {
    ComparableState {
        seq: published.head.seq,
        at: published.head.at,
        generation: published.head.generation,
        agents: (*published.agents).clone(),
        counts: published.counts,
        tasks: published.tasks,
        wake: published.wake,
        policy: (*published.policy).clone(),
        subscriptions: published.topics.len(),
        tokens: published.tokens.list(),
    }
}

/// Returns the number of deliveries ever created, the sum of all counts.
pub(super) fn deliveries_created(counts: DeliveryStateCounts) -> u64 {
    let DeliveryStateCounts { ready, scheduled, leased, acked, dead, expired, purged } = counts;
    ready + scheduled + leased + acked + dead + expired + purged
}

/// Returns reads that are cheap enough for every step.
pub(super) fn short_reads(counts: DeliveryStateCounts) -> Vec<ReadQuery> {
    let count = u32::try_from(deliveries_created(counts)).expect("plans are short") + 1;
    vec![
        ReadQuery::Deliveries { first: DeliveryNo(1), count },
        ReadQuery::DeadLetters { agent: None, after: DeliveryNo(0), limit: 1000 },
        ReadQuery::items(ItemKind::Lock, 1000),
        ReadQuery::items(ItemKind::Budget, 1000),
        ReadQuery::items(ItemKind::Session, 1000),
        ReadQuery::items(ItemKind::Task, 10_000),
        ReadQuery::items(ItemKind::Request, 1000),
        ReadQuery::items(ItemKind::Procedure, 1000),
        ReadQuery::items(ItemKind::Approval, 1000),
    ]
}

/// Returns reads of the items of each kind in order of creation, starting after a record.
pub(super) fn creation_order_reads(from: Option<Seq>, limit: usize) -> impl Iterator<Item = ReadQuery> {
    // From the end of a record: the index within a record is not specified.
    let from = from.map(|seq| CreationPosition::new(seq, usize::MAX));
    ItemKind::ALL.iter().flat_map(move |kind| {
        let ranges = [ItemRange::Newest(from), ItemRange::Oldest(from)];
        ranges.map(|range| ReadQuery::Items { kind: *kind, range, limit })
    })
}

/// Returns reads of everything in a space.
pub(super) fn long_reads(published: &PublishedState, seen: &resolve::SeenResults) -> Vec<ReadQuery> {
    let mut reads = short_reads(published.counts);
    reads.extend(super::sessions::session_reads(published.head.seq));
    reads.extend(super::rollback::snapshot_reads());
    let seq = Seq(published.head.seq.0 / 2 + 1);
    let time = Timestamp(published.head.at.0.saturating_sub(5_000));
    reads.push(ReadQuery::DeadLetters { agent: Some(AgentNo(2)), after: DeliveryNo(2), limit: 2 });
    reads.extend([time, published.head.at, Timestamp(0)].map(ReadQuery::SeqAt));
    for key in (0..KEYS.len()).map(entry_key) {
        reads.push(ReadQuery::History { key: key.clone(), after: Version(0), limit: 1000 });
        reads.push(ReadQuery::History { key: key.clone(), after: Version(1), limit: 2 });
        for when in [AsOf::Latest, AsOf::Version(Version(2)), AsOf::Seq(seq), AsOf::Time(time)] {
            reads.push(ReadQuery::Entry { key: key.clone(), when });
        }
    }
    for (prefix, entry_type, author, after) in [
        ("", None, None, None),
        ("plan/", None, None, None),
        ("plan", Some("note"), None, None),
        ("", None, Some("agent:alice"), Some(entry_key(0))),
    ] {
        let (entry_type, author) = (entry_type.map(Into::into), author.map(Into::into));
        reads.push(ReadQuery::Entries { prefix: prefix.into(), entry_type, author, after, limit: 3 });
    }
    reads.extend((0..3).map(|number| ReadQuery::MessageByClientId(client_id(number))));
    let sent: BTreeSet<_> = seen.sent.iter().copied().collect();
    reads.extend(sent.into_iter().map(|(seq, n)| ReadQuery::Message { seq, n }));
    reads.push(ReadQuery::Message { seq: published.head.seq, n: 9 });
    let deliveries = 1..=deliveries_created(published.counts) + 1;
    reads.extend(deliveries.map(|number| ReadQuery::MessageOfDelivery(DeliveryNo(number))));
    for id in &seen.tasks.created {
        reads.push(ReadQuery::Item(ItemKey::new(ItemKind::Task, id.to_shared())));
    }
    let after = seen.tasks.created.iter().nth(1).map(TaskId::to_shared);
    reads.push(ReadQuery::Items { kind: ItemKind::Task, range: ItemRange::ById(after), limit: 3 });
    for seq in (1..=published.head.seq.0 + 1).map(Seq) {
        for (part, start, length) in [(0, 0, u64::MAX), (0, 3, 4), (1, 0, 9)] {
            reads.push(ReadQuery::Part { seq, part, start, length });
        }
    }
    reads.extend(ItemKind::ALL.iter().map(|kind| ReadQuery::items(*kind, 1000)));
    reads.extend(creation_order_reads(Some(seq), 3));
    reads
}

/// Normalizes rows: ready, held and scheduled deliveries become one state, because falling due writes no row. The
/// counts distinguish them.
pub(super) fn normalized(rows: ReadResult) -> ReadResult {
    let waiting = |state| match state {
        OpenDeliveryState::Ready { since } | OpenDeliveryState::Held { since } => {
            OpenDeliveryState::Scheduled { due: since }
        }
        other => other,
    };
    match rows {
        ReadResult::Deliveries(states) => {
            let normalize = |state| match state {
                StoredDeliveryState::Open { state, attempt } => {
                    StoredDeliveryState::Open { state: waiting(state), attempt }
                }
                ended @ StoredDeliveryState::Ended { .. } => ended,
            };
            ReadResult::Deliveries(states.into_iter().map(|state| state.map(normalize)).collect())
        }
        ReadResult::Items(items) => {
            let normalize = |listed: ListedItem| ListedItem {
                created: CreationPosition::new(listed.created.seq(), 0),
                item: without_text(listed.item),
            };
            ReadResult::Items(items.into_iter().map(normalize).collect())
        }
        // The salts of the hub's own messages differ.
        ReadResult::Message(Some(stored)) if stored.message.from.is_none() => {
            let payload = Payload::unsealed(stored.message.payload.bytes.clone());
            let message = Arc::new(Message { payload, ..Message::clone(&stored.message) });
            ReadResult::Message(Some(StoredMessage { message, ..stored }))
        }
        ReadResult::Entry(Some(entry)) => ReadResult::Entry(Some(without_entry_salt(entry))),
        ReadResult::Entries(entries) => {
            ReadResult::Entries(entries.into_iter().map(without_entry_salt).collect())
        }
        other => other,
    }
}

/// Replaces the salt of entries that the hub writes, which is not specified.
fn without_entry_salt(mut entry: StoredEntry) -> StoredEntry {
    if entry.version.entry_type == "task.failure"
        && let Some(content) = entry.content.as_mut().filter(|content| !content.is_erased())
    {
        *content = Payload::seal(content.bytes.clone(), [9; 16]);
    }
    entry
}

/// Removes human-readable text from an item.
fn without_text(item: Item) -> Item {
    match item {
        Item::Request(mut request) => {
            if let RequestState::Failed { reason, .. } = &mut request.state {
                reason.clear();
            }
            Item::Request(request)
        }
        other => other,
    }
}
