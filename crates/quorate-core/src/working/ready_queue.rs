//! The ready deliveries of one priority, in two orders: by number, which is the dispatch order, and by waiting time,
//! which decides when a lower priority is preferred.
//!
//! New deliveries become ready in the order of their numbers, so both orders mostly agree. Only redelivered, scheduled
//! and held deliveries are out of order. They are stored separately, so that all others need one tree instead of two.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::DeliveryNo;
use crate::time::Timestamp;

/// The time at which a delivery became ready, and its number.
pub(super) type ReadySince = (Timestamp, DeliveryNo);

/// The ready deliveries of one priority.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    /// Deliveries for which the order by number and the order by time agree.
    in_order: BTreeMap<DeliveryNo, Timestamp>,
    /// All other deliveries, by number, and by time in `by_time`.
    out_of_order: BTreeMap<DeliveryNo, Timestamp>,
    by_time: BTreeSet<ReadySince>,
}

impl ReadyQueue {
    pub(super) fn insert(&mut self, number: DeliveryNo, since: Timestamp) {
        let last = self.in_order.last_key_value();
        if last.is_none_or(|(last, time)| number > *last && since >= *time) {
            self.in_order.insert(number, since);
        } else {
            self.out_of_order.insert(number, since);
            self.by_time.insert((since, number));
        }
    }

    pub(super) fn remove(&mut self, number: DeliveryNo) {
        if self.in_order.remove(&number).is_none()
            && let Some(since) = self.out_of_order.remove(&number)
        {
            self.by_time.remove(&(since, number));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.out_of_order.is_empty()
    }

    /// Returns the lowest number.
    pub(super) fn first(&self) -> Option<DeliveryNo> {
        let firsts = [self.in_order.first_key_value(), self.out_of_order.first_key_value()];
        firsts.into_iter().flatten().map(|(number, _)| *number).min()
    }

    /// Returns the delivery that has waited longest.
    pub(super) fn longest_waiting(&self) -> Option<ReadySince> {
        let in_order = self.in_order.first_key_value().map(|(number, since)| (*since, *number));
        [in_order, self.by_time.first().copied()].into_iter().flatten().min()
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.out_of_order.len()
    }

    /// Returns the number of deliveries with a lower number, if this one is in the queue.
    pub(super) fn position_of(&self, number: DeliveryNo) -> Option<usize> {
        let is_queued = self.in_order.contains_key(&number) || self.out_of_order.contains_key(&number);
        let lower = |list: &BTreeMap<DeliveryNo, Timestamp>| list.range(..number).count();
        is_queued.then(|| lower(&self.in_order) + lower(&self.out_of_order))
    }

    /// Returns all numbers in ascending order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = DeliveryNo> {
        let mut out_of_order = self.out_of_order.keys().copied().peekable();
        let mut in_order = self.in_order.keys().copied().peekable();
        std::iter::from_fn(move || match (in_order.peek(), out_of_order.peek()) {
            (Some(ordered), Some(unordered)) if unordered < ordered => out_of_order.next(),
            (Some(_), _) => in_order.next(),
            (None, _) => out_of_order.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(deliveries: &[(u64, u64)]) -> ReadyQueue {
        let mut queue = ReadyQueue::default();
        deliveries.iter().for_each(|(number, since)| queue.insert(DeliveryNo(*number), Timestamp(*since)));
        queue
    }

    // Fails under: `insert` without the condition on the time, or `longest_waiting` without the out-of-order ones.
    #[test]
    fn i6_the_longest_waiting_delivery_is_found_at_any_position() {
        let mut queue = queue(&[(2, 20), (3, 30), (1, 50), (5, 30), (4, 10)]);
        assert_eq!(queue.numbers().map(|number| number.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        for (first, longest) in [(1, 4), (1, 2), (1, 3), (1, 5), (1, 1)] {
            assert_eq!(queue.first(), Some(DeliveryNo(first)));
            let (_, number) = queue.longest_waiting().expect("a delivery waits");
            assert_eq!(number, DeliveryNo(longest));
            queue.remove(number);
        }
        assert!(queue.is_empty());
    }

    // Fails under: a removal that leaves `by_time` behind.
    #[test]
    fn a_removed_delivery_is_not_returned() {
        let mut queue = queue(&[(2, 20), (1, 10)]);
        queue.remove(DeliveryNo(1));
        queue.remove(DeliveryNo(7));
        assert_eq!(queue.longest_waiting(), Some((Timestamp(20), DeliveryNo(2))));
        queue.remove(DeliveryNo(2));
        assert_eq!((queue.first(), queue.longest_waiting(), queue.is_empty()), (None, None, true));
    }
}
