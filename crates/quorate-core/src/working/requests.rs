//! Requests that wait for answers, by their id and by whoever asked, and who waits with them.

use std::collections::BTreeSet;

use crate::ids::{AgentNo, ConsumerId, DeliveryNo, MessageId, Seq};
use crate::item::{Item, ItemKey};
use crate::request::Request;
use crate::time::{Mono, Now};
use crate::working::{Map, Undo, Working};

/// Which message: its record and its place in it.
pub(super) type Place = (Seq, u32);

/// Those who wait for the answers to a request. In memory only: after a restart whoever waited asks again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listener {
    /// Who is told: whoever asked, and whoever asked the same again while the first still waits. Oldest first.
    pub(crate) ids: Vec<ConsumerId>,
    /// The delivery that the agent works on meanwhile: the one that caused the question.
    pub(crate) within: Option<DeliveryNo>,
}

/// The open requests of a space.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    open: Map<Place, Request>,
    by_asker: Map<AgentNo, BTreeSet<Place>>,
    by_correlation: Map<String, BTreeSet<Place>>,
    listeners: Map<Place, Listener>,
    by_listener: Map<ConsumerId, BTreeSet<Place>>,
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
            forget(&mut self.by_correlation, &old.correlation, &place);
        }
        if let Some(new) = new {
            self.by_asker.entry(new.from).or_default().insert(place);
            self.by_correlation.entry(new.correlation.clone()).or_default().insert(place);
            self.open.insert(place, new);
        }
        old
    }

    pub(super) fn put_listener(&mut self, place: Place, new: Option<Listener>) -> Option<Listener> {
        let old = self.listeners.remove(&place);
        for id in old.iter().flat_map(|old| &old.ids) {
            forget(&mut self.by_listener, id, &place);
        }
        if let Some(new) = new {
            for id in &new.ids {
                self.by_listener.entry(*id).or_default().insert(place);
            }
            self.listeners.insert(place, new);
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

    /// The requests of a conversation, oldest first.
    pub(crate) fn of_correlation(&self, correlation: &str) -> impl Iterator<Item = &Request> {
        let places = self.by_correlation.get(correlation).into_iter().flatten();
        places.filter_map(|place| self.open.get(place))
    }

    /// Whether anybody waits for an answer at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Who waits for the answers to a request.
    pub(crate) fn listener(&self, id: MessageId) -> Option<&Listener> {
        self.listeners.get(&(id.seq, id.n))
    }

    /// The requests that somebody waits for.
    pub(crate) fn listened(&self) -> impl Iterator<Item = (&Request, &Listener)> {
        self.listeners.iter().filter_map(|(place, listener)| Some((self.open.get(place)?, listener)))
    }

    pub(crate) fn is_listened(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// The requests of which this one is told, oldest first.
    pub(crate) fn of_listener(&self, id: ConsumerId) -> Vec<MessageId> {
        let places = self.by_listener.get(&id).into_iter().flatten();
        places.filter_map(|place| self.open.get(place)).map(|request| request.id).collect()
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
    /// Says who is told of an open request.
    pub(crate) fn set_listener(&mut self, id: MessageId, new: Option<Listener>, now: Now) {
        let place = (id.seq, id.n);
        self.wait_begins(now.mono);
        let was_listened = self.items.requests.listeners.contains_key(&place);
        let hangs_up = was_listened && new.is_none();
        let before = self.items.requests.put_listener(place, new);
        self.journal.push(Undo::Listener(place, before));
        // Whoever waited until now was there until now.
        if let (true, Some(request)) = (hangs_up, self.items.requests.open.get(&place)) {
            self.hear_of(request.from, now);
        }
    }

    /// When an open request is over.
    pub(crate) fn request_deadline(&self, request: &Request) -> Option<Mono> {
        let key: ItemKey = Item::Request(request.clone()).key();
        self.items.deadline(&key, 0)
    }
}
