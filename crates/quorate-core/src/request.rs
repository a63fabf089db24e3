//! Requests: messages whose sender waits for replies.

use std::sync::Arc;

use crate::codec::fingerprint;
use crate::commit::Fingerprint;
use crate::ids::{AgentNo, ClientId, ConsumerId, DeliveryNo, MessageId, Seq};
use crate::item::{ItemTimer, Retention};
use crate::limits::{
    REQUEST_COMMAND_MS_DEFAULT, REQUEST_MS_MAX, REQUEST_MULTI_MS_DEFAULT, REQUEST_QUERY_MS_DEFAULT,
};
use crate::message::{Message, MessageType};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};

/// Which agents may answer a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AnswerFrom {
    /// The recipients, and those to which they delegate the answer along the chain.
    #[default]
    Chain,
    /// Only the recipients.
    Asked,
}

crate::text_serde::serde_names!(AnswerFrom);

impl AnswerFrom {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Chain, Self::Asked];

    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Asked => "asked",
        }
    }
}

/// `request`: sends a message and waits for the replies.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// The request message. Its correlation id defaults to its own id; it expires when the wait ends.
    pub message: Arc<Message>,
    /// Fingerprint that identifies an idempotent replay.
    pub fingerprint: Fingerprint,
    /// Timeout; `None` uses the default of the message type.
    pub timeout_ms: Option<u64>,
    /// The consumer to notify of the outcome, if any.
    pub consumer: Option<ConsumerId>,
    /// The timed-out request that this one retries. Exempts the retry from loop detection.
    pub retry_of: Option<MessageId>,
    /// Which agents may answer.
    pub answer_from: AnswerFrom,
}

impl SendRequest {
    /// Creates a request; computes the fingerprint if the message has a client id.
    #[must_use]
    pub fn new(message: Message, timeout_ms: Option<u64>, consumer: Option<ConsumerId>) -> Self {
        let fingerprint = Fingerprint::new(&message, fingerprint::of_request_message);
        Self {
            message: Arc::new(message),
            fingerprint,
            timeout_ms,
            consumer,
            retry_of: None,
            answer_from: AnswerFrom::default(),
        }
    }

    /// Returns this request with another message: a rewritten one. The fingerprint is recomputed.
    #[must_use]
    pub fn with_message(&self, message: Message) -> Self {
        Self {
            retry_of: self.retry_of,
            answer_from: self.answer_from,
            ..Self::new(message, self.timeout_ms, self.consumer)
        }
    }

    /// Returns the request to send as the retry with this number, starting at 1. It has a client id and a fingerprint of
    /// its own, so that the recipient receives it.
    #[must_use]
    pub fn for_retry(&self, retries: u32, retry_of: Option<MessageId>) -> Self {
        let mut message = Message::clone(&self.message);
        // Without a client id if the first one is too long for a suffix.
        let client_id = message.client_id.and_then(|id| ClientId::new(format!("{id}.retry{retries}")).ok());
        message.client_id = client_id;
        Self { retry_of, ..self.with_message(message) }
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.message.check()?;
        let invalid = |detail: &str, hint: &str| Err(Refused::new(Code::Invalid, detail).hint(hint));
        match self.message.kind {
            MessageType::Command | MessageType::Query => {}
            MessageType::Event | MessageType::Response => {
                return invalid("a request cannot be an event or a response", "use type command or query");
            }
        }
        if self.message.from.is_none() {
            return invalid("the hub cannot send requests", "send the request as an agent");
        }
        if self.message.deliver_at.is_some() {
            return invalid(
                "a request cannot have deliverAt",
                "omit deliverAt, or send a message instead of a request",
            );
        }
        match self.timeout_ms {
            Some(ms) if !(1..=REQUEST_MS_MAX).contains(&ms) => {
                Err(Refused::new(Code::Invalid, format!("invalid timeout: {ms} ms"))
                    .limit(REQUEST_MS_MAX)
                    .hint(format!("use 1 to {REQUEST_MS_MAX} ms")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the effective timeout for this number of recipients.
    #[must_use]
    pub fn effective_timeout_ms(&self, recipients: usize) -> u64 {
        self.timeout_ms.unwrap_or_else(|| Self::default_timeout_ms(&self.message, recipients))
    }

    /// Returns the default timeout: 30 s for a command, 5 s for a query, 1 s for several recipients.
    #[must_use]
    pub fn default_timeout_ms(message: &Message, recipients: usize) -> u64 {
        match message.kind {
            _ if recipients > 1 => REQUEST_MULTI_MS_DEFAULT,
            MessageType::Query => REQUEST_QUERY_MS_DEFAULT,
            MessageType::Command | MessageType::Event | MessageType::Response => REQUEST_COMMAND_MS_DEFAULT,
        }
    }
}

/// The state of a request. Each recipient may reply once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Id of the request message and of the request.
    pub id: MessageId,
    /// The requester.
    pub from: AgentNo,
    /// Another agent that replies may be addressed to.
    pub reply_to: Option<AgentNo>,
    /// Correlation id.
    pub correlation: String,
    /// Timeout, by the monotonic clock.
    pub timeout_ms: u64,
    /// First delivery of the message; the others follow in the order of `recipients`.
    pub first_delivery: DeliveryNo,
    /// Recipients with the outcome of each.
    pub recipients: Vec<RecipientOutcome>,
    /// Which agents may answer.
    pub answer_from: AnswerFrom,
    /// The agents and pools to which recipients delegated the answer; at most
    /// [`REQUEST_DELEGATES_MAX`](crate::limits::REQUEST_DELEGATES_MAX).
    pub delegates: Vec<Delegate>,
    /// Deliveries of messages with which the answer was delegated; they end with the request. Ended ones are removed with the
    /// next one; at most [`REQUEST_DELEGATES_MAX`](crate::limits::REQUEST_DELEGATES_MAX) are open.
    pub delegated: Vec<DelegatedDelivery>,
    /// Current state.
    pub state: RequestState,
}

/// An agent or pool that may answer a request in place of a recipient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delegate {
    /// The agent or pool.
    pub recipient: Recipient,
    /// Index of the recipient in whose place it answers.
    pub index: u32,
}

/// A delivery of a message with which the answer to a request was delegated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelegatedDelivery {
    /// The delivery.
    pub delivery: DeliveryNo,
    /// Index of the recipient in whose place it is answered.
    pub index: u32,
}

/// A recipient of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecipientOutcome {
    /// An agent, or a pool together with the agent that replied.
    pub recipient: Recipient,
    /// Outcome for this recipient.
    pub reply: ReplyState,
}

/// The outcome of a request for one recipient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyState {
    /// No reply yet.
    Pending,
    /// A reply was accepted.
    Answered {
        /// The record that contains the reply.
        seq: Seq,
        /// Index of the message within the record.
        n: u32,
    },
    /// No reply can arrive: the delivery was dead-lettered or withdrawn.
    Lost,
}

/// The state of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestState {
    /// Accepts replies.
    Waiting,
    /// All recipients that can reply have replied.
    Answered,
    /// Timed out.
    TimedOut,
    /// Cancelled by the requester.
    Cancelled,
    /// Failed: no reply can arrive.
    Failed {
        /// Machine-readable reason.
        code: Code,
        /// Human-readable reason.
        reason: String,
    },
}

impl RequestState {
    /// The name in exports.
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

    /// The code with which it ended without an answer.
    fn end_code(&self) -> Option<Code> {
        match self {
            Self::Waiting | Self::Answered => None,
            Self::TimedOut => Some(Code::Timeout),
            Self::Cancelled => Some(Code::Cancelled),
            Self::Failed { code, .. } => Some(*code),
        }
    }
}

impl Request {
    /// Whether it accepts replies.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == RequestState::Waiting
    }

    /// Whether a reply addressed to this agent belongs to the request: it is the requester or the `reply_to` agent.
    pub(crate) fn accepts_reply_to(&self, agent: AgentNo) -> bool {
        agent == self.from || Some(agent) == self.reply_to
    }

    pub(crate) fn retention(&self) -> Retention {
        if self.is_open() { Retention::InMemory } else { Retention::RowOnly }
    }

    pub(crate) fn timers(&self) -> Vec<ItemTimer> {
        if self.is_open() {
            vec![ItemTimer::After { part: 0, length_ms: self.timeout_ms }]
        } else {
            Vec::new()
        }
    }

    /// The accepted replies, in the order of the recipients.
    pub fn replies(&self) -> impl Iterator<Item = (Seq, u32)> {
        self.recipients.iter().filter_map(|outcome| match outcome.reply {
            ReplyState::Answered { seq, n } => Some((seq, n)),
            ReplyState::Pending | ReplyState::Lost => None,
        })
    }

    /// The recipients that have not replied.
    pub fn missing(&self) -> impl Iterator<Item = Recipient> {
        let unanswered =
            self.recipients.iter().filter(|outcome| !matches!(outcome.reply, ReplyState::Answered { .. }));
        unanswered.map(|outcome| outcome.recipient)
    }

    /// The agents and pools to which this recipient delegated its answer.
    pub(crate) fn delegates_of(&self, index: usize) -> impl Iterator<Item = Recipient> {
        let delegates = self.delegates.iter().filter(move |delegate| delegate.index as usize == index);
        delegates.map(|delegate| delegate.recipient)
    }

    /// Returns the deliveries with which an outstanding answer was delegated.
    pub(crate) fn outstanding_delegated(&self) -> impl Iterator<Item = DeliveryNo> {
        let is_outstanding = |delegated: &&DelegatedDelivery| {
            let outcome = self.recipients.get(delegated.index as usize);
            outcome.is_some_and(|outcome| outcome.reply == ReplyState::Pending)
        };
        self.delegated.iter().filter(is_outstanding).map(|delegated| delegated.delivery)
    }

    /// Returns the code with which the request ended one of its own deliveries.
    pub(crate) fn end_of(&self, delivery: DeliveryNo) -> Option<Code> {
        match self.recipients[self.index_of(delivery)?].reply {
            ReplyState::Answered { .. } => Some(Code::Conflict),
            ReplyState::Pending => self.state.end_code(),
            ReplyState::Lost => None,
        }
    }

    /// Returns the code with which the request ended a delegated delivery.
    pub(crate) fn end_of_delegated(&self, delivery: DeliveryNo) -> Option<Code> {
        self.outstanding_delegated().any(|ended| ended == delivery).then(|| self.state.end_code()).flatten()
    }

    /// The index of the recipient of this delivery.
    pub(crate) fn index_of(&self, delivery: DeliveryNo) -> Option<usize> {
        let index = usize::try_from(delivery.0.checked_sub(self.first_delivery.0)?).ok()?;
        (index < self.recipients.len()).then_some(index)
    }

    /// Sets the outcome of one recipient, and ends the request if no further reply can arrive.
    pub(crate) fn with_reply(mut self, index: usize, reply: ReplyState) -> Self {
        self.recipients[index].reply = reply;
        if self.recipients.iter().all(|outcome| outcome.reply != ReplyState::Pending)
            && self.replies().next().is_some()
        {
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

    fn check(change: impl FnOnce(&mut Message), timeout_ms: Option<u64>) -> Result<(), Refused> {
        let bob = AgentId::new("bob").expect("a valid id");
        let payload = Payload::seal(Bytes::from_static(b"1"), [1; 16]);
        let mut message = Message::new(Destination::Agent(bob.clone()), "look", payload);
        message.from = Some(bob);
        change(&mut message);
        SendRequest::new(message, timeout_ms, None).check()
    }

    // Fails under: an event, a request from the hub, a scheduled request, or an unlimited timeout accepted.
    #[test]
    fn d5_a_request_is_an_unscheduled_command_or_query_with_a_limited_timeout() {
        assert!(check(|_| {}, None).is_ok());
        assert!(check(|message| message.kind = MessageType::Query, Some(REQUEST_MS_MAX)).is_ok());
        let refused = [
            check(|message| message.kind = MessageType::Event, None),
            check(|message| message.kind = MessageType::Response, None),
            check(|message| message.from = None, None),
            check(|message| message.deliver_at = Some(Timestamp(1)), None),
            check(|_| {}, Some(0)),
            check(|_| {}, Some(REQUEST_MS_MAX + 1)),
        ];
        for outcome in refused {
            let refused = outcome.expect_err("it is refused");
            assert!(refused.code == Code::Invalid && !refused.hint.is_empty(), "{refused}");
        }
    }
}
