//! Replay of a record on the working state: when a hub starts, and for as-of reads.

use crate::codec::{self, DecodeError};
use crate::decide::EndedDelivery;
use crate::effect::{Effect, EndState, Record, ReturnOutcome};
use crate::ids::DeliveryNo;
use crate::time::{Mono, Now};
use crate::working::WorkingState;

/// The effects of a replayed record.
#[derive(Debug)]
pub struct ReplayedRecord {
    /// The effects, in order.
    pub effects: Vec<Effect>,
    /// Ended deliveries with their last open state, in the order of the effects.
    pub ended: Vec<EndedDelivery>,
}

impl WorkingState {
    /// Applies the next record. Its hash is not checked. Leases that it granted run their full duration from `now`.
    ///
    /// # Errors
    /// If the body cannot be decoded; then nothing is changed.
    pub fn replay(&mut self, record: &Record, now: Mono) -> Result<ReplayedRecord, DecodeError> {
        let effects = codec::read_body(record)?.effects;
        let now = Now { wall: record.at, mono: now };
        let mut ended = Vec::new();
        let mut n = 0;
        self.begin(now);
        for effect in &effects {
            self.collect_ended(effect, &mut ended);
            self.apply(effect, record.seq, &mut n, now);
            self.count_ended(effect);
        }
        self.head.seq = record.seq;
        self.head.hash = record.hash;
        self.head.at = record.at;
        self.mark_durable();
        Ok(ReplayedRecord { effects, ended })
    }

    /// Finishes loading: makes deliveries ready that were due before the last record, even if stored as scheduled.
    pub fn finish_load(&mut self) {
        self.begin(Now { wall: self.head.at, mono: Mono::default() });
        self.mark_durable();
        // A restart always clears the loop detection window, however much of the log was replayed.
        self.chains.clear();
    }

    /// Collects the deliveries that an effect is about to end, with their current state.
    fn collect_ended(&self, effect: &Effect, ended: &mut Vec<EndedDelivery>) {
        let mut end = |delivery: DeliveryNo, state| {
            ended.extend(self.open(delivery).map(|open| EndedDelivery { delivery, state, open: *open }));
        };
        match effect {
            Effect::Acked { delivery, .. } => end(*delivery, EndState::Acked),
            Effect::Returned { delivery, next: ReturnOutcome::Dead, .. }
            | Effect::DeniedByPolicy { delivery, .. } => {
                end(*delivery, EndState::Dead);
            }
            Effect::Returned { delivery, next: ReturnOutcome::Expired, .. }
            | Effect::Expired { delivery, .. } => {
                end(*delivery, EndState::Expired);
            }
            Effect::Purged { delivery, .. } => end(*delivery, EndState::Purged),
            Effect::AckedMany { deliveries } => {
                deliveries.iter().for_each(|lease| end(lease.delivery, EndState::Acked));
            }
            _ => {}
        }
    }
}
