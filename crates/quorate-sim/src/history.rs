//! What a client writes down: each call before it is made, each answer after it came, each delivery as it was received.
//! It holds everything that is needed to make a call again, and to check afterwards what became of it.

mod locks;

use quorate_core::{
    AgentId, ClientId, Commit, DeliveryId, DeliveryNo, Destination, Generation, IdempotencyKey, Key,
    LeaseRef, Message, Nack, NackThen, Op, OpResult, Principal, Priority, PutEntry, Receipt, Token, Version,
    chain,
};
use quorate_engine::{Delivery, Space};
use serde::{Deserialize, Serialize};

pub use locks::LockAct;

/// One line of a history. The order of the lines is the order in which the client saw things happen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The store was opened and stood here.
    Opened {
        /// Its newest record.
        head: u64,
        /// The chain up to there.
        hash: String,
    },
    /// A call is about to be made.
    Started(Call),
    /// It was acknowledged.
    Done {
        /// Which call.
        call: String,
        /// The answer.
        answer: Answer,
    },
    /// It was definitely refused: nothing was changed.
    Refused {
        /// Which call.
        call: String,
        /// The code of the refusal.
        code: String,
    },
    /// Whether it happened is unknown.
    Unknown {
        /// Which call.
        call: String,
    },
    /// A delivery was received.
    Received(Received),
    /// Something that was acknowledged could not be seen at once.
    Late {
        /// What.
        what: String,
    },
    /// An entry was read.
    Saw {
        /// Which entry.
        key: String,
        /// The version that was found; 0 = none.
        version: u64,
        /// The digest of its content.
        digest: String,
        /// The newest version that was acknowledged before the read began.
        at_least: u64,
    },
}

/// A call, whole enough to be made again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Its name: the idempotency key, the client's id of the message, and a part of every payload it brings.
    pub id: String,
    /// The agent that makes it.
    pub by: String,
    /// What it asks for.
    pub act: Act,
}

/// What a call asks for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Act {
    /// A message.
    Send {
        /// The recipients.
        to: Vec<String>,
        /// The level of its priority.
        level: u8,
        /// Its tries.
        tries: u16,
        /// Bytes of padding.
        size: usize,
        /// What makes it repeatable.
        once: Once,
    },
    /// Done with a delivery. Repeatable by its token, without a key.
    Ack {
        /// The delivery.
        lease: Lease,
        /// The token is made up or of an earlier lease: this must be refused.
        stale: bool,
    },
    /// Not done with a delivery.
    Nack {
        /// The delivery.
        lease: Lease,
        /// Back after so many milliseconds; `None` = to the dead letters.
        retry_ms: Option<u64>,
    },
    /// A write with compare and set.
    Put {
        /// Which entry.
        key: String,
        /// The version it must have.
        expect: u64,
        /// Bytes of padding.
        size: usize,
    },
    /// A whole step: ack, put and two sends, all or nothing.
    Step {
        /// The delivery.
        lease: Lease,
        /// Which entry.
        key: String,
        /// The version it must have.
        expect: u64,
        /// The recipients of the two messages.
        to: [String; 2],
        /// Bytes of padding.
        size: usize,
    },
    /// Something with locks.
    Lock(LockAct),
}

/// What makes a send repeatable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Once {
    /// The client's id of the message.
    ClientId,
    /// An idempotency key.
    Key,
}

/// A delivery and the token under which it is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// The number of the delivery.
    pub delivery: u64,
    /// The token.
    pub token: u64,
}

impl Lease {
    /// As the hub takes it. No test here restores a backup, so the generation is the first.
    #[must_use]
    pub fn to_ref(self) -> LeaseRef {
        let delivery = DeliveryId { generation: Generation(0), number: DeliveryNo(self.delivery) };
        LeaseRef { delivery, token: Token(self.token) }
    }
}

/// What a call was answered, as far as it must be the same when the call is repeated.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The record; a repetition without a key names none.
    pub seq: Option<u64>,
    /// The messages: id, first delivery, number of deliveries.
    pub sent: Vec<(String, u64, u32)>,
    /// The records that ended deliveries.
    pub acked: Vec<u64>,
    /// The versions written.
    pub versions: Vec<u64>,
    /// The locks that were given, each with its fence.
    pub fences: Vec<(String, u64)>,
}

impl Answer {
    /// The answer in a receipt.
    #[must_use]
    pub fn of(receipt: &Receipt) -> Self {
        let mut answer = Self { seq: receipt.seq.map(|seq| seq.0), ..Self::default() };
        for result in &receipt.results {
            match result {
                OpResult::Sent { id, first, count } => answer.sent.push((id.to_string(), first.0, *count)),
                OpResult::Acked { seq } => answer.acked.push(seq.0),
                OpResult::Written { version } => answer.versions.push(version.0),
                OpResult::Locked(locked) => {
                    let fence = |one: &quorate_core::FenceRef| (one.lock.to_string(), one.fence.0);
                    answer.fences.extend(locked.locks.iter().map(fence));
                }
                OpResult::Done
                | OpResult::Received
                | OpResult::Registered { .. }
                | OpResult::Claimed(_)
                | OpResult::Purged { .. }
                | OpResult::InLine
                | OpResult::TasksCreated { .. }
                | OpResult::TasksClaimed(_)
                | OpResult::TaskAccepted { .. }
                | OpResult::Subscribed { .. }
                | OpResult::AckedMany { .. } => {}
                OpResult::SessionOpened { .. } | OpResult::SessionAdded { .. } | OpResult::Inspected(_) => {}
                OpResult::SnapshotMade { .. }
                | OpResult::RolledBack { .. }
                | OpResult::TokenCreated { .. }
                | OpResult::ProcedureStarted { .. }
                | OpResult::ApprovalRequested { .. }
                | OpResult::ApprovalDecided { .. }
                | OpResult::ProcedureStepped { .. } => {}
                OpResult::Requested { id, first, count, .. } => {
                    answer.sent.push((id.to_string(), first.0, *count));
                }
                OpResult::Replied { id, .. } => answer.sent.push((id.to_string(), 0, 0)),
            }
        }
        answer
    }

    /// Whether a repetition of the call was answered the same. Only a key repeats the number of the record itself.
    #[must_use]
    pub fn same_as(&self, other: &Self, keyed: bool) -> bool {
        let seq = !keyed || self.seq == other.seq;
        let same = self.sent == other.sent && self.acked == other.acked && self.versions == other.versions;
        seq && same && self.fences == other.fences
    }
}

/// A delivery as its recipient saw it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Received {
    /// The recipient.
    pub agent: String,
    /// Delivery and token.
    pub lease: Lease,
    /// The how many-th try.
    pub attempt: u16,
    /// The message.
    pub message: String,
    /// Its sender.
    pub from: String,
    /// The call that sent it and which of its payloads it is, as the payload says.
    pub origin: (String, u32),
    /// The digest of the payload.
    pub digest: String,
}

impl Received {
    /// What a recipient writes down.
    #[must_use]
    pub fn of(agent: &str, delivery: &Delivery) -> Option<Self> {
        let lease = delivery.lease?;
        let bytes = &delivery.message.payload.bytes;
        Some(Self {
            agent: agent.to_owned(),
            lease: Lease { delivery: lease.delivery.number.0, token: lease.token.0 },
            attempt: delivery.attempt,
            message: delivery.id.to_string(),
            from: delivery.message.from.as_ref().map_or(String::new(), AgentId::to_string),
            origin: origin(bytes),
            digest: digest(bytes),
        })
    }
}

/// The payload that a call brings: it names the call, and the rest differs from payload to payload, so that bytes of
/// another one would show.
#[must_use]
pub fn body(call: &str, n: u32, size: usize) -> Vec<u8> {
    let mut text = format!("{{\"call\":\"{call}\",\"n\":{n},\"pad\":\"").into_bytes();
    let mut state =
        call.bytes().fold(u64::from(n), |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let end = text.len() + size;
    while text.len() < end {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Eight letters at a time: the low four bits of each byte.
        let letters = (state >> 4 & 0x0f0f_0f0f_0f0f_0f0f) + u64::from_be_bytes([b'a'; 8]);
        text.extend_from_slice(&letters.to_be_bytes());
    }
    text.truncate(end);
    text.extend_from_slice(b"\"}");
    text
}

/// The call that a payload names; empty if it names none.
#[must_use]
pub fn origin(payload: &[u8]) -> (String, u32) {
    #[derive(Deserialize)]
    struct Body {
        call: String,
        n: u32,
    }
    serde_json::from_slice::<Body>(payload).map_or((String::new(), 0), |body| (body.call, body.n))
}

/// A digest of bytes, as text.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    quorate_core::hex::encode(&chain::part_digest(&[0; 16], bytes)[..8])
}

impl Call {
    /// The commit that this call makes: the same one each time.
    ///
    /// # Panics
    /// When a name in it is not one that the hub takes.
    #[must_use]
    pub fn commit(&self, space: &Space) -> Commit {
        let by = agent(&self.by);
        let ops = self.ops(space, &by);
        let commit = Commit::new(Principal::Agent(by), ops);
        if self.is_keyed() {
            commit.keyed(IdempotencyKey::new(&self.id).expect("a short key"))
        } else {
            commit
        }
    }

    /// Whether it has an idempotency key.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        !matches!(self.act, Act::Ack { .. } | Act::Send { once: Once::ClientId, .. })
    }

    /// The payloads it brings, messages and entries.
    #[must_use]
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        let (count, size) = match &self.act {
            Act::Send { size, .. } | Act::Put { size, .. } | Act::Lock(LockAct::Write { size, .. }) => {
                (1, *size)
            }
            Act::Step { size, .. } => (3, *size),
            Act::Ack { .. } | Act::Nack { .. } | Act::Lock(_) => (0, 0),
        };
        (0..count).map(|n| body(&self.id, n, size)).collect()
    }

    /// Who gets its `n`-th payload, if that is a message.
    #[must_use]
    pub fn recipients(&self, n: u32) -> Vec<String> {
        match &self.act {
            Act::Send { to, .. } if n == 0 => to.clone(),
            Act::Step { to, .. } if n == 1 || n == 2 => vec![to[n as usize - 1].clone()],
            _ => Vec::new(),
        }
    }

    fn ops(&self, space: &Space, by: &AgentId) -> Vec<Op> {
        let mut payloads = self.bodies().into_iter().map(|body| space.seal(body));
        let mut next = || payloads.next().expect("as many payloads as operations");
        match &self.act {
            Act::Send { to, level, tries, once, .. } => {
                let to = Destination::Agents(to.iter().map(|id| agent(id)).collect());
                let mut message = Message::new(to, "work", next());
                message.from = Some(by.clone());
                message.priority = Priority { level: *level, rank: 0 };
                message.attempts_max = *tries;
                if *once == Once::ClientId {
                    message.client_id = Some(ClientId::new(&self.id).expect("a short id"));
                }
                vec![Op::send(message)]
            }
            Act::Ack { lease, .. } => vec![Op::Ack(lease.to_ref())],
            Act::Nack { lease, retry_ms } => {
                let then = retry_ms.map_or(NackThen::Dead, |delay_ms| NackThen::Retry { delay_ms });
                vec![Op::Nack(Nack { lease: lease.to_ref(), then, reason: self.id.clone() })]
            }
            Act::Put { key, expect, .. } => vec![Op::Put(put(key, *expect, next()))],
            Act::Lock(act) => vec![act.op(by, payloads.next())],
            Act::Step { lease, key, expect, to, .. } => {
                let mut ops = vec![Op::Ack(lease.to_ref()), Op::Put(put(key, *expect, next()))];
                for id in to {
                    let mut message = Message::new(Destination::Agent(agent(id)), "more", next());
                    message.from = Some(by.clone());
                    message.attempts_max = 100;
                    ops.push(Op::send(message));
                }
                ops
            }
        }
    }
}

fn put(key: &str, expect: u64, content: quorate_core::Payload) -> PutEntry {
    PutEntry {
        key: Key::new(key).expect("a short key"),
        entry_type: "note".into(),
        content,
        content_type: None,
        expect: Some(Version(expect)),
        depends_on: Vec::new(),
        fence: None,
    }
}

/// The agent of this name.
///
/// # Panics
/// When no agent may be called so.
#[must_use]
pub fn agent(id: &str) -> AgentId {
    AgentId::for_agent(id).expect("a name for an agent")
}

/// Makes a call and says how it ended.
pub async fn perform(space: &Space, call: &Call) -> Event {
    let id = call.id.clone();
    match space.commit(call.commit(space)).await {
        Ok(receipt) => Event::Done { call: id, answer: Answer::of(&receipt) },
        Err(error) if error.nothing_applied() => Event::Refused { call: id, code: error.code().to_string() },
        Err(_) => Event::Unknown { call: id },
    }
}

/// The calls of a history whose end nobody knows, in the order in which they were begun.
#[must_use]
pub fn unknown(history: &[Event]) -> Vec<Call> {
    let mut open: Vec<Call> = Vec::new();
    for event in history {
        match event {
            Event::Started(call) if open.iter().all(|other| other.id != call.id) => open.push(call.clone()),
            Event::Done { call, .. } | Event::Refused { call, .. } => open.retain(|other| other.id != *call),
            _ => {}
        }
    }
    open
}
