//! The books of one connection: which number stands for which lease, how much credit there is, and how much of it the
//! head may hand out.

use std::collections::{HashMap, VecDeque};

use quorate_core::{Code, ConsumerId, LeaseRef, Op, Refused, Seq, Stale};
use serde::Deserialize;

/// Deliveries that the hub may hold for one connection and has not sent yet.
pub(super) const IN_HAND_MAX: u64 = 256;
/// Numbers that are remembered. Older ones are ended by the id of the delivery.
pub(super) const NUMBERS_MAX: usize = 16_384;
/// How large a delivery is while none has been sent.
const BYTES_GUESSED: u64 = 1_024;

/// From one number to another, both included.
pub(super) type Range = (u64, u64);

/// How much may be sent, counted from the beginning of the connection.
#[derive(Clone, Copy, Deserialize, Default, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Credit {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// What became of a delivery that was sent under a number. A lease is known by its delivery and its token: the same delivery
/// may come again, under another token and another number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    /// It never had a lease.
    Ephemeral,
    Leased(LeaseRef),
    /// Acked by this record; `None` if the hub did not say by which.
    Acked(Option<Seq>),
    /// The lease ended in another way.
    Stale(LeaseRef),
}

/// What an ack by number comes to.
#[derive(Default, Debug)]
pub(super) struct ToAck {
    pub(super) leases: Vec<LeaseRef>,
    /// The newest record that acked one of the rest.
    pub(super) acked_by: Option<Seq>,
}

/// The books.
#[derive(Debug)]
pub(super) struct Ledger {
    consumer: Option<ConsumerId>,
    /// The number of the first of `slots`.
    first: u64,
    /// What was sent, by number.
    slots: VecDeque<Slot>,
    credit: Credit,
    sent: Credit,
    /// What was held before and comes again; nobody grants credit at the head for it.
    resumed: u64,
    /// Credit at the head that was not used yet, or was used for what still lies here.
    outstanding: u64,
}

impl Ledger {
    /// The books of a connection. The grant names its consumer; so many deliveries come again.
    pub(super) fn new(grant: Option<Op>, resumed: u64) -> Self {
        let consumer = match grant {
            Some(Op::Grant { consumer, .. }) => Some(consumer),
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

    /// Refuses credit that is none: it is counted from the beginning, so it never falls. Saying the same again changes
    /// nothing.
    pub(super) fn check(&self, credit: Credit) -> Result<(), Refused> {
        if self.consumer.is_none() {
            return Err(Refused::new(Code::Invalid, "no deliveries come over this connection")
                .hint("name an agent in hello"));
        }
        if credit.messages < self.credit.messages || credit.bytes < self.credit.bytes {
            let Credit { messages, bytes } = self.credit;
            return Err(Refused::new(
                Code::Invalid,
                format!("credit never falls: it is at {messages} messages and {bytes} bytes"),
            )
            .hint("count from the beginning of the connection"));
        }
        Ok(())
    }

    /// Takes credit.
    pub(super) fn credit(&mut self, credit: Credit) {
        self.credit = credit;
    }

    /// Whether the next delivery may be sent. The last one may be larger than what is left.
    pub(super) fn may_send(&self) -> bool {
        self.sent.messages < self.credit.messages && self.sent.bytes < self.credit.bytes
    }

    /// Enters a delivery that is sent, and says its number.
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
        if self.slots.len() > NUMBERS_MAX {
            self.slots.pop_front();
            self.first += 1;
        }
        self.first + self.slots.len() as u64 - 1
    }

    /// More credit at the head, if there is room for it.
    pub(super) fn grant(&mut self) -> Option<(Op, u32)> {
        let consumer = self.consumer?;
        let messages = self.credit.messages.saturating_sub(self.sent.messages);
        let bytes = self.credit.bytes.saturating_sub(self.sent.bytes);
        let size = self.sent.bytes.checked_div(self.sent.messages).unwrap_or(BYTES_GUESSED).max(1);
        let fitting = messages.min(bytes.div_ceil(size)).min(IN_HAND_MAX);
        let more = fitting.saturating_sub(self.outstanding + self.resumed) as u32;
        if more == 0 {
            return None;
        }
        self.outstanding += u64::from(more);
        Some((Op::Grant { consumer, credit: more }, more))
    }

    /// A grant came to nothing, or what it brought was given back.
    pub(super) fn take_back(&mut self, count: u64) {
        let granted = count.min(self.outstanding);
        self.outstanding -= granted;
        self.resumed = self.resumed.saturating_sub(count - granted);
    }

    /// So many deliveries that were to come again are not sent any more: they were acked before their turn.
    pub(super) fn skip_resumed(&mut self, count: usize) {
        self.resumed = self.resumed.saturating_sub(count as u64);
    }

    /// Whether so little is on the way that more should be asked for.
    pub(super) fn runs_low(&self) -> bool {
        self.outstanding + self.resumed < IN_HAND_MAX / 4
    }

    /// The leases behind numbers that are to be acked. A delivery that is acked already needs no second ack; one whose lease
    /// ended in another way is refused.
    pub(super) fn to_ack(&self, ranges: &[Range]) -> Result<ToAck, Refused> {
        let mut found = ToAck::default();
        let mut stale = Vec::new();
        for slot in self.slots(ranges)? {
            match slot {
                Slot::Ephemeral => {}
                Slot::Leased(lease) => found.leases.push(*lease),
                Slot::Acked(seq) => found.acked_by = found.acked_by.max(*seq),
                Slot::Stale(lease) => stale.push(*lease),
            }
        }
        refuse_stale(&stale)?;
        Ok(found)
    }

    /// The leases behind numbers that are to be returned or extended: every one must be held.
    pub(super) fn held(&self, ranges: &[Range]) -> Result<Vec<LeaseRef>, Refused> {
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
                "some of these deliveries are acked, or never had a lease",
            )
            .hint("name only deliveries that you hold"));
        }
        Ok(leases)
    }

    fn slots(&self, ranges: &[Range]) -> Result<impl Iterator<Item = &Slot>, Refused> {
        let end = self.first + self.slots.len() as u64;
        for (from, to) in ranges {
            if *from == 0 || from > to || *to >= end {
                return Err(Refused::new(
                    Code::Invalid,
                    format!("[{from},{to}] is no range of deliveries that were sent"),
                )
                .hint(format!("deliveries are numbered from 1; the last one is {}", end - 1)));
            }
            if *from < self.first {
                return Err(Refused::new(Code::NotFound, format!("delivery {from} is too long ago"))
                    .limit(NUMBERS_MAX as u64)
                    .hint("end it in a commit, by its deliveryId and leaseToken"));
            }
        }
        let first = self.first;
        Ok(ranges
            .iter()
            .flat_map(move |(from, to)| self.slots.range((from - first) as usize..=(to - first) as usize)))
    }

    /// The deliveries behind these numbers were acked.
    pub(super) fn acked(&mut self, ranges: &[Range], seq: Option<Seq>) {
        self.settle(ranges, |lease| *lease = Slot::Acked(seq));
    }

    /// The deliveries behind these numbers were returned: their leases are over.
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
            let named = self.slots.iter_mut().take(to + 1).skip(from);
            named.filter(|slot| matches!(slot, Slot::Leased(_))).for_each(&change);
        }
        self.trim();
    }

    /// These leases are over, whatever asked for it. The same delivery may be held under another lease.
    pub(super) fn expire<'a>(&mut self, stale: impl Iterator<Item = &'a Stale>) {
        let over: HashMap<LeaseRef, Option<Seq>> = stale
            .filter(|one| one.code == Code::StaleLease)
            .filter_map(|one| {
                let lease = LeaseRef { delivery: one.item.parse().ok()?, token: one.token? };
                Some((lease, one.ended_by))
            })
            .collect();
        if over.is_empty() {
            return;
        }
        for slot in &mut self.slots {
            if let Slot::Leased(lease) = *slot
                && let Some(ended_by) = over.get(&lease)
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

/// Names every lease that is over.
fn refuse_stale(leases: &[LeaseRef]) -> Result<(), Refused> {
    let Some(LeaseRef { delivery, token }) = leases.first() else { return Ok(()) };
    let mut refused = Refused::new(Code::StaleLease, format!("lease {token} of {delivery} is over"))
        .hint("leave out what `stale` names, and repeat the rest; a delivery that is not done comes again under a new number");
    refused.facts.stale = leases
        .iter()
        .map(|LeaseRef { delivery, token }| Stale {
            op: 0,
            item: delivery.to_string(),
            code: Code::StaleLease,
            token: Some(*token),
            ended_by: None,
        })
        .collect();
    Err(refused)
}

#[cfg(test)]
mod tests {
    use quorate_core::{DeliveryId, DeliveryNo, Generation, Token};

    use super::*;

    fn lease(number: u64) -> LeaseRef {
        let delivery = DeliveryId { generation: Generation(0), number: DeliveryNo(number) };
        LeaseRef { delivery, token: Token(number) }
    }

    fn ledger(resumed: u64) -> Ledger {
        Ledger::new(Some(Op::Grant { consumer: ConsumerId(1), credit: 0 }), resumed)
    }

    fn granted(ledger: &mut Ledger) -> u32 {
        ledger.grant().map_or(0, |(_, credit)| credit)
    }

    // Fails under: a grant that forgets what comes again, or what was granted before.
    #[test]
    fn the_head_is_granted_what_the_client_gave_and_no_more() {
        let mut ledger = ledger(2);
        assert_eq!(granted(&mut ledger), 0);
        ledger.credit(Credit { messages: 5, bytes: 1_000_000 });
        assert_eq!((granted(&mut ledger), granted(&mut ledger)), (3, 0), "two come again");
        for number in 1..=5 {
            assert!(ledger.may_send());
            assert_eq!(ledger.send(Some(lease(number)), 100), number);
        }
        assert!(!ledger.may_send());
        ledger.credit(Credit { messages: 1_000, bytes: 1_000_000 });
        assert_eq!(u64::from(granted(&mut ledger)), IN_HAND_MAX, "not all at once");
        ledger.take_back(6);
        assert_eq!(granted(&mut ledger), 6);
        assert!(ledger.check(Credit { messages: 999, bytes: 1_000_000 }).is_err(), "it never falls");
    }

    // Fails under: bytes that are not counted, or a limit that what is larger can never pass.
    #[test]
    fn bytes_bound_as_messages_do() {
        let mut ledger = ledger(0);
        ledger.credit(Credit { messages: 100, bytes: 3_000 });
        assert_eq!(granted(&mut ledger), 3, "guessed at a kilobyte each");
        ledger.send(Some(lease(1)), 2_500);
        assert!(ledger.may_send());
        ledger.send(Some(lease(2)), 9_000);
        assert!(!ledger.may_send(), "the last one may be larger than what is left");
    }

    fn acked(ledger: &Ledger, ranges: &[Range]) -> (Vec<LeaseRef>, Option<Seq>) {
        let ToAck { leases, acked_by } = ledger.to_ack(ranges).unwrap();
        (leases, acked_by)
    }

    // Fails under: an end that is off by one, or ranges that reach beyond what was sent.
    #[test]
    fn numbers_stand_for_leases() {
        let mut ledger = ledger(0);
        for number in 1..=4 {
            ledger.send((number != 2).then(|| lease(number)), 1);
        }
        assert_eq!(acked(&ledger, &[(1, 4)]), (vec![lease(1), lease(3), lease(4)], None));
        ledger.acked(&[(3, 3)], Some(Seq(9)));
        assert_eq!(acked(&ledger, &[(1, 2), (3, 4)]), (vec![lease(1), lease(4)], Some(Seq(9))));
        for wrong in [(0, 1), (3, 2), (4, 5)] {
            assert_eq!(ledger.to_ack(&[wrong]).unwrap_err().code, Code::Invalid, "{wrong:?}");
        }
        for _ in 0..NUMBERS_MAX {
            ledger.send(None, 1);
        }
        assert_eq!(ledger.to_ack(&[(1, 1)]).unwrap_err().code, Code::NotFound);
    }

    // Fails under: a lease that is known by its delivery alone; an ok for an ack that acks nothing.
    #[test]
    fn i4_a_lease_is_known_by_delivery_and_token() {
        let mut ledger = ledger(0);
        let first = lease(1);
        let second = LeaseRef { token: Token(9), ..first };
        ledger.send(Some(first), 1);
        ledger.send(Some(second), 1);
        let over = |lease: LeaseRef, ended_by| Stale {
            op: 0,
            item: lease.delivery.to_string(),
            code: Code::StaleLease,
            token: Some(lease.token),
            ended_by,
        };
        ledger.expire([over(first, None)].iter());
        assert_eq!(acked(&ledger, &[(2, 2)]).0, [second], "held under its own token");
        for ranges in [&[(1, 1)][..], &[(1, 2)]] {
            let refused = ledger.to_ack(ranges).unwrap_err();
            assert_eq!((refused.code, refused.facts.stale.len()), (Code::StaleLease, 1), "{refused:?}");
            assert_eq!(refused.facts.stale[0].token, Some(first.token));
        }
        ledger.expire([over(second, Some(Seq(7)))].iter());
        assert_eq!(acked(&ledger, &[(2, 2)]), (vec![], Some(Seq(7))), "another commit acked it");
    }

    // Fails under: a returned delivery that is taken for an acked one.
    #[test]
    fn i4_what_was_returned_is_not_acked() {
        let mut ledger = ledger(0);
        for number in 1..=3 {
            ledger.send((number != 3).then(|| lease(number)), 1);
        }
        ledger.returned(&[(1, 1)]);
        assert_eq!(ledger.to_ack(&[(1, 2)]).unwrap_err().code, Code::StaleLease);
        assert_eq!(ledger.held(&[(1, 1)]).unwrap_err().code, Code::StaleLease);
        assert_eq!(ledger.held(&[(2, 3)]).unwrap_err().code, Code::StaleLease, "one never had a lease");
        assert_eq!(ledger.held(&[(2, 2)]).unwrap(), [lease(2)]);
        ledger.acked(&[(2, 2)], Some(Seq(4)));
        assert_eq!(ledger.held(&[(2, 2)]).unwrap_err().code, Code::StaleLease);
    }
}
