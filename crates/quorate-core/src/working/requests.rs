//! Open requests, indexed by message and by requester, and the listeners that wait for their replies.

use std::collections::BTreeSet;

use crate::ids::{AgentNo, ConsumerId, DeliveryNo, MessageId, Seq};
use crate::item::{Item, ItemKey};
use crate::request::Request;
use crate::time::{Mono, Now};
use crate::working::{Map, Undo, WorkingState};

/// Position of a message: its record, and its index within that record.
pub(super) type MessagePosition = (Seq, u32);

/// The consumers that wait for the replies to a request. In memory only; clients wait again after a restart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReplyListeners {
    /// The consumers to notify: the requester, and repetitions of the same request. Oldest first.
    pub(crate) ids: Vec<ConsumerId>,
    /// The delivery whose processing caused the request, if the requester still holds it.
    pub(crate) within: Option<DeliveryNo>,
}

/// The open requests of a space.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    open: Map<MessagePosition, Request>,
    by_requester: Map<AgentNo, BTreeSet<MessagePosition>>,
    by_correlation: Map<String, BTreeSet<MessagePosition>>,
    listeners: Map<MessagePosition, ReplyListeners>,
    by_listener: Map<ConsumerId, BTreeSet<MessagePosition>>,
}

/// Removes a position from an index; removes an empty list.
fn remove_from_index<K: std::hash::Hash + Eq>(
    lists: &mut Map<K, BTreeSet<MessagePosition>>,
    key: &K,
    position: &MessagePosition,
) {
    if let Some(positions) = lists.get_mut(key) {
        positions.remove(position);
        if positions.is_empty() {
            lists.remove(key);
        }
    }
}

impl Requests {
    /// Replaces a request and returns the previous one.
    pub(super) fn replace(&mut self, id: &str, new: Option<Request>) -> Option<Request> {
        let id: MessageId = id.parse().ok()?;
        let position = (id.seq, id.n);
        let old = self.open.remove(&position);
        if let Some(old) = &old {
            remove_from_index(&mut self.by_requester, &old.from, &position);
            remove_from_index(&mut self.by_correlation, &old.correlation, &position);
        }
        if let Some(new) = new {
            self.by_requester.entry(new.from).or_default().insert(position);
            self.by_correlation.entry(new.correlation.clone()).or_default().insert(position);
            self.open.insert(position, new);
        }
        old
    }

    pub(super) fn put_listener(
        &mut self,
        position: MessagePosition,
        new: Option<ReplyListeners>,
    ) -> Option<ReplyListeners> {
        let old = self.listeners.remove(&position);
        for id in old.iter().flat_map(|old| &old.ids) {
            remove_from_index(&mut self.by_listener, id, &position);
        }
        if let Some(new) = new {
            for id in &new.ids {
                self.by_listener.entry(*id).or_default().insert(position);
            }
            self.listeners.insert(position, new);
        }
        old
    }

    pub(super) fn by_id(&self, id: &str) -> Option<&Request> {
        let id: MessageId = id.parse().ok()?;
        self.of_message(id.seq, id.n).filter(|request| request.id == id)
    }

    /// Returns the open request of a message.
    pub(crate) fn of_message(&self, seq: Seq, n: u32) -> Option<&Request> {
        self.open.get(&(seq, n))
    }

    /// Returns the open requests with a correlation id, oldest first.
    pub(crate) fn of_correlation(&self, correlation: &str) -> impl Iterator<Item = &Request> {
        let positions = self.by_correlation.get(correlation).into_iter().flatten();
        positions.filter_map(|position| self.open.get(position))
    }

    /// Whether there are no open requests.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the listeners of a request.
    pub(crate) fn listener(&self, id: MessageId) -> Option<&ReplyListeners> {
        self.listeners.get(&(id.seq, id.n))
    }

    /// Returns the open requests with listeners.
    pub(crate) fn with_listeners(&self) -> impl Iterator<Item = (&Request, &ReplyListeners)> {
        self.listeners.iter().filter_map(|(position, listener)| Some((self.open.get(position)?, listener)))
    }

    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Returns the requests that a consumer listens to, oldest first.
    pub(crate) fn of_listener(&self, id: ConsumerId) -> Vec<MessageId> {
        let positions = self.by_listener.get(&id).into_iter().flatten();
        positions.filter_map(|position| self.open.get(position)).map(|request| request.id).collect()
    }

    /// Returns the open requests of an agent, oldest first.
    pub(crate) fn of_requester(&self, agent: AgentNo) -> impl Iterator<Item = &Request> {
        let positions = self.by_requester.get(&agent).into_iter().flatten();
        positions.filter_map(|position| self.open.get(position))
    }

    /// Returns the number of open requests of an agent.
    pub(crate) fn count_of(&self, agent: AgentNo) -> usize {
        self.by_requester.get(&agent).map_or(0, BTreeSet::len)
    }
}

impl WorkingState {
    /// Replaces the listeners of an open request.
    pub(crate) fn set_listener(&mut self, id: MessageId, new: Option<ReplyListeners>, now: Now) {
        let position = (id.seq, id.n);
        self.schedule_deadlock_check(now.mono);
        let was_listened = self.items.requests.listeners.contains_key(&position);
        let stops_listening = was_listened && new.is_none();
        let before = self.items.requests.put_listener(position, new);
        self.journal.push(Undo::Listener(position, before));
        // Waiting counts as activity of the agent until now.
        if let (true, Some(request)) = (stops_listening, self.items.requests.open.get(&position)) {
            self.record_activity(request.from, now);
        }
    }

    /// Returns the deadline of an open request.
    pub(crate) fn request_deadline(&self, request: &Request) -> Option<Mono> {
        let key: ItemKey = Item::Request(request.clone()).key();
        self.items.deadline(&key, 0)
    }
}
