//! Messages that live in memory only: at most once, no record, nothing to ack.

mod asked;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quorate_core::{
    AgentId, AgentNo, Code, Commit, Destination, Durability, Epoch, Map, Message, MessageType, Op, Principal,
    Reach, Refused, Role, Takers, Timestamp,
};
use quorate_store::Published;

use crate::error::Error;
use crate::post::{Delivery, MessageRef};
use crate::space::Space;

pub(crate) use asked::Questions;

/// Messages that may lie on one shelf.
const SHELF_MAX: usize = 1024;
/// Bytes of payload that may lie on one shelf.
const SHELF_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message that lives in memory only.
#[derive(Clone, Debug)]
pub(crate) struct Ephemeral {
    pub(crate) number: u64,
    pub(crate) sent_at: Timestamp,
    pub(crate) message: Arc<Message>,
}

impl Ephemeral {
    pub(crate) fn into_delivery(self) -> Delivery {
        Delivery {
            lease: None,
            lease_ms: 0,
            attempt: 1,
            id: MessageRef::Ephemeral(self.number),
            sent_at: self.sent_at,
            message: self.message,
        }
    }
}

/// How much of ephemeral messages lies in a mailbox. Whoever listens and does not take them gets no more than who does
/// not listen.
#[derive(Default)]
pub(crate) struct Untaken {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Untaken {
    /// Whether there is room for one more.
    pub(crate) fn has_room(&self, message: &Ephemeral) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed) + message.message.payload.bytes.len();
        self.messages.load(Ordering::Relaxed) < SHELF_MAX && bytes <= SHELF_BYTES_MAX
    }
}

/// An ephemeral message in a mailbox; it makes room when it is taken or dropped.
pub(crate) struct Posted {
    message: Ephemeral,
    lies_in: Arc<Untaken>,
}

impl Posted {
    pub(crate) fn new(message: Ephemeral, lies_in: &Arc<Untaken>) -> Self {
        lies_in.messages.fetch_add(1, Ordering::Relaxed);
        lies_in.bytes.fetch_add(message.message.payload.bytes.len(), Ordering::Relaxed);
        Self { message, lies_in: Arc::clone(lies_in) }
    }

    pub(crate) fn take(self) -> Ephemeral {
        self.message.clone()
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        self.lies_in.messages.fetch_sub(1, Ordering::Relaxed);
        self.lies_in.bytes.fetch_sub(self.message.message.payload.bytes.len(), Ordering::Relaxed);
    }
}

/// Ephemeral messages for an agent that nobody listens for yet.
#[derive(Default)]
pub(crate) struct Shelf {
    messages: VecDeque<Ephemeral>,
    bytes: usize,
}

/// Nobody takes what lies on a shelf.
pub(crate) fn no_room() -> Refused {
    Refused::new(Code::QueueFull, "nobody takes the recipient's ephemeral messages")
        .limit(SHELF_MAX as u64)
        .hint("send it as a durable message, or wait until the recipient is there")
}

impl Shelf {
    /// Whether there is room for one more.
    pub(crate) fn has_room(&self, message: &Ephemeral) -> bool {
        let bytes = self.bytes + message.message.payload.bytes.len();
        self.messages.len() < SHELF_MAX && bytes <= SHELF_BYTES_MAX
    }

    /// Puts a message where there is room for it.
    pub(crate) fn put(&mut self, message: Ephemeral) {
        self.bytes += message.message.payload.bytes.len();
        self.messages.push_back(message);
    }

    /// Puts back what was taken, before everything else. There is room: it lay here, or was promised to who took it.
    pub(crate) fn put_back(&mut self, message: Ephemeral) {
        self.bytes += message.message.payload.bytes.len();
        self.messages.push_front(message);
    }

    pub(crate) fn take(&mut self) -> Option<Ephemeral> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.message.payload.bytes.len();
        Some(message)
    }
}

impl Space {
    /// Sends an ephemeral message: decided here, against the published state, without the writer.
    ///
    /// # Errors
    /// The refusal.
    pub async fn send_ephemeral(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
    ) -> Result<MessageRef, Error> {
        let Some(message) = self.set_message_aside(principal, message).await? else {
            return Ok(MessageRef::Flag);
        };
        Ok(self.noting(principal, self.send_now(principal, epoch, message))?)
    }

    fn send_now(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
    ) -> Result<MessageRef, Refused> {
        let admitted = self.admit_ephemeral(principal, epoch, message)?;
        let number = admitted.letter.number;
        match question_of(&admitted.letter.message) {
            // Too late, or not asked: nobody waits for it, and it is no news to anybody.
            Some(question) => self.post().questions.answer(question, self.number(), admitted),
            None => self.deliver_ephemeral(admitted)?,
        }
        Ok(MessageRef::Ephemeral(number))
    }

    /// Everything that a message must pass before it is delivered.
    pub(crate) fn admit_ephemeral(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        message: Message,
    ) -> Result<Admitted, Refused> {
        let published = self.published();
        let rules = &published.policy.rules;
        let op = Op::send(Message { durability: Durability::Ephemeral, ..message });
        principal.check_right(&op)?;
        let commit = Commit::new(principal.clone(), vec![op]);
        let commit = self.engine().door.admit_ephemeral(commit, rules)?;
        let Some(Op::Send { message, .. }) = commit.ops.into_iter().next() else {
            return Err(Refused::new(Code::Invalid, "no message"));
        };
        message.check_hops()?;
        if message.budget.is_some() {
            return Err(Refused::new(Code::Invalid, "an ephemeral message spends of no budget")
                .hint("make it durable, or leave the budget out"));
        }
        check_sender(&published, principal, epoch, &message)?;
        rules.check_size(message.payload.bytes.len())?;
        rules.check_shape(&message)?;
        let map = Map { agents: &published.agents, topics: &published.topics, policy: rules };
        let reach = map.reach(message.from.as_ref(), &message.to)?;
        let from = message.from.as_ref().and_then(|from| published.agents.number(from));
        let sent_at = self.engine().clock.now().wall;
        if let (Destination::Everybody, Some(sender)) = (&message.to, from) {
            self.engine().guard.broadcast(self.number(), sender, rules, sent_at)?;
        }
        let to = match reach {
            Reach::Agents(agents) if message.to.is_by_name() => To::All(agents),
            Reach::Agents(agents) => To::Any(agents),
            Reach::One { capability, takers } => To::One(able(&published, capability.as_str(), takers)),
        };
        let number = self.engine().next_ephemeral();
        Ok(Admitted { from, to, letter: Ephemeral { number, sent_at, message } })
    }

    pub(crate) fn deliver_ephemeral(&self, admitted: Admitted) -> Result<(), Refused> {
        let Admitted { to, letter, .. } = admitted;
        match to {
            To::All(agents) => self.post().deliver_to_all(self.number(), &agents, &letter)?,
            To::Any(agents) => self.post().deliver_to_any(self.number(), &agents, &letter),
            To::One(able) => {
                let to = letter.message.to.to_string();
                if !self.post().deliver_to_one(self.number(), &able, letter) {
                    return Err(Refused::new(Code::Unavailable, format!("nobody listens for {to}"))
                        .hint("send it as a durable message: then it waits for one who can"));
                }
            }
        }
        Ok(())
    }
}

/// A message that may be delivered.
pub(crate) struct Admitted {
    /// Who sends it; `None` is the hub.
    pub(crate) from: Option<AgentNo>,
    pub(crate) to: To,
    pub(crate) letter: Ephemeral,
}

/// Who gets an ephemeral message.
pub(crate) enum To {
    /// Every one of them, or nobody.
    All(Vec<AgentNo>),
    /// Those of them for whom there is room.
    Any(Vec<AgentNo>),
    /// One of them who listens.
    One(Vec<AgentNo>),
}

/// The ephemeral question that a message answers.
fn question_of(message: &Message) -> Option<u64> {
    if message.kind != MessageType::Response {
        return None;
    }
    message.in_reply_to.as_ref()?.strip_prefix("eph_")?.parse().ok()
}

/// An agent that is known, under its current epoch, and sends as itself; or whoever may send as any agent that is known.
fn check_sender(
    published: &Published,
    principal: &Principal,
    epoch: Option<Epoch>,
    message: &Message,
) -> Result<(), Refused> {
    let known = |agent: &AgentId| {
        let missing =
            || Refused::new(Code::NotFound, format!("there is no agent {agent}")).hint("register it first");
        published.agents.by_id(agent).ok_or_else(missing)
    };
    let actor = match principal {
        Principal::Agent(actor) => actor,
        Principal::System | Principal::Holder { .. } => {
            return message.from.as_ref().map_or(Ok(()), |from| known(from).map(drop));
        }
    };
    let known = known(actor)?;
    if epoch.is_some_and(|epoch| epoch != known.epoch) {
        return Err(Refused::new(Code::StaleEpoch, format!("agent {actor} was started again")));
    }
    if message.from.as_ref() != Some(actor) {
        return Err(Refused::new(Code::Forbidden, format!("agent {actor} may not send as another"))
            .hint("leave from out: a message is from the agent whose token sends it"));
    }
    Ok(())
}

/// The agents that can do something and may take it.
fn able(published: &Published, capability: &str, takers: Takers) -> Vec<AgentNo> {
    let leads =
        |number: &AgentNo| published.agents.get(*number).is_some_and(|agent| agent.role == Role::Coordinator);
    let able = published.agents.capable(capability).iter().copied();
    able.filter(|number| takers == Takers::Anybody || leads(number)).collect()
}
