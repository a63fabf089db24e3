//! What the records come to. The fold of core holds what is current; what only ever grows (ends, versions, ids of
//! clients) is held against its table at once and then let go, so that memory does not grow with the log.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::codec::fingerprint;
use quorate_core::{
    DeliveryNo, Effect, Key, NewDelivery, Next, OpenState, Record, Seq, SpaceId, Version, World,
};
use rusqlite::Connection;

use super::ended::EndedRows;
use super::fits::Died;
use super::rows::SpaceRow;
use super::said_once::SaidOnce;

pub(super) struct Folded<'a> {
    pub(super) world: World,
    /// The name in the first record.
    pub(super) name: String,
    /// The record that last described each agent, in the order of their numbers.
    pub(super) described: Vec<Seq>,
    /// Deliveries that wait for their time or did until it came: falling due leaves no record, and no trace in the row.
    pub(super) scheduled: BTreeSet<DeliveryNo>,
    /// How often each dead letter was tried, and the record that gave it up.
    pub(super) tries_of_dead: BTreeMap<DeliveryNo, (u16, Seq)>,
    pub(super) ended: EndedRows<'a>,
    pub(super) said_once: SaidOnce<'a>,
    /// Up to which record the tables reach: what follows is in none of them yet.
    tables_at: Seq,
}

impl<'a> Folded<'a> {
    pub(super) fn new(connection: &'a Connection, row: &SpaceRow, id: SpaceId) -> Self {
        Self {
            world: World::new(id),
            name: String::new(),
            described: Vec::new(),
            scheduled: BTreeSet::new(),
            tries_of_dead: BTreeMap::new(),
            ended: EndedRows::new(connection, row.number),
            said_once: SaidOnce::new(connection, row.number),
            tables_at: row.tables_at,
        }
    }

    /// Takes in a record that is sound and fits.
    pub(super) fn take_in(
        &mut self,
        record: &Record,
        effects: &[Effect],
        died: Died,
    ) -> rusqlite::Result<()> {
        self.world.apply(record).expect("the body was read a moment ago");
        if record.seq > self.tables_at {
            self.world.ended.clear();
            return Ok(());
        }
        let died = died.into_iter().map(|(delivery, tries)| (delivery, (tries, record.seq)));
        self.tries_of_dead.extend(died);
        let lines: BTreeSet<_> = effects.iter().filter_map(Effect::line).collect();
        for (session, kind) in lines {
            self.said_once.line(session, kind, record.seq)?;
        }
        let mut n = 0;
        for effect in effects {
            match effect {
                Effect::SpaceCreated { name, .. } => self.name = name.to_string(),
                Effect::AgentRegistered { number, .. } => self.describe(number.0, record.seq),
                Effect::Sent { message, part, first, deliveries } => {
                    let fingerprint = fingerprint::of_logged(message, n, effects);
                    let counted = (*first, deliveries.len());
                    self.said_once.sent(record, (n, *part), message, counted, fingerprint)?;
                    n += 1;
                    if message.deliver_at.is_some_and(|due| due > record.at) {
                        self.wait_for_time(*first, deliveries);
                    }
                }
                Effect::Leased { deliveries, .. } | Effect::Taken { deliveries, .. } => {
                    for held in deliveries {
                        self.scheduled.remove(&held.delivery);
                    }
                }
                Effect::Returned { delivery, next: Next::Scheduled(_), .. } => {
                    self.scheduled.insert(*delivery);
                }
                Effect::Expired { delivery, .. }
                | Effect::Purged { delivery, .. }
                | Effect::Barred { delivery, .. } => {
                    self.scheduled.remove(delivery);
                }
                // What was due by then is written as ready; the rest goes on waiting for its time.
                Effect::Returned { delivery, next: Next::Redirected(_), .. } if self.is_ready(*delivery) => {
                    self.scheduled.remove(delivery);
                }
                Effect::Redriven { delivery, .. } => self.ended.redriven(*delivery),
                Effect::Written { key, version, .. } | Effect::Deleted { key, version } => {
                    self.wrote(key, *version, record.seq)?;
                }
                Effect::Restored { .. }
                | Effect::AgentRemoved { .. }
                | Effect::Acked { .. }
                | Effect::Returned { .. }
                | Effect::Erased { .. }
                | Effect::Changed { .. }
                | Effect::WaitAborted { .. }
                | Effect::AckedMany { .. }
                | Effect::AgentStatus { .. }
                | Effect::Brought { .. }
                | Effect::SessionAdded { .. } => {}
            }
        }
        for (delivery, end) in std::mem::take(&mut self.world.ended) {
            self.ended.ended(delivery, end)?;
        }
        Ok(())
    }

    fn is_ready(&self, delivery: DeliveryNo) -> bool {
        let open = self.world.working.open(delivery);
        open.is_some_and(|open| matches!(open.state, OpenState::Ready { .. }))
    }

    fn wait_for_time(&mut self, first: DeliveryNo, deliveries: &[NewDelivery]) {
        let numbers = (first.0..).map(DeliveryNo).zip(deliveries);
        let waiting = numbers.filter(|(_, delivery)| delivery.lease.is_none());
        self.scheduled.extend(waiting.map(|(number, _)| number));
    }

    fn wrote(&mut self, key: &Key, version: Version, seq: Seq) -> rusqlite::Result<()> {
        let versions = self.world.entries.get_mut(key).expect("the record wrote it");
        let written = versions.iter().find(|one| one.head.version == version);
        let head = written.expect("the record wrote this version").head;
        self.said_once.version(key, &head)?;
        // Only the newest is current. Later effects of this record may still need theirs.
        let newest = versions.len() - 1;
        let keep = versions.iter().position(|one| one.head.seq == seq).unwrap_or(newest);
        versions.drain(..keep);
        Ok(())
    }

    fn describe(&mut self, number: u64, seq: Seq) {
        let index = number as usize - 1;
        if index == self.described.len() {
            self.described.push(seq);
        } else {
            self.described[index] = seq;
        }
    }
}
