//! State replayed from the log. `ReplayedSpace` of core keeps the current state. Data that only grows (ended deliveries,
//! versions, client ids) is compared with its table immediately and then dropped, so that memory use does not grow with
//! the log.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::codec::fingerprint;
use quorate_core::{
    DeliveryNo, Effect, Key, NewDelivery, OpenDeliveryState, Record, ReplayedSpace, ReturnOutcome, Seq,
    SpaceId, Version,
};
use rusqlite::Connection;

use super::append_only::AppendOnlyTables;
use super::ended_index::EndedIndexCheck;
use super::preconditions::NewDeadLetters;
use super::raw_rows::SpaceRow;

pub(super) struct ReplayedState<'a> {
    pub(super) space: ReplayedSpace,
    /// Name of the space in the first record.
    pub(super) name: String,
    /// Record of the last registration of each agent, by agent number.
    pub(super) registrations: Vec<Seq>,
    /// Deliveries that were scheduled, whether they are due by now or not: becoming due creates no record and does not
    /// change the row.
    pub(super) scheduled: BTreeSet<DeliveryNo>,
    /// Number of attempts of each dead letter, and the record that dead-lettered it.
    pub(super) dead_letter_attempts: BTreeMap<DeliveryNo, (u16, Seq)>,
    pub(super) ended_index: EndedIndexCheck<'a>,
    pub(super) append_only: AppendOnlyTables<'a>,
    /// Last record that the tables contain.
    tables_at: Seq,
}

impl<'a> ReplayedState<'a> {
    pub(super) fn new(connection: &'a Connection, row: &SpaceRow, id: SpaceId) -> Self {
        Self {
            space: ReplayedSpace::new(id),
            name: String::new(),
            registrations: Vec::new(),
            scheduled: BTreeSet::new(),
            dead_letter_attempts: BTreeMap::new(),
            ended_index: EndedIndexCheck::new(connection, row.number),
            append_only: AppendOnlyTables::new(connection, row.number),
            tables_at: row.tables_at,
        }
    }

    /// Applies a record that was checked.
    pub(super) fn apply(
        &mut self,
        record: &Record,
        effects: &[Effect],
        dead: NewDeadLetters,
    ) -> rusqlite::Result<()> {
        self.space.apply(record).expect("the body was decoded before");
        if record.seq > self.tables_at {
            self.space.ended.clear();
            return Ok(());
        }
        let dead = dead.into_iter().map(|(delivery, attempts)| (delivery, (attempts, record.seq)));
        self.dead_letter_attempts.extend(dead);
        let timeline_entries: BTreeSet<_> = effects.iter().filter_map(Effect::timeline_entry).collect();
        for (session, kind) in timeline_entries {
            self.append_only.check_timeline(session, kind, record.seq)?;
        }
        let mut n = 0;
        for effect in effects {
            match effect {
                Effect::SpaceCreated { name, .. } => self.name = name.to_string(),
                Effect::AgentRegistered { number, .. } => self.set_registration(number.0, record.seq),
                Effect::Sent { message, part, first, deliveries } => {
                    let fingerprint = fingerprint::of_logged(message, n, effects);
                    let range = (*first, deliveries.len());
                    self.append_only.check_client_id(record, (n, *part), message, range, fingerprint)?;
                    n += 1;
                    if message.deliver_at.is_some_and(|due| due > record.at) {
                        self.add_scheduled(*first, deliveries);
                    }
                }
                Effect::Leased { deliveries, .. } | Effect::LeasedFromPool { deliveries, .. } => {
                    self.unschedule(deliveries.iter().map(|held| held.delivery));
                }
                Effect::Returned { delivery, next: ReturnOutcome::Scheduled(_), .. } => {
                    self.scheduled.insert(*delivery);
                }
                Effect::Expired { delivery, .. }
                | Effect::Purged { delivery, .. }
                | Effect::DeniedByPolicy { delivery, .. } => {
                    self.scheduled.remove(delivery);
                }
                // If it was due, its row is written as ready; otherwise it remains scheduled.
                Effect::Returned { delivery, next: ReturnOutcome::Redirected(_), .. }
                    if self.is_ready(*delivery) =>
                {
                    self.scheduled.remove(delivery);
                }
                Effect::Redriven { delivery, .. } => self.ended_index.note_redriven(*delivery),
                Effect::Written { key, version, .. } | Effect::Deleted { key, version } => {
                    self.check_version(key, *version, record.seq)?;
                }
                Effect::SpaceRestored { .. }
                | Effect::AgentRemoved { .. }
                | Effect::Acked { .. }
                | Effect::Returned { .. }
                | Effect::Erased { .. }
                | Effect::Changed { .. }
                | Effect::WaitAborted { .. }
                | Effect::AckedMany { .. }
                | Effect::PresenceChanged { .. }
                | Effect::Backfilled { .. }
                | Effect::ContributionAdded { .. } => {}
            }
        }
        for (delivery, end) in std::mem::take(&mut self.space.ended) {
            self.ended_index.check_ended(delivery, end)?;
        }
        Ok(())
    }

    fn unschedule(&mut self, leased: impl Iterator<Item = DeliveryNo>) {
        for delivery in leased {
            self.scheduled.remove(&delivery);
        }
    }

    fn is_ready(&self, delivery: DeliveryNo) -> bool {
        let open = self.space.working.open(delivery);
        open.is_some_and(|open| matches!(open.state, OpenDeliveryState::Ready { .. }))
    }

    fn add_scheduled(&mut self, first: DeliveryNo, deliveries: &[NewDelivery]) {
        let numbers = (first.0..).map(DeliveryNo).zip(deliveries);
        let waiting = numbers.filter(|(_, delivery)| delivery.lease.is_none());
        self.scheduled.extend(waiting.map(|(number, _)| number));
    }

    fn check_version(&mut self, key: &Key, version: Version, seq: Seq) -> rusqlite::Result<()> {
        let versions = self.space.entries.get_mut(key).expect("the record wrote it");
        let written = versions.iter().find(|entry_version| entry_version.head.version == version);
        let head = written.expect("the record wrote this version").head;
        self.append_only.check_version(key, &head)?;
        // Keep only the newest version, and those of this record, which its later effects may refer to.
        let newest = versions.len() - 1;
        let keep = versions.iter().position(|entry_version| entry_version.head.seq == seq).unwrap_or(newest);
        versions.drain(..keep);
        Ok(())
    }

    fn set_registration(&mut self, number: u64, seq: Seq) {
        let index = number as usize - 1;
        if index == self.registrations.len() {
            self.registrations.push(seq);
        } else {
            self.registrations[index] = seq;
        }
    }
}
