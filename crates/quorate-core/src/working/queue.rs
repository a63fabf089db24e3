//! The waiting deliveries of one priority, in two orders: by number, which is the order in which they go out, and by how
//! long they have waited, which decides when a lower priority has its turn.
//!
//! What is sent becomes ready in the order of the numbers, so the two orders are mostly one. Only what came back, was
//! delayed or held is out of line; it is kept apart, so that the rest costs one tree and not two.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::DeliveryNo;
use crate::time::Timestamp;

/// A delivery and since when it has waited.
pub(super) type Waiter = (Timestamp, DeliveryNo);

/// The waiting deliveries of one priority.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Those of which a higher number never waited longer.
    in_line: BTreeMap<DeliveryNo, Timestamp>,
    /// The others, by number and by time.
    out_of_line: BTreeMap<DeliveryNo, Timestamp>,
    by_time: BTreeSet<Waiter>,
}

impl Queue {
    pub(super) fn insert(&mut self, number: DeliveryNo, since: Timestamp) {
        let last = self.in_line.last_key_value();
        if last.is_none_or(|(last, time)| number > *last && since >= *time) {
            self.in_line.insert(number, since);
        } else {
            self.out_of_line.insert(number, since);
            self.by_time.insert((since, number));
        }
    }

    pub(super) fn remove(&mut self, number: DeliveryNo) {
        if self.in_line.remove(&number).is_none()
            && let Some(since) = self.out_of_line.remove(&number)
        {
            self.by_time.remove(&(since, number));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_line.is_empty() && self.out_of_line.is_empty()
    }

    /// The lowest number.
    pub(super) fn first(&self) -> Option<DeliveryNo> {
        let firsts = [self.in_line.first_key_value(), self.out_of_line.first_key_value()];
        firsts.into_iter().flatten().map(|(number, _)| *number).min()
    }

    /// The one that has waited longest.
    pub(super) fn longest(&self) -> Option<Waiter> {
        let in_line = self.in_line.first_key_value().map(|(number, since)| (*since, *number));
        [in_line, self.by_time.first().copied()].into_iter().flatten().min()
    }

    pub(super) fn len(&self) -> usize {
        self.in_line.len() + self.out_of_line.len()
    }

    /// How many have a lower number, if it is one of them.
    pub(super) fn place_of(&self, number: DeliveryNo) -> Option<usize> {
        let is_here = self.in_line.contains_key(&number) || self.out_of_line.contains_key(&number);
        let lower = |list: &BTreeMap<DeliveryNo, Timestamp>| list.range(..number).count();
        is_here.then(|| lower(&self.in_line) + lower(&self.out_of_line))
    }

    /// All of them, by number.
    pub(super) fn numbers(&self) -> impl Iterator<Item = DeliveryNo> {
        let mut out_of_line = self.out_of_line.keys().copied().peekable();
        let mut in_line = self.in_line.keys().copied().peekable();
        std::iter::from_fn(move || match (in_line.peek(), out_of_line.peek()) {
            (Some(one), Some(other)) if other < one => out_of_line.next(),
            (Some(_), _) => in_line.next(),
            (None, _) => out_of_line.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(waiters: &[(u64, u64)]) -> Queue {
        let mut queue = Queue::default();
        waiters.iter().for_each(|(number, since)| queue.insert(DeliveryNo(*number), Timestamp(*since)));
        queue
    }

    // Fails under: `insert` without the condition on the time, or `longest` without those out of line.
    #[test]
    fn i6_the_longest_waiter_is_found_wherever_it_stands() {
        let mut queue = queue(&[(2, 20), (3, 30), (1, 50), (5, 30), (4, 10)]);
        assert_eq!(queue.numbers().map(|number| number.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        for (first, longest) in [(1, 4), (1, 2), (1, 3), (1, 5), (1, 1)] {
            assert_eq!(queue.first(), Some(DeliveryNo(first)));
            let (_, number) = queue.longest().expect("somebody waits");
            assert_eq!(number, DeliveryNo(longest));
            queue.remove(number);
        }
        assert!(queue.is_empty());
    }

    // Fails under: a removal that leaves `by_time` behind.
    #[test]
    fn what_is_gone_waits_no_longer() {
        let mut queue = queue(&[(2, 20), (1, 10)]);
        queue.remove(DeliveryNo(1));
        queue.remove(DeliveryNo(7));
        assert_eq!(queue.longest(), Some((Timestamp(20), DeliveryNo(2))));
        queue.remove(DeliveryNo(2));
        assert_eq!((queue.first(), queue.longest(), queue.is_empty()), (None, None, true));
    }
}
