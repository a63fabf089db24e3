//! Resolves the relative references of a plan to commits against the current state.

use std::collections::BTreeSet;

use bytes::Bytes;
use quorate_core::{
    AgentId, AgentRegistry, ClientId, Commit, ConsumerId, DeleteEntry, DeliveryId, DeliveryNo, Epoch,
    ErasePayload, Extend, FenceRef, Generation, IdempotencyKey, Item, Key, LeaseRef, LeaseToken,
    LeasedDelivery, Message, Nack, NackAction, Op, OpResult, Payload, Principal, Priority, PutEntry, Receipt,
    RegisterAgent, RenewLocks, Seq, Timestamp, TokenId, Version, WaitMode,
};

use super::approvals::Digests;
use super::asking::Question;
use super::lease_reuse::Ends;
use super::plan::{AGENTS, Act, Do, Expect, KEYS, Lease, Letter, Named, Target, Then, Twist, Wait, Who};
use super::procedures::Versions;
use super::sessions::NAMES;
use super::tasks::TaskTold;
use super::topics::described;

/// Results of a space so far, which later steps refer to.
#[derive(Default)]
pub(super) struct Told {
    /// All leases, with their holders.
    leases: Vec<(usize, LeaseRef)>,
    /// All submitted commits with an idempotency key.
    pub(super) keyed: Vec<Commit>,
    /// All sent messages.
    pub(super) sent: Vec<(Seq, u32)>,
    /// All records with a payload.
    with_payload: Vec<Seq>,
    /// All epochs of each agent.
    epochs: [Vec<Epoch>; AGENTS.len()],
    last_token: u64,
    /// All granted fences, with their holders.
    pub(super) fences: Vec<(usize, FenceRef)>,
    pub(super) tasks: TaskTold,
    pub(super) ends: Ends,
    /// All requests.
    pub(super) asked: Vec<Question>,
    /// All created access tokens.
    tokens: Vec<TokenId>,
    procedures: Versions,
    approvals: Digests,
}

/// Current state of a space before a step.
pub(super) struct Sight {
    pub(super) now: Timestamp,
    /// Part of every idempotency key: a store may drop a key after a day, so keys are not reused later.
    pub(super) half_day: u64,
    pub(super) head: Seq,
    pub(super) agents: AgentRegistry,
    /// Current version of each entry; 0 if it does not exist.
    pub(super) versions: [u64; KEYS.len()],
    pub(super) dead: Vec<DeliveryNo>,
    pub(super) subscriptions: Vec<Item>,
    /// Tokens of current delivery leases.
    pub(super) held: BTreeSet<LeaseToken>,
    /// Tokens of current task leases.
    pub(super) held_tasks: BTreeSet<LeaseToken>,
}

impl Told {
    /// Records the results of a commit.
    pub(super) fn learn(&mut self, commit: &Commit, receipt: &Receipt) {
        if commit.ops.iter().any(|op| op.payloads().next().is_some()) {
            self.with_payload.extend(receipt.seq);
        }
        self.learn_asked(commit, receipt);
        self.ends.learn(commit);
        for (op, result) in commit.ops.iter().zip(&receipt.results) {
            self.tasks.learn(op, result);
            self.procedures.learn(op, result);
            self.approvals.learn(result);
            match (op, result) {
                (Op::Claim { agent, .. }, OpResult::Claimed(taken)) => {
                    let agent = AGENTS.iter().position(|name| *name == agent.as_str()).unwrap_or(0);
                    taken.iter().for_each(|one| self.hold(agent, one));
                }
                (Op::RegisterAgent(new), OpResult::Registered { epoch }) => {
                    let agent = AGENTS.iter().position(|name| *name == new.id.as_str()).unwrap_or(0);
                    self.epochs[agent].push(*epoch);
                }
                (Op::AcquireLocks(ask), OpResult::LocksGranted(locked)) => {
                    let agent = AGENTS.iter().position(|name| *name == ask.agent.as_str()).unwrap_or(0);
                    self.learn_locked(agent, locked);
                }
                (Op::Send { .. }, OpResult::Sent { id, .. }) => self.sent.push((id.seq, id.n)),
                (_, OpResult::TokenCreated { id, .. }) => self.tokens.push(*id),
                _ => {}
            }
        }
    }

    /// Records a delivery that was dispatched to a consumer.
    pub(super) fn learn_handed(&mut self, consumer: ConsumerId, handed: &LeasedDelivery) {
        self.hold((consumer.0 / SLOTS) as usize, handed);
    }

    /// Records a task that was dispatched to a consumer.
    pub(super) fn learn_told(&mut self, consumer: ConsumerId, event: &quorate_core::ConsumerEvent) {
        if let quorate_core::ConsumerEvent::TaskLeased(handed) = event {
            self.tasks.hold((consumer.0 / SLOTS) as usize, handed);
        }
    }

    fn hold(&mut self, agent: usize, handed: &LeasedDelivery) {
        let delivery = DeliveryId { generation: Generation(0), number: handed.delivery };
        self.leases.push((agent, LeaseRef { delivery, token: handed.token }));
        self.last_token = self.last_token.max(handed.token.0);
    }

    /// Returns the delivery that an agent leased last.
    pub(super) fn newest_lease(&self, agent: usize) -> Option<DeliveryId> {
        self.leases.iter().rev().find(|(holder, _)| *holder == agent).map(|(_, lease)| lease.delivery)
    }

    /// Resolves a commit.
    pub(super) fn commit(&self, act: &Act, view: &Sight) -> Commit {
        let mut ops: Vec<_> = act.ops.iter().map(|one| self.op(act.who, one, view)).collect();
        // An inspection must be the only operation of its commit.
        if ops.len() > 1 {
            ops.iter_mut().filter(|op| matches!(op, Op::Inspect(_))).for_each(|op| *op = Op::Sweep);
        }
        let principal = match act.who {
            Who::Hub => Principal::System,
            Who::Agent(agent) => Principal::Agent(id(agent)),
            Who::Holder(role) => super::tokens::holder(role),
        };
        let mut commit = Commit::new(principal, ops);
        if let Who::Agent(agent) = act.who {
            commit.epoch = self.epoch(agent, act.epoch, view);
        }
        match act.key {
            Some(key) => {
                let key = format!("k{key} of half day {}", view.half_day);
                commit.keyed(IdempotencyKey::new(key).expect("valid key"))
            }
            None => commit,
        }
    }

    pub(super) fn epoch(&self, agent: usize, named: Named, view: &Sight) -> Option<Epoch> {
        let current = view.agents.by_id(&id(agent)).map_or(Epoch(1), |agent| agent.epoch);
        match named {
            Named::Nothing => None,
            Named::Current => Some(current),
            Named::Earlier => Some(self.epochs[agent].iter().rev().nth(1).copied().unwrap_or(Epoch(1))),
            Named::Never => Some(Epoch(current.0 + 1)),
        }
    }

    fn op(&self, who: Who, operation: &Do, view: &Sight) -> Op {
        match operation {
            Do::Register { agent, epoch, shape } => {
                let epoch = self.epoch(*agent, *epoch, view);
                Op::RegisterAgent(RegisterAgent { epoch, ..described(*agent, *shape) })
            }
            Do::Remove { agent } => Op::RemoveAgent { agent: id(*agent) },
            Do::Send(spec) => Op::send(message(who, spec, view)),
            Do::Claim { agent, max, lease_ms, wait } => {
                let waiting = match wait {
                    Wait::No => WaitMode::NoWait,
                    Wait::Once(slot) => WaitMode::Once(consumer(*agent, *slot)),
                    Wait::Standing(slot) => WaitMode::Standing(consumer(*agent, *slot)),
                };
                Op::Claim { agent: id(*agent), max: *max, lease_ms: *lease_ms, waiting }
            }
            Do::Grant { agent, slot, credit } => {
                Op::GrantCredit { consumer: consumer(*agent, *slot), credit: *credit }
            }
            Do::Close { agent, slot } => Op::CloseConsumer { consumer: consumer(*agent, *slot) },
            Do::Ack(lease) => self.with_lease(who, *lease, view, Op::Ack),
            Do::Nack { lease, then, reason } => {
                let then = match then {
                    Then::Retry(delay_ms) => NackAction::Retry { delay_ms: *delay_ms },
                    Then::Release => NackAction::Release,
                    Then::Dead => NackAction::DeadLetter,
                };
                let reason = (*reason).into();
                self.with_lease(who, *lease, view, |lease| Op::Nack(Nack { lease, action: then, reason }))
            }
            Do::Extend { lease, ms } => {
                let extend = |lease| Op::Extend(Extend { lease, lease_ms: *ms });
                self.with_lease(who, *lease, view, extend)
            }
            Do::Resume { agent, ms } => Op::ResumeLeases { agent: id(*agent), lease_ms: *ms },
            Do::Redrive(target) => {
                let number = match target {
                    Target::Dead(back) => view.dead.iter().rev().cycle().nth(*back).copied(),
                    Target::Delivery(number) => Some(DeliveryNo(*number)),
                };
                let delivery = number.map(|number| DeliveryId { generation: Generation(0), number });
                delivery.map_or(Op::Sweep, |delivery| Op::Redrive { delivery })
            }
            Do::Purge { agent } => Op::Purge { agent: id(*agent) },
            Do::Put { key, expect, content, depends, under } => Op::Put(PutEntry {
                key: key_of(*key),
                entry_type: if content % 2 == 0 { "note".into() } else { "decision".into() },
                content: payload(&format!("{{\"content\":{content}}}")),
                content_type: (*content == 2).then(|| "text/plain".into()),
                expect: expected(*expect, view.versions[*key]),
                depends_on: depends.iter().map(|on| key_of(*on)).collect(),
                fence: under.and_then(|fenced| self.fences(who, fenced).pop()),
            }),
            Do::Delete { key, expect, under } => Op::Delete(DeleteEntry {
                key: key_of(*key),
                expect: expected(*expect, view.versions[*key]),
                fence: under.and_then(|fenced| self.fences(who, fenced).pop()),
            }),
            Do::Erase { back, part } => {
                let seq = self.with_payload.iter().rev().nth(*back).copied();
                let seq = seq.unwrap_or(Seq(view.head.0 + 1));
                Op::ErasePayload(ErasePayload { seq, part: *part })
            }
            Do::Sweep => Op::Sweep,
            Do::Lock(wanted) => self.acquire(wanted),
            Do::Renew { fenced, ttl_ms } => {
                Op::RenewLocks(RenewLocks { locks: self.fences(who, *fenced), ttl_ms: *ttl_ms })
            }
            Do::Budget(spend) => spend.op(),
            Do::Unlock(fenced) => Op::ReleaseLocks(self.fences(who, *fenced)),
            Do::Session(what) => what.op(),
            Do::Task(what) => self.tasks.op(who, what, &view.held_tasks),
            Do::Memory(what) => what.op(view),
            Do::Topical(topical) => topical.op(view, &self.sent),
            Do::AckMany(leases) => {
                let lease = |lease: &Lease| match self.with_lease(who, *lease, view, Op::Ack) {
                    Op::Ack(lease) => Some(lease),
                    _ => None,
                };
                let leases: Vec<_> = leases.iter().filter_map(lease).collect();
                if leases.is_empty() { Op::Sweep } else { Op::AckMany(leases) }
            }
            Do::Asking(asking) => asking.op(self, who, view),
            Do::Token(what) => what.op(&self.tokens, view),
            Do::Procedure(what) => what.op(&self.procedures),
            Do::Approval(what) => what.op(&self.approvals),
        }
    }

    /// Resolves an operation on a lease. An agent without leases claims instead, so that the plan makes progress.
    fn with_lease(&self, who: Who, lease: Lease, view: &Sight, op: impl FnOnce(LeaseRef) -> Op) -> Op {
        let mine = |holder: usize| !lease.own || !matches!(who, Who::Agent(agent) if agent != holder);
        let matches = |(holder, one): &&(usize, LeaseRef)| {
            mine(*holder) && (!lease.held || view.held.contains(&one.token))
        };
        let found = self.leases.iter().rev().filter(matches).nth(lease.back);
        let found = found.or_else(|| self.leases.iter().rev().find(matches));
        match (found, who) {
            (Some((_, found)), _) => op(self.with_defect(*found, lease.twist)),
            (None, Who::Hub | Who::Holder(_)) => Op::Sweep,
            (None, Who::Agent(agent)) => {
                Op::Claim { agent: id(agent), max: 3, lease_ms: 30_000, waiting: WaitMode::NoWait }
            }
        }
    }

    fn with_defect(&self, mut lease: LeaseRef, twist: Twist) -> LeaseRef {
        match twist {
            Twist::None => {}
            Twist::NextToken => lease.token = LeaseToken(self.last_token + 1),
            Twist::WrongToken => lease.token = LeaseToken(lease.token.0.saturating_sub(1)),
            Twist::OtherGeneration => lease.delivery.generation = Generation(1),
            Twist::NeverMade => lease.delivery.number = DeliveryNo(lease.delivery.number.0 + 1000),
        }
        lease
    }
}

/// Number of consumer slots per agent.
pub(super) const SLOTS: u64 = 12;

pub(super) fn consumer(agent: usize, slot: u64) -> ConsumerId {
    ConsumerId(agent as u64 * SLOTS + slot)
}

pub(super) fn id(agent: usize) -> AgentId {
    AgentId::new(AGENTS[agent]).expect("valid agent id")
}

pub(super) fn key_of(key: usize) -> Key {
    Key::new(KEYS[key]).expect("valid key")
}

pub(super) fn client_id(number: u8) -> ClientId {
    ClientId::new(format!("m{number}")).expect("valid client id")
}

pub(super) fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [9; 16])
}

pub(super) fn expected(expect: Expect, current: u64) -> Option<Version> {
    match expect {
        Expect::Anything => None,
        Expect::Nothing => Some(Version(0)),
        Expect::Current => Some(Version(current)),
        Expect::Older => Some(Version(current.saturating_sub(1))),
        Expect::Future => Some(Version(current + 1)),
    }
}

pub(super) fn message(who: Who, spec: &Letter, view: &Sight) -> Message {
    let from = match (who, spec.as_another) {
        (Who::Hub | Who::Holder(_), false) => None,
        (Who::Hub | Who::Holder(_), true) => Some(id(usize::from(spec.content))),
        (Who::Agent(agent), false) => Some(id(agent)),
        (Who::Agent(agent), true) => Some(id((agent + 1) % AGENTS.len())),
    };
    let after = |ms: i64| Timestamp(view.now.0.saturating_add_signed(ms));
    let payload = payload(&format!("{{\"letter\":{}}}", spec.content));
    let mut message = spec.chain.mark(Message {
        from,
        client_id: spec.client_id.map(client_id),
        priority: Priority { level: spec.level, rank: spec.rank },
        attempts_max: spec.tries,
        deliver_at: spec.after_ms.map(|ms| after(ms as i64)),
        expires_at: spec.expires_ms.map(after),
        session_id: spec.session.map(|name| NAMES[name].to_owned()),
        ..Message::new(spec.to.destination(), "work", payload)
    });
    spec.manner.put_on(&mut message);
    message
}
