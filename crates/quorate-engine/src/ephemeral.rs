//! Ephemeral messages: held in memory only, delivered at most once, without a record or ack.

mod requests;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{
    AgentId, AgentNo, AgentRole, Code, Commit, Destination, Durability, Epoch, Message, MessageType, Op,
    PoolAccess, Principal, Refused, RoutedTo, RoutingContext, Timestamp,
};
use quorate_store::PublishedState;

use crate::error::Error;
use crate::mailboxes::{MessageRef, ReceivedDelivery};
use crate::space::Space;

pub(crate) use requests::EphemeralRequests;

/// Maximum number of ephemeral messages that are buffered for one recipient.
pub const EPHEMERAL_MESSAGES_MAX: usize = 1024;
/// Maximum number of payload bytes that are buffered for one recipient.
pub const EPHEMERAL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum number of ephemeral messages of one agent that are buffered for one recipient.
pub const EPHEMERAL_MESSAGES_PER_SENDER_MAX: usize = 256;
/// Maximum number of payload bytes of one agent that are buffered for one recipient.
pub const EPHEMERAL_BYTES_PER_SENDER_MAX: usize = 4 * 1024 * 1024;

/// Counters of one space. They are not shared, because their values would reveal the traffic of other spaces.
#[derive(Default)]
pub(crate) struct EphemeralCounters {
    /// Number of the last ephemeral message.
    last: AtomicU64,
    /// Round-robin counter among agents that could take an ephemeral message.
    turn: AtomicU64,
}

impl EphemeralCounters {
    /// Returns the number of a new ephemeral message, unique within its space while the hub runs.
    fn next_number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}

/// An ephemeral message.
#[derive(Clone, Debug)]
pub(crate) struct EphemeralMessage {
    pub(crate) number: u64,
    pub(crate) sent_at: Timestamp,
    pub(crate) message: Arc<Message>,
}

impl EphemeralMessage {
    pub(crate) fn into_delivery(self) -> ReceivedDelivery {
        ReceivedDelivery {
            lease: None,
            lease_ms: 0,
            attempt: 1,
            id: MessageRef::Ephemeral(self.number),
            sent_at: self.sent_at,
            message: self.message,
        }
    }
}

/// Number and size of messages.
#[derive(Clone, Copy, Default)]
struct Amount {
    messages: usize,
    bytes: usize,
}

impl Amount {
    fn fits(self, bytes: usize, messages_max: usize, bytes_max: usize) -> bool {
        self.messages < messages_max && self.bytes + bytes <= bytes_max
    }
}

/// Ephemeral messages in a buffer, in total and per sender: no agent can use up the buffer of another one. The hub and
/// principals that are not agents have no share.
#[derive(Default)]
struct BufferUsage {
    total: Amount,
    by_sender: HashMap<AgentId, Amount>,
}

impl BufferUsage {
    /// Whether there is capacity for the message.
    fn check(&self, message: &EphemeralMessage) -> Result<(), Full> {
        let bytes = message.message.payload.bytes.len();
        if !self.total.fits(bytes, EPHEMERAL_MESSAGES_MAX, EPHEMERAL_BYTES_MAX) {
            return Err(Full::Buffer);
        }
        let share = message.message.from.as_ref().and_then(|from| self.by_sender.get(from));
        let (messages_max, bytes_max) = (EPHEMERAL_MESSAGES_PER_SENDER_MAX, EPHEMERAL_BYTES_PER_SENDER_MAX);
        match share.copied().unwrap_or_default().fits(bytes, messages_max, bytes_max) {
            false if message.message.from.is_some() => Err(Full::Share),
            _ => Ok(()),
        }
    }

    fn add(&mut self, message: &EphemeralMessage) {
        let bytes = message.message.payload.bytes.len();
        let share = message.message.from.clone().map(|from| self.by_sender.entry(from).or_default());
        for amount in std::iter::once(&mut self.total).chain(share) {
            amount.messages += 1;
            amount.bytes += bytes;
        }
    }

    fn remove(&mut self, message: &EphemeralMessage) {
        let bytes = message.message.payload.bytes.len();
        self.total.messages -= 1;
        self.total.bytes -= bytes;
        let Some(from) = &message.message.from else { return };
        if let Some(share) = self.by_sender.get_mut(from) {
            share.messages -= 1;
            share.bytes -= bytes;
            if share.messages == 0 {
                self.by_sender.remove(from);
            }
        }
    }
}

/// Why a buffer has no capacity for a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// The buffer is full.
    Buffer,
    /// The sender has used its share.
    Share,
}

impl Full {
    /// Creates the refusal.
    pub(crate) fn refusal(self) -> Refused {
        let (detail, limit) = match self {
            Self::Buffer => {
                ("the buffer for ephemeral messages of the recipient is full", EPHEMERAL_MESSAGES_MAX)
            }
            Self::Share => (
                "the sender has used its share of the buffer for ephemeral messages of the recipient",
                EPHEMERAL_MESSAGES_PER_SENDER_MAX,
            ),
        };
        Refused::new(Code::QueueFull, detail)
            .limit(limit as u64)
            .hint("send a durable message, or retry when the recipient is connected")
    }
}

/// Ephemeral messages in a mailbox. A consumer that does not read its messages gets no more capacity than an agent without
/// a consumer.
#[derive(Default)]
pub(crate) struct MailboxUsage(Mutex<BufferUsage>);

impl MailboxUsage {
    fn lock(&self) -> MutexGuard<'_, BufferUsage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is capacity for the message.
    pub(crate) fn check(&self, message: &EphemeralMessage) -> Result<(), Full> {
        self.lock().check(message)
    }
}

/// Ephemeral message in a mailbox. Releases its capacity when it is taken or dropped.
pub(crate) struct QueuedEphemeral {
    message: EphemeralMessage,
    usage: Arc<MailboxUsage>,
}

impl QueuedEphemeral {
    pub(crate) fn new(message: EphemeralMessage, usage: &Arc<MailboxUsage>) -> Self {
        usage.lock().add(&message);
        Self { message, usage: Arc::clone(usage) }
    }

    pub(crate) fn take(self) -> EphemeralMessage {
        self.message.clone()
    }
}

impl Drop for QueuedEphemeral {
    fn drop(&mut self) {
        self.usage.lock().remove(&self.message);
    }
}

/// Buffer of ephemeral messages for an agent that has no consumer yet.
#[derive(Default)]
pub(crate) struct EphemeralBuffer {
    messages: VecDeque<EphemeralMessage>,
    usage: BufferUsage,
}

impl EphemeralBuffer {
    /// Whether there is capacity for the message.
    pub(crate) fn check(&self, message: &EphemeralMessage) -> Result<(), Full> {
        self.usage.check(message)
    }

    /// Appends a message. The caller checks the capacity.
    pub(crate) fn put(&mut self, message: EphemeralMessage) {
        self.usage.add(&message);
        self.messages.push_back(message);
    }

    /// Returns a message to the front. Its capacity was reserved when it was taken.
    pub(crate) fn put_back(&mut self, message: EphemeralMessage) {
        self.usage.add(&message);
        self.messages.push_front(message);
    }

    pub(crate) fn take(&mut self) -> Option<EphemeralMessage> {
        let message = self.messages.pop_front()?;
        self.usage.remove(&message);
        Some(message)
    }
}

impl Space {
    /// Sends an ephemeral message. It is checked against the published state, without the writer.
    ///
    /// # Errors
    /// The refusal.
    pub async fn send_ephemeral(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
    ) -> Result<MessageRef, Error> {
        let Some(message) = self.extract_message_flag(principal, message).await? else {
            return Ok(MessageRef::Flag);
        };
        Ok(self.record_violation(principal, self.send_now(principal, epoch, message))?)
    }

    fn send_now(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
    ) -> Result<MessageRef, Refused> {
        let admitted = self.admit_ephemeral(principal, epoch, message)?;
        let number = admitted.message.number;
        match answered_request(&admitted.message.message) {
            // A late or unsolicited answer is dropped.
            Some(request) => self.mailboxes().requests.answer(request, self.number(), admitted),
            None => self.deliver_ephemeral(admitted)?,
        }
        Ok(MessageRef::Ephemeral(number))
    }

    /// Performs all checks before a message is delivered.
    pub(crate) fn admit_ephemeral(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
    ) -> Result<Admitted, Refused> {
        let published = self.published();
        let policy = &published.policy.policy;
        let op = Op::send(Message { durability: Durability::Ephemeral, ..message });
        principal.check_allowed(&op)?;
        let commit = Commit::new(principal.clone(), vec![op]);
        let commit = self.engine().admission.admit_ephemeral(commit, policy)?;
        let Some(Op::Send { message, .. }) = commit.ops.into_iter().next() else {
            return Err(Refused::new(Code::Invalid, "the commit contains no message"));
        };
        message.check_hops()?;
        if message.budget.is_some() {
            return Err(Refused::new(Code::Invalid, "an ephemeral message cannot have a budget")
                .hint("send a durable message, or omit the budget"));
        }
        check_sender(&published, principal, epoch, &message)?;
        policy.check_size(message.payload.bytes.len())?;
        policy.check_required_fields(&message)?;
        let routing = RoutingContext { agents: &published.agents, topics: &published.topics, policy };
        let routed = routing.route(message.from.as_ref(), &message.to)?;
        let from = message.from.as_ref().and_then(|from| published.agents.number(from));
        let sent_at = self.engine().clock.now().wall;
        if let (Destination::Broadcast, Some(sender)) = (&message.to, from) {
            self.engine().violations.count_broadcast(self.number(), sender, policy, sent_at)?;
        }
        let to = match routed {
            RoutedTo::Agents(agents) if message.to.names_agents() => EphemeralTarget::All(agents),
            RoutedTo::Agents(agents) => EphemeralTarget::Any(agents),
            RoutedTo::AnyCapable { capability, access } => {
                EphemeralTarget::One(capable_agents(&published, capability.as_str(), access))
            }
        };
        let number = self.ephemeral_counters().next_number();
        Ok(Admitted { from, to, message: EphemeralMessage { number, sent_at, message } })
    }

    pub(crate) fn deliver_ephemeral(&self, admitted: Admitted) -> Result<(), Refused> {
        let Admitted { to, message, .. } = admitted;
        match to {
            EphemeralTarget::All(agents) => {
                self.mailboxes().deliver_to_all(self.number(), &agents, &message)?
            }
            EphemeralTarget::Any(agents) => self.mailboxes().deliver_to_any(self.number(), &agents, &message),
            EphemeralTarget::One(capable) => {
                let to = message.message.to.to_string();
                let turn = self.ephemeral_counters().next_turn();
                if !self.mailboxes().deliver_to_one(self.number(), &capable, turn, message) {
                    return Err(Refused::new(Code::Unavailable, format!("no agent is connected for {to}"))
                        .hint("send a durable message, which waits for an agent with the capability"));
                }
            }
        }
        Ok(())
    }
}

/// Message that passed all checks.
pub(crate) struct Admitted {
    /// Sender; `None` for the hub.
    pub(crate) from: Option<AgentNo>,
    pub(crate) to: EphemeralTarget,
    pub(crate) message: EphemeralMessage,
}

/// Recipients of an ephemeral message.
pub(crate) enum EphemeralTarget {
    /// All of these agents, or none.
    All(Vec<AgentNo>),
    /// Those of these agents that have capacity.
    Any(Vec<AgentNo>),
    /// One of these agents that has a consumer.
    One(Vec<AgentNo>),
}

/// Returns the ephemeral request that a message answers.
fn answered_request(message: &Message) -> Option<u64> {
    if message.kind != MessageType::Response {
        return None;
    }
    message.in_reply_to.as_ref()?.strip_prefix("eph_")?.parse().ok()
}

/// Checks the sender: a registered agent in its current epoch that sends as itself, or a principal that is allowed to
/// send as any registered agent.
fn check_sender(
    published: &PublishedState,
    principal: &Principal,
    epoch: Option<Epoch>,
    message: &Message,
) -> Result<(), Refused> {
    let registered = |agent: &AgentId| {
        let missing =
            || Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first");
        published.agents.by_id(agent).ok_or_else(missing)
    };
    let actor = match principal {
        Principal::Agent(actor) => actor,
        Principal::System | Principal::Holder { .. } => {
            return message.from.as_ref().map_or(Ok(()), |from| registered(from).map(drop));
        }
    };
    let agent = registered(actor)?;
    if epoch.is_some_and(|epoch| epoch != agent.epoch) {
        return Err(Refused::new(
            Code::StaleEpoch,
            format!("stale epoch: agent {actor} has registered again"),
        ));
    }
    if message.from.as_ref() != Some(actor) {
        return Err(Refused::new(
            Code::Forbidden,
            format!("agent {actor} is not allowed to send as another agent"),
        )
        .hint("omit `from`: the sender is the agent that owns the access token"));
    }
    Ok(())
}

/// Returns the agents that have a capability and are allowed to take the message.
fn capable_agents(published: &PublishedState, capability: &str, access: PoolAccess) -> Vec<AgentNo> {
    let is_coordinator = |number: &AgentNo| {
        published.agents.get(*number).is_some_and(|agent| agent.role == AgentRole::Coordinator)
    };
    let capable = published.agents.capable(capability).iter().copied();
    capable.filter(|number| access == PoolAccess::AnyCapable || is_coordinator(number)).collect()
}
