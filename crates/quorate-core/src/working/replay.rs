//! Replay of a record on the working state: when a hub starts, and for as-of reads.

use crate::codec::{self, Unreadable};
use crate::decide::EndedOpen;
use crate::effect::{Effect, EndState, Next, Record};
use crate::ids::DeliveryNo;
use crate::time::{Mono, Now};
use crate::working::Working;

/// The effects of a replayed record.
#[derive(Debug)]
pub struct Replayed {
    /// The effects, in order.
    pub effects: Vec<Effect>,
    /// Ended deliveries with their last open state, in the order of the effects.
    pub ended: Vec<EndedOpen>,
}

impl Working {
    /// Applies the next record. Its hash is not checked. Leases that it granted run their full duration from `now`.
    ///
    /// # Errors
    /// If the body cannot be decoded; then nothing is changed.
    pub fn replay(&mut self, record: &Record, now: Mono) -> Result<Replayed, Unreadable> {
        let effects = codec::read_body(record)?.effects;
        let now = Now { wall: record.at, mono: now };
        let mut ended = Vec::new();
        let mut n = 0;
        self.begin(now);
        for effect in &effects {
            self.collect_ended(effect, &mut ended);
            self.apply(effect, record.seq, &mut n, now);
            self.count_end(effect);
        }
        self.head.seq = record.seq;
        self.head.hash = record.hash;
        self.head.at = record.at;
        self.settle();
        Ok(Replayed { effects, ended })
    }

    /// Finishes loading: makes deliveries ready that were due before the last record, even if stored as scheduled.
    pub fn taken_up(&mut self) {
        self.begin(Now { wall: self.head.at, mono: Mono::default() });
        self.settle();
        // A restart always clears the loop detection window, however much of the log was replayed.
        self.chains.clear();
    }

    /// Collects the deliveries that an effect is about to end, with their current state.
    fn collect_ended(&self, effect: &Effect, ended: &mut Vec<EndedOpen>) {
        let mut end = |delivery: DeliveryNo, state| {
            ended.extend(self.open(delivery).map(|open| EndedOpen { delivery, state, open: *open }));
        };
        match effect {
            Effect::Acked { delivery, .. } => end(*delivery, EndState::Acked),
            Effect::Returned { delivery, next: Next::Dead, .. } | Effect::Barred { delivery, .. } => {
                end(*delivery, EndState::Dead);
            }
            Effect::Returned { delivery, next: Next::Expired, .. } | Effect::Expired { delivery, .. } => {
                end(*delivery, EndState::Expired);
            }
            Effect::Purged { delivery, .. } => end(*delivery, EndState::Purged),
            Effect::AckedMany { deliveries } => {
                deliveries.iter().for_each(|held| end(held.delivery, EndState::Acked));
            }
            _ => {}
        }
    }
}
