//! Test fixture: a store in which every kind of operation that writes to the log or a table was executed.

mod requests;
mod sessions;
pub(crate) mod tokens;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    AgentId, ClientId, Commit, DeleteEntry, DeliveryId, Destination, ErasePayload, Extend, Generation, Key,
    LeaseRef, LeasedDelivery, Message, Nack, NackAction, Op, OpResult, Payload, Principal, Priority,
    PutEntry, Receipt, RegisterAgent, Seq, SpaceName, SpaceNo, Timestamp, WaitMode,
};
use quorate_store::{Entropy, ManualClock, Store as _, StoreContext};
use tokio::runtime::Runtime;

use crate::directory::database_path;
use crate::witness::WITNESS;
use crate::{Options, SqliteStore};

pub(crate) const START: u64 = 1_800_000_000_000;

/// Returns the bytes of the populated database, which is created once and shared by all tests.
pub(super) fn database() -> &'static [u8] {
    &files().0
}

/// Returns the bytes of its witness.
pub(super) fn witness() -> &'static [u8] {
    &files().1
}

fn files() -> &'static (Vec<u8>, Vec<u8>) {
    static FILES: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    FILES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let hub = Hub::open(dir.path());
        hub.run_all_operations();
        hub.close_into_one_file(dir.path());
        let witness = std::fs::read(dir.path().join(WITNESS)).unwrap();
        (std::fs::read(database_path(dir.path())).unwrap(), witness)
    })
}

pub(crate) struct Hub {
    store: Arc<SqliteStore>,
    clock: Arc<ManualClock>,
    entropy: Arc<Entropy>,
    runtime: Runtime,
    space: SpaceNo,
}

pub(crate) fn agent(id: &str) -> AgentId {
    AgentId::new(id).unwrap()
}

fn key(key: &str) -> Key {
    Key::new(key).unwrap()
}

fn by(id: &str) -> Principal {
    Principal::Agent(agent(id))
}

fn lease(leased: &LeasedDelivery) -> LeaseRef {
    let delivery = DeliveryId { generation: Generation(0), number: leased.delivery };
    LeaseRef { delivery, token: leased.token }
}

impl Hub {
    pub(crate) fn open(dir: &Path) -> Self {
        Self::try_open(dir).unwrap()
    }

    pub(crate) fn try_open(dir: &Path) -> Result<Self, crate::OpenError> {
        let clock = ManualClock::at(START);
        let entropy = Entropy::seeded(7);
        let context = StoreContext {
            clock: Arc::clone(&clock) as _,
            entropy: Arc::clone(&entropy),
            sink: Arc::new(drop),
        };
        let store = SqliteStore::open(dir, Options::default(), context)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let space = runtime.block_on(store.space(SpaceName::new("default").unwrap())).unwrap();
        Ok(Self { store, clock, entropy, runtime, space })
    }

    pub(crate) fn close(self) {
        self.runtime.block_on(self.store.close());
    }

    /// Closes the store and truncates the write-ahead log, so that one file contains everything.
    pub(crate) fn close_into_one_file(self, dir: &Path) {
        self.close();
        let connection = crate::verify::tests::open_database(dir);
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        connection.close().unwrap();
    }

    fn commit(&self, principal: Principal, ops: Vec<Op>) -> Receipt {
        let outcome =
            self.runtime.block_on(self.store.transact(self.space, vec![Commit::new(principal, ops)]));
        outcome.unwrap().remove(0).unwrap()
    }

    fn advance(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    fn payload(&self, text: &str) -> Payload {
        Payload::seal(Bytes::copy_from_slice(text.as_bytes()), self.entropy.bytes_16())
    }

    fn message(&self, to: &str, text: &str) -> Message {
        let mut message = Message::new(Destination::Agent(agent(to)), "review", self.payload(text));
        message.from = Some(agent("alice"));
        message
    }

    pub(crate) fn send(&self, to: &str, text: &str) -> Seq {
        self.commit(by("alice"), vec![Op::send(self.message(to, text))]).seq.unwrap()
    }

    fn claim(&self, agent_id: &str, max: u32) -> Vec<LeasedDelivery> {
        let claim = Op::Claim { agent: agent(agent_id), max, lease_ms: 5_000, wait: WaitMode::NoWait };
        match self.commit(by(agent_id), vec![claim]).results.remove(0) {
            OpResult::Claimed(leased) => leased,
            other => panic!("{other:?}"),
        }
    }

    fn nack(&self, agent_id: &str, leased: &LeasedDelivery, action: NackAction) {
        let nack = Nack { lease: lease(leased), action, reason: "no time".into() };
        self.commit(by(agent_id), vec![Op::Nack(nack)]);
    }

    fn put(&self, name: &str, text: &str) -> Op {
        Op::Put(PutEntry {
            key: key(name),
            entry_type: "plan".into(),
            content: self.payload(text),
            content_type: Some("text/plain".into()),
            expect: None,
            depends_on: vec![key("plan/a")],
            fence: None,
        })
    }

    pub(crate) fn register(&self) {
        for id in ["alice", "bob", "carol"] {
            let mut agent = RegisterAgent::named(agent(id));
            agent.capabilities = vec!["rust".into()];
            self.commit(by(id), vec![Op::RegisterAgent(agent)]);
        }
    }

    pub(crate) fn back_up(&self, to: &Path) {
        self.runtime.block_on(self.store.backup(to)).unwrap();
    }

    /// Executes every kind of operation.
    pub(crate) fn run_all_operations(&self) {
        self.register();
        self.messages();
        self.claims_and_acks();
        self.dead_letters();
        self.memory();
        self.sessions();
        self.rollback();
        self.requests();
        self.tokens();
        self.keyed_sends_and_acks();
        let second = self.runtime.block_on(self.store.space(SpaceName::new("second").unwrap())).unwrap();
        let register = Op::RegisterAgent(RegisterAgent::named(agent("dave")));
        let commit = Commit::new(by("dave"), vec![register]);
        self.runtime.block_on(self.store.transact(second, vec![commit])).unwrap().remove(0).unwrap();
    }

    fn messages(&self) {
        for number in 0..12 {
            let mut message = self.message("bob", &format!("piece {number}"));
            message.client_id = Some(ClientId::new(format!("id-{number:02}")).unwrap());
            message.priority = if number % 3 == 0 { Priority::HIGH } else { Priority::NORMAL };
            self.commit(by("alice"), vec![Op::send(message)]);
            self.advance(10);
        }
        let mut to_both = self.message("bob", "for both");
        to_both.to = Destination::Agents(vec![agent("bob"), agent("carol")]);
        to_both.confidence = Some(0.25);
        to_both.metadata = Some("{\"a\":1}".into());
        let ops = vec![Op::send(to_both), Op::send(self.message("carol", "")), self.put("plan/a", "first")];
        self.commit(by("alice"), ops);
        let mut later = self.message("carol", "later");
        later.deliver_at = Some(Timestamp(START + 60_000));
        let mut soon = self.message("carol", "soon");
        soon.deliver_at = Some(Timestamp(START + 2_000));
        let mut short_lived = self.message("alice", "fleeting");
        short_lived.expires_at = Some(Timestamp(START + 1_000));
        // Becomes due but is never claimed.
        let mut due = self.message("alice", "due");
        due.deliver_at = Some(Timestamp(START + 500));
        let messages = [later, soon, short_lived, due];
        self.commit(by("alice"), messages.into_iter().map(Op::send).collect());
    }

    fn claims_and_acks(&self) {
        let leased = self.claim("bob", 5);
        self.commit(by("bob"), vec![Op::Ack(lease(&leased[0]))]);
        self.commit(by("bob"), vec![Op::Ack(lease(&leased[1])), Op::send(self.message_by("bob", "alice"))]);
        self.nack("bob", &leased[2], NackAction::Retry { delay_ms: Some(300_000) });
        self.nack("bob", &leased[3], NackAction::Release);
        self.commit(by("bob"), vec![Op::Extend(Extend { lease: lease(&leased[4]), lease_ms: 40_000 })]);
        self.advance(3_000);
        // The scheduled message is due now, and the short-lived one has expired.
        self.commit(Principal::System, vec![Op::Sweep]);
        let expiring = self.claim("carol", 1);
        assert_eq!(expiring.len(), 1);
        self.advance(6_000);
        self.commit(Principal::System, vec![Op::Sweep]);
        self.commit(by("carol"), vec![Op::Purge { agent: agent("carol") }]);
        self.commit(by("carol"), vec![Op::RemoveAgent { agent: agent("carol") }]);
    }

    fn message_by(&self, from: &str, to: &str) -> Message {
        let mut message = self.message(to, "an answer");
        message.from = Some(agent(from));
        message
    }

    fn dead_letters(&self) {
        let leased = self.claim("bob", 3);
        for leased_delivery in &leased {
            self.nack("bob", leased_delivery, NackAction::DeadLetter);
        }
        for leased_delivery in &leased[1..] {
            let delivery = lease(leased_delivery).delivery;
            self.commit(Principal::System, vec![Op::Redrive { delivery }]);
        }
        // One is dead-lettered again, one is open again, one was never redriven.
        let again = self.claim("bob", 1);
        self.nack("bob", &again[0], NackAction::DeadLetter);
        // A new registration of bob returns the deliveries that he has leased.
        self.claim("bob", 1);
        self.commit(by("bob"), vec![Op::RegisterAgent(RegisterAgent::named(agent("bob")))]);
        self.claim("bob", 1);
    }

    pub(crate) fn memory(&self) {
        let receipt =
            self.commit(by("bob"), vec![self.put("plan/a", "second"), self.put("plan/b", "secret")]);
        let seq = receipt.seq.unwrap();
        self.commit(by("alice"), vec![self.put("plan/a", "third"), self.put("plan/a", "fourth")]);
        self.commit(
            by("alice"),
            vec![Op::Delete(DeleteEntry { key: key("plan/b"), expect: None, fence: None })],
        );
        let erase = |seq, part| Op::ErasePayload(ErasePayload { seq, part });
        // One of two parts, and the payload of a message with a client-assigned id.
        self.commit(Principal::System, vec![erase(seq, 1), erase(Seq(5), 0)]);
    }

    fn keyed_sends_and_acks(&self) {
        let keyed = Commit::new(by("alice"), vec![Op::send(self.message("bob", "keyed"))]);
        let keyed = keyed.keyed(quorate_core::IdempotencyKey::new("k1").unwrap());
        self.runtime.block_on(self.store.transact(self.space, vec![keyed])).unwrap().remove(0).unwrap();
        for number in 0..5 {
            self.send("bob", &format!("more {number}"));
        }
        let leased = self.claim("bob", 2);
        self.commit(
            by("bob"),
            leased.iter().map(|leased_delivery| Op::Ack(lease(leased_delivery))).collect(),
        );
    }
}
