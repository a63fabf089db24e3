//! Carrying out a record that was decided before: at the start of a hub, and when the log is folded.

use crate::codec::{self, Unreadable};
use crate::decide::EndedOpen;
use crate::effect::{Effect, EndState, Next, Record};
use crate::ids::DeliveryNo;
use crate::time::{Mono, Now};
use crate::working::Working;

/// What a record did.
#[derive(Debug)]
pub struct Replayed {
    /// What happened, in order.
    pub effects: Vec<Effect>,
    /// Deliveries that ended, as they were, in the order of the effects.
    pub ended: Vec<EndedOpen>,
}

impl Working {
    /// Takes in the next record. Its hash is taken as it is. Leases that it gave run their full length from `now` on.
    ///
    /// # Errors
    /// When the body is not readable; nothing is changed then.
    pub fn replay(&mut self, record: &Record, now: Mono) -> Result<Replayed, Unreadable> {
        let effects = codec::read_body(record)?.effects;
        let now = Now { wall: record.at, mono: now };
        let mut ended = Vec::new();
        let mut n = 0;
        self.begin(now);
        for effect in &effects {
            self.about_to_end(effect, &mut ended);
            self.apply(effect, record.seq, &mut n, now);
            self.count_end(effect);
        }
        self.head.seq = record.seq;
        self.head.hash = record.hash;
        self.head.at = record.at;
        self.settle();
        Ok(Replayed { effects, ended })
    }

    /// Everything that was kept is taken up: what fell due before the last record is ready, whatever its row says.
    pub fn taken_up(&mut self) {
        self.begin(Now { wall: self.head.at, mono: Mono::default() });
        self.settle();
        // However much of the log was folded: a restart forgets what was said in chains.
        self.chains.clear();
    }

    /// Notes the deliveries that an effect ends, as they are before it.
    fn about_to_end(&self, effect: &Effect, ended: &mut Vec<EndedOpen>) {
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
