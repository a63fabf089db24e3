//! What two stores must agree on, made comparable.

use std::collections::BTreeSet;

use quorate_core::{
    AgentNo, Agents, Code, ConsumerId, Counts, DeliveryNo, Facts, Generation, Handed, Item, ItemKind,
    OpenState, Receipt, RequestState, Seq, Timestamp, Told, Version, Wake,
};
use quorate_store::{DeliveryState, Handover, Outcome, Published, Read, Rows, When};

use super::plan::KEYS;
use super::resolve::{self, client_id, key_of};

/// An outcome without its words: programs go by codes and facts.
#[derive(PartialEq, Debug)]
pub(super) enum Answer {
    Yes(Receipt),
    No(Code, Facts),
}

pub(super) fn outcome(outcome: &Outcome) -> Answer {
    match outcome {
        Ok(receipt) => Answer::Yes(receipt.clone()),
        Err(refused) => Answer::No(refused.code, (*refused.facts).clone()),
    }
}

/// All that went to consumers in one step.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Handovers {
    pub(super) handed: Vec<(u64, ConsumerId, Handed)>,
    pub(super) dismissed: Vec<(u64, ConsumerId)>,
    /// What others were told, by consumer: the order of those who wait for different things is nobody's business.
    pub(super) told: Vec<(u64, ConsumerId, Heard)>,
}

/// What somebody was told, without its words.
#[derive(PartialEq, Debug)]
pub(super) enum Heard {
    Yes(Told),
    No(Code, Facts),
}

impl Heard {
    fn of(told: Told) -> Self {
        match told {
            Told::Refused(refused) => Self::No(refused.code, *refused.facts),
            other => Self::Yes(other),
        }
    }
}

impl Handovers {
    pub(super) fn of(all: Vec<Handover>) -> Self {
        let mut whole = Self::default();
        for one in all {
            let space = one.space.0;
            whole.handed.extend(one.handed.into_iter().map(|(consumer, handed)| (space, consumer, handed)));
            whole.dismissed.extend(one.dismissed.into_iter().map(|consumer| (space, consumer)));
            let told = one.told.into_iter().map(|(consumer, told)| (space, consumer, Heard::of(told)));
            whole.told.extend(told);
        }
        whole.told.sort_by_key(|(space, consumer, _)| (*space, *consumer));
        whole
    }
}

/// What is published, but for the hash: the model has no chain.
#[derive(PartialEq, Debug)]
pub(super) struct State {
    seq: Seq,
    at: Timestamp,
    generation: Generation,
    agents: Agents,
    counts: Counts,
    wake: Wake,
}

pub(super) fn state(published: &Published) -> State {
    State {
        seq: published.head.seq,
        at: published.head.at,
        generation: published.head.generation,
        agents: (*published.agents).clone(),
        counts: published.counts,
        wake: published.wake,
    }
}

/// Deliveries that were ever made: the counts add up to them.
pub(super) fn made(counts: Counts) -> u64 {
    let Counts { ready, scheduled, leased, acked, dead, expired, purged } = counts;
    ready + scheduled + leased + acked + dead + expired + purged
}

/// Reads that are cheap enough for every step.
pub(super) fn short_reads(counts: Counts) -> Vec<Read> {
    let count = u32::try_from(made(counts)).expect("plans are short") + 1;
    vec![
        Read::Deliveries { first: DeliveryNo(1), count },
        Read::DeadLetters { agent: None, after: DeliveryNo(0), limit: 1000 },
        Read::Items { kind: ItemKind::Lock, after: None, limit: 1000 },
        Read::Items { kind: ItemKind::Session, after: None, limit: 1000 },
        Read::Items { kind: ItemKind::Request, after: None, limit: 1000 },
    ]
}

/// Everything that can be asked about a space.
pub(super) fn long_reads(published: &Published, told: &resolve::Told) -> Vec<Read> {
    let mut reads = short_reads(published.counts);
    reads.extend(super::sessions::reads(published.head.seq));
    let seq = Seq(published.head.seq.0 / 2 + 1);
    let time = Timestamp(published.head.at.0.saturating_sub(5_000));
    reads.push(Read::DeadLetters { agent: Some(AgentNo(2)), after: DeliveryNo(2), limit: 2 });
    reads.extend([time, published.head.at, Timestamp(0)].map(Read::SeqAt));
    for key in (0..KEYS.len()).map(key_of) {
        reads.push(Read::History { key: key.clone(), after: Version(0), limit: 1000 });
        reads.push(Read::History { key: key.clone(), after: Version(1), limit: 2 });
        for when in [When::Now, When::Version(Version(2)), When::Seq(seq), When::Time(time)] {
            reads.push(Read::Entry { key: key.clone(), when });
        }
    }
    for (prefix, entry_type, author, after) in [
        ("", None, None, None),
        ("plan/", None, None, None),
        ("plan", Some("note"), None, None),
        ("", None, Some("agent:alice"), Some(key_of(0))),
    ] {
        let (entry_type, author) = (entry_type.map(Into::into), author.map(Into::into));
        reads.push(Read::Entries { prefix: prefix.into(), entry_type, author, after, limit: 3 });
    }
    reads.extend((0..3).map(|number| Read::MessageByClientId(client_id(number))));
    let sent: BTreeSet<_> = told.sent.iter().copied().collect();
    reads.extend(sent.into_iter().map(|(seq, n)| Read::Message { seq, n }));
    reads.push(Read::Message { seq: published.head.seq, n: 9 });
    reads
}

/// Whether something waits because of its time or already in line is no row's business: time alone moves it. The counts
/// tell the two apart.
pub(super) fn settled(rows: Rows) -> Rows {
    let waiting = |state| match state {
        OpenState::Ready { since } | OpenState::Held { since } => OpenState::Scheduled { due: since },
        other => other,
    };
    match rows {
        Rows::Deliveries(states) => {
            let settle = |state| match state {
                DeliveryState::Open { state, attempt } => {
                    DeliveryState::Open { state: waiting(state), attempt }
                }
                ended @ DeliveryState::Ended { .. } => ended,
            };
            Rows::Deliveries(states.into_iter().map(|state| state.map(settle)).collect())
        }
        Rows::Items(items) => Rows::Items(items.into_iter().map(wordless).collect()),
        other => other,
    }
}

/// An item without words that only people read.
fn wordless(item: Item) -> Item {
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
