//! Statements about requests and presence, and their rendering.

use std::sync::Arc;

use quorate_core::{
    AgentFilter, AgentInspection, AgentNo, AgentStatus, AnswerFrom, DeliveryInspection, DeliveryNo, Health,
    Heartbeat, Inspect, InspectResult, Item, ItemKey, ItemKind, LastSeen, LockName, LockWait, Message,
    MessageId, MessageType, Op, OpResult, OpenDeliveryState, Presence, ReplyState, Request, RequestState,
    SendRequest, TaskId, Verb, Why,
};
use quorate_store::{ReadQuery, ReadResult, Store as _};

use super::parse::{Words, agent_id, duration_ms, principal};
use super::render::since_start;
use super::runner::ScriptRunner;

impl ScriptRunner {
    /// Parses `asks Q to A,B [query] [only] [within T] [notifying C] [again Q]` and message options.
    pub(super) fn parse_request(&mut self, actor: &str, words: &mut Words<'_>) -> Op {
        let to = words.option("to").expect("`to` with a recipient").to_owned();
        let (mut kind, mut timeout_ms, mut consumer, mut retry_of) = (MessageType::Command, None, None, None);
        let mut answer_from = AnswerFrom::Chain;
        loop {
            if words.flag("query") {
                kind = MessageType::Query;
            } else if words.flag("only") {
                answer_from = AnswerFrom::Asked;
            } else if let Some(time) = words.option("within") {
                timeout_ms = Some(duration_ms(time));
            } else if let Some(name) = words.option("notifying") {
                consumer = Some(self.names_mut().consumer(name));
            } else if let Some(name) = words.option("again") {
                retry_of = Some(self.names().message(name));
            } else {
                break;
            }
        }
        let message = Message { kind, ..self.parse_message(actor, &to, words) };
        let request = SendRequest::new(message, timeout_ms, consumer);
        Op::Request(SendRequest { retry_of, answer_from, ..request })
    }

    /// Parses `answers Q [saying W] [id X] [to A]`.
    pub(super) fn parse_answer(&mut self, actor: &str, words: &mut Words<'_>) -> Op {
        let name = words.require("a request").to_owned();
        let (request, requester) = (self.names().message(&name), self.names().requester(&name));
        let to = words.option("to").map_or(requester, ToOwned::to_owned);
        let message = self.parse_message(actor, &to, words);
        let in_reply_to = Some(request.to_string());
        Op::send(Message { kind: MessageType::Response, in_reply_to, ..message })
    }

    /// Parses `rejoins Q notifying C`.
    pub(super) fn parse_await_request(&mut self, words: &mut Words<'_>) -> Op {
        let request = self.names().message(words.require("a request"));
        let consumer =
            self.names_mut().consumer(words.option("notifying").expect("`notifying` with a consumer"));
        Op::AwaitRequest { request, consumer }
    }

    /// Renders a change of a request.
    pub(super) fn request_line(&self, verb: Verb, request: &Request) -> String {
        let name = self.names().message_name(request.id);
        let recipients = request.recipients.iter().map(|entry| {
            let reply = match entry.reply {
                ReplyState::Pending => "",
                ReplyState::Answered { .. } => " answered",
                ReplyState::Lost => " lost",
            };
            let recipient =
                entry.recipient.agent_no().map_or_else(|| "the pool".into(), |agent| self.agent_name(agent));
            format!("{recipient}{reply}")
        });
        let mut recipients = recipients.collect::<Vec<_>>().join(", ");
        for delegate in &request.delegates {
            let agent = delegate.recipient.agent_no();
            let name = agent.map_or_else(|| "a pool".into(), |agent| self.agent_name(agent));
            recipients += &format!(", or {name}");
        }
        let state = match &request.state {
            RequestState::Failed { code, reason } => format!("failed {code} ({reason})"),
            other => other.as_str().to_owned(),
        };
        format!("{} {name}: {state}; {recipients}", verb.as_str())
    }

    pub(super) fn answer_line(
        &self,
        consumer: &str,
        id: MessageId,
        message: &Message,
        is_last: bool,
    ) -> String {
        let from = message.from.as_ref().map_or("the hub", |from| from.as_str());
        let text = String::from_utf8_lossy(&message.payload.bytes).into_owned();
        let last = if is_last { "" } else { ", more may come" };
        format!("{consumer} receives answer {text} from {from} (#{}){last}", id.seq)
    }

    pub(super) fn status_line(&self, number: AgentNo, presence: &Presence) -> String {
        let availability = if presence.available { "" } else { ", unavailable" };
        let health = match &presence.health {
            Health::Healthy => String::new(),
            other => format!(", {}: {}", other.as_str(), other.note()),
        };
        format!("{} is {}{availability}{health}", self.agent_name(number), presence.status.as_str())
    }

    /// Returns the number of a registered agent.
    pub(super) fn agent_no(&self, name: &str) -> AgentNo {
        let published = self.store().published(self.space()).expect("space exists");
        let number = published.borrow().agents.number(&agent_id(name));
        number.expect("agent is registered")
    }

    async fn inspect(&mut self, query: Inspect) -> InspectResult {
        let commit = quorate_core::Commit::new(principal("hub"), vec![Op::Inspect(query)]);
        let receipt = self.transact(commit).await.expect("hub is allowed to inspect");
        match receipt.results.into_iter().next() {
            Some(OpResult::Inspected(result)) => *result,
            other => panic!("expected an inspection: {other:?}"),
        }
    }

    /// Parses `agents [can X] [does X] [being STATUS]` and renders the matching agents.
    pub(super) async fn render_agents(&mut self, statement: &str) {
        let mut words = Words::new(statement);
        words.next();
        let filter = AgentFilter {
            capability: words.option("can").map(Into::into),
            action: words.option("does").map(Into::into),
            status: words.option("being").map(status),
            ..AgentFilter::default()
        };
        let result = self.inspect(Inspect::Agents { filter, after: AgentNo(0), limit: 100 }).await;
        let InspectResult::Agents(agents) = result else { panic!("expected agents") };
        if agents.is_empty() {
            self.push_line("no agents");
        }
        for inspection in agents {
            let AgentInspection {
                agent,
                status,
                open_deliveries: open,
                leased_deliveries: leased,
                open_requests: requests,
                disconnected_at,
                last_seen,
                ..
            } = inspection;
            let availability = match (agent.presence.available, disconnected_at, last_seen) {
                (false, _, LastSeen::At(_)) => " (unavailable)".to_owned(),
                (false, _, LastSeen::BeforeRestart(at)) => {
                    format!(" (unavailable, not seen since {})", since_start(at))
                }
                (true, Some(at), _) => format!(" (disconnected since {})", since_start(at)),
                (true, None, LastSeen::BeforeRestart(at)) => format!(" (not seen since {})", since_start(at)),
                (true, None, LastSeen::At(_)) => String::new(),
            };
            self.push_line(format!(
                "{}: {}{availability}, {open} open, {leased} leased, {requests} requests pending",
                agent.id,
                status.as_str()
            ));
        }
    }

    /// Renders the inbox of an agent (`inbox A`).
    pub(super) async fn render_inbox(&mut self, name: &str) {
        let query = Inspect::Inbox { agent: agent_id(name), after: DeliveryNo(0), limit: 100 };
        let InspectResult::Inbox(inbox) = self.inspect(query).await else { panic!("expected an inbox") };
        let lines: Vec<_> = inbox.iter().map(|delivery| self.delivery_line(delivery)).collect();
        self.push_line(format!("inbox of {name}: {}", lines.join(", ")));
    }

    /// Renders the queue of a lock (`queue X`).
    pub(super) async fn render_queue(&mut self, name: &str) {
        let query = Inspect::LockQueue { name: LockName::new(name).expect("a valid lock name"), limit: 100 };
        let InspectResult::LockQueue(queue) = self.inspect(query).await else { panic!("expected a queue") };
        let line = |wait: &LockWait| {
            let names: Vec<_> = wait.names.iter().map(LockName::as_str).collect();
            format!("{} for {} since {}", wait.agent, names.join("+"), since_start(wait.since))
        };
        let lines: Vec<_> = queue.iter().map(line).collect();
        self.push_line(format!("queue of {name}: {}", lines.join(", ")));
    }

    /// Renders the work that waits for agents that are gone (`stuck`).
    pub(super) async fn render_stuck(&mut self) {
        let query = Inspect::Stuck { limit: 100 };
        let InspectResult::Stuck(stuck) = self.inspect(query).await else { panic!("expected stuck work") };
        if stuck.is_empty() {
            self.push_line("nothing is stuck");
        }
        let now = self.now();
        for work in stuck {
            self.push_line(format!("stuck: {}: {}", work.name(), work.reason(now)));
        }
    }

    fn delivery_line(&self, delivery: &DeliveryInspection) -> String {
        let (name, _) = self.names().delivery_name(delivery.number);
        let state = match delivery.open.state {
            OpenDeliveryState::Ready { .. } => "ready".to_owned(),
            OpenDeliveryState::Scheduled { due } => format!("due at {}", since_start(due)),
            OpenDeliveryState::Held { .. } => "held".to_owned(),
            OpenDeliveryState::Leased { .. } => delivery
                .lease_period
                .map_or_else(String::new, |(_, until)| format!("leased until {}", since_start(until))),
        };
        format!("{name} {state}")
    }

    /// Renders the explanation of an open task (`why task T`).
    pub(super) async fn render_task_explanation(&mut self, name: &str) {
        let id = TaskId::new(name).expect("a valid task id");
        let query = ReadQuery::Item(ItemKey::new(ItemKind::Task, id.to_shared()));
        let ReadResult::Item(Some(Item::Task(task))) = self.read(query).await else {
            panic!("no such task: {name}")
        };
        let InspectResult::Task(inspection) = self.inspect(Inspect::Task(id)).await else {
            panic!("expected a task")
        };
        let agents = Arc::clone(&self.store().published(self.space()).expect("space exists").borrow().agents);
        let name_of = |agent| agents.get(agent).map_or_else(String::new, |agent| agent.id.to_string());
        let why = Why::of_task(&task, &inspection, task.spec.depends_on.to_vec(), name_of, self.now());
        self.push_line(format!("{name}: {}", why.summary));
    }

    /// Renders the explanation of each open delivery of a message (`why M`).
    pub(super) async fn render_explanation(&mut self, name: &str) {
        let id = self.names().message(name);
        let deliveries = self.names().deliveries(name);
        let (first, count) = (deliveries[0].0, deliveries.len() as u32);
        let query = Inspect::Deliveries { message: Some((id.seq, id.n)), first, count };
        let InspectResult::Deliveries { deliveries, request } = self.inspect(query).await else {
            panic!("expected deliveries")
        };
        let now = self.now();
        for delivery in deliveries.iter().flatten() {
            let why = Why::of_open_delivery(String::new(), delivery, now);
            self.push_line(format!("{name}: {}", why.summary));
        }
        if let Some((_, until)) = request {
            self.push_line(format!("{name} awaits answers until {}", since_start(until)));
        }
    }

    /// Renders a request (`request Q`).
    pub(super) async fn render_request(&mut self, name: &str) {
        let id = self.names().message(name);
        let query = ReadQuery::Item(ItemKey::new(ItemKind::Request, id.to_string()));
        match self.read(query).await {
            ReadResult::Item(Some(Item::Request(request))) => {
                let line = self.request_line(Verb::RequestMade, &request);
                let chain = &request.correlation;
                self.push_line(format!("{}; chain {chain}", line.trim_start_matches("request.made ")));
            }
            _ => self.push_line(format!("{name}: no such request")),
        }
    }
}

/// Parses `heartbeats [for A] [STATUS] [degraded W | error W]`.
pub(super) fn parse_heartbeat(actor: &str, words: &mut Words<'_>) -> Op {
    let agent = agent_id(words.option("for").unwrap_or(actor));
    let mut heartbeat = Heartbeat { agent, status: AgentStatus::Idle, health: Health::Healthy };
    while let Some(word) = words.next() {
        match word {
            "degraded" => heartbeat.health = Health::Degraded(words.require("a note").replace('_', " ")),
            "error" => heartbeat.health = Health::Error(words.require("a note").replace('_', " ")),
            other => heartbeat.status = status(other),
        }
    }
    Op::Heartbeat(heartbeat)
}

fn status(word: &str) -> AgentStatus {
    let found = AgentStatus::ALL.into_iter().find(|status| status.as_str() == word);
    found.unwrap_or_else(|| panic!("unknown status: {word}"))
}
