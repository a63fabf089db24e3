//! Requests that wait for answers, by their id, by whoever waits and by whoever is told.

use std::collections::BTreeSet;

use crate::ids::{AgentNo, ConsumerId, MessageId, Seq};
use crate::item::{Item, ItemKey};
use crate::request::Request;
use crate::time::Now;
use crate::working::{Map, Working};

/// Which message: its record and its place in it.
type Place = (Seq, u32);

/// The open requests of a space.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    open: Map<Place, Request>,
    by_asker: Map<AgentNo, BTreeSet<Place>>,
    by_waiter: Map<ConsumerId, BTreeSet<Place>>,
}

/// Takes a place out of a list; an empty list goes.
fn forget<K: std::hash::Hash + Eq>(lists: &mut Map<K, BTreeSet<Place>>, key: &K, place: &Place) {
    if let Some(places) = lists.get_mut(key) {
        places.remove(place);
        if places.is_empty() {
            lists.remove(key);
        }
    }
}

impl Requests {
    /// Puts a request in its place and returns what was there.
    pub(super) fn place(&mut self, id: &str, new: Option<Request>) -> Option<Request> {
        let id: MessageId = id.parse().ok()?;
        let place = (id.seq, id.n);
        let old = self.open.remove(&place);
        if let Some(old) = &old {
            forget(&mut self.by_asker, &old.from, &place);
            if let Some(waiter) = &old.waiter {
                forget(&mut self.by_waiter, waiter, &place);
            }
        }
        if let Some(new) = new {
            self.by_asker.entry(new.from).or_default().insert(place);
            if let Some(waiter) = new.waiter {
                self.by_waiter.entry(waiter).or_default().insert(place);
            }
            self.open.insert(place, new);
        }
        old
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Request> {
        let id: MessageId = id.parse().ok()?;
        self.of_message(id.seq, id.n).filter(|request| request.id == id)
    }

    /// The request that a message made, if it waits.
    pub(crate) fn of_message(&self, seq: Seq, n: u32) -> Option<&Request> {
        self.open.get(&(seq, n))
    }

    /// The requests of which this one is told.
    pub(crate) fn of_waiter(&self, waiter: ConsumerId) -> Vec<Request> {
        let places = self.by_waiter.get(&waiter).into_iter().flatten();
        places.filter_map(|place| self.open.get(place).cloned()).collect()
    }

    /// The requests of one agent, oldest first.
    pub(crate) fn of_asker(&self, agent: AgentNo) -> impl Iterator<Item = &Request> {
        let places = self.by_asker.get(&agent).into_iter().flatten();
        places.filter_map(|place| self.open.get(place))
    }

    /// How many requests of one agent wait.
    pub(crate) fn count_of(&self, agent: AgentNo) -> usize {
        self.by_asker.get(&agent).map_or(0, BTreeSet::len)
    }
}

impl Working {
    /// Says who is told of an open request. Leaves no record.
    pub(crate) fn set_listener(&mut self, request: &Request, waiter: Option<ConsumerId>, now: Now) {
        self.set_item(&Item::Request(Request { waiter, ..request.clone() }), now);
    }

    /// When an open request is over.
    pub(crate) fn request_deadline(&self, request: &Request) -> Option<crate::time::Mono> {
        let key: ItemKey = Item::Request(request.clone()).key();
        self.items.deadline(&key, 0)
    }
}
