//! Script runner: a store, a manual clock, and a name table per space.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::{
    Commit, DeliveryNo, Effect, IdempotencyKey, ItemKind, NewDelivery, Op, OpResult, Principal, QueueId,
    Receipt, RegisterAgent, Seq, SpaceName, SpaceNo, Timestamp, Version, codec,
};
use quorate_sqlite::{Options, SqliteStore};
use quorate_store::{
    AsOf, BatchDispatch, Clock as _, CommitResult, Entropy, ManualClock, ReadQuery, ReadResult, Store,
    StoreContext,
};
use tempfile::TempDir;

use super::names::NameTable;
use super::parse::{Words, agent_id, duration_ms, entry_key, principal};

pub(super) const START_MS: u64 = 1_800_000_000_000;

/// Maximum number of consecutive sweeps until nothing is due.
const SWEEPS_MAX: usize = 10;

/// Agents registered in every space.
const AGENTS: [&str; 3] = ["alice", "bob", "carol"];

/// Executes the statements of a script and collects the output.
pub(super) struct ScriptRunner {
    directory: TempDir,
    clock: Arc<ManualClock>,
    store: Option<Arc<SqliteStore>>,
    context: StoreContext,
    dispatched: Arc<Mutex<Vec<BatchDispatch>>>,
    spaces: Vec<SpaceState>,
    current: usize,
    lines: Vec<String>,
}

/// One space of a script.
struct SpaceState {
    name: String,
    number: SpaceNo,
    names: NameTable,
}

impl ScriptRunner {
    pub(super) async fn new() -> Self {
        let dispatched: Arc<Mutex<Vec<BatchDispatch>>> = Arc::default();
        let output = Arc::clone(&dispatched);
        let sink = Arc::new(move |batch| output.lock().unwrap_or_else(PoisonError::into_inner).push(batch));
        let clock = ManualClock::at(START_MS);
        let context = StoreContext { clock: clock.clone(), entropy: Entropy::seeded(1), sink };
        let directory = crate::data_directory();
        let mut runner = Self {
            directory,
            clock,
            store: None,
            context,
            dispatched,
            spaces: vec![],
            current: 0,
            lines: vec![],
        };
        runner.open();
        runner.switch_space("default").await;
        runner
    }

    pub(super) fn into_output(self) -> String {
        self.lines.join("\n")
    }

    pub(super) fn push_line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn open(&mut self) {
        let store = SqliteStore::open(self.directory.path(), Options::default(), self.context.clone());
        self.store = Some(store.expect("store opens"));
    }

    pub(super) fn store(&self) -> &SqliteStore {
        self.store.as_ref().expect("store is open")
    }

    pub(super) fn names(&self) -> &NameTable {
        &self.spaces[self.current].names
    }

    pub(super) fn names_mut(&mut self) -> &mut NameTable {
        &mut self.spaces[self.current].names
    }

    pub(super) fn space(&self) -> SpaceNo {
        self.spaces[self.current].number
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now().wall
    }

    pub(super) async fn run(&mut self, statement: &str) {
        let mut words = Words::new(statement);
        match words.require("a word") {
            "restart" => {
                self.store().close().await;
                self.store = None;
                self.open();
            }
            "in" => self.switch_space(words.require("a space")).await,
            "wall" => self.move_wall_clock(words.require("a time")),
            "quietly" => self.advance(words.require("a time")),
            "read" | "history" | "list" | "where" | "text" | "dead" | "counts" | "locks" | "task"
            | "tasks" | "budget" | "subscriptions" => self.query(statement).await,
            "agents" => self.render_agents(statement).await,
            "inbox" => self.render_inbox(words.require("an agent")).await,
            "queue" => self.render_queue(words.require("a lock")).await,
            "stuck" => self.render_stuck().await,
            "request" => self.render_request(words.require("a request")).await,
            "why" => match words.require("a message, or `task`") {
                "task" => self.render_task_explanation(words.require("a task")).await,
                message => self.render_explanation(message).await,
            },
            "session" | "timeline" => self.query_session(statement).await,
            "approval" => self.render_approval(words.require("an approval")).await,
            "tokens" => self.render_tokens(),
            "authenticate" => self.render_authentication(words.require("a token")),
            time if time.starts_with('+') => {
                self.advance(time);
                self.sweep_due().await;
            }
            "old" => {
                let actor = words.require("a name");
                self.commit_statement(actor, statement.trim_start_matches("old").trim_start(), 1).await;
            }
            actor => self.commit_statement(actor, statement, 0).await,
        }
    }

    pub(super) async fn run_silently(&mut self, statement: &str) {
        let length = self.lines.len();
        self.run(statement).await;
        self.lines.truncate(length);
    }

    async fn switch_space(&mut self, name: &str) {
        if let Some(index) = self.spaces.iter().position(|space| space.name == name) {
            self.current = index;
            return;
        }
        let space = SpaceName::new(name).expect("valid space name");
        let number = self.store().space(space).await.expect("storage works");
        self.current = self.spaces.len();
        self.spaces.push(SpaceState { name: name.to_owned(), number, names: NameTable::default() });
        let registrations = AGENTS.map(|name| Op::RegisterAgent(RegisterAgent::named(agent_id(name))));
        let commit = Commit::new(Principal::System, registrations.to_vec());
        let receipt = self.transact(commit).await.expect("agents are registered");
        for (name, result) in AGENTS.into_iter().zip(receipt.results) {
            if let OpResult::Registered { epoch } = result {
                self.names_mut().record_epoch(name, epoch);
            }
        }
    }

    fn advance(&self, time: &str) {
        self.clock.advance(Duration::from_millis(duration_ms(time.trim_start_matches('+'))));
    }

    fn move_wall_clock(&self, time: &str) {
        let now = self.now().0;
        let ms = duration_ms(&time[1..]);
        self.clock.jump_wall_to(if time.starts_with('-') { now - ms } else { now + ms });
    }

    /// Commits sweeps while any are due, as the engine does.
    async fn sweep_due(&mut self) {
        let published = self.store().published(self.space()).expect("space exists");
        for _ in 0..SWEEPS_MAX {
            let (wake, now) = (published.borrow().wake, self.clock.now());
            if !wake.is_due(now) {
                return;
            }
            self.commit_statement("hub", "hub sweeps", 0).await;
            // A deadlock scan that finds nothing produces no output.
            let only_scan = wake.wall.is_none_or(|at| at > now.wall);
            if only_scan && self.lines.last().is_some_and(|line| line == "hub: nothing to write") {
                self.lines.pop();
            }
        }
        panic!("still due after {SWEEPS_MAX} sweeps");
    }

    pub(super) async fn transact(&self, commit: Commit) -> CommitResult {
        let outcomes = self.store().transact(self.space(), vec![commit]).await.expect("storage works");
        outcomes.into_iter().next().expect("one outcome for each commit")
    }

    /// Executes a commit. `epochs_back` selects the epoch: 0 is the newest registration of the agent.
    async fn commit_statement(&mut self, actor: &str, statement: &str, epochs_back: usize) {
        let parts = statement.strip_prefix(actor).expect("statement starts with the principal");
        let (parts, token) = match parts.trim_start().strip_prefix("holding ") {
            None => (parts, None),
            Some(rest) => {
                let (name, parts) = rest.split_once(' ').expect("a token and an operation");
                (parts, Some(self.token_id(name).unwrap_or_else(|| panic!("unknown token: {name}"))))
            }
        };
        let (parts, repeat_key) = match parts.split_once(" with key ") {
            Some((parts, key)) => (parts, Some(IdempotencyKey::new(key).expect("valid idempotency key"))),
            None => (parts, None),
        };
        let (mut ops, mut names) = (Vec::new(), Vec::new());
        for part in parts.split('&') {
            let parsed = self.parse_part(actor, part);
            names.resize(ops.len(), None);
            names.push(parsed.message);
            ops.extend(parsed.ops);
        }
        let mut commit = Commit { token, ..Commit::new(principal(actor), ops.clone()) };
        if epochs_back > 0 {
            commit.epoch = Some(self.names().epoch(actor, epochs_back));
        }
        if let Some(key) = repeat_key {
            commit = commit.keyed(key);
        }
        let before = self.head();
        let outcome = self.transact(commit).await;
        match outcome {
            Ok(receipt) => {
                let recipients = self.recipients(&receipt).await;
                for (index, op) in ops.iter().enumerate() {
                    let name = names.get(index).and_then(Option::as_deref);
                    self.record_result(op, &receipt, index, name, &recipients);
                }
                self.render_receipt(actor, &receipt, before).await;
            }
            Err(refused) => self.render_refusal(&refused),
        }
    }

    fn head(&self) -> Seq {
        let published = self.store().published(self.space()).expect("space exists");
        let head = published.borrow().head;
        head.seq
    }

    /// Returns the names of the recipients of each message in a record.
    async fn recipients(&self, receipt: &Receipt) -> Vec<Vec<String>> {
        let Some(seq) = receipt.seq else { return Vec::new() };
        let records = self.store().log(self.space(), seq, 1).await.expect("read succeeds");
        let body = codec::read_body(&records[0]).expect("record decodes");
        let sent = body.effects.into_iter().filter_map(|effect| match effect {
            Effect::Sent { message, deliveries, .. } => {
                let recipient = |delivery: &NewDelivery| match delivery.to.queue() {
                    QueueId::Agent(agent) => self.agent_name(agent),
                    QueueId::Pool(_) => message.to.to_string(),
                };
                Some(deliveries.iter().map(recipient).collect())
            }
            _ => None,
        });
        sent.collect()
    }

    /// Records the names, leases and fences that result from an operation.
    fn record_result(
        &mut self,
        op: &Op,
        receipt: &Receipt,
        index: usize,
        name: Option<&str>,
        recipients: &[Vec<String>],
    ) {
        match (op, &receipt.results[index]) {
            (Op::Send { .. }, OpResult::Sent { id, first, .. }) => {
                let name = name.unwrap_or("?").to_owned();
                let recipients = recipients.get(id.n as usize).cloned().unwrap_or_default();
                self.names_mut().name_message(&name, *id, *first, recipients);
            }
            (Op::RegisterAgent(new), OpResult::Registered { epoch }) => {
                self.names_mut().record_epoch(new.id.as_str(), *epoch);
            }
            (Op::Request(request), OpResult::Requested { id, first, .. }) => {
                let name = name.unwrap_or("?").to_owned();
                let recipients = recipients.get(id.n as usize).cloned().unwrap_or_default();
                self.names_mut().name_message(&name, *id, *first, recipients);
                let requester = request.message.from.as_ref().map_or(String::new(), ToString::to_string);
                self.names_mut().set_requester(&name, &requester);
            }
            (_, OpResult::LocksGranted(granted)) => self.record_locks(granted),
            (_, OpResult::Claimed(deliveries)) => {
                deliveries.iter().for_each(|delivery| self.names_mut().record_lease(delivery))
            }
            (_, OpResult::TasksClaimed(tasks)) => {
                tasks.iter().for_each(|task| self.names_mut().task_tokens.record_lease(task));
            }
            _ => {}
        }
    }

    /// Takes everything dispatched to consumers since the last call.
    pub(super) fn take_dispatches(&mut self) -> Vec<BatchDispatch> {
        std::mem::take(&mut *self.dispatched.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) async fn read(&self, query: ReadQuery) -> ReadResult {
        let mut rows = self.store().read(self.space(), vec![query]).await.expect("read succeeds");
        rows.remove(0)
    }

    async fn query(&mut self, statement: &str) {
        let mut words = Words::new(statement);
        let query = match words.require("a word") {
            "read" => {
                let name = words.require("a key");
                let when = match words.option("at") {
                    None => AsOf::Latest,
                    Some(at) => when(at),
                };
                self.render_entry(name, ReadQuery::Entry { key: entry_key(name), when }).await;
                return;
            }
            "history" => {
                ReadQuery::History { key: entry_key(words.require("a key")), after: Version(0), limit: 1000 }
            }
            "list" => ReadQuery::Entries {
                prefix: words.next().unwrap_or("").into(),
                entry_type: None,
                author: None,
                after: None,
                limit: 1000,
            },
            "dead" => ReadQuery::DeadLetters { agent: None, after: DeliveryNo(0), limit: 1000 },
            "subscriptions" => ReadQuery::items(ItemKind::Subscription, 1000),
            "counts" => return self.render_counts(),
            "locks" => return self.render_locks().await,
            "task" => return self.render_task(words.require("a task")).await,
            "tasks" => return self.render_task_counts(),
            "budget" => return self.render_budget(words.require("a budget")).await,
            "text" => return self.render_payload(words.require("a message")).await,
            _ => return self.render_deliveries(words.require("a message")).await,
        };
        self.render_rows(query).await;
    }
}

/// Parses a point in the history: `v2`, `#7`, or a time since the start such as `10s`.
fn when(at: &str) -> AsOf {
    if let Some(version) = at.strip_prefix('v') {
        return AsOf::Version(Version(version.parse().expect("a version")));
    }
    match at.strip_prefix('#') {
        Some(seq) => AsOf::Seq(Seq(seq.parse().expect("a sequence number"))),
        None => AsOf::Time(Timestamp(START_MS + duration_ms(at))),
    }
}
