//! Ledger of one connection: maps delivery numbers to leases, and tracks the client's credit and the credit granted
//! to the consumer.

use std::collections::{HashMap, VecDeque};

use quorate_core::{Code, ConsumerId, LeaseRef, Op, Refused, Seq, StaleReference};
use serde::Deserialize;

/// Maximum number of deliveries that are leased for a WebSocket and not sent yet.
pub(super) const UNSENT_MAX: u64 = 256;
/// Maximum number of delivery numbers remembered per WebSocket. Older deliveries are ended by their id.
pub(super) const DELIVERY_NUMBERS_MAX: usize = 16_384;
/// Assumed size of a delivery before the first one is sent.
const BYTES_ASSUMED: u64 = 1_024;

/// Inclusive range of delivery numbers.
pub(super) type Range = (u64, u64);

/// Cumulative credit since the connection was opened.
#[derive(Clone, Copy, Deserialize, Default, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Credit {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// State of a numbered delivery. A lease is identified by delivery and token: the same delivery may be redelivered
/// with another token and another number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    /// Ephemeral deliveries have no lease.
    Ephemeral,
    Leased(LeaseRef),
    /// Acked by this record; `None` if the record is unknown.
    Acked(Option<Seq>),
    /// The lease ended without an ack.
    Stale(LeaseRef),
}

/// Result of looking up numbers to ack.
#[derive(Default, Debug)]
pub(super) struct AckTargets {
    pub(super) leases: Vec<LeaseRef>,
    /// Newest record that acked a delivery which is already acked.
    pub(super) acked_by: Option<Seq>,
}

/// Lease and credit ledger of a connection.
#[derive(Debug)]
pub(super) struct Ledger {
    consumer: Option<ConsumerId>,
    /// Number of the first slot.
    first: u64,
    /// Sent deliveries by number.
    slots: VecDeque<Slot>,
    credit: Credit,
    sent: Credit,
    /// Deliveries held by an earlier connection that are still to be redelivered. They need no credit at the
    /// consumer.
    resumed: u64,
    /// Credit granted to the consumer that is unused, or used by deliveries not sent yet.
    outstanding: u64,
}

impl Ledger {
    /// Creates the ledger. `grant` names the consumer; `resumed` deliveries are to be redelivered.
    pub(super) fn new(grant: Option<Op>, resumed: u64) -> Self {
        let consumer = match grant {
            Some(Op::GrantCredit { consumer, .. }) => Some(consumer),
            _ => None,
        };
        Self {
            consumer,
            first: 1,
            slots: VecDeque::new(),
            credit: Credit::default(),
            sent: Credit::default(),
            resumed,
            outstanding: 0,
        }
    }

    /// Validates credit: it is cumulative, so it must not decrease. Repeating the same value is allowed.
    pub(super) fn check_credit(&self, credit: Credit) -> Result<(), Refused> {
        if self.consumer.is_none() {
            return Err(Refused::new(Code::Invalid, "this connection receives no deliveries")
                .hint("set agent in hello, and leave out deliveries"));
        }
        if credit.messages < self.credit.messages || credit.bytes < self.credit.bytes {
            let Credit { messages, bytes } = self.credit;
            return Err(Refused::new(
                Code::Invalid,
                format!("credit must not decrease: it is at {messages} messages and {bytes} bytes"),
            )
            .hint("send cumulative values since the connection was opened"));
        }
        Ok(())
    }

    /// Sets the credit.
    pub(super) fn set_credit(&mut self, credit: Credit) {
        self.credit = credit;
    }

    /// Whether the next delivery may be sent. The last one may exceed the remaining bytes.
    pub(super) fn may_send(&self) -> bool {
        self.sent.messages < self.credit.messages && self.sent.bytes < self.credit.bytes
    }

    /// Records a sent delivery and returns its number.
    pub(super) fn send(&mut self, lease: Option<LeaseRef>, bytes: u64) -> u64 {
        if lease.is_some() {
            match self.resumed {
                0 => self.outstanding = self.outstanding.saturating_sub(1),
                _ => self.resumed -= 1,
            }
        }
        self.sent.messages += 1;
        self.sent.bytes += bytes;
        self.slots.push_back(lease.map_or(Slot::Ephemeral, Slot::Leased));
        if self.slots.len() > DELIVERY_NUMBERS_MAX {
            self.slots.pop_front();
            self.first += 1;
        }
        self.first + self.slots.len() as u64 - 1
    }

    /// Returns additional credit for the consumer, if any.
    pub(super) fn grant(&mut self) -> Option<(Op, u32)> {
        let consumer = self.consumer?;
        let messages = self.credit.messages.saturating_sub(self.sent.messages);
        let bytes = self.credit.bytes.saturating_sub(self.sent.bytes);
        let size = self.sent.bytes.checked_div(self.sent.messages).unwrap_or(BYTES_ASSUMED).max(1);
        let allowed = messages.min(bytes.div_ceil(size)).min(UNSENT_MAX);
        let more = allowed.saturating_sub(self.outstanding + self.resumed) as u32;
        if more == 0 {
            return None;
        }
        self.outstanding += u64::from(more);
        Some((Op::GrantCredit { consumer, credit: more }, more))
    }

    /// Returns credit: the grant failed, or its deliveries were released.
    pub(super) fn return_credit(&mut self, count: u64) {
        let granted = count.min(self.outstanding);
        self.outstanding -= granted;
        self.resumed = self.resumed.saturating_sub(count - granted);
    }

    /// Skips deliveries that were to be redelivered: they were acked before they were sent.
    pub(super) fn skip_resumed(&mut self, count: usize) {
        self.resumed = self.resumed.saturating_sub(count as u64);
    }

    /// Whether more deliveries should be requested.
    pub(super) fn needs_grant(&self) -> bool {
        self.outstanding + self.resumed < UNSENT_MAX / 4
    }

    /// Returns the leases of numbers to ack. Deliveries that are acked already are skipped; a lease that ended
    /// otherwise is an error.
    pub(super) fn to_ack(&self, ranges: &[Range]) -> Result<AckTargets, Refused> {
        let mut targets = AckTargets::default();
        let mut stale = Vec::new();
        for slot in self.slots(ranges)? {
            match slot {
                Slot::Ephemeral => {}
                Slot::Leased(lease) => targets.leases.push(*lease),
                Slot::Acked(seq) => targets.acked_by = targets.acked_by.max(*seq),
                Slot::Stale(lease) => stale.push(*lease),
            }
        }
        refuse_stale(&stale)?;
        Ok(targets)
    }

    /// Returns the leases of numbers to nack or extend: all of them must be held.
    pub(super) fn held_leases(&self, ranges: &[Range]) -> Result<Vec<LeaseRef>, Refused> {
        let mut leases = Vec::new();
        let mut stale = Vec::new();
        let mut ended = 0;
        for slot in self.slots(ranges)? {
            match slot {
                Slot::Leased(lease) => leases.push(*lease),
                Slot::Stale(lease) => stale.push(*lease),
                Slot::Acked(_) | Slot::Ephemeral => ended += 1,
            }
        }
        refuse_stale(&stale)?;
        if ended > 0 || leases.is_empty() {
            return Err(Refused::new(
                Code::StaleLease,
                "some of these deliveries are acked or have no lease",
            )
            .hint("list only deliveries that you hold"));
        }
        Ok(leases)
    }

    fn slots(&self, ranges: &[Range]) -> Result<impl Iterator<Item = &Slot>, Refused> {
        let end = self.first + self.slots.len() as u64;
        for (from, to) in ranges {
            if *from == 0 || from > to || *to >= end {
                return Err(Refused::new(
                    Code::Invalid,
                    format!("invalid range [{from},{to}]: it includes deliveries that were not sent"),
                )
                .hint(format!("deliveries are numbered from 1; the last one sent is {}", end - 1)));
            }
            if *from < self.first {
                return Err(Refused::new(
                    Code::NotFound,
                    format!("delivery number {from} is no longer available"),
                )
                .limit(DELIVERY_NUMBERS_MAX as u64)
                .hint("end the delivery in a commit, with its deliveryId and leaseToken"));
            }
        }
        let first = self.first;
        Ok(ranges
            .iter()
            .flat_map(move |(from, to)| self.slots.range((from - first) as usize..=(to - first) as usize)))
    }

    /// Marks deliveries as acked.
    pub(super) fn acked(&mut self, ranges: &[Range], seq: Option<Seq>) {
        self.settle(ranges, |slot| *slot = Slot::Acked(seq));
    }

    /// Marks the leases of returned deliveries as stale.
    pub(super) fn returned(&mut self, ranges: &[Range]) {
        self.settle(ranges, |slot| {
            if let Slot::Leased(lease) = *slot {
                *slot = Slot::Stale(lease);
            }
        });
    }

    fn settle(&mut self, ranges: &[Range], change: impl Fn(&mut Slot)) {
        for (from, to) in ranges {
            let from = from.saturating_sub(self.first) as usize;
            let to = to.saturating_sub(self.first) as usize;
            let slots = self.slots.iter_mut().take(to + 1).skip(from);
            slots.filter(|slot| matches!(slot, Slot::Leased(_))).for_each(&change);
        }
        self.trim();
    }

    /// Marks leases as ended, regardless of the operation. The same delivery may be held under another lease.
    pub(super) fn expire<'a>(&mut self, stale: impl Iterator<Item = &'a StaleReference>) {
        let ended: HashMap<LeaseRef, Option<Seq>> = stale
            .filter(|reference| reference.code == Code::StaleLease)
            .filter_map(|reference| {
                let lease = LeaseRef { delivery: reference.item.parse().ok()?, token: reference.token? };
                Some((lease, reference.ended_by))
            })
            .collect();
        if ended.is_empty() {
            return;
        }
        for slot in &mut self.slots {
            if let Slot::Leased(lease) = *slot
                && let Some(ended_by) = ended.get(&lease)
            {
                *slot = match ended_by {
                    Some(seq) => Slot::Acked(Some(*seq)),
                    None => Slot::Stale(lease),
                };
            }
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.slots.len() > 1_024
            && let Some(Slot::Ephemeral | Slot::Acked(_) | Slot::Stale(_)) = self.slots.front()
        {
            self.slots.pop_front();
            self.first += 1;
        }
    }
}

/// Refuses stale leases and lists all of them.
fn refuse_stale(leases: &[LeaseRef]) -> Result<(), Refused> {
    let Some(LeaseRef { delivery, token }) = leases.first() else { return Ok(()) };
    let mut refused = Refused::new(Code::StaleLease, format!("lease {token} of {delivery} is stale"))
        .hint("remove the items listed in `stale` and retry; unfinished deliveries are redelivered under new numbers");
    refused.facts.stale = leases
        .iter()
        .map(|LeaseRef { delivery, token }| StaleReference {
            op: 0,
            item: delivery.to_string(),
            code: Code::StaleLease,
            token: Some(*token),
            ended_by: None,
            ended_request: None,
        })
        .collect();
    Err(refused)
}

#[cfg(test)]
mod tests {
    use quorate_core::{DeliveryId, DeliveryNo, Generation, LeaseToken};

    use super::*;

    fn lease(number: u64) -> LeaseRef {
        let delivery = DeliveryId { generation: Generation(0), number: DeliveryNo(number) };
        LeaseRef { delivery, token: LeaseToken(number) }
    }

    fn ledger(resumed: u64) -> Ledger {
        Ledger::new(Some(Op::GrantCredit { consumer: ConsumerId(1), credit: 0 }), resumed)
    }

    fn granted(ledger: &mut Ledger) -> u32 {
        ledger.grant().map_or(0, |(_, credit)| credit)
    }

    // Fails under: a grant that ignores resumed deliveries, or earlier grants.
    #[test]
    fn the_consumer_is_granted_at_most_the_client_credit() {
        let mut ledger = ledger(2);
        assert_eq!(granted(&mut ledger), 0);
        ledger.set_credit(Credit { messages: 5, bytes: 1_000_000 });
        assert_eq!((granted(&mut ledger), granted(&mut ledger)), (3, 0), "two are redelivered");
        for number in 1..=5 {
            assert!(ledger.may_send());
            assert_eq!(ledger.send(Some(lease(number)), 100), number);
        }
        assert!(!ledger.may_send());
        ledger.set_credit(Credit { messages: 1_000, bytes: 1_000_000 });
        assert_eq!(u64::from(granted(&mut ledger)), UNSENT_MAX, "limited per grant");
        ledger.return_credit(6);
        assert_eq!(granted(&mut ledger), 6);
        assert!(
            ledger.check_credit(Credit { messages: 999, bytes: 1_000_000 }).is_err(),
            "it must not decrease"
        );
    }

    // Fails under: bytes that are not counted; a byte limit that blocks larger deliveries forever.
    #[test]
    fn credit_limits_bytes_as_well_as_messages() {
        let mut ledger = ledger(0);
        ledger.set_credit(Credit { messages: 100, bytes: 3_000 });
        assert_eq!(granted(&mut ledger), 3, "assumed to be a kilobyte each");
        ledger.send(Some(lease(1)), 2_500);
        assert!(ledger.may_send());
        ledger.send(Some(lease(2)), 9_000);
        assert!(!ledger.may_send(), "the last one may exceed the rest");
    }

    fn acked(ledger: &Ledger, ranges: &[Range]) -> (Vec<LeaseRef>, Option<Seq>) {
        let AckTargets { leases, acked_by } = ledger.to_ack(ranges).unwrap();
        (leases, acked_by)
    }

    // Fails under: an end that is off by one; ranges that include unsent deliveries.
    #[test]
    fn numbers_map_to_leases() {
        let mut ledger = ledger(0);
        for number in 1..=4 {
            ledger.send((number != 2).then(|| lease(number)), 1);
        }
        assert_eq!(acked(&ledger, &[(1, 4)]), (vec![lease(1), lease(3), lease(4)], None));
        ledger.acked(&[(3, 3)], Some(Seq(9)));
        assert_eq!(acked(&ledger, &[(1, 2), (3, 4)]), (vec![lease(1), lease(4)], Some(Seq(9))));
        for range in [(0, 1), (3, 2), (4, 5)] {
            assert_eq!(ledger.to_ack(&[range]).unwrap_err().code, Code::Invalid, "{range:?}");
        }
        for _ in 0..DELIVERY_NUMBERS_MAX {
            ledger.send(None, 1);
        }
        assert_eq!(ledger.to_ack(&[(1, 1)]).unwrap_err().code, Code::NotFound);
    }

    // Fails under: a lease identified by its delivery alone; an ok for an ack that acks nothing.
    #[test]
    fn i4_a_lease_is_identified_by_delivery_and_token() {
        let mut ledger = ledger(0);
        let first = lease(1);
        let second = LeaseRef { token: LeaseToken(9), ..first };
        ledger.send(Some(first), 1);
        ledger.send(Some(second), 1);
        let ended = |lease: LeaseRef, ended_by| StaleReference {
            op: 0,
            item: lease.delivery.to_string(),
            code: Code::StaleLease,
            token: Some(lease.token),
            ended_by,
            ended_request: None,
        };
        ledger.expire([ended(first, None)].iter());
        assert_eq!(acked(&ledger, &[(2, 2)]).0, [second], "held under its own token");
        for ranges in [&[(1, 1)][..], &[(1, 2)]] {
            let refused = ledger.to_ack(ranges).unwrap_err();
            assert_eq!((refused.code, refused.facts.stale.len()), (Code::StaleLease, 1), "{refused:?}");
            assert_eq!(refused.facts.stale[0].token, Some(first.token));
        }
        ledger.expire([ended(second, Some(Seq(7)))].iter());
        assert_eq!(acked(&ledger, &[(2, 2)]), (vec![], Some(Seq(7))), "another commit acked it");
    }

    // Fails under: a returned delivery that is treated as acked.
    #[test]
    fn i4_returned_deliveries_are_not_acked() {
        let mut ledger = ledger(0);
        for number in 1..=3 {
            ledger.send((number != 3).then(|| lease(number)), 1);
        }
        ledger.returned(&[(1, 1)]);
        assert_eq!(ledger.to_ack(&[(1, 2)]).unwrap_err().code, Code::StaleLease);
        assert_eq!(ledger.held_leases(&[(1, 1)]).unwrap_err().code, Code::StaleLease);
        assert_eq!(
            ledger.held_leases(&[(2, 3)]).unwrap_err().code,
            Code::StaleLease,
            "one never had a lease"
        );
        assert_eq!(ledger.held_leases(&[(2, 2)]).unwrap(), [lease(2)]);
        ledger.acked(&[(2, 2)], Some(Seq(4)));
        assert_eq!(ledger.held_leases(&[(2, 2)]).unwrap_err().code, Code::StaleLease);
    }
}
