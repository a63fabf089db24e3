//! Who and what a script has named so far.

use std::collections::BTreeMap;

use quorate_core::{
    ConsumerId, DeliveryId, DeliveryNo, Epoch, Fence, Generation, Handed, Key, LeaseRef, Letter, MessageId,
    RegisterAgent, Seq, Token, Version,
};

use super::asked::agent;
use super::tasks::TaskTokens;

/// The names of one space.
#[derive(Default)]
pub(super) struct Cast {
    /// The deliveries of each message.
    messages: BTreeMap<String, Named>,
    /// Every lease of each delivery, oldest first.
    leases: BTreeMap<DeliveryNo, Vec<Token>>,
    consumers: Vec<String>,
    /// Every epoch of each agent, oldest first.
    epochs: BTreeMap<String, Vec<Epoch>>,
    /// Deliveries of earlier messages that were brought to somebody: which message, and whose.
    brought: BTreeMap<DeliveryNo, (String, String)>,
    /// Where each version of an entry was written.
    written: BTreeMap<(Key, Version), (Seq, u32)>,
    /// The newest fence of each lock.
    fences: BTreeMap<String, Fence>,
    /// What each agent said of itself, if it said anything.
    descriptions: BTreeMap<String, RegisterAgent>,
    /// The leases of tasks.
    pub(super) tokens: TaskTokens,
}

struct Named {
    id: MessageId,
    first: DeliveryNo,
    /// In the order of the deliveries.
    recipients: Vec<String>,
    /// Who waits for the answer, if somebody does.
    asker: Option<String>,
}

impl Named {
    /// The recipient of a delivery, if it is one of this message.
    fn recipient(&self, number: DeliveryNo) -> Option<&str> {
        let index = number.0.checked_sub(self.first.0)?;
        self.recipients.get(usize::try_from(index).ok()?).map(String::as_str)
    }
}

impl Cast {
    /// Who asked a question.
    pub(super) fn asker(&self, name: &str) -> String {
        self.named(name).asker.clone().unwrap_or_else(|| panic!("nobody asked {name}"))
    }

    /// Notes who asked a question.
    pub(super) fn name_asker(&mut self, name: &str, asker: &str) {
        if let Some(named) = self.messages.get_mut(name) {
            named.asker = Some(asker.to_owned());
        }
    }

    /// Names a message and its deliveries, in their order.
    pub(super) fn name_message(
        &mut self,
        name: &str,
        id: MessageId,
        first: DeliveryNo,
        recipients: Vec<String>,
    ) {
        // A repeated send keeps the name that the message has.
        if self.messages.values().all(|named| named.id != id) {
            self.messages.insert(name.to_owned(), Named { id, first, recipients, asker: None });
        }
    }

    /// Names a delivery of an earlier message.
    pub(super) fn name_brought(&mut self, number: DeliveryNo, letter: &Letter, whose: &str) {
        let is_it = |named: &Named| (named.id.seq, named.id.n) == (letter.seq, letter.n);
        let name = self.messages.iter().find(|(_, named)| is_it(named)).map_or("?", |(name, _)| name);
        self.brought.insert(number, (name.to_owned(), whose.to_owned()));
    }

    pub(super) fn name_version(&mut self, key: &Key, version: Version, place: (Seq, u32)) {
        self.written.insert((key.clone(), version), place);
    }

    /// Where a version of an entry was written.
    pub(super) fn place_of(&self, key: Key, version: Version) -> (Seq, u32) {
        self.written.get(&(key, version)).copied().expect("a version that was written")
    }

    pub(super) fn name_epoch(&mut self, agent: &str, epoch: Epoch) {
        let epochs = self.epochs.entry(agent.to_owned()).or_default();
        if epochs.last() != Some(&epoch) {
            epochs.push(epoch);
        }
    }

    pub(super) fn describe(&mut self, agent: &str, description: RegisterAgent) {
        self.descriptions.insert(agent.to_owned(), description);
    }

    /// What an agent said of itself.
    pub(super) fn description(&self, name: &str) -> RegisterAgent {
        let plain = || RegisterAgent::named(agent(name));
        self.descriptions.get(name).cloned().unwrap_or_else(plain)
    }

    /// The epoch of a start: the newest is 0, the one before it 1.
    pub(super) fn epoch(&self, agent: &str, back: usize) -> Epoch {
        let epochs = self.epochs.get(agent).map_or(&[][..], Vec::as_slice);
        *epochs.iter().rev().nth(back).unwrap_or_else(|| panic!("{agent} had no such start"))
    }

    pub(super) fn hold(&mut self, handed: &Handed) {
        self.leases.entry(handed.delivery).or_default().push(handed.token);
    }

    /// The consumer of a name; the same one for the same name.
    pub(super) fn consumer(&mut self, name: &str) -> ConsumerId {
        let index = self.consumers.iter().position(|known| known == name).unwrap_or_else(|| {
            self.consumers.push(name.to_owned());
            self.consumers.len() - 1
        });
        ConsumerId(index as u64)
    }

    pub(super) fn give(&mut self, lock: &str, fence: Fence) {
        self.fences.insert(lock.to_owned(), fence);
    }

    /// The newest fence of a lock; 0 if nobody ever held it.
    pub(super) fn newest_fence(&self, lock: &str) -> Fence {
        self.fences.get(lock).copied().unwrap_or_default()
    }

    pub(super) fn consumer_name(&self, id: ConsumerId) -> &str {
        &self.consumers[id.0 as usize]
    }

    pub(super) fn message(&self, name: &str) -> MessageId {
        self.named(name).id
    }

    /// All deliveries of a message, each with its recipient.
    pub(super) fn deliveries(&self, name: &str) -> Vec<(DeliveryNo, String)> {
        let named = self.named(name);
        let number = |index: usize| DeliveryNo(named.first.0 + index as u64);
        let sent = named.recipients.iter().enumerate().map(|(index, who)| (number(index), who.clone()));
        let brought = self.brought.iter().filter(|(_, (of, _))| of == name);
        sent.chain(brought.map(|(number, (_, whose))| (*number, whose.clone()))).collect()
    }

    fn named(&self, name: &str) -> &Named {
        self.messages.get(name).unwrap_or_else(|| panic!("no message is called {name}"))
    }

    /// `m1`, `m1/carol`: the delivery for this recipient, or the first one.
    pub(super) fn delivery(&self, text: &str, actor: &str) -> DeliveryNo {
        let text = text.split('#').next().unwrap_or(text);
        let (name, whose) = text.split_once('/').unwrap_or((text, actor));
        let all = self.deliveries(name);
        let own = all.iter().find(|(_, recipient)| recipient == whose).or(all.first());
        own.map_or(self.named(name).first, |(number, _)| *number)
    }

    /// `m1`, `m1#1`: the newest lease of a delivery, or the n-th it ever had. Token 0 if it never had one.
    pub(super) fn lease(&self, text: &str, number: DeliveryNo) -> LeaseRef {
        let leases = self.leases.get(&number).map_or(&[][..], Vec::as_slice);
        let token = match text.split_once('#') {
            Some((_, nth)) => leases.get(nth.parse::<usize>().expect("a number after #") - 1),
            None => leases.last(),
        };
        LeaseRef { delivery: id_of(number), token: token.copied().unwrap_or_default() }
    }

    /// What the message of an id is called.
    pub(super) fn name_of(&self, id: MessageId) -> &str {
        let found = self.messages.iter().find(|(_, named)| named.id == id);
        found.map_or("?", |(name, _)| name)
    }

    /// What a delivery is called, and whose it is.
    pub(super) fn called(&self, number: DeliveryNo) -> (&str, &str) {
        if let Some((name, whose)) = self.brought.get(&number) {
            return (name, whose);
        }
        let found = self.messages.iter().find_map(|(name, named)| Some((name, named.recipient(number)?)));
        found.map_or(("?", "?"), |(name, recipient)| (name.as_str(), recipient))
    }
}

/// The full id of a delivery: scripts do not restore.
pub(super) fn id_of(number: DeliveryNo) -> DeliveryId {
    DeliveryId { generation: Generation(0), number }
}
