//! Parser: turns the words of a statement into operations.

use std::iter::Peekable;
use std::str::SplitWhitespace;

use bytes::Bytes;
use quorate_core::{
    AgentId, AgentRole, Backfill, BudgetId, ClientId, DeleteEntry, Destination, EarlierMessage, ErasePayload,
    Extend, FenceRef, History, IfUnavailable, Key, LeaseRef, Message, MessageId, MessageType, Nack,
    NackAction, Op, Pattern, Payload, Policy, Preset, Principal, Priority, PutEntry, RecordedMessage,
    RegisterAgent, RenewLocks, Seq, SetBudget, Subscribe, Timestamp, Version, WaitMode, limits,
};

use super::names::delivery_id;
use super::runner::ScriptRunner;
use super::tokens;

/// Cursor over the words of a statement.
pub(super) struct Words<'a>(Peekable<SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self(text.split_whitespace().peekable())
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    pub(super) fn require(&mut self, expected: &str) -> &'a str {
        self.0.next().unwrap_or_else(|| panic!("expected {expected}"))
    }

    /// Returns the argument of the option `word`, if that option comes next.
    pub(super) fn option(&mut self, word: &str) -> Option<&'a str> {
        self.0.next_if_eq(&word)?;
        Some(self.require("a word"))
    }

    /// Returns the next word, unless it equals `word`.
    pub(super) fn next_unless(&mut self, word: &str) -> Option<&'a str> {
        self.0.next_if(|next| *next != word)
    }

    pub(super) fn next_number(&mut self) -> Option<u32> {
        let number = self.0.peek()?.parse().ok()?;
        self.0.next();
        Some(number)
    }
}

/// Parses a duration such as `31s`, `500ms`, `2h` or `1d` into milliseconds.
pub(super) fn duration_ms(text: &str) -> u64 {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().unwrap_or_else(|_| panic!("invalid duration: {text}"));
    match &text[digits..] {
        "ms" => number,
        "s" => number * 1_000,
        "m" => number * 60_000,
        "h" => number * 3_600_000,
        "d" => number * 86_400_000,
        unit => panic!("unknown unit of time: {unit}"),
    }
}

pub(super) fn agent_id(name: &str) -> AgentId {
    AgentId::new(name).expect("valid agent id")
}

pub(super) fn entry_key(name: &str) -> Key {
    Key::new(name).expect("valid key")
}

pub(super) fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [5; 16])
}

pub(super) fn reason(words: &mut Words<'_>) -> String {
    words.option("because").unwrap_or("").replace('_', " ")
}

pub(super) fn expected_version(words: &mut Words<'_>) -> Option<Version> {
    words.option("expecting").map(|number| Version(number.parse().expect("a version")))
}

/// Operations parsed from one part of a commit, and the script name of the message it sends.
pub(super) struct ParsedPart {
    pub(super) ops: Vec<Op>,
    pub(super) message: Option<String>,
}

impl ScriptRunner {
    /// Parses one part of a commit, such as `acks m1` in `bob acks m1 & puts plan=1`.
    pub(super) fn parse_part(&mut self, actor: &str, part: &str) -> ParsedPart {
        let words = &mut Words::new(part);
        let verb = words.require("a verb");
        let mut message = None;
        let op = match verb {
            "sends" => {
                message = Some(words.require("a name for the message").to_owned());
                self.send(actor, words)
            }
            "claims" | "waits" | "stands" => self.claim(actor, verb, words),
            "grants" => {
                let credit = words.next_number().expect("an amount of credit");
                let consumer = self.names_mut().consumer(words.option("to").expect("`to` with a recipient"));
                Op::GrantCredit { consumer, credit }
            }
            "closes" => {
                Op::CloseConsumer { consumer: self.names_mut().consumer(words.require("a consumer")) }
            }
            "acks" => self.ack(actor, words.require("a message")),
            "retries" | "releases" | "drops" => self.nack(actor, verb, words),
            "extends" => {
                let lease = self.lease(actor, words.require("a message"));
                Op::Extend(Extend {
                    lease,
                    lease_ms: duration_ms(words.option("to").expect("`to` with a duration")),
                })
            }
            "puts" => self.put(words),
            "deletes" => {
                let key = entry_key(words.require("a key"));
                Op::Delete(DeleteEntry {
                    key,
                    expect: expected_version(words),
                    fence: self.parse_fence_option(words),
                })
            }
            "starts" => {
                let epoch = words.flag("again").then(|| self.names().epoch(actor, 0));
                Op::RegisterAgent(RegisterAgent { epoch, ..self.parse_registration(actor, words) })
            }
            "registers" => {
                let agent = words.require("an agent");
                Op::RegisterAgent(self.parse_registration(agent, words))
            }
            "subscribes" => subscribe(actor, words),
            "unsubscribes" => {
                Op::Unsubscribe { agent: agent_id(actor), pattern: pattern(words.require("a pattern")) }
            }
            "backfills" => self.backfill(words),
            "sets" => Op::SetPolicy(policy(words)),
            "asks" => {
                message = Some(words.require("a name for the request").to_owned());
                self.parse_request(actor, words)
            }
            "answers" => self.parse_answer(actor, words),
            "rejoins" => self.parse_await_request(words),
            "withdraws" => Op::CancelRequest { request: self.names().message(words.require("a request")) },
            "heartbeats" => super::requests::parse_heartbeat(actor, words),
            "relays" => {
                let names = words.require("agents").split(',');
                let agents = names.map(|name| self.agent_no(name)).collect();
                Op::HeartbeatBatch { agents }
            }
            "disconnects" => Op::ConnectionClosed { agent: self.agent_no(words.require("an agent")) },
            "leaves" => Op::RemoveAgent { agent: agent_id(actor) },
            "removes" => Op::RemoveAgent { agent: agent_id(words.require("an agent")) },
            "purges" => Op::Purge { agent: agent_id(words.next().unwrap_or(actor)) },
            "sweeps" => Op::Sweep,
            "redrives" => {
                let number = self.names().delivery(words.require("a message"), actor);
                Op::Redrive { delivery: delivery_id(number) }
            }
            "erases" => self.erase(words),
            "locks" => self.parse_acquire(actor, words),
            "budgets" => {
                let id = BudgetId::new(words.require("a budget")).expect("valid budget id");
                let messages_max = words
                    .option("to")
                    .and_then(|number| number.parse().ok())
                    .expect("`to` with a number of messages");
                Op::SetBudget(SetBudget { id, messages_max, tokens_max: None, money_max: None })
            }
            "renews" => {
                let locks = self.parse_fences(words.require("a lock"));
                Op::RenewLocks(RenewLocks { locks, ttl_ms: words.option("for").map(duration_ms) })
            }
            "unlocks" => Op::ReleaseLocks(self.parse_fences(words.require("a lock"))),
            "snapshots" => super::rollback::parse_snapshot(words),
            "forgets" => super::rollback::parse_drop_snapshot(words),
            "restores" => super::rollback::parse_rollback(self, words),
            "opens" | "adds" | "admits" | "dismisses" | "pauses" | "resumes" | "completes" | "fails" => {
                super::sessions::parse_session_op(verb, words)
            }
            "can" => self.register_again(actor, |new| {
                new.capabilities = words.require("capabilities").split(',').map(str::to_owned).collect();
            }),
            "proposes" => super::approvals::parse_proposal(words),
            "approves" | "rejects" | "modifies" => super::approvals::parse_decision(verb, words),
            "creates" => self.parse_create_token(words),
            "revokes" => self.parse_revoke_token(words),
            "leads" => self.register_again(actor, |new| new.role = AgentRole::Coordinator),
            other => match self.parse_task_op(actor, other, words) {
                Some(op) => op,
                None => panic!("unknown verb: {other}"),
            },
        };
        let twice = words.flag("twice");
        if let Some(rest) = words.next() {
            panic!("unexpected `{rest}` in `{part}`");
        }
        ParsedPart { ops: if twice { vec![op.clone(), op] } else { vec![op] }, message }
    }

    /// Parses `[as ROLE] [able C,C] [beating T] [does X,Y]`: the registration of an agent from now on.
    fn parse_registration(&mut self, agent: &str, words: &mut Words<'_>) -> RegisterAgent {
        let mut new = self.names().registration(agent);
        if let Some(role) = words.option("as") {
            new.role = role.parse().expect("a role");
        }
        if let Some(able) = words.option("able") {
            new.capabilities = able.split(',').map(Into::into).collect();
        }
        new.heartbeat_ms = words.option("beating").map_or(new.heartbeat_ms, duration_ms);
        if let Some(actions) = words.option("does") {
            new.supported_actions = actions.split(',').map(Into::into).collect();
        }
        self.names_mut().set_registration(agent, new.clone());
        new
    }

    /// Registers an agent again with changed fields, under its current epoch.
    fn register_again(&mut self, actor: &str, change: impl FnOnce(&mut RegisterAgent)) -> Op {
        let mut new = self.names().registration(actor);
        change(&mut new);
        self.names_mut().set_registration(actor, new.clone());
        Op::RegisterAgent(RegisterAgent { epoch: Some(self.names().epoch(actor, 0)), ..new })
    }

    fn lease(&self, actor: &str, text: &str) -> LeaseRef {
        self.names().lease(text, self.names().delivery(text, actor))
    }

    fn send(&self, actor: &str, words: &mut Words<'_>) -> Op {
        let to = words.option("to").expect("`to` with a recipient");
        Op::send(self.parse_message(actor, to, words))
    }

    /// Parses the options of a message, which follow its recipients.
    pub(super) fn parse_message(&self, actor: &str, to: &str, words: &mut Words<'_>) -> Message {
        let to = Destination::from_texts(to.split(',')).expect("valid destination");
        let mut message = Message::new(to, "work", payload("{}"));
        message.from = (actor != "hub" && tokens::token_role(actor).is_none()).then(|| agent_id(actor));
        while let Some(word) = words.next() {
            let mut value = || words.require(word);
            match word {
                "low" => message.priority = Priority::LOW,
                "normal" => message.priority = Priority::NORMAL,
                "high" => message.priority = Priority::HIGH,
                "urgent" => message.priority = Priority::URGENT,
                "rank" => message.priority.rank = value().parse().expect("a rank"),
                "after" => message.deliver_at = Some(self.later(value())),
                "expires" => message.expires_at = Some(self.later(value())),
                "tries" => message.attempts_max = value().parse().expect("a number of attempts"),
                "id" => message.client_id = Some(ClientId::new(value()).expect("valid client id")),
                "saying" => message.payload = payload(value()),
                "answering" => message.kind = MessageType::Response,
                "failing" => {
                    message.kind = MessageType::Response;
                    message.reports_failure = true;
                }
                "about" => message.in_reply_to = Some(self.names().message(value()).to_string()),
                "sure" => message.confidence = Some(value().parse().expect("a number from 0 to 1")),
                "reason" => message.rationale = Some(value().into()),
                "written" => message.content_type = Some(value().into()),
                "as" => message.from = Some(agent_id(value())),
                "chain" => message.correlation_id = Some(value().to_owned()),
                "limit" => message.max_hops = Some(value().parse().expect("a hop limit")),
                "hops" => message.hops = value().parse().expect("a number of hops"),
                "on" => message.budget = Some(value().to_owned()),
                "in" => message.session_id = Some(value().to_owned()),
                "upon" => message.causation_id = Some(self.names().message(value()).to_string()),
                "doing" => message.action = value().to_owned(),
                "else" => {
                    let word = value();
                    let choice = IfUnavailable::ALL.into_iter().find(|choice| choice.as_str() == word);
                    message.if_unavailable = choice.expect("queue, redirect or fail");
                }
                other => panic!("unknown message option: {other}"),
            }
        }
        message
    }

    fn put(&self, words: &mut Words<'_>) -> Op {
        let (name, text) = words.require("a key").split_once('=').expect("key=value");
        Op::Put(PutEntry {
            key: entry_key(name),
            entry_type: "note".into(),
            content: payload(text),
            content_type: None,
            expect: expected_version(words),
            depends_on: words.option("on").map(entry_key).into_iter().collect(),
            fence: self.parse_fence_option(words),
        })
    }

    pub(super) fn parse_fence_option(&self, words: &mut Words<'_>) -> Option<FenceRef> {
        words.option("under").map(|lock| self.parse_fence(lock))
    }

    fn later(&self, text: &str) -> Timestamp {
        self.now().plus_ms(duration_ms(text))
    }

    fn claim(&mut self, actor: &str, verb: &str, words: &mut Words<'_>) -> Op {
        let max = words.next_number().unwrap_or(1);
        let owner = words.option("of").unwrap_or(actor);
        let consumer = words.option("as").map(|name| self.names_mut().consumer(name));
        let lease_ms = words.option("for").map_or(limits::LEASE_MS_DEFAULT, duration_ms);
        let wait = match (verb, consumer) {
            ("waits", Some(consumer)) => WaitMode::Once(consumer),
            ("stands", Some(consumer)) => WaitMode::Standing(consumer),
            ("claims", None) => WaitMode::NoWait,
            _ => panic!("`{actor} {verb}`: `as CONSUMER` is required with `waits` and `stands` only"),
        };
        Op::Claim { agent: agent_id(owner), max, lease_ms, wait }
    }

    /// Parses `m1`, or `m1,m2` for one operation that acks several deliveries.
    fn ack(&self, actor: &str, text: &str) -> Op {
        match text.split_once(',') {
            None => Op::Ack(self.lease(actor, text)),
            Some(_) => Op::AckMany(text.split(',').map(|message| self.lease(actor, message)).collect()),
        }
    }

    /// Parses `backfills m1,m2 to bob of PATTERN wanting last 5 [until #7] [by A]`: the operation that the engine
    /// commits with the messages it found in the log.
    fn backfill(&self, words: &mut Words<'_>) -> Op {
        let names = words.require("messages").split(',').filter(|name| *name != "nothing");
        let ids: Vec<_> = names.map(|name| self.names().message(name)).collect();
        let subscriber = agent_id(words.option("to").expect("`to` with a recipient"));
        let pattern = pattern(words.option("of").expect("`of` with a pattern"));
        let expected = history(words.option("wanting").expect("`wanting` with a history"), words);
        let next = words.option("until").map_or(Seq(u64::MAX), position);
        let from = words.option("by").map(agent_id);
        let earlier = |MessageId { seq, n, .. }: MessageId| {
            let priority = Priority::NORMAL;
            let message =
                RecordedMessage { seq, n, priority, attempts_max: 4, expires_at: None, scope: None };
            EarlierMessage { from: from.clone(), session_id: None, correlation_id: None, message }
        };
        let messages = ids.into_iter().map(earlier).collect();
        Op::Backfill(Backfill { agent: subscriber, pattern, expected, messages, next })
    }

    fn nack(&self, actor: &str, verb: &str, words: &mut Words<'_>) -> Op {
        let lease = self.lease(actor, words.require("a message"));
        let action = match verb {
            "retries" if words.flag("later") => NackAction::Retry { delay_ms: None },
            "retries" => NackAction::Retry { delay_ms: Some(words.option("after").map_or(0, duration_ms)) },
            "releases" => NackAction::Release,
            _ => NackAction::DeadLetter,
        };
        Op::Nack(Nack { lease, action, reason: reason(words) })
    }

    fn erase(&self, words: &mut Words<'_>) -> Op {
        let name = words.require("a message or a key");
        let (seq, part) = match words.next() {
            Some(version) => {
                let version = version.strip_prefix('v').and_then(|number| number.parse().ok());
                self.names()
                    .version_position(entry_key(name), Version(version.expect("a version such as v1")))
            }
            None => {
                let id = self.names().message(name);
                (id.seq, id.n)
            }
        };
        Op::ErasePayload(ErasePayload { seq, part })
    }
}

impl Words<'_> {
    pub(super) fn flag(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }
}

fn pattern(text: &str) -> Pattern {
    Pattern::new(text).expect("valid pattern")
}

/// Parses a sequence number such as `#7`.
fn position(text: &str) -> Seq {
    let number = text.strip_prefix('#').and_then(|number| number.parse().ok());
    Seq(number.expect("a sequence number such as #7"))
}

/// Parses `last 5` or `from #7`.
fn history(kind: &str, words: &mut Words<'_>) -> History {
    match (kind, words.require("how much history")) {
        ("last", count) => History::Last(count.parse().expect("a number")),
        ("from", seq) => History::Seq(position(seq)),
        (other, _) => panic!("unknown history: {other}"),
    }
}

fn subscribe(actor: &str, words: &mut Words<'_>) -> Op {
    let pattern = pattern(words.require("a pattern"));
    let kind = words.next();
    let history = kind.map(|kind| history(kind, words));
    Op::Subscribe(Subscribe { agent: agent_id(actor), pattern, history })
}

/// Parses `mesh` or `supervised`, then `[bytes N] [chars N] [broadcasts N] [asking structured,confidence,rationale]`.
fn policy(words: &mut Words<'_>) -> Policy {
    let preset = match words.require("a preset") {
        "mesh" => Preset::Mesh,
        "supervised" => Preset::Supervised,
        other => panic!("unknown preset: {other}"),
    };
    let mut policy = Policy { preset, ..Policy::default() };
    let mut number = |word: &str, value: &mut u32| {
        if let Some(text) = words.option(word) {
            *value = text.parse().expect("a number");
        }
    };
    number("bytes", &mut policy.payload_bytes_max);
    number("chars", &mut policy.rationale_chars_max);
    number("broadcasts", &mut policy.broadcasts_per_minute);
    for field in words.option("asking").into_iter().flat_map(|fields| fields.split(',')) {
        match field {
            "structured" => policy.structured = true,
            "confidence" => policy.confidence = true,
            "rationale" => policy.rationale = true,
            other => panic!("unknown required field: {other}"),
        }
    }
    policy
}

/// Returns the principal that a statement acts as.
pub(super) fn principal(name: &str) -> Principal {
    match tokens::token_role(name) {
        Some(role) => tokens::holder(role),
        None if name == "hub" => Principal::System,
        None => Principal::Agent(agent_id(name)),
    }
}
