//! Read queries.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AgentNo, AsOf, DeliveryNo, EndState, EntryVersion, Item, ItemKey, ItemKind, ItemRange, Key,
    OpenDeliveryState, Payload, QueueId, Record, Seq, Version, codec,
};

use crate::read::{
    EntryDependencies, ListedItem, PartBytes, ReadQuery, ReadResult, StoredDeadLetter, StoredDeliveryState,
    StoredEntry, StoredMessage,
};
use crate::reference::space::{DeliveryPhase, LoggedMessage, Space};

impl Space {
    pub(super) fn read(&self, query: &ReadQuery) -> ReadResult {
        match query {
            ReadQuery::Entry { key, when } => ReadResult::Entry(self.entry(key, *when)),
            ReadQuery::History { key, after, limit } => {
                ReadResult::Entries(self.history(key, *after, *limit))
            }
            ReadQuery::Entries { prefix, entry_type, author, after, limit } => {
                let matches = |entry: &StoredEntry| {
                    let version = &entry.version;
                    !version.head.deleted
                        && entry.key.as_str().starts_with(prefix)
                        && entry_type.as_ref().is_none_or(|expected| *expected == version.entry_type)
                        && author.as_ref().is_none_or(|expected| *expected == version.author)
                        && after.as_ref().is_none_or(|after| entry.key > *after)
                };
                let newest = self.entries.keys().filter_map(|key| self.entry(key, AsOf::Latest));
                ReadResult::Entries(newest.filter(matches).take(*limit).collect())
            }
            ReadQuery::Message { seq, n } => {
                let found = self.messages.iter().find(|sent| sent.seq == *seq && sent.n == *n);
                ReadResult::Message(found.map(|sent| self.stored(sent)))
            }
            ReadQuery::MessageByClientId(id) => {
                let found = self.messages.iter().find(|sent| sent.message.client_id.as_ref() == Some(id));
                ReadResult::Message(found.map(|sent| self.stored(sent)))
            }
            ReadQuery::MessageOfDelivery(number) => {
                let delivery = self.delivery(*number).map(|delivery| (delivery.seq, delivery.n));
                let found = self.messages.iter().find(|sent| delivery == Some((sent.seq, sent.n)));
                ReadResult::Message(found.map(|sent| self.stored(sent)))
            }
            ReadQuery::Deliveries { first, count } => {
                let number = |index| first.0.checked_add(u64::from(index)).map(DeliveryNo);
                let state = |index| number(index).and_then(|number| self.state(number));
                ReadResult::Deliveries((0..*count).map(state).collect())
            }
            ReadQuery::DeadLetters { agent, after, limit } => {
                ReadResult::DeadLetters(self.dead_letters(*agent, *after, *limit))
            }
            ReadQuery::SeqAt(time) => {
                let newest = self.records.iter().rposition(|record| record.at <= *time);
                ReadResult::Seq(Seq(newest.map_or(0, |index| index as u64 + 1)))
            }
            ReadQuery::Dependencies { after, limit } => {
                ReadResult::Dependencies(self.dependencies(after.as_ref(), *limit))
            }
            ReadQuery::Record(seq) => {
                ReadResult::Record(self.log(*seq, 1).into_iter().find(|record| record.seq == *seq))
            }
            ReadQuery::Timeline { session, kind, page, limit } => {
                ReadResult::Timeline(self.timeline(session, *kind, *page, *limit))
            }
            ReadQuery::Item(key) => ReadResult::Item(self.items.get(key).cloned()),
            ReadQuery::Items { kind, range, limit } => ReadResult::Items(self.list(*kind, range, *limit)),
            ReadQuery::Part { seq, part, start, length } => {
                ReadResult::Part(self.part_bytes(*seq, *part, *start, *length))
            }
        }
    }

    fn list(&self, kind: ItemKind, range: &ItemRange, limit: usize) -> Vec<ListedItem> {
        let mut found: Vec<_> = { self.creations.iter() }
            .filter(|(key, created)| key.kind == kind && range.contains(*created, &key.id))
            .collect();
        found.sort_by(|left, right| range.compare((left.1, &left.0.id), (right.1, &right.0.id)));
        found.truncate(limit);
        let listed = found
            .into_iter()
            .map(|(key, created)| ListedItem { created: *created, item: self.items[key].clone() });
        listed.collect()
    }

    /// Removes an item together with its creation position. A later item with the same key counts as newly created.
    pub(super) fn remove_item(&mut self, key: &ItemKey) -> Option<Item> {
        self.creations.retain(|(item, _)| item != key);
        self.items.remove(key)
    }

    fn dependencies(&self, after: Option<&Key>, limit: usize) -> Vec<EntryDependencies> {
        let newest = |key: &Key| self.entries.get(key).and_then(|versions| versions.last());
        let mut found = Vec::new();
        for key in self.entries.keys().filter(|key| after.is_none_or(|after| *key > after)) {
            if let Some(version) = newest(key)
                && !version.depends_on.is_empty()
            {
                let with_current = |(key, version): &(Key, Version)| {
                    (key.clone(), *version, newest(key).map(|newest| newest.head))
                };
                let depends_on = version.depends_on.iter().map(with_current).collect();
                found.push(EntryDependencies { key: key.clone(), version: version.head.version, depends_on });
            }
        }
        found.truncate(limit);
        found
    }

    fn entry(&self, key: &Key, when: AsOf) -> Option<StoredEntry> {
        let matches = |version: &&EntryVersion| match when {
            AsOf::Latest => true,
            AsOf::Version(number) => version.head.version == number,
            AsOf::Seq(seq) => version.head.seq <= seq,
            AsOf::Time(time) => version.at <= time,
        };
        let version = self.entries.get(key)?.iter().rev().find(matches)?;
        Some(self.with_content(key, version))
    }

    fn history(&self, key: &Key, after: Version, limit: usize) -> Vec<StoredEntry> {
        let versions = self.entries.get(key).into_iter().flatten();
        let later = versions.filter(|version| version.head.version > after);
        later.take(limit).map(|version| self.with_content(key, version)).collect()
    }

    fn with_content(&self, key: &Key, version: &EntryVersion) -> StoredEntry {
        let content = version.content_part.map(|(seq, part)| self.part(seq, part));
        StoredEntry { key: key.clone(), version: version.clone(), content }
    }

    fn part(&self, seq: Seq, part: u32) -> Payload {
        self.records[seq.0 as usize - 1].parts[part as usize].clone()
    }

    fn part_bytes(&self, seq: Seq, part: u32, start: u64, length: u64) -> Option<PartBytes> {
        let record = self.records.get(usize::try_from(seq.0).ok()?.checked_sub(1)?)?;
        let payload = record.parts.get(part as usize)?;
        let whole = payload.bytes.len() as u64;
        let start = start.min(whole);
        let end = start + length.min(whole - start);
        let bytes = payload.bytes.slice(start as usize..end as usize);
        Some(PartBytes { bytes, erased: payload.is_erased() })
    }

    fn stored(&self, sent: &LoggedMessage) -> StoredMessage {
        let mut message = (*sent.message).clone();
        message.payload = self.part(sent.seq, sent.part);
        StoredMessage {
            seq: sent.seq,
            n: sent.n,
            at: sent.at,
            message: Arc::new(message),
            first_delivery: sent.first,
            recipients: sent.recipients.clone(),
        }
    }

    fn state(&self, number: DeliveryNo) -> Option<StoredDeliveryState> {
        let delivery = self.delivery(number)?;
        let state = match &delivery.phase {
            DeliveryPhase::Ready { since, .. } if self.is_paused(delivery) => {
                OpenDeliveryState::Held { since: *since }
            }
            DeliveryPhase::Ready { since, .. } => OpenDeliveryState::Ready { since: *since },
            DeliveryPhase::Scheduled { due } => OpenDeliveryState::Scheduled { due: *due },
            DeliveryPhase::Leased { token, .. } => OpenDeliveryState::Leased { token: *token },
            DeliveryPhase::Ended { state, seq, .. } => {
                return Some(StoredDeliveryState::Ended { state: *state, seq: *seq });
            }
        };
        Some(StoredDeliveryState::Open { state, attempt: delivery.attempt })
    }

    fn dead_letters(&self, agent: Option<AgentNo>, after: DeliveryNo, limit: usize) -> Vec<StoredDeadLetter> {
        let mut dead = Vec::new();
        for (index, delivery) in self.deliveries.iter().enumerate() {
            let number = DeliveryNo(index as u64 + 1);
            let is_recipient = |agent| delivery.to.queue() == QueueId::Agent(agent);
            let matches = number > after && agent.is_none_or(is_recipient);
            if let DeliveryPhase::Ended { state: EndState::Dead, at, reason, .. } = &delivery.phase
                && matches
            {
                dead.push(StoredDeadLetter {
                    delivery: number,
                    to: delivery.to.without_holder(),
                    seq: delivery.seq,
                    n: delivery.n,
                    attempts: delivery.attempt,
                    reason: reason.clone(),
                    at: *at,
                });
            }
        }
        dead.truncate(limit);
        dead
    }

    /// Returns the records as far as the model has them: principal, kind and time, but no effects.
    pub(super) fn log(&self, from: Seq, max: usize) -> Vec<Record> {
        let numbered = self.records.iter().enumerate().map(|(index, logged)| (Seq(index as u64 + 1), logged));
        let page = numbered.filter(|(seq, _)| *seq >= from).take(max);
        let record = |(seq, logged): (Seq, &crate::reference::space::LogRecord)| Record {
            seq,
            at: logged.at,
            format: codec::FORMAT,
            kind: logged.kind.number(),
            principal: logged.principal.clone(),
            hash: [0; 32],
            body: codec::write_body(&[], &[]),
            salts: Vec::new(),
            payload: Bytes::new(),
        };
        page.map(record).collect()
    }
}
