//! Resolves the relative references of a plan to commits against the current state.

use std::collections::BTreeSet;

use bytes::Bytes;
use quorate_core::{
    AgentId, AgentRegistry, ClientId, Commit, ConsumerId, DeleteEntry, DeliveryId, DeliveryNo, Epoch,
    ErasePayload, Extend, FenceRef, Generation, IdempotencyKey, Item, Key, LeaseRef, LeaseToken,
    LeasedDelivery, Message, Nack, NackAction, Op, OpResult, Payload, Principal, Priority, PutEntry, Receipt,
    RegisterAgent, RenewLocks, Seq, Timestamp, Version, WaitMode,
};

use super::approvals::ApprovalDigests;
use super::lease_reuse::EndedLeases;
use super::plan::{
    AGENTS, Actor, KEYS, LeaseDefect, LeaseSelector, MessageSpec, NackChoice, PlannedCommit, PlannedOp,
    RedriveTarget, StatedEpoch, VersionChoice, WaitChoice,
};
use super::procedures::ProcedureVersions;
use super::requests::SentRequest;
use super::sessions::SESSION_IDS;
use super::tasks::SeenTasks;
use super::tokens::CreatedTokens;
use super::topics::registration;

/// Results of a space so far, which later steps refer to.
#[derive(Default)]
pub(super) struct SeenResults {
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
    pub(super) tasks: SeenTasks,
    pub(super) ended_leases: EndedLeases,
    /// All requests.
    pub(super) requests: Vec<SentRequest>,
    /// All created access tokens.
    tokens: CreatedTokens,
    procedures: ProcedureVersions,
    approvals: ApprovalDigests,
}

/// Current state of a space before a step.
pub(super) struct SpaceView {
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

impl SeenResults {
    /// Records the results of a commit.
    pub(super) fn record(&mut self, commit: &Commit, receipt: &Receipt) {
        if commit.ops.iter().any(|op| op.payloads().next().is_some()) {
            self.with_payload.extend(receipt.seq);
        }
        self.record_requests(commit, receipt);
        self.ended_leases.record(commit);
        for (op, result) in commit.ops.iter().zip(&receipt.results) {
            self.tasks.record(op, result);
            self.procedures.record(op, result);
            self.approvals.record(result);
            match (op, result) {
                (Op::Claim { agent, .. }, OpResult::Claimed(deliveries)) => {
                    let agent = AGENTS.iter().position(|name| *name == agent.as_str()).unwrap_or(0);
                    deliveries.iter().for_each(|delivery| self.hold(agent, delivery));
                }
                (Op::RegisterAgent(new), OpResult::Registered { epoch }) => {
                    let agent = AGENTS.iter().position(|name| *name == new.id.as_str()).unwrap_or(0);
                    self.epochs[agent].push(*epoch);
                }
                (Op::AcquireLocks(request), OpResult::LocksGranted(granted)) => {
                    let agent = AGENTS.iter().position(|name| *name == request.agent.as_str()).unwrap_or(0);
                    self.record_locks(agent, granted);
                }
                (Op::Send { .. }, OpResult::Sent { id, .. }) => self.sent.push((id.seq, id.n)),
                (op, OpResult::TokenCreated { id, .. }) => self.tokens.record(op, *id),
                _ => {}
            }
        }
    }

    /// Records a delivery that was dispatched to a consumer.
    pub(super) fn record_delivery(&mut self, consumer: ConsumerId, delivery: &LeasedDelivery) {
        self.hold((consumer.0 / SLOTS) as usize, delivery);
    }

    /// Records a task that was dispatched to a consumer.
    pub(super) fn record_task_event(&mut self, consumer: ConsumerId, event: &quorate_core::ConsumerEvent) {
        if let quorate_core::ConsumerEvent::TaskLeased(task) = event {
            self.tasks.record_lease((consumer.0 / SLOTS) as usize, task);
        }
    }

    fn hold(&mut self, agent: usize, leased: &LeasedDelivery) {
        let delivery = DeliveryId { generation: Generation(0), number: leased.delivery };
        self.leases.push((agent, LeaseRef { delivery, token: leased.token }));
        self.last_token = self.last_token.max(leased.token.0);
    }

    /// Returns the delivery that an agent leased last.
    pub(super) fn newest_lease(&self, agent: usize) -> Option<DeliveryId> {
        self.leases.iter().rev().find(|(holder, _)| *holder == agent).map(|(_, lease)| lease.delivery)
    }

    /// Resolves a commit.
    pub(super) fn commit(&self, planned: &PlannedCommit, view: &SpaceView) -> Commit {
        let mut ops: Vec<_> = planned.ops.iter().map(|op| self.op(planned.actor, op, view)).collect();
        // An inspection must be the only operation of its commit.
        if ops.len() > 1 {
            ops.iter_mut().filter(|op| matches!(op, Op::Inspect(_))).for_each(|op| *op = Op::Sweep);
        }
        let principal = match planned.actor {
            Actor::Hub => Principal::System,
            Actor::Agent(agent) => Principal::Agent(agent_id(agent)),
            Actor::Holder(role) => super::tokens::holder(role),
        };
        let mut commit = Commit::new(principal, ops);
        if let Actor::Agent(agent) = planned.actor {
            commit.epoch = self.epoch(agent, planned.epoch, view);
            commit.token = planned.token.map(|back| self.tokens.acting(agent, back));
        }
        match planned.key {
            Some(key) => {
                let key = format!("k{key} of half day {}", view.half_day);
                commit.keyed(IdempotencyKey::new(key).expect("valid key"))
            }
            None => commit,
        }
    }

    pub(super) fn epoch(&self, agent: usize, named: StatedEpoch, view: &SpaceView) -> Option<Epoch> {
        let current = view.agents.by_id(&agent_id(agent)).map_or(Epoch(1), |agent| agent.epoch);
        match named {
            StatedEpoch::Omitted => None,
            StatedEpoch::Current => Some(current),
            StatedEpoch::Earlier => Some(self.epochs[agent].iter().rev().nth(1).copied().unwrap_or(Epoch(1))),
            StatedEpoch::Unknown => Some(Epoch(current.0 + 1)),
        }
    }

    fn op(&self, actor: Actor, operation: &PlannedOp, view: &SpaceView) -> Op {
        match operation {
            PlannedOp::Register { agent, epoch, variant } => {
                let epoch = self.epoch(*agent, *epoch, view);
                Op::RegisterAgent(RegisterAgent { epoch, ..registration(*agent, *variant) })
            }
            PlannedOp::Remove { agent } => Op::RemoveAgent { agent: agent_id(*agent) },
            PlannedOp::Send(spec) => Op::send(build_message(actor, spec, view)),
            PlannedOp::Claim { agent, max, lease_ms, wait } => {
                let mode = match wait {
                    WaitChoice::No => WaitMode::NoWait,
                    WaitChoice::Once(slot) => WaitMode::Once(consumer(*agent, *slot)),
                    WaitChoice::Standing(slot) => WaitMode::Standing(consumer(*agent, *slot)),
                };
                Op::Claim { agent: agent_id(*agent), max: *max, lease_ms: *lease_ms, wait: mode }
            }
            PlannedOp::Grant { agent, slot, credit } => {
                Op::GrantCredit { consumer: consumer(*agent, *slot), credit: *credit }
            }
            PlannedOp::Close { agent, slot } => Op::CloseConsumer { consumer: consumer(*agent, *slot) },
            PlannedOp::Ack(lease) => self.with_lease(actor, *lease, view, Op::Ack),
            PlannedOp::Nack { lease, then, reason } => {
                let action = match then {
                    NackChoice::Retry(delay_ms) => NackAction::Retry { delay_ms: *delay_ms },
                    NackChoice::Release => NackAction::Release,
                    NackChoice::Dead => NackAction::DeadLetter,
                };
                let reason = (*reason).into();
                self.with_lease(actor, *lease, view, |lease| Op::Nack(Nack { lease, action, reason }))
            }
            PlannedOp::Extend { lease, ms } => {
                let extend = |lease| Op::Extend(Extend { lease, lease_ms: *ms });
                self.with_lease(actor, *lease, view, extend)
            }
            PlannedOp::Resume { agent, ms } => Op::ResumeLeases { agent: agent_id(*agent), lease_ms: *ms },
            PlannedOp::Redrive(target) => {
                let number = match target {
                    RedriveTarget::Dead(back) => view.dead.iter().rev().cycle().nth(*back).copied(),
                    RedriveTarget::Delivery(number) => Some(DeliveryNo(*number)),
                };
                let delivery = number.map(|number| DeliveryId { generation: Generation(0), number });
                delivery.map_or(Op::Sweep, |delivery| Op::Redrive { delivery })
            }
            PlannedOp::Purge { agent } => Op::Purge { agent: agent_id(*agent) },
            PlannedOp::Put { key, expect, content, depends, fence } => Op::Put(PutEntry {
                key: entry_key(*key),
                entry_type: if content % 2 == 0 { "note".into() } else { "decision".into() },
                content: payload(&format!("{{\"content\":{content}}}")),
                content_type: (*content == 2).then(|| "text/plain".into()),
                expect: expected_version(*expect, view.versions[*key]),
                depends_on: depends.iter().map(|source| entry_key(*source)).collect(),
                fence: fence.and_then(|selector| self.fence_refs(actor, selector).pop()),
            }),
            PlannedOp::Delete { key, expect, fence } => Op::Delete(DeleteEntry {
                key: entry_key(*key),
                expect: expected_version(*expect, view.versions[*key]),
                fence: fence.and_then(|selector| self.fence_refs(actor, selector).pop()),
            }),
            PlannedOp::Erase { back, part } => {
                let seq = self.with_payload.iter().rev().nth(*back).copied();
                let seq = seq.unwrap_or(Seq(view.head.0 + 1));
                Op::ErasePayload(ErasePayload { seq, part: *part })
            }
            PlannedOp::Sweep => Op::Sweep,
            PlannedOp::Lock(request) => self.acquire_op(request),
            PlannedOp::Renew { selector, ttl_ms } => {
                Op::RenewLocks(RenewLocks { locks: self.fence_refs(actor, *selector), ttl_ms: *ttl_ms })
            }
            PlannedOp::Budget(spec) => spec.op(),
            PlannedOp::Unlock(selector) => Op::ReleaseLocks(self.fence_refs(actor, *selector)),
            PlannedOp::Session(op) => op.op(),
            PlannedOp::Task(op) => self.tasks.op(actor, op, &view.held_tasks),
            PlannedOp::Rollback(op) => op.op(view),
            PlannedOp::Subscription(op) => op.op(view, &self.sent),
            PlannedOp::AckMany(leases) => {
                let lease = |lease: &LeaseSelector| match self.with_lease(actor, *lease, view, Op::Ack) {
                    Op::Ack(lease) => Some(lease),
                    _ => None,
                };
                let leases: Vec<_> = leases.iter().filter_map(lease).collect();
                if leases.is_empty() { Op::Sweep } else { Op::AckMany(leases) }
            }
            PlannedOp::Request(op) => op.op(self, actor, view),
            PlannedOp::Token(op) => op.op(&self.tokens, view),
            PlannedOp::Procedure(op) => op.op(&self.procedures),
            PlannedOp::Approval(op) => op.op(&self.approvals),
        }
    }

    /// Resolves an operation on a lease. An agent without leases claims instead, so that the plan makes progress.
    fn with_lease(
        &self,
        actor: Actor,
        lease: LeaseSelector,
        view: &SpaceView,
        op: impl FnOnce(LeaseRef) -> Op,
    ) -> Op {
        let is_selected =
            |holder: usize| !lease.own || !matches!(actor, Actor::Agent(agent) if agent != holder);
        let matches = |(holder, lease_ref): &&(usize, LeaseRef)| {
            is_selected(*holder) && (!lease.held || view.held.contains(&lease_ref.token))
        };
        let found = self.leases.iter().rev().filter(matches).nth(lease.back);
        let found = found.or_else(|| self.leases.iter().rev().find(matches));
        match (found, actor) {
            (Some((_, found)), _) => op(self.with_defect(*found, lease.defect)),
            (None, Actor::Hub | Actor::Holder(_)) => Op::Sweep,
            (None, Actor::Agent(agent)) => {
                Op::Claim { agent: agent_id(agent), max: 3, lease_ms: 30_000, wait: WaitMode::NoWait }
            }
        }
    }

    fn with_defect(&self, mut lease: LeaseRef, defect: LeaseDefect) -> LeaseRef {
        match defect {
            LeaseDefect::None => {}
            LeaseDefect::NextToken => lease.token = LeaseToken(self.last_token + 1),
            LeaseDefect::WrongToken => lease.token = LeaseToken(lease.token.0.saturating_sub(1)),
            LeaseDefect::OtherGeneration => lease.delivery.generation = Generation(1),
            LeaseDefect::UnknownDelivery => {
                lease.delivery.number = DeliveryNo(lease.delivery.number.0 + 1000)
            }
        }
        lease
    }
}

/// Number of consumer slots per agent.
pub(super) const SLOTS: u64 = 12;

pub(super) fn consumer(agent: usize, slot: u64) -> ConsumerId {
    ConsumerId(agent as u64 * SLOTS + slot)
}

pub(super) fn agent_id(agent: usize) -> AgentId {
    AgentId::new(AGENTS[agent]).expect("valid agent id")
}

pub(super) fn entry_key(key: usize) -> Key {
    Key::new(KEYS[key]).expect("valid key")
}

pub(super) fn client_id(number: u8) -> ClientId {
    ClientId::new(format!("m{number}")).expect("valid client id")
}

pub(super) fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [9; 16])
}

pub(super) fn expected_version(expect: VersionChoice, current: u64) -> Option<Version> {
    match expect {
        VersionChoice::Anything => None,
        VersionChoice::Nothing => Some(Version(0)),
        VersionChoice::Current => Some(Version(current)),
        VersionChoice::Older => Some(Version(current.saturating_sub(1))),
        VersionChoice::Future => Some(Version(current + 1)),
    }
}

pub(super) fn build_message(actor: Actor, spec: &MessageSpec, view: &SpaceView) -> Message {
    let from = match (actor, spec.as_another) {
        (Actor::Hub | Actor::Holder(_), false) => None,
        (Actor::Hub | Actor::Holder(_), true) => Some(agent_id(usize::from(spec.content))),
        (Actor::Agent(agent), false) => Some(agent_id(agent)),
        (Actor::Agent(agent), true) => Some(agent_id((agent + 1) % AGENTS.len())),
    };
    let after = |ms: i64| Timestamp(view.now.0.saturating_add_signed(ms));
    let payload = payload(&format!("{{\"letter\":{}}}", spec.content));
    let mut message = spec.chain.apply_to(Message {
        from,
        client_id: spec.client_id.map(client_id),
        priority: Priority { level: spec.level, rank: spec.rank },
        attempts_max: spec.attempts,
        deliver_at: spec.after_ms.map(|ms| after(ms as i64)),
        expires_at: spec.expires_ms.map(after),
        session_id: spec.session.map(|name| SESSION_IDS[name].to_owned()),
        ..Message::new(spec.to.destination(), "work", payload)
    });
    spec.style.apply_to(&mut message);
    message
}
