//! A queue that is fair between spaces and, within a space, between principals: each takes its turn, however much of it
//! waits.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use quorate_core::{Principal, SpaceNo};

use crate::call::Call;

/// Whose work it is: the token's space and its principal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) space: SpaceNo,
    pub(crate) principal: Principal,
}

impl Owner {
    /// Whoever makes a call.
    pub(crate) fn of(call: &Call) -> Self {
        Self { space: call.home, principal: call.principal.clone() }
    }
}

/// The queue: round-robin over spaces, then over principals, first in first out for each of them.
pub(super) struct FairQueue<T> {
    spaces: Rotation<SpaceNo, Rotation<Principal, VecDeque<T>>>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { spaces: Rotation::default() }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn push(&mut self, owner: &Owner, item: T) {
        self.spaces.of(&owner.space).of(&owner.principal).push_back(item);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.spaces.next(
            |principals| principals.next(VecDeque::pop_front, VecDeque::is_empty),
            |principals| principals.order.is_empty(),
        )
    }
}

/// Values by key, visited in turn. A key without anything left is forgotten.
struct Rotation<K, V> {
    order: VecDeque<K>,
    values: HashMap<K, V>,
}

impl<K, V> Default for Rotation<K, V> {
    fn default() -> Self {
        Self { order: VecDeque::new(), values: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Default> Rotation<K, V> {
    fn of(&mut self, key: &K) -> &mut V {
        if !self.values.contains_key(key) {
            self.order.push_back(key.clone());
        }
        self.values.entry(key.clone()).or_default()
    }

    /// Takes from the key whose turn it is, which is the last in the order from then on.
    fn next<T>(
        &mut self,
        take: impl FnOnce(&mut V) -> Option<T>,
        is_empty: impl FnOnce(&V) -> bool,
    ) -> Option<T> {
        let key = self.order.pop_front()?;
        let value = self.values.get_mut(&key)?;
        let taken = take(value);
        if is_empty(value) {
            self.values.remove(&key);
        } else {
            self.order.push_back(key);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{AgentId, Principal, SpaceNo};

    use super::{FairQueue, Owner};

    fn owner(space: u64, agent: &str) -> Owner {
        let principal = Principal::Agent(AgentId::new(agent).expect("an id"));
        Owner { space: SpaceNo(space), principal }
    }

    #[test]
    fn i16_spaces_take_turns_and_so_do_principals_within_one() {
        let mut queue = FairQueue::default();
        for n in 0..100 {
            queue.push(&owner(1, "greedy"), format!("greedy {n}"));
        }
        queue.push(&owner(1, "modest"), "modest 0".to_owned());
        queue.push(&owner(2, "other"), "other 0".to_owned());
        queue.push(&owner(2, "other"), "other 1".to_owned());
        let first: Vec<String> = std::iter::from_fn(|| queue.pop()).take(6).collect();
        assert_eq!(first, ["greedy 0", "other 0", "modest 0", "other 1", "greedy 1", "greedy 2"]);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 97);
        assert!(queue.spaces.order.is_empty() && queue.spaces.values.is_empty(), "nobody is remembered");
    }
}
