//! A queue that is fair between spaces and, within a space, between principals, regardless of how much each has
//! enqueued.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use quorate_core::{Principal, SpaceNo};

use crate::call::Call;

/// Owner of the work: space and principal of the token.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) space: SpaceNo,
    pub(crate) principal: Principal,
}

impl Owner {
    /// Returns the owner of a call.
    pub(crate) fn of_call(call: &Call) -> Self {
        Self { space: call.token_space, principal: call.principal.clone() }
    }
}

/// Round-robin over spaces, then over principals; first in, first out within a principal.
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
        self.spaces.get_or_insert(&owner.space).get_or_insert(&owner.principal).push_back(item);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        self.spaces.next(
            |principals| principals.next(VecDeque::pop_front, VecDeque::is_empty),
            |principals| principals.order.is_empty(),
        )
    }
}

/// Values by key, visited in turn. Keys with an empty value are removed.
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
    fn get_or_insert(&mut self, key: &K) -> &mut V {
        if !self.values.contains_key(key) {
            self.order.push_back(key.clone());
        }
        self.values.entry(key.clone()).or_default()
    }

    /// Takes from the next key and moves it to the end of the order.
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
        assert!(queue.spaces.order.is_empty() && queue.spaces.values.is_empty(), "empty keys are removed");
    }
}
