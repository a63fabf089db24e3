//! History recorded by a client: each call before it is sent, each response, each delivery received. It contains
//! everything needed to repeat a call and to check its outcome afterwards.

mod locks;

use quorate_core::{
    AgentId, ClientId, Commit, DeliveryId, DeliveryNo, Destination, Generation, IdempotencyKey, Key,
    LeaseRef, LeaseToken, Message, Nack, NackAction, Op, OpResult, Principal, Priority, PutEntry, Receipt,
    Version, hash_chain,
};
use quorate_engine::{ReceivedDelivery, Space};
use serde::{Deserialize, Serialize};

pub use locks::LockOp;

/// One event of a history, in the order in which the client observed them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The store was opened at this head.
    Opened {
        /// Sequence number of the newest record.
        head: u64,
        /// Hash of that record.
        hash: String,
    },
    /// A call is about to be sent.
    Started(Call),
    /// The call was acknowledged.
    Done {
        /// Id of the call.
        call: String,
        /// Response of the hub.
        response: ResponseSummary,
    },
    /// The call was definitely refused: nothing was changed.
    Refused {
        /// Id of the call.
        call: String,
        /// Error code of the refusal.
        code: String,
    },
    /// The outcome of the call is unknown.
    Unknown {
        /// Id of the call.
        call: String,
    },
    /// A delivery was received.
    Received(ObservedDelivery),
    /// An acknowledged change was not visible immediately.
    NotVisible {
        /// Description of the change.
        change: String,
    },
    /// An entry was read.
    EntryRead {
        /// Key of the entry.
        key: String,
        /// Version found; 0 if there is none.
        version: u64,
        /// Digest of its content.
        digest: String,
        /// Newest version acknowledged before the read started.
        at_least: u64,
    },
}

/// A call, complete enough to be repeated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Unique id: used as the idempotency key, as the client id of the message, and inside every payload.
    pub id: String,
    /// Calling agent.
    pub by: String,
    /// Operation of the call.
    pub op: CallOp,
}

/// Operation of a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CallOp {
    /// Send a message.
    Send {
        /// Recipients.
        to: Vec<String>,
        /// Priority level.
        level: u8,
        /// Maximum number of attempts.
        attempts_max: u16,
        /// Bytes of padding.
        size: usize,
        /// Mechanism that makes a repeat idempotent.
        dedup: DedupBy,
    },
    /// Ack a delivery. Idempotent by its lease token, without a key.
    Ack {
        /// Delivery and lease token.
        lease: Lease,
        /// Whether the token is invalid or from an earlier lease; such a call must be refused.
        stale: bool,
    },
    /// Nack a delivery.
    Nack {
        /// Delivery and lease token.
        lease: Lease,
        /// Delay before redelivery in milliseconds; `None` moves it to the dead letters.
        retry_ms: Option<u64>,
    },
    /// Write an entry with compare-and-set.
    Put {
        /// Key of the entry.
        key: String,
        /// Expected current version.
        expect: u64,
        /// Bytes of padding.
        size: usize,
    },
    /// Ack, put and two sends in one atomic commit.
    Step {
        /// Delivery and lease token.
        lease: Lease,
        /// Key of the entry.
        key: String,
        /// Expected current version.
        expect: u64,
        /// Recipients of the two messages.
        to: [String; 2],
        /// Bytes of padding.
        size: usize,
    },
    /// Lock operation.
    Lock(LockOp),
}

/// Mechanism that makes a repeated send idempotent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DedupBy {
    /// Client id of the message.
    ClientId,
    /// An idempotency key.
    Key,
}

/// A delivery and its lease token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// Delivery number.
    pub delivery: u64,
    /// Lease token.
    pub token: u64,
}

impl Lease {
    /// Converts to the reference used by operations. These tests never restore a backup, so the generation is 0.
    #[must_use]
    pub fn to_ref(self) -> LeaseRef {
        let delivery = DeliveryId { generation: Generation(0), number: DeliveryNo(self.delivery) };
        LeaseRef { delivery, token: LeaseToken(self.token) }
    }
}

/// Parts of a response that must be the same when the call is repeated.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ResponseSummary {
    /// Sequence number of the record; absent in the response to a repeat without a key.
    pub seq: Option<u64>,
    /// Messages sent: id, first delivery, number of deliveries.
    pub sent: Vec<(String, u64, u32)>,
    /// Records that ended deliveries.
    pub acked: Vec<u64>,
    /// Versions written.
    pub versions: Vec<u64>,
    /// Locks granted, each with its fence.
    pub fences: Vec<(String, u64)>,
}

impl ResponseSummary {
    /// Extracts the response from a receipt.
    #[must_use]
    pub fn from_receipt(receipt: &Receipt) -> Self {
        let mut response = Self { seq: receipt.seq.map(|seq| seq.0), ..Self::default() };
        for result in &receipt.results {
            match result {
                OpResult::Sent { id, first, count } => response.sent.push((id.to_string(), first.0, *count)),
                OpResult::Acked { seq } => response.acked.push(seq.0),
                OpResult::Written { version } => response.versions.push(version.0),
                OpResult::LocksGranted(granted) => {
                    let fence = |fence: &quorate_core::FenceRef| (fence.lock.to_string(), fence.fence.0);
                    response.fences.extend(granted.locks.iter().map(fence));
                }
                OpResult::Done
                | OpResult::Received
                | OpResult::Registered { .. }
                | OpResult::Claimed(_)
                | OpResult::Purged { .. }
                | OpResult::Queued
                | OpResult::TasksCreated { .. }
                | OpResult::TasksClaimed(_)
                | OpResult::TaskAccepted { .. }
                | OpResult::Subscribed { .. }
                | OpResult::AckedMany { .. } => {}
                OpResult::SessionOpened { .. }
                | OpResult::ContributionAdded { .. }
                | OpResult::Inspected(_) => {}
                OpResult::SnapshotMade { .. }
                | OpResult::RolledBack { .. }
                | OpResult::TokenCreated { .. }
                | OpResult::ProcedureStarted { .. }
                | OpResult::ApprovalRequested { .. }
                | OpResult::ApprovalDecided { .. }
                | OpResult::ProcedureChanged { .. }
                | OpResult::ProcedureStepped { .. } => {}
                OpResult::Requested { id, first, count, .. } => {
                    response.sent.push((id.to_string(), first.0, *count));
                }
                OpResult::Replied { id, .. } => response.sent.push((id.to_string(), 0, 0)),
            }
        }
        response
    }

    /// Whether a repeat of the call got the same response. Only a keyed repeat returns the same sequence number.
    #[must_use]
    pub fn matches(&self, other: &Self, keyed: bool) -> bool {
        let same_seq = !keyed || self.seq == other.seq;
        let same_results =
            self.sent == other.sent && self.acked == other.acked && self.versions == other.versions;
        same_seq && same_results && self.fences == other.fences
    }
}

/// A delivery as received by its recipient.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObservedDelivery {
    /// Recipient.
    pub agent: String,
    /// Delivery and lease token.
    pub lease: Lease,
    /// Attempt number, starting at 1.
    pub attempt: u16,
    /// Message id.
    pub message: String,
    /// Sender.
    pub from: String,
    /// Id of the sending call and index of the payload, parsed from the payload.
    pub origin: (String, u32),
    /// Digest of the payload.
    pub digest: String,
}

impl ObservedDelivery {
    /// Creates the record of a delivery; `None` if it has no lease.
    #[must_use]
    pub fn from_delivery(agent: &str, delivery: &ReceivedDelivery) -> Option<Self> {
        let lease = delivery.lease?;
        let bytes = &delivery.message.payload.bytes;
        Some(Self {
            agent: agent.to_owned(),
            lease: Lease { delivery: lease.delivery.number.0, token: lease.token.0 },
            attempt: delivery.attempt,
            message: delivery.id.to_string(),
            from: delivery.message.from.as_ref().map_or(String::new(), AgentId::to_string),
            origin: parse_origin(bytes),
            digest: digest(bytes),
        })
    }
}

/// Builds a payload of a call. It contains the id of the call and padding unique to the payload, so that bytes of
/// another payload are detected.
#[must_use]
pub fn build_payload(call: &str, n: u32, size: usize) -> Vec<u8> {
    let mut text = format!("{{\"call\":\"{call}\",\"n\":{n},\"pad\":\"").into_bytes();
    let mut state =
        call.bytes().fold(u64::from(n), |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let end = text.len() + size;
    while text.len() < end {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Eight letters at a time, from the low four bits of each byte.
        let letters = (state >> 4 & 0x0f0f_0f0f_0f0f_0f0f) + u64::from_be_bytes([b'a'; 8]);
        text.extend_from_slice(&letters.to_be_bytes());
    }
    text.truncate(end);
    text.extend_from_slice(b"\"}");
    text
}

/// Parses the call id and index from a payload; empty if it contains none.
#[must_use]
pub fn parse_origin(payload: &[u8]) -> (String, u32) {
    #[derive(Deserialize)]
    struct Body {
        call: String,
        n: u32,
    }
    serde_json::from_slice::<Body>(payload).map_or((String::new(), 0), |body| (body.call, body.n))
}

/// Returns a digest of bytes as hexadecimal text.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    quorate_core::hex::encode(&hash_chain::part_digest(&[0; 16], bytes)[..8])
}

impl Call {
    /// Builds the commit of this call, which is the same each time.
    ///
    /// # Panics
    /// If the call contains an invalid name.
    #[must_use]
    pub fn commit(&self, space: &Space) -> Commit {
        let by = agent_id(&self.by);
        let ops = self.ops(space, &by);
        let commit = Commit::new(Principal::Agent(by), ops);
        if self.is_keyed() { commit.keyed(IdempotencyKey::new(&self.id).expect("valid key")) } else { commit }
    }

    /// Whether the call has an idempotency key.
    #[must_use]
    pub fn is_keyed(&self) -> bool {
        !matches!(self.op, CallOp::Ack { .. } | CallOp::Send { dedup: DedupBy::ClientId, .. })
    }

    /// Returns the payloads of the call, for messages and entries.
    #[must_use]
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        let (count, size) = match &self.op {
            CallOp::Send { size, .. }
            | CallOp::Put { size, .. }
            | CallOp::Lock(LockOp::Write { size, .. }) => (1, *size),
            CallOp::Step { size, .. } => (3, *size),
            CallOp::Ack { .. } | CallOp::Nack { .. } | CallOp::Lock(_) => (0, 0),
        };
        (0..count).map(|n| build_payload(&self.id, n, size)).collect()
    }

    /// Returns the recipients of the `n`-th payload, if that is a message.
    #[must_use]
    pub fn recipients(&self, n: u32) -> Vec<String> {
        match &self.op {
            CallOp::Send { to, .. } if n == 0 => to.clone(),
            CallOp::Step { to, .. } if n == 1 || n == 2 => vec![to[n as usize - 1].clone()],
            _ => Vec::new(),
        }
    }

    fn ops(&self, space: &Space, by: &AgentId) -> Vec<Op> {
        let mut payloads = self.payloads().into_iter().map(|body| space.seal(body));
        let mut next = || payloads.next().expect("one payload per operation");
        match &self.op {
            CallOp::Send { to, level, attempts_max, dedup, .. } => {
                let to = Destination::Agents(to.iter().map(|id| agent_id(id)).collect());
                let mut message = Message::new(to, "work", next());
                message.from = Some(by.clone());
                message.priority = Priority { level: *level, rank: 0 };
                message.attempts_max = *attempts_max;
                if *dedup == DedupBy::ClientId {
                    message.client_id = Some(ClientId::new(&self.id).expect("valid client id"));
                }
                vec![Op::send(message)]
            }
            CallOp::Ack { lease, .. } => vec![Op::Ack(lease.to_ref())],
            CallOp::Nack { lease, retry_ms } => {
                let action = retry_ms.map_or(NackAction::DeadLetter, |delay_ms| NackAction::Retry {
                    delay_ms: Some(delay_ms),
                });
                vec![Op::Nack(Nack { lease: lease.to_ref(), action, reason: self.id.clone() })]
            }
            CallOp::Put { key, expect, .. } => vec![Op::Put(put(key, *expect, next()))],
            CallOp::Lock(op) => vec![op.op(by, payloads.next())],
            CallOp::Step { lease, key, expect, to, .. } => {
                let mut ops = vec![Op::Ack(lease.to_ref()), Op::Put(put(key, *expect, next()))];
                for id in to {
                    let mut message = Message::new(Destination::Agent(agent_id(id)), "more", next());
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
        key: Key::new(key).expect("valid key"),
        entry_type: "note".into(),
        content,
        content_type: None,
        expect: Some(Version(expect)),
        depends_on: Vec::new(),
        fence: None,
    }
}

/// Returns the id of an agent.
///
/// # Panics
/// If the id is not valid for an agent.
#[must_use]
pub fn agent_id(id: &str) -> AgentId {
    AgentId::for_registration(id).expect("valid agent id")
}

/// Sends a call and returns its outcome.
pub async fn send_call(space: &Space, call: &Call) -> Event {
    let id = call.id.clone();
    match space.commit(call.commit(space)).await {
        Ok(receipt) => Event::Done { call: id, response: ResponseSummary::from_receipt(&receipt) },
        Err(error) if error.nothing_applied() => Event::Refused { call: id, code: error.code().to_string() },
        Err(_) => Event::Unknown { call: id },
    }
}

/// Returns the calls of a history with an unknown outcome, in the order in which they were started.
#[must_use]
pub fn unresolved_calls(history: &[Event]) -> Vec<Call> {
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
