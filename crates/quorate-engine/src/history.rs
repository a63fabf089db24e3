//! As-of reads: the newest record at a time, and items as of a record. An effect that changes an item contains its
//! complete state, so it is enough to find the last such effect.

use std::collections::{HashMap, HashSet};

use quorate_core::limits::AS_OF_RECORDS_MAX;
use quorate_core::{
    Code, ContributionKind, Effect, Item, ItemKey, ItemKind, Record, Refused, Seq, Timestamp, codec,
};
use quorate_store::{ReadQuery, ReadResult, StoreError};

use crate::error::Error;
use crate::space::Space;
use crate::yielder::Yielder;

/// Number of records read together: few at first, since most requested states are recent.
const PAGE_MIN: u64 = 1;
const PAGE_MAX: u64 = 100;

impl Space {
    /// Returns the newest record at a time; `None` if there was none yet.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn seq_at(&self, time: Timestamp) -> Result<Option<Seq>, Error> {
        // Binary search: timestamps never decrease within a space. Records up to `low` are old enough, those from
        // `high` on are too new.
        let (mut low, mut high) = (0, self.published().head.seq.0 + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.record_of(Seq(middle)).await?.at <= time { low = middle } else { high = middle }
        }
        Ok(Some(Seq(low)).filter(|seq| seq.0 > 0))
    }

    /// Returns the time at which a record was written.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn time_of(&self, seq: Seq) -> Result<Timestamp, Error> {
        Ok(self.record_of(seq).await?.at)
    }

    /// Returns items as of a record, in a single backward scan. Items that did not exist then are omitted.
    pub(crate) async fn items_at(&self, keys: &[ItemKey], at: Seq) -> Result<HashMap<ItemKey, Item>, Error> {
        let mut found = HashMap::new();
        // Items are never removed: one that does not exist now needs no scan.
        let mut wanted = HashSet::new();
        for key in keys {
            if let ReadResult::Item(Some(_)) = self.read_one(ReadQuery::Item(key.clone())).await? {
                wanted.insert(key);
            }
        }
        // Contributions to a session since its last change, newest first.
        let mut contributions: HashMap<&ItemKey, Vec<(ContributionKind, u64)>> = HashMap::new();
        let (mut end, mut page, mut yielder) = (at.0, PAGE_MIN, Yielder::default());
        while end > 0 && !wanted.is_empty() {
            if at.0 - end >= AS_OF_RECORDS_MAX {
                return Err(too_far(at).into());
            }
            let begin = end.saturating_sub(page) + 1;
            let records = self.records_between(Seq(begin), Seq(end + 1)).await?;
            for record in records.iter().rev() {
                let body = codec::read_without_payload(record)
                    .map_err(|error| corrupt(record, &error.to_string()))?;
                for effect in body.effects.into_iter().rev() {
                    match effect {
                        Effect::Changed { item, .. } => {
                            let key = item.key();
                            if let Some(key) = wanted.take(&key) {
                                let contributions = contributions.remove(key).unwrap_or_default();
                                found.insert(key.clone(), with_contributions(item, contributions));
                            }
                        }
                        Effect::ContributionAdded { session, kind, n, .. } => {
                            let key = ItemKey::new(ItemKind::Session, session.as_str());
                            if let Some(key) = wanted.get(&key) {
                                contributions.entry(key).or_default().push((kind, n));
                            }
                        }
                        _ => {}
                    }
                }
                yielder.after_record(record).await;
            }
            end = begin - 1;
            page = (page * 10).min(PAGE_MAX);
        }
        Ok(found)
    }

    async fn record_of(&self, seq: Seq) -> Result<Record, Error> {
        let found = self
            .records_without_payloads(seq, 1)
            .await?
            .into_iter()
            .next()
            .filter(|record| record.seq == seq);
        found.ok_or_else(|| StoreError::Corrupt(format!("record {seq} is missing").into()).into())
    }
}

fn with_contributions(mut item: Item, contributions: Vec<(ContributionKind, u64)>) -> Item {
    if let Item::Session(session) = &mut item {
        contributions.into_iter().rev().for_each(|(kind, n)| session.count_contribution(kind, n));
    }
    item
}

fn too_far(at: Seq) -> Refused {
    Refused::new(
        Code::LimitExceeded,
        format!("the item did not change in the {AS_OF_RECORDS_MAX} records before {at}"),
    )
    .limit(AS_OF_RECORDS_MAX)
    .hint("request a later record, or use the audit export")
}

fn corrupt(record: &Record, detail: &str) -> StoreError {
    StoreError::Corrupt(format!("record {}: {detail}", record.seq).into())
}
