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

use super::cast::id_of;
use super::stage::Stage;
use super::tokens;

/// Cursor over the words of a statement.
pub(super) struct Words<'a>(Peekable<SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self(text.split_whitespace().peekable())
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    pub(super) fn must(&mut self, expected: &str) -> &'a str {
        self.0.next().unwrap_or_else(|| panic!("expected {expected}"))
    }

    /// Returns the argument of the option `word`, if that option comes next.
    pub(super) fn after(&mut self, word: &str) -> Option<&'a str> {
        self.0.next_if_eq(&word)?;
        Some(self.must("a word"))
    }

    /// Returns the next word, unless it equals `word`.
    pub(super) fn next_unless(&mut self, word: &str) -> Option<&'a str> {
        self.0.next_if(|next| *next != word)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        let number = self.0.peek()?.parse().ok()?;
        self.0.next();
        Some(number)
    }
}

/// Parses a duration such as `31s`, `500ms`, `2h` or `1d` into milliseconds.
pub(super) fn span(text: &str) -> u64 {
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

pub(super) fn agent(name: &str) -> AgentId {
    AgentId::new(name).expect("valid agent id")
}

pub(super) fn key(name: &str) -> Key {
    Key::new(name).expect("valid key")
}

pub(super) fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [5; 16])
}

pub(super) fn because(words: &mut Words<'_>) -> String {
    words.after("because").unwrap_or("").replace('_', " ")
}

pub(super) fn expecting(words: &mut Words<'_>) -> Option<Version> {
    words.after("expecting").map(|number| Version(number.parse().expect("a version")))
}

/// Operations parsed from one part of a commit, and the script name of the message it sends.
pub(super) struct Asked {
    pub(super) ops: Vec<Op>,
    pub(super) message: Option<String>,
}

impl Stage {
    /// Parses one part of a commit, such as `acks m1` in `bob acks m1 & puts plan=1`.
    pub(super) fn asked(&mut self, who: &str, part: &str) -> Asked {
        let words = &mut Words::of(part);
        let verb = words.must("a verb");
        let mut message = None;
        let op = match verb {
            "sends" => {
                message = Some(words.must("a name for the message").to_owned());
                self.send(who, words)
            }
            "claims" | "waits" | "stands" => self.claim(who, verb, words),
            "grants" => {
                let credit = words.number().expect("an amount of credit");
                let consumer = self.cast_mut().consumer(words.after("to").expect("`to` with a recipient"));
                Op::GrantCredit { consumer, credit }
            }
            "closes" => Op::CloseConsumer { consumer: self.cast_mut().consumer(words.must("a consumer")) },
            "acks" => self.ack(who, words.must("a message")),
            "retries" | "releases" | "drops" => self.nack(who, verb, words),
            "extends" => {
                let lease = self.lease(who, words.must("a message"));
                Op::Extend(Extend { lease, lease_ms: span(words.after("to").expect("`to` with a duration")) })
            }
            "puts" => self.put(words),
            "deletes" => {
                let key = key(words.must("a key"));
                Op::Delete(DeleteEntry { key, expect: expecting(words), fence: self.under(words) })
            }
            "starts" => {
                let epoch = words.after_word("again").then(|| self.cast().epoch(who, 0));
                Op::RegisterAgent(RegisterAgent { epoch, ..self.described(who, words) })
            }
            "registers" => {
                let who = words.must("an agent");
                Op::RegisterAgent(self.described(who, words))
            }
            "subscribes" => subscribe(who, words),
            "unsubscribes" => {
                Op::Unsubscribe { agent: agent(who), pattern: pattern(words.must("a pattern")) }
            }
            "backfills" => self.backfill(words),
            "sets" => Op::SetPolicy(policy(words)),
            "asks" => {
                message = Some(words.must("a name for the question").to_owned());
                self.ask(who, words)
            }
            "answers" => self.answer(who, words),
            "rejoins" => self.await_request(words),
            "withdraws" => Op::CancelRequest { request: self.cast().message(words.must("a question")) },
            "heartbeats" => super::requests::beat(who, words),
            "relays" => {
                let names = words.must("agents").split(',');
                let agents = names.map(|name| self.agent_no(name)).collect();
                Op::HeartbeatBatch { agents }
            }
            "leaves" => Op::RemoveAgent { agent: agent(who) },
            "removes" => Op::RemoveAgent { agent: agent(words.must("an agent")) },
            "purges" => Op::Purge { agent: agent(words.next().unwrap_or(who)) },
            "sweeps" => Op::Sweep,
            "redrives" => {
                let number = self.cast().delivery(words.must("a message"), who);
                Op::Redrive { delivery: id_of(number) }
            }
            "erases" => self.erase(words),
            "locks" => self.acquire(who, words),
            "budgets" => {
                let id = BudgetId::new(words.must("a budget")).expect("valid budget id");
                let messages_max = words
                    .after("to")
                    .and_then(|most| most.parse().ok())
                    .expect("`to` with a number of messages");
                Op::SetBudget(SetBudget { id, messages_max, tokens_max: None, money_max: None })
            }
            "renews" => {
                let locks = self.fences(words.must("a lock"));
                Op::RenewLocks(RenewLocks { locks, ttl_ms: words.after("for").map(span) })
            }
            "unlocks" => Op::ReleaseLocks(self.fences(words.must("a lock"))),
            "snapshots" => super::rollback::make(words),
            "forgets" => super::rollback::forget(words),
            "restores" => super::rollback::restore(self, words),
            "opens" | "adds" | "admits" | "dismisses" | "pauses" | "resumes" | "completes" | "fails" => {
                super::sessions::op(verb, words)
            }
            "can" => self.redescribe(who, |new| {
                new.capabilities = words.must("capabilities").split(',').map(str::to_owned).collect();
            }),
            "proposes" => super::approvals::propose(words),
            "approves" | "rejects" | "modifies" => super::approvals::decide(verb, words),
            "creates" => self.create_token(words),
            "revokes" => self.revoke_token(words),
            "leads" => self.redescribe(who, |new| new.role = AgentRole::Coordinator),
            other => match self.asked_of_tasks(who, other, words) {
                Some(op) => op,
                None => panic!("unknown verb: {other}"),
            },
        };
        let twice = words.after_word("twice");
        if let Some(rest) = words.next() {
            panic!("unexpected `{rest}` in `{part}`");
        }
        Asked { ops: if twice { vec![op.clone(), op] } else { vec![op] }, message }
    }

    /// Parses `[as ROLE] [able C,C] [beating T] [does X,Y]`: the registration of an agent from now on.
    fn described(&mut self, who: &str, words: &mut Words<'_>) -> RegisterAgent {
        let mut new = self.cast().description(who);
        if let Some(role) = words.after("as") {
            new.role = role.parse().expect("a role");
        }
        if let Some(able) = words.after("able") {
            new.capabilities = able.split(',').map(Into::into).collect();
        }
        new.heartbeat_ms = words.after("beating").map_or(new.heartbeat_ms, span);
        if let Some(actions) = words.after("does") {
            new.supported_actions = actions.split(',').map(Into::into).collect();
        }
        self.cast_mut().describe(who, new.clone());
        new
    }

    /// Registers an agent again with a changed description, under its current epoch.
    fn redescribe(&mut self, who: &str, change: impl FnOnce(&mut RegisterAgent)) -> Op {
        let mut new = self.cast().description(who);
        change(&mut new);
        self.cast_mut().describe(who, new.clone());
        Op::RegisterAgent(RegisterAgent { epoch: Some(self.cast().epoch(who, 0)), ..new })
    }

    fn lease(&self, who: &str, text: &str) -> LeaseRef {
        self.cast().lease(text, self.cast().delivery(text, who))
    }

    fn send(&self, who: &str, words: &mut Words<'_>) -> Op {
        let to = words.after("to").expect("`to` with a recipient");
        Op::send(self.message(who, to, words))
    }

    /// Parses the options of a message, which follow its recipients.
    pub(super) fn message(&self, who: &str, to: &str, words: &mut Words<'_>) -> Message {
        let to = Destination::from_texts(to.split(',')).expect("valid destination");
        let mut message = Message::new(to, "work", payload("{}"));
        message.from = (who != "hub" && tokens::role(who).is_none()).then(|| agent(who));
        while let Some(word) = words.next() {
            let mut value = || words.must(word);
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
                "about" => message.in_reply_to = Some(self.cast().message(value()).to_string()),
                "sure" => message.confidence = Some(value().parse().expect("a number from 0 to 1")),
                "reason" => message.rationale = Some(value().into()),
                "written" => message.content_type = Some(value().into()),
                "as" => message.from = Some(agent(value())),
                "chain" => message.correlation_id = Some(value().to_owned()),
                "hops" => message.hops = value().parse().expect("a number of hops"),
                "on" => message.budget = Some(value().to_owned()),
                "in" => message.session_id = Some(value().to_owned()),
                "upon" => message.causation_id = Some(self.cast().message(value()).to_string()),
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
        let (name, text) = words.must("a key").split_once('=').expect("key=value");
        Op::Put(PutEntry {
            key: key(name),
            entry_type: "note".into(),
            content: payload(text),
            content_type: None,
            expect: expecting(words),
            depends_on: words.after("on").map(key).into_iter().collect(),
            fence: self.under(words),
        })
    }

    pub(super) fn under(&self, words: &mut Words<'_>) -> Option<FenceRef> {
        words.after("under").map(|lock| self.fence(lock))
    }

    fn later(&self, text: &str) -> Timestamp {
        self.now().plus_ms(span(text))
    }

    fn claim(&mut self, who: &str, verb: &str, words: &mut Words<'_>) -> Op {
        let max = words.number().unwrap_or(1);
        let owner = words.after("of").unwrap_or(who);
        let consumer = words.after("as").map(|name| self.cast_mut().consumer(name));
        let lease_ms = words.after("for").map_or(limits::LEASE_MS_DEFAULT, span);
        let waiting = match (verb, consumer) {
            ("waits", Some(consumer)) => WaitMode::Once(consumer),
            ("stands", Some(consumer)) => WaitMode::Standing(consumer),
            ("claims", None) => WaitMode::NoWait,
            _ => panic!("`{who} {verb}`: `as CONSUMER` is required with `waits` and `stands` only"),
        };
        Op::Claim { agent: agent(owner), max, lease_ms, waiting }
    }

    /// Parses `m1`, or `m1,m2` for one operation that acks several deliveries.
    fn ack(&self, who: &str, text: &str) -> Op {
        match text.split_once(',') {
            None => Op::Ack(self.lease(who, text)),
            Some(_) => Op::AckMany(text.split(',').map(|one| self.lease(who, one)).collect()),
        }
    }

    /// Parses `backfills m1,m2 to bob of PATTERN wanting last 5 [until #7] [by A]`: the operation that the engine
    /// commits with the messages it found in the log.
    fn backfill(&self, words: &mut Words<'_>) -> Op {
        let names = words.must("messages").split(',').filter(|name| *name != "nothing");
        let ids: Vec<_> = names.map(|name| self.cast().message(name)).collect();
        let subscriber = agent(words.after("to").expect("`to` with a recipient"));
        let pattern = pattern(words.after("of").expect("`of` with a pattern"));
        let wanted = history(words.after("wanting").expect("`wanting` with a history"), words);
        let next = words.after("until").map_or(Seq(u64::MAX), position);
        let from = words.after("by").map(agent);
        let earlier = |MessageId { seq, n, .. }: MessageId| {
            let priority = Priority::NORMAL;
            let letter =
                RecordedMessage { seq, n, priority, attempts_max: 4, expires_at: None, session: None };
            EarlierMessage { from: from.clone(), session_id: None, message: letter }
        };
        let messages = ids.into_iter().map(earlier).collect();
        Op::Backfill(Backfill { agent: subscriber, pattern, expected: wanted, messages, next })
    }

    fn nack(&self, who: &str, verb: &str, words: &mut Words<'_>) -> Op {
        let lease = self.lease(who, words.must("a message"));
        let then = match verb {
            "retries" => NackAction::Retry { delay_ms: words.after("after").map_or(0, span) },
            "releases" => NackAction::Release,
            _ => NackAction::DeadLetter,
        };
        Op::Nack(Nack { lease, action: then, reason: because(words) })
    }

    fn erase(&self, words: &mut Words<'_>) -> Op {
        let name = words.must("a message or a key");
        let (seq, part) = match words.next() {
            Some(version) => {
                let version = version.strip_prefix('v').and_then(|number| number.parse().ok());
                self.cast().place_of(key(name), Version(version.expect("a version such as v1")))
            }
            None => {
                let id = self.cast().message(name);
                (id.seq, id.n)
            }
        };
        Op::ErasePayload(ErasePayload { seq, part })
    }
}

impl Words<'_> {
    pub(super) fn after_word(&mut self, word: &str) -> bool {
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
    match (kind, words.must("how much history")) {
        ("last", count) => History::Last(count.parse().expect("a number")),
        ("from", seq) => History::Seq(position(seq)),
        (other, _) => panic!("unknown history: {other}"),
    }
}

fn subscribe(who: &str, words: &mut Words<'_>) -> Op {
    let pattern = pattern(words.must("a pattern"));
    let kind = words.next();
    let history = kind.map(|kind| history(kind, words));
    Op::Subscribe(Subscribe { agent: agent(who), pattern, history })
}

/// Parses `mesh` or `supervised`, then `[bytes N] [chars N] [broadcasts N] [asking structured,confidence,rationale]`.
fn policy(words: &mut Words<'_>) -> Policy {
    let preset = match words.must("a preset") {
        "mesh" => Preset::Mesh,
        "supervised" => Preset::Supervised,
        other => panic!("unknown preset: {other}"),
    };
    let mut policy = Policy { preset, ..Policy::default() };
    let mut number = |word: &str, value: &mut u32| {
        if let Some(text) = words.after(word) {
            *value = text.parse().expect("a number");
        }
    };
    number("bytes", &mut policy.payload_bytes_max);
    number("chars", &mut policy.rationale_chars_max);
    number("broadcasts", &mut policy.broadcasts_per_minute);
    for field in words.after("asking").into_iter().flat_map(|fields| fields.split(',')) {
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
pub(super) fn principal(who: &str) -> Principal {
    match tokens::role(who) {
        Some(role) => tokens::holder(role),
        None if who == "hub" => Principal::System,
        None => Principal::Agent(agent(who)),
    }
}
