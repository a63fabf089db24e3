//! Causation: the hop count, correlation id and budget that a message propagates to the messages it causes. Looking up
//! the causing message is up to the caller.

use crate::destination::Destination;
use crate::ids::{AgentId, ClientId, MessageId};
use crate::message::{Durability, Message};

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
    correlation: Option<String>,
    budget: Option<String>,
}

impl Cause {
    /// Extracts the inherited properties of a message.
    #[must_use]
    pub fn from_message(id: Option<MessageId>, message: &Message) -> Self {
        Self {
            id,
            client_id: message.client_id.clone(),
            from: message.from.clone(),
            to: message.to.clone(),
            reply_to: message.reply_to.clone(),
            hops: message.hops,
            correlation: message.correlation_id.clone(),
            budget: message.budget.clone(),
        }
    }

    /// Returns the caused message with the inherited properties filled in; `None` if it already has all of them. Idempotent:
    /// the result depends on the two messages only, so a retried message is identical to the first one.
    #[must_use]
    pub fn propagate_to(&self, message: &Message) -> Option<Message> {
        let hops = self.hops.saturating_add(1);
        let visible = self.is_visible_to(message.from.as_ref());
        let correlation = Some(message).filter(|message| visible && message.correlation_id.is_none());
        let correlation =
            correlation.and_then(|_| self.correlation.clone().or_else(|| self.correlation_id()));
        let inherits_budget =
            visible && message.budget.is_none() && message.durability == Durability::Durable;
        let budget = self.budget.clone().filter(|_| inherits_budget);
        if hops <= message.hops && correlation.is_none() && budget.is_none() {
            return None;
        }
        let mut caused = message.clone();
        caused.hops = caused.hops.max(hops);
        caused.correlation_id = caused.correlation_id.or(correlation);
        caused.budget = caused.budget.or(budget);
        Some(caused)
    }

    /// The correlation id of a chain that starts with this message: the client's id, which is the same within the sending
    /// commit and afterwards; otherwise the hub's id.
    fn correlation_id(&self) -> Option<String> {
        let client_id = self.client_id.as_ref().map(ToString::to_string);
        client_id.or_else(|| self.id.map(|id| id.to_string()))
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

impl Message {
    /// Ids of the message that may have caused this one: `causationId`, then `inReplyTo`.
    pub fn cause_ids(&self) -> impl Iterator<Item = &str> {
        let replied_to = self.in_reply_to.as_deref().filter(|id| Some(*id) != self.causation_id.as_deref());
        self.causation_id.as_deref().into_iter().chain(replied_to)
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

    // Fails under: a sender that lowers the hop count, or cannot raise it; an explicit correlation id or budget overwritten.
    #[test]
    fn d8_a_message_inherits_what_it_does_not_set() {
        let first = cause(|_| {});
        let caused = first.propagate_to(&message("bob", "alice")).expect("it inherits something");
        assert_eq!(
            (caused.hops, caused.correlation_id.as_deref(), caused.budget),
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
        let caused = cause.propagate_to(&own).expect("it inherits the budget");
        assert_eq!(
            (caused.hops, caused.correlation_id.as_deref(), caused.budget.as_deref()),
            (9, Some("c2"), Some("b1"))
        );
        assert_eq!(cause.propagate_to(&caused), None, "idempotent");
        own.hops = 0;
        own.budget = Some("b2".into());
        let caused = cause.propagate_to(&own).expect("it inherits the hop count");
        assert_eq!((caused.hops, caused.budget.as_deref()), (5, Some("b2")));
    }

    // Fails under: a third party that learns a correlation id; one whose hops are not counted.
    #[test]
    fn d8_a_third_party_inherits_only_the_hop_count() {
        let set_chain = |message: &mut Message| {
            message.correlation_id = Some("secret plan".into());
            message.budget = Some("b1".into());
        };
        let caused =
            cause(set_chain).propagate_to(&message("mallory", "alice")).expect("its hops are counted");
        assert_eq!((caused.hops, caused.correlation_id, caused.budget), (1, None, None));
        let broadcast = cause(|message| {
            set_chain(message);
            message.to = Destination::Broadcast;
        });
        let caused = broadcast.propagate_to(&message("carol", "alice")).expect("it inherits something");
        assert_eq!(caused.correlation_id.as_deref(), Some("secret plan"));
    }
}
