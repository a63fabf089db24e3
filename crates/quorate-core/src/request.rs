//! Requests: messages whose sender waits for the answer.

use std::sync::Arc;

use crate::codec::fingerprint;
use crate::commit::Fingerprint;
use crate::ids::{AgentNo, ConsumerId, DeliveryNo, MessageId, Seq};
use crate::item::{Alarm, Keep};
use crate::limits::{REQUEST_COMMAND_MS, REQUEST_MS_MAX, REQUEST_QUERY_MS, REQUEST_SEVERAL_MS};
use crate::message::{Message, MessageType};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};

/// Asks: `request`. The message is sent as any other, and somebody waits for the answer.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The question. Without a correlation id it gets its own id as such; it expires when the wait ends.
    pub message: Arc<Message>,
    /// By what it is known if it is asked again.
    pub fingerprint: Fingerprint,
    /// How long to wait; `None` is by its type.
    pub timeout_ms: Option<u64>,
    /// Who is told what comes of it, if anybody is there to listen.
    pub waiting: Option<ConsumerId>,
    /// The question that this one repeats, since no answer came in time: asking again is not going round in a circle.
    pub again: Option<MessageId>,
}

impl Ask {
    /// A question; computes the fingerprint if it bears a client's id.
    #[must_use]
    pub fn new(message: Message, timeout_ms: Option<u64>, waiting: Option<ConsumerId>) -> Self {
        let fingerprint = Fingerprint::new(&message, fingerprint::of_question);
        Self { message: Arc::new(message), fingerprint, timeout_ms, waiting, again: None }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.message.check()?;
        let invalid = |what: &str, hint: &str| Err(Refused::new(Code::Invalid, what).hint(hint));
        match self.message.kind {
            MessageType::Command | MessageType::Query => {}
            MessageType::Event | MessageType::Response => {
                return invalid("nobody answers an event or a response", "ask with a command or a query");
            }
        }
        if self.message.from.is_none() {
            return invalid("the hub itself cannot be answered", "ask in the name of an agent");
        }
        if self.message.deliver_at.is_some() {
            return invalid("a request cannot wait before it is sent", "ask when it is time, or send it");
        }
        match self.timeout_ms {
            Some(ms) if !(1..=REQUEST_MS_MAX).contains(&ms) => {
                Err(Refused::new(Code::Invalid, format!("a request that waits for {ms} ms"))
                    .limit(REQUEST_MS_MAX)
                    .hint(format!("wait for 1 to {REQUEST_MS_MAX} ms")))
            }
            _ => Ok(()),
        }
    }

    /// How long it waits for this many recipients.
    #[must_use]
    pub fn length_ms(&self, recipients: usize) -> u64 {
        self.timeout_ms.unwrap_or_else(|| Self::length_by_type(&self.message, recipients))
    }

    /// How long a question waits if nobody says otherwise: a command 30 s, a query 5 s, several recipients 1 s.
    #[must_use]
    pub fn length_by_type(message: &Message, recipients: usize) -> u64 {
        match message.kind {
            _ if recipients > 1 => REQUEST_SEVERAL_MS,
            MessageType::Query => REQUEST_QUERY_MS,
            MessageType::Command | MessageType::Event | MessageType::Response => REQUEST_COMMAND_MS,
        }
    }
}

/// A message whose sender waits, or waited, for the answer. Of several recipients each may answer once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The id of the question, which is also the id of the request.
    pub id: MessageId,
    /// Who asked.
    pub from: AgentNo,
    /// Who else may be the addressee of the answer.
    pub reply_to: Option<AgentNo>,
    /// The conversation.
    pub correlation: String,
    /// How long it waits, by the monotonic clock.
    pub length_ms: u64,
    /// The first delivery of the question; the others follow in the order of `asked`.
    pub first: DeliveryNo,
    /// Who was asked, and what came of it.
    pub asked: Vec<Asked>,
    /// Where it stands.
    pub state: RequestState,
}

/// One of those who were asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Who: an agent, or a pool from which one takes the question; with the agent that answered it.
    pub to: Recipient,
    /// What came of it.
    pub reply: Reply,
}

/// What came of asking one agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing yet.
    Open,
    /// The accepted answer: which message of which record.
    Answered {
        /// The record.
        seq: Seq,
        /// Which message of it.
        n: u32,
    },
    /// Nothing will come: the delivery was given up or withdrawn.
    Lost,
}

/// Where a request stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestState {
    /// Answers are accepted.
    Waiting,
    /// Everybody who can answer did.
    Answered,
    /// The time was over first.
    TimedOut,
    /// Whoever asked wants no answer any more.
    Cancelled,
    /// No answer can come.
    Failed {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        reason: String,
    },
}

impl RequestState {
    /// The word in exports.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Answered => "answered",
            Self::TimedOut => "timed out",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }
}

impl Request {
    /// Whether answers are accepted.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == RequestState::Waiting
    }

    /// Whether an answer to this agent is one to the request: it asked, or the answer was to go to it.
    pub(crate) fn is_answered_to(&self, agent: AgentNo) -> bool {
        agent == self.from || Some(agent) == self.reply_to
    }

    pub(crate) fn keep(&self) -> Keep {
        if self.is_open() { Keep::AtHand } else { Keep::Stored }
    }

    pub(crate) fn alarms(&self) -> Vec<Alarm> {
        if self.is_open() { vec![Alarm::After { part: 0, length_ms: self.length_ms }] } else { Vec::new() }
    }

    /// The accepted answers, in the order of those who were asked.
    pub fn answers(&self) -> impl Iterator<Item = (Seq, u32)> {
        self.asked.iter().filter_map(|one| match one.reply {
            Reply::Answered { seq, n } => Some((seq, n)),
            Reply::Open | Reply::Lost => None,
        })
    }

    /// Those who were asked and did not answer.
    pub fn missing(&self) -> impl Iterator<Item = Recipient> {
        let silent = self.asked.iter().filter(|one| !matches!(one.reply, Reply::Answered { .. }));
        silent.map(|one| one.to)
    }

    /// Which of those who were asked this delivery is for.
    pub(crate) fn index_of(&self, delivery: DeliveryNo) -> Option<usize> {
        let index = usize::try_from(delivery.0.checked_sub(self.first.0)?).ok()?;
        (index < self.asked.len()).then_some(index)
    }

    /// The same request with another answer to one of its questions, and over if nothing more can come.
    pub(crate) fn with(mut self, index: usize, reply: Reply) -> Self {
        self.asked[index].reply = reply;
        if self.asked.iter().all(|one| one.reply != Reply::Open) && self.answers().next().is_some() {
            self.state = RequestState::Answered;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::destination::Destination;
    use crate::ids::AgentId;
    use crate::message::Payload;
    use crate::time::Timestamp;

    fn question(change: impl FnOnce(&mut Message), timeout_ms: Option<u64>) -> Result<(), Refused> {
        let bob = AgentId::new("bob").expect("a good id");
        let payload = Payload::seal(Bytes::from_static(b"1"), [1; 16]);
        let mut message = Message::new(Destination::Agent(bob.clone()), "look", payload);
        message.from = Some(bob);
        change(&mut message);
        Ask::new(message, timeout_ms, None).check()
    }

    // Fails under: an event that is asked; a question of nobody's; one that begins later; no limit of the wait.
    #[test]
    fn d5_a_question_is_a_command_or_a_query_now_and_for_a_day_at_most() {
        assert!(question(|_| {}, None).is_ok());
        assert!(question(|message| message.kind = MessageType::Query, Some(REQUEST_MS_MAX)).is_ok());
        let refused = [
            question(|message| message.kind = MessageType::Event, None),
            question(|message| message.kind = MessageType::Response, None),
            question(|message| message.from = None, None),
            question(|message| message.deliver_at = Some(Timestamp(1)), None),
            question(|_| {}, Some(0)),
            question(|_| {}, Some(REQUEST_MS_MAX + 1)),
        ];
        for outcome in refused {
            let refused = outcome.expect_err("it is refused");
            assert!(refused.code == Code::Invalid && !refused.hint.is_empty(), "{refused}");
        }
    }
}
