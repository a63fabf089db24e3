//! From relative choices to commits: what a plan means where it stands.

use bytes::Bytes;
use quorate_core::{
    AgentId, Agents, ClientId, Commit, ConsumerId, DeleteEntry, DeliveryId, DeliveryNo, Destination, Epoch,
    ErasePayload, Extend, Generation, Handed, IdempotencyKey, Key, LeaseRef, Message, Nack, NackThen, Op,
    OpResult, Payload, Principal, Priority, PutEntry, Receipt, RegisterAgent, Seq, Timestamp, Token, Version,
    Waiting,
};

use super::plan::{AGENTS, Act, Do, Expect, KEYS, Lease, Letter, Named, Target, Then, Twist, Wait, Who};

/// What a space told so far: what later steps refer to.
#[derive(Default)]
pub(super) struct Told {
    /// Every lease that was handed out, with its holder.
    leases: Vec<(usize, LeaseRef)>,
    /// Every commit with a key, as it was asked for.
    pub(super) keyed: Vec<Commit>,
    /// Every message that was sent.
    pub(super) sent: Vec<(Seq, u32)>,
    /// Every epoch of each agent.
    epochs: [Vec<Epoch>; AGENTS.len()],
    last_token: u64,
}

/// How a space looks before a step.
pub(super) struct Sight {
    pub(super) now: Timestamp,
    /// Keys have names that are not used again much later: a store may forget a key after a day.
    pub(super) half_day: u64,
    pub(super) head: Seq,
    pub(super) agents: Agents,
    /// The version of each entry that can be read; 0 = none.
    pub(super) versions: [u64; KEYS.len()],
    pub(super) dead: Vec<DeliveryNo>,
}

impl Told {
    /// Takes note of what a commit was answered.
    pub(super) fn learn(&mut self, commit: &Commit, receipt: &Receipt) {
        for (op, result) in commit.ops.iter().zip(&receipt.results) {
            match (op, result) {
                (Op::Claim { agent, .. }, OpResult::Claimed(taken)) => {
                    let agent = AGENTS.iter().position(|name| *name == agent.as_str()).unwrap_or(0);
                    taken.iter().for_each(|one| self.hold(agent, one));
                }
                (Op::RegisterAgent(new), OpResult::Registered { epoch }) => {
                    let agent = AGENTS.iter().position(|name| *name == new.id.as_str()).unwrap_or(0);
                    self.epochs[agent].push(*epoch);
                }
                (Op::Send { .. }, OpResult::Sent { id, .. }) => self.sent.push((id.seq, id.n)),
                _ => {}
            }
        }
    }

    /// Takes note of what went to a consumer.
    pub(super) fn learn_handed(&mut self, consumer: ConsumerId, handed: &Handed) {
        self.hold((consumer.0 / SLOTS) as usize, handed);
    }

    fn hold(&mut self, agent: usize, handed: &Handed) {
        let delivery = DeliveryId { generation: Generation(0), number: handed.delivery };
        self.leases.push((agent, LeaseRef { delivery, token: handed.token }));
        self.last_token = self.last_token.max(handed.token.0);
    }

    /// The commit that an act means here.
    pub(super) fn commit(&self, act: &Act, sight: &Sight) -> Commit {
        let ops = act.ops.iter().map(|one| self.op(act.who, one, sight)).collect();
        let principal = match act.who {
            Who::Hub => Principal::System,
            Who::Agent(agent) => Principal::Agent(id(agent)),
        };
        let mut commit = Commit::new(principal, ops);
        if let Who::Agent(agent) = act.who {
            commit.epoch = self.epoch(agent, act.epoch, sight);
        }
        match act.key {
            Some(key) => {
                let key = format!("k{key} of half day {}", sight.half_day);
                commit.keyed(IdempotencyKey::new(key).expect("a good key"))
            }
            None => commit,
        }
    }

    fn epoch(&self, agent: usize, named: Named, sight: &Sight) -> Option<Epoch> {
        let current = sight.agents.by_id(&id(agent)).map_or(Epoch(1), |agent| agent.epoch);
        match named {
            Named::Nothing => None,
            Named::Current => Some(current),
            Named::Earlier => Some(self.epochs[agent].iter().rev().nth(1).copied().unwrap_or(Epoch(1))),
            Named::Never => Some(Epoch(current.0 + 1)),
        }
    }

    fn op(&self, who: Who, what: &Do, sight: &Sight) -> Op {
        match what {
            Do::Register { agent, epoch, renamed } => {
                let mut new = RegisterAgent::named(id(*agent));
                new.epoch = self.epoch(*agent, *epoch, sight);
                if *renamed {
                    new.name = "somebody".into();
                }
                Op::RegisterAgent(new)
            }
            Do::Remove { agent } => Op::RemoveAgent { agent: id(*agent) },
            Do::Send(letter) => Op::send(message(who, letter, sight)),
            Do::Claim { agent, max, lease_ms, wait } => {
                let waiting = match wait {
                    Wait::No => Waiting::No,
                    Wait::Once(slot) => Waiting::Once(consumer(*agent, *slot)),
                    Wait::Standing(slot) => Waiting::Standing(consumer(*agent, *slot)),
                };
                Op::Claim { agent: id(*agent), max: *max, lease_ms: *lease_ms, waiting }
            }
            Do::Grant { agent, slot, credit } => {
                Op::Grant { consumer: consumer(*agent, *slot), credit: *credit }
            }
            Do::Close { agent, slot } => Op::Close { consumer: consumer(*agent, *slot) },
            Do::Ack(lease) => Op::Ack(self.lease(who, *lease)),
            Do::Nack { lease, then, reason } => {
                let then = match then {
                    Then::Retry(delay_ms) => NackThen::Retry { delay_ms: *delay_ms },
                    Then::Release => NackThen::Release,
                    Then::Dead => NackThen::Dead,
                };
                Op::Nack(Nack { lease: self.lease(who, *lease), then, reason: (*reason).into() })
            }
            Do::Extend { lease, ms } => Op::Extend(Extend { lease: self.lease(who, *lease), lease_ms: *ms }),
            Do::Redrive(target) => {
                let number = match target {
                    Target::Dead(back) => sight.dead.iter().rev().nth(*back).copied().unwrap_or_default(),
                    Target::Delivery(number) => DeliveryNo(*number),
                };
                Op::Redrive { delivery: DeliveryId { generation: Generation(0), number } }
            }
            Do::Purge { agent } => Op::Purge { agent: id(*agent) },
            Do::Put { key, expect, content, depends } => Op::Put(PutEntry {
                key: key_of(*key),
                entry_type: if content % 2 == 0 { "note".into() } else { "decision".into() },
                content: payload(&format!("{{\"content\":{content}}}")),
                content_type: (*content == 2).then(|| "text/plain".into()),
                expect: expected(*expect, sight.versions[*key]),
                depends_on: depends.iter().map(|on| key_of(*on)).collect(),
            }),
            Do::Delete { key, expect } => {
                Op::Delete(DeleteEntry { key: key_of(*key), expect: expected(*expect, sight.versions[*key]) })
            }
            Do::Erase { back, part } => {
                Op::Erase(ErasePayload { seq: Seq((sight.head.0 + 1).saturating_sub(*back)), part: *part })
            }
            Do::Sweep => Op::Sweep,
        }
    }

    fn lease(&self, who: Who, lease: Lease) -> LeaseRef {
        let mine = |holder: usize| !lease.own || who == Who::Hub || who == Who::Agent(holder);
        let found = self.leases.iter().rev().filter(|(holder, _)| mine(*holder)).nth(lease.back);
        let never = LeaseRef {
            delivery: DeliveryId { generation: Generation(0), number: DeliveryNo(999) },
            token: Token(1),
        };
        let mut found = found.map_or(never, |(_, found)| *found);
        match lease.twist {
            Twist::None => {}
            Twist::NextToken => found.token = Token(self.last_token + 1),
            Twist::WrongToken => found.token = Token(found.token.0.saturating_sub(1)),
            Twist::OtherGeneration => found.delivery.generation = Generation(1),
            Twist::NeverMade => found.delivery.number = DeliveryNo(found.delivery.number.0 + 1000),
        }
        found
    }
}

/// Consumers that an agent may have.
const SLOTS: u64 = 10;

fn consumer(agent: usize, slot: u64) -> ConsumerId {
    ConsumerId(agent as u64 * SLOTS + slot)
}

pub(super) fn id(agent: usize) -> AgentId {
    AgentId::new(AGENTS[agent]).expect("a good id")
}

pub(super) fn key_of(key: usize) -> Key {
    Key::new(KEYS[key]).expect("a good key")
}

pub(super) fn client_id(number: u8) -> ClientId {
    ClientId::new(format!("m{number}")).expect("a good id")
}

fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [9; 16])
}

fn expected(expect: Expect, current: u64) -> Option<Version> {
    match expect {
        Expect::Anything => None,
        Expect::Nothing => Some(Version(0)),
        Expect::Current => Some(Version(current)),
        Expect::Older => Some(Version(current.saturating_sub(1))),
        Expect::Future => Some(Version(current + 1)),
    }
}

fn message(who: Who, letter: &Letter, sight: &Sight) -> Message {
    let to = match letter.to[..] {
        [one] => Destination::Agent(id(one)),
        ref many => Destination::Agents(many.iter().map(|agent| id(*agent)).collect()),
    };
    let from = match (who, letter.as_another) {
        (Who::Hub, false) => None,
        (Who::Hub, true) => Some(id(usize::from(letter.content))),
        (Who::Agent(agent), false) => Some(id(agent)),
        (Who::Agent(agent), true) => Some(id((agent + 1) % AGENTS.len())),
    };
    let after = |ms: i64| Timestamp(sight.now.0.saturating_add_signed(ms));
    Message {
        from,
        client_id: letter.client_id.map(client_id),
        priority: Priority { level: letter.level, rank: letter.rank },
        attempts_max: letter.tries,
        deliver_at: letter.after_ms.map(|ms| after(ms as i64)),
        expires_at: letter.expires_ms.map(after),
        ..Message::new(to, "work", payload(&format!("{{\"letter\":{}}}", letter.content)))
    }
}
