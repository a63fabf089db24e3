//! What a message hands on to the messages that it leads to: how long their chain is, which chain it is, and of which
//! budget it spends. Where a cause is found is not said here.

use crate::destination::Destination;
use crate::ids::{AgentId, ClientId, MessageId};
use crate::message::{Durability, Message};

/// A message as the cause of others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// Its id; `None` while it is in the same commit as what it leads to, and has none yet.
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
    /// What a message hands on.
    #[must_use]
    pub fn of(id: Option<MessageId>, message: &Message) -> Self {
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

    /// The message that it leads to, with what it takes over; `None` if it says all of that itself. Said twice, it is the
    /// same: what is taken over follows from the two messages alone, so that whoever repeats a message repeats it whole.
    #[must_use]
    pub fn led_to(&self, message: &Message) -> Option<Message> {
        let hops = self.hops.saturating_add(1);
        let theirs = self.is_between(message.from.as_ref());
        let chain = Some(message).filter(|message| theirs && message.correlation_id.is_none());
        let chain = chain.and_then(|_| self.correlation.clone().or_else(|| self.name()));
        let spends = theirs && message.budget.is_none() && message.durability == Durability::Durable;
        let budget = self.budget.clone().filter(|_| spends);
        if hops <= message.hops && chain.is_none() && budget.is_none() {
            return None;
        }
        let mut led = message.clone();
        led.hops = led.hops.max(hops);
        led.correlation_id = led.correlation_id.or(chain);
        led.budget = led.budget.or(budget);
        Some(led)
    }

    /// What the chain is called that it begins: as its client calls it, so that the name is the same in the commit that
    /// sends it and later, else by the hub's id.
    fn name(&self) -> Option<String> {
        let theirs = self.client_id.as_ref().map(ToString::to_string);
        theirs.or_else(|| self.id.map(|id| id.to_string()))
    }

    /// Whether it was said by or to somebody. What others call their conversation, and what it spends of, is theirs: a
    /// stranger who names their message is told nothing of it, and is counted all the same.
    fn is_between(&self, agent: Option<&AgentId>) -> bool {
        // The hub, and those who run it, see everything.
        let Some(agent) = agent else { return true };
        self.from.as_ref() == Some(agent)
            || self.reply_to.as_ref() == Some(agent)
            || !self.to.is_by_name()
            || self.to.agents().contains(agent)
    }
}

impl Message {
    /// The names of the message that led to this one, the likelier first: what caused it, and what it answers.
    pub fn causes(&self) -> impl Iterator<Item = &str> {
        let answered = self.in_reply_to.as_deref().filter(|id| Some(*id) != self.causation_id.as_deref());
        self.causation_id.as_deref().into_iter().chain(answered)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ids::{Generation, Seq};
    use crate::message::Payload;

    fn agent(name: &str) -> AgentId {
        AgentId::new(name).expect("a good id")
    }

    fn message(from: &str, to: &str) -> Message {
        let payload = Payload::seal(Bytes::from_static(b"1"), [1; 16]);
        Message { from: Some(agent(from)), ..Message::new(Destination::Agent(agent(to)), "look", payload) }
    }

    fn cause(change: impl FnOnce(&mut Message)) -> Cause {
        let mut message = message("alice", "bob");
        change(&mut message);
        Cause::of(Some(MessageId { generation: Generation(0), seq: Seq(5), n: 0 }), &message)
    }

    // Fails under: hops that the sender may say lower, or not higher; a chain or a budget of its own not kept.
    #[test]
    fn d8_a_message_takes_over_what_it_does_not_say_itself() {
        let began = cause(|_| {});
        let led = began.led_to(&message("bob", "alice")).expect("it takes something over");
        assert_eq!((led.hops, led.correlation_id.as_deref(), led.budget), (1, Some("msg_0-5-0"), None));
        let cause = cause(|message| {
            message.hops = 4;
            message.correlation_id = Some("c1".into());
            message.budget = Some("b1".into());
        });
        let mut own = message("bob", "carol");
        own.hops = 9;
        own.correlation_id = Some("c2".into());
        let led = cause.led_to(&own).expect("it takes the budget over");
        assert_eq!(
            (led.hops, led.correlation_id.as_deref(), led.budget.as_deref()),
            (9, Some("c2"), Some("b1"))
        );
        assert_eq!(cause.led_to(&led), None, "said twice, it is the same");
        own.hops = 0;
        own.budget = Some("b2".into());
        let led = cause.led_to(&own).expect("it takes the hops over");
        assert_eq!((led.hops, led.budget.as_deref()), (5, Some("b2")));
    }

    // Fails under: a stranger who learns what others call their conversation; one who is not counted.
    #[test]
    fn d8_a_stranger_takes_over_the_hops_only() {
        let named = |message: &mut Message| {
            message.correlation_id = Some("secret plan".into());
            message.budget = Some("b1".into());
        };
        let led = cause(named).led_to(&message("mallory", "alice")).expect("it is counted");
        assert_eq!((led.hops, led.correlation_id, led.budget), (1, None, None));
        let asked = cause(|message| {
            named(message);
            message.to = Destination::Everybody;
        });
        let led = asked.led_to(&message("carol", "alice")).expect("it takes something over");
        assert_eq!(led.correlation_id.as_deref(), Some("secret plan"));
    }
}
