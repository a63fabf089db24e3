//! Causation: the hop count, hop limit, correlation id and budget that a message inherits from its causes. Looking up the
//! causes is up to the caller.

use std::sync::Arc;

use crate::destination::Destination;
use crate::ids::{AgentId, ClientId, MessageId};
use crate::limits::HOPS_DEFAULT;
use crate::message::{Durability, Message};
use crate::time::Timestamp;

/// The properties of a message that messages caused by it inherit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// `None` while it is in the same commit as the message it causes and has no id yet.
    id: Option<MessageId>,
    client_id: Option<ClientId>,
    from: Option<AgentId>,
    to: Destination,
    reply_to: Option<AgentId>,
    hops: u16,
    max_hops: Option<u16>,
    correlation: Option<String>,
    budget: Option<String>,
}

impl Cause {
    /// Extracts the inherited properties of a message.
    #[must_use]
    pub fn from_message(id: Option<MessageId>, message: &Message) -> Self {
        Self { to: message.to.clone(), ..Self::without_recipients(id, message) }
    }

    /// Like [`Cause::from_message`], but without the recipients. Only for a cause that is visible to the sender of the
    /// caused message, because its commit acks it.
    #[must_use]
    pub fn without_recipients(id: Option<MessageId>, message: &Message) -> Self {
        Self {
            id,
            client_id: message.client_id.clone(),
            from: message.from.clone(),
            to: Destination::Agents(Vec::new()),
            reply_to: message.reply_to.clone(),
            hops: message.hops,
            max_hops: message.max_hops,
            correlation: message.correlation_id.clone(),
            budget: message.budget.clone(),
        }
    }

    /// The client's id of the message.
    #[must_use]
    pub fn client_id(&self) -> Option<&ClientId> {
        self.client_id.as_ref()
    }

    /// The id of the chain: the correlation id, else the id of this message, which starts the chain. That is the client's
    /// id, which is the same within the sending commit and afterwards; otherwise the hub's id.
    fn chain(&self) -> Option<String> {
        let own = || {
            let client_id = self.client_id.as_ref().map(ToString::to_string);
            client_id.or_else(|| self.id.map(|id| id.to_string()))
        };
        self.correlation.clone().or_else(own)
    }

    /// Whether the agent is the sender or a recipient. Correlation id and budget are visible to those only: an agent that
    /// names someone else's message as its cause inherits just the hop count.
    fn is_visible_to(&self, agent: Option<&AgentId>) -> bool {
        // The hub and its operators see everything.
        let Some(agent) = agent else { return true };
        self.from.as_ref() == Some(agent)
            || self.reply_to.as_ref() == Some(agent)
            || !self.to.names_agents()
            || self.to.agents().contains(agent)
    }
}

/// The causes of a message.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'a> {
    /// The message that it names as its cause.
    pub named: Option<&'a Cause>,
    /// The messages whose deliveries its commit acks.
    pub acked: &'a [Arc<Cause>],
}

impl Causes<'_> {
    /// Fills in what the message inherits. Returns whether that changed the message. Idempotent: the result depends on
    /// the messages only, so a retried message is identical to the first one.
    ///
    /// The hop count is one more than the greatest of all causes, and the hop limit is that of the same cause.
    /// Correlation id and budget are those of the named cause, else of the acked message, if there is exactly one.
    pub fn propagate_to(&self, message: &mut Message) -> bool {
        let all = self.named.into_iter().chain(self.acked.iter().map(Arc::as_ref));
        let order = |cause: &&Cause| (cause.hops, std::cmp::Reverse(cause.max_hops.unwrap_or(HOPS_DEFAULT)));
        let Some(farthest) = all.max_by_key(order) else { return false };
        let named = self.named.filter(|cause| cause.is_visible_to(message.from.as_ref()));
        let acked = match self.acked {
            [only] => Some(only.as_ref()),
            _ => None,
        };
        let inherited = || named.into_iter().chain(acked);
        let before = (message.hops, message.max_hops);
        message.hops = message.hops.max(farthest.hops.saturating_add(1));
        message.max_hops = farthest.max_hops;
        let mut changed = before != (message.hops, message.max_hops);
        if message.correlation_id.is_none() {
            message.correlation_id = inherited().find_map(Cause::chain);
            changed |= message.correlation_id.is_some();
        }
        if message.budget.is_none() && message.durability == Durability::Durable {
            message.budget = inherited().find_map(|cause| cause.budget.clone());
            changed |= message.budget.is_some();
        }
        changed
    }
}

impl Message {
    /// Ids of the message that may have caused this one: `causationId`, then `inReplyTo`.
    pub fn cause_ids(&self) -> impl Iterator<Item = &str> {
        let replied_to = self.in_reply_to.as_deref().filter(|id| Some(*id) != self.causation_id.as_deref());
        self.causation_id.as_deref().into_iter().chain(replied_to)
    }

    /// Whether the message starts a new chain, whatever caused it: an agent sends it to itself with a delay, such as a
    /// timer that runs for months.
    #[must_use]
    pub fn starts_chain(&self, now: Timestamp) -> bool {
        self.is_delayed_to_self() && self.deliver_at.is_some_and(|due| due > now)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ids::{Generation, Seq};
    use crate::message::Payload;

    fn agent(name: &str) -> AgentId {
        AgentId::new(name).expect("a valid id")
    }

    fn message(from: &str, to: &str) -> Message {
        let payload = Payload::seal(Bytes::from_static(b"1"), [1; 16]);
        Message { from: Some(agent(from)), ..Message::new(Destination::Agent(agent(to)), "look", payload) }
    }

    fn cause(change: impl FnOnce(&mut Message)) -> Cause {
        let mut message = message("alice", "bob");
        change(&mut message);
        Cause::from_message(Some(MessageId { generation: Generation(0), seq: Seq(5), n: 0 }), &message)
    }

    /// Returns the message that the named cause and the acked messages lead to; `None` if it inherits nothing.
    fn caused(named: Option<&Cause>, acked: &[&Cause], message: &Message) -> Option<Message> {
        let acked: Vec<_> = acked.iter().map(|cause| Arc::new(Cause::clone(cause))).collect();
        let mut message = message.clone();
        Causes { named, acked: &acked }.propagate_to(&mut message).then_some(message)
    }

    // Fails under: a sender that lowers the hop count, or cannot raise it; an explicit correlation id or budget overwritten.
    #[test]
    fn d8_a_message_inherits_what_it_does_not_set() {
        let first = cause(|_| {});
        let second = caused(Some(&first), &[], &message("bob", "alice")).expect("it inherits something");
        assert_eq!(
            (second.hops, second.correlation_id.as_deref(), second.budget),
            (1, Some("msg_0-5-0"), None)
        );
        let cause = cause(|message| {
            message.hops = 4;
            message.correlation_id = Some("c1".into());
            message.budget = Some("b1".into());
        });
        let mut own = message("bob", "carol");
        own.hops = 9;
        own.correlation_id = Some("c2".into());
        let third = caused(Some(&cause), &[], &own).expect("it inherits the budget");
        assert_eq!(
            (third.hops, third.correlation_id.as_deref(), third.budget.as_deref()),
            (9, Some("c2"), Some("b1"))
        );
        assert_eq!(caused(Some(&cause), &[], &third), None, "idempotent");
        own.hops = 0;
        own.budget = Some("b2".into());
        let fourth = caused(Some(&cause), &[], &own).expect("it inherits the hop count");
        assert_eq!((fourth.hops, fourth.budget.as_deref()), (5, Some("b2")));
        assert_eq!(caused(None, &[], &own), None);
    }

    // Fails under: a third party that learns a correlation id; one whose hops are not counted.
    #[test]
    fn d8_a_third_party_inherits_only_the_hop_count() {
        let set_chain = |message: &mut Message| {
            message.correlation_id = Some("secret plan".into());
            message.budget = Some("b1".into());
        };
        let own = message("mallory", "alice");
        let second = caused(Some(&cause(set_chain)), &[], &own).expect("its hops are counted");
        assert_eq!((second.hops, second.correlation_id, second.budget), (1, None, None));
        let broadcast = cause(|message| {
            set_chain(message);
            message.to = Destination::Broadcast;
        });
        let second =
            caused(Some(&broadcast), &[], &message("carol", "alice")).expect("it inherits something");
        assert_eq!(second.correlation_id.as_deref(), Some("secret plan"));
    }

    // Fails under: the hops of one acked message only; a correlation id or budget chosen among several; the named cause
    // not preferred.
    #[test]
    fn d8_acked_messages_are_causes() {
        let one = cause(|message| {
            message.hops = 3;
            message.correlation_id = Some("c1".into());
            message.budget = Some("b1".into());
        });
        let other = cause(|message| message.hops = 7);
        let own = message("bob", "carol");
        let only = caused(None, &[&one], &own).expect("it is caused");
        assert_eq!(
            (only.hops, only.correlation_id.as_deref(), only.budget.as_deref()),
            (4, Some("c1"), Some("b1"))
        );
        let both = caused(None, &[&one, &other], &own).expect("it is caused");
        assert_eq!((both.hops, both.correlation_id, both.budget), (8, None, None));
        let named = caused(Some(&other), &[&one], &own).expect("it is caused");
        assert_eq!(
            (named.hops, named.correlation_id.as_deref(), named.budget.as_deref()),
            (8, Some("msg_0-5-0"), Some("b1"))
        );
    }

    // Fails under: a hop limit that a later message of the chain can change; the limit of another cause than the one
    // whose hops count.
    #[test]
    fn d8_the_first_message_of_a_chain_sets_its_hop_limit() {
        let long = cause(|message| (message.hops, message.max_hops) = (150, Some(200)));
        let plain = cause(|message| message.hops = 150);
        let short = cause(|message| (message.hops, message.max_hops) = (3, Some(5)));
        let own = Message { max_hops: Some(9_000), ..message("bob", "carol") };
        let limit_of = |acked: &[&Cause]| caused(None, acked, &own).expect("it is caused").max_hops;
        assert_eq!(limit_of(&[&long]), Some(200));
        assert_eq!(limit_of(&[&short, &long]), Some(200));
        assert_eq!((limit_of(&[&long, &plain]), limit_of(&[&plain, &long])), (None, None));
    }

    // Fails under: a timer whose chain never ends; a message to itself without a delay that is exempt.
    #[test]
    fn d8_only_a_delayed_message_to_oneself_starts_a_chain() {
        let at = |from: &str, to: &str, due: Option<u64>| {
            Message { deliver_at: due.map(Timestamp), ..message(from, to) }.starts_chain(Timestamp(5))
        };
        assert!(at("bob", "bob", Some(6)));
        assert!(!at("bob", "bob", Some(5)) && !at("bob", "bob", None) && !at("bob", "carol", Some(6)));
    }
}
