//! Name table of a script: maps script names to messages, leases, consumers, epochs, entry versions and locks.

use std::collections::BTreeMap;

use quorate_core::{
    ConsumerId, DeliveryId, DeliveryNo, Epoch, Fence, Generation, Key, LeaseRef, LeaseToken, LeasedDelivery,
    MessageId, RecordedMessage, RegisterAgent, Seq, Version,
};

use super::parse::agent_id;
use super::tasks::TaskTokens;

/// Name table of one space.
#[derive(Default)]
pub(super) struct NameTable {
    /// Messages by script name.
    messages: BTreeMap<String, NamedMessage>,
    /// All lease tokens of each delivery, oldest first.
    leases: BTreeMap<DeliveryNo, Vec<LeaseToken>>,
    consumers: Vec<String>,
    /// All epochs of each agent, oldest first.
    epochs: BTreeMap<String, Vec<Epoch>>,
    /// Backfilled deliveries: message name and recipient.
    backfilled: BTreeMap<DeliveryNo, (String, String)>,
    /// Position of each entry version in the log: record and payload part.
    written: BTreeMap<(Key, Version), (Seq, u32)>,
    /// The newest fence of each lock.
    fences: BTreeMap<String, Fence>,
    /// Last registration of each agent that was registered with options.
    descriptions: BTreeMap<String, RegisterAgent>,
    /// Lease tokens of tasks.
    pub(super) task_tokens: TaskTokens,
}

struct NamedMessage {
    id: MessageId,
    first: DeliveryNo,
    /// Recipients in the order of the deliveries.
    recipients: Vec<String>,
    /// Sender of the request, if the message is one.
    requester: Option<String>,
}

impl NamedMessage {
    /// Returns the recipient of a delivery, if the delivery belongs to this message.
    fn recipient(&self, number: DeliveryNo) -> Option<&str> {
        let index = number.0.checked_sub(self.first.0)?;
        self.recipients.get(usize::try_from(index).ok()?).map(String::as_str)
    }
}

impl NameTable {
    /// Returns the sender of a request.
    pub(super) fn requester(&self, name: &str) -> String {
        self.named(name).requester.clone().unwrap_or_else(|| panic!("{name} is not a request"))
    }

    /// Records the sender of a request.
    pub(super) fn set_requester(&mut self, name: &str, requester: &str) {
        if let Some(named) = self.messages.get_mut(name) {
            named.requester = Some(requester.to_owned());
        }
    }

    /// Names a message and its deliveries, which are given in order.
    pub(super) fn name_message(
        &mut self,
        name: &str,
        id: MessageId,
        first: DeliveryNo,
        recipients: Vec<String>,
    ) {
        // An idempotent replay of a send keeps the existing name.
        if self.messages.values().all(|named| named.id != id) {
            self.messages.insert(name.to_owned(), NamedMessage { id, first, recipients, requester: None });
        }
    }

    /// Names a backfilled delivery.
    pub(super) fn name_backfilled(&mut self, number: DeliveryNo, message: &RecordedMessage, recipient: &str) {
        let matches = |named: &NamedMessage| (named.id.seq, named.id.n) == (message.seq, message.n);
        let name = self.messages.iter().find(|(_, named)| matches(named)).map_or("?", |(name, _)| name);
        self.backfilled.insert(number, (name.to_owned(), recipient.to_owned()));
    }

    pub(super) fn record_version(&mut self, key: &Key, version: Version, position: (Seq, u32)) {
        self.written.insert((key.clone(), version), position);
    }

    /// Returns the position of an entry version in the log: record and payload part.
    pub(super) fn version_position(&self, key: Key, version: Version) -> (Seq, u32) {
        self.written.get(&(key, version)).copied().expect("version was written by the script")
    }

    pub(super) fn record_epoch(&mut self, agent: &str, epoch: Epoch) {
        let epochs = self.epochs.entry(agent.to_owned()).or_default();
        if epochs.last() != Some(&epoch) {
            epochs.push(epoch);
        }
    }

    pub(super) fn set_registration(&mut self, agent: &str, description: RegisterAgent) {
        self.descriptions.insert(agent.to_owned(), description);
    }

    /// Returns the last registration of an agent.
    pub(super) fn registration(&self, name: &str) -> RegisterAgent {
        let default = || RegisterAgent::named(agent_id(name));
        self.descriptions.get(name).cloned().unwrap_or_else(default)
    }

    /// Returns an epoch of an agent: 0 is the newest, 1 the one before it.
    pub(super) fn epoch(&self, agent: &str, back: usize) -> Epoch {
        let epochs = self.epochs.get(agent).map_or(&[][..], Vec::as_slice);
        *epochs
            .iter()
            .rev()
            .nth(back)
            .unwrap_or_else(|| panic!("{agent} has no epoch {back} registrations ago"))
    }

    pub(super) fn record_lease(&mut self, delivery: &LeasedDelivery) {
        self.leases.entry(delivery.delivery).or_default().push(delivery.token);
    }

    /// Returns the consumer with a name; the same name gives the same consumer.
    pub(super) fn consumer(&mut self, name: &str) -> ConsumerId {
        let index = self.consumers.iter().position(|known| known == name).unwrap_or_else(|| {
            self.consumers.push(name.to_owned());
            self.consumers.len() - 1
        });
        ConsumerId(index as u64)
    }

    pub(super) fn record_fence(&mut self, lock: &str, fence: Fence) {
        self.fences.insert(lock.to_owned(), fence);
    }

    /// Returns the newest fence of a lock; 0 if it was never held.
    pub(super) fn newest_fence(&self, lock: &str) -> Fence {
        self.fences.get(lock).copied().unwrap_or_default()
    }

    pub(super) fn consumer_name(&self, id: ConsumerId) -> &str {
        &self.consumers[id.0 as usize]
    }

    pub(super) fn message(&self, name: &str) -> MessageId {
        self.named(name).id
    }

    /// Returns all deliveries of a message with their recipients.
    pub(super) fn deliveries(&self, name: &str) -> Vec<(DeliveryNo, String)> {
        let named = self.named(name);
        let number = |index: usize| DeliveryNo(named.first.0 + index as u64);
        let sent =
            named.recipients.iter().enumerate().map(|(index, recipient)| (number(index), recipient.clone()));
        let backfilled = self.backfilled.iter().filter(|(_, (message, _))| message == name);
        sent.chain(backfilled.map(|(number, (_, recipient))| (*number, recipient.clone()))).collect()
    }

    fn named(&self, name: &str) -> &NamedMessage {
        self.messages.get(name).unwrap_or_else(|| panic!("unknown message: {name}"))
    }

    /// Resolves `m1` or `m1/carol`: the delivery to that recipient (default: the actor), otherwise the first one.
    pub(super) fn delivery(&self, text: &str, actor: &str) -> DeliveryNo {
        let text = text.split('#').next().unwrap_or(text);
        let (name, recipient_name) = text.split_once('/').unwrap_or((text, actor));
        let all = self.deliveries(name);
        let own = all.iter().find(|(_, recipient)| recipient == recipient_name).or(all.first());
        own.map_or(self.named(name).first, |(number, _)| *number)
    }

    /// Resolves `m1` or `m1#1`: the newest lease of a delivery, or its n-th. Token 0 if it never had one.
    pub(super) fn lease(&self, text: &str, number: DeliveryNo) -> LeaseRef {
        let leases = self.leases.get(&number).map_or(&[][..], Vec::as_slice);
        let token = match text.split_once('#') {
            Some((_, nth)) => leases.get(nth.parse::<usize>().expect("a number after #") - 1),
            None => leases.last(),
        };
        LeaseRef { delivery: delivery_id(number), token: token.copied().unwrap_or_default() }
    }

    /// Returns the script name of a message.
    pub(super) fn message_name(&self, id: MessageId) -> &str {
        let found = self.messages.iter().find(|(_, named)| named.id == id);
        found.map_or("?", |(name, _)| name)
    }

    /// Returns the message name and the recipient of a delivery.
    pub(super) fn delivery_name(&self, number: DeliveryNo) -> (&str, &str) {
        if let Some((name, recipient)) = self.backfilled.get(&number) {
            return (name, recipient);
        }
        let found = self.messages.iter().find_map(|(name, named)| Some((name, named.recipient(number)?)));
        found.map_or(("?", "?"), |(name, recipient)| (name.as_str(), recipient))
    }
}

/// Returns the full id of a delivery. Scripts never restore a backup, so the generation is always 0.
pub(super) fn delivery_id(number: DeliveryNo) -> DeliveryId {
    DeliveryId { generation: Generation(0), number }
}
