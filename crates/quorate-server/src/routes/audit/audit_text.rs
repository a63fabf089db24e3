//! Renders records for audits: text lines, one JSON object per communication, or one per delivery. Payloads are never
//! included.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use quorate_api::event::Effect as Shown;
use quorate_api::{AgentIds, IdResolver};
use quorate_core::{
    AgentId, AgentNo, AgentRegistry, DeliveryNo, Destination, Effect, EndState, Item, Message, MessageType,
    Record, Task, TaskState, Timestamp, Verb, codec, is_hidden_in_text,
};
use quorate_engine::{PublishedState, Space};

use serde_json::{Value, json};

use crate::wire::time;

/// Maximum number of open deliveries to remember.
const OPEN_MAX: usize = 100_000;
/// Approximate bytes per model token.
const BYTES_PER_TOKEN: u64 = 4;

/// Appends a record as text, one line per effect.
pub(super) fn append_text(record: &Record, space: &PublishedState, out: &mut String) {
    let at = time::format(record.at);
    let Ok(body) = codec::read_without_payload(record) else {
        let _ = writeln!(out, "[{at}] [hub] UNREADABLE: record {}", record.seq);
        return;
    };
    let name = |number: AgentNo| name_of(&space.agents, number);
    let agents = NamesOrNumbers(&space.agents);
    let names = IdResolver { agents: &agents, generations: &space.generations };
    for (n, effect) in Effect::with_message_numbers(&body.effects) {
        let line = match effect {
            Effect::Sent { message, .. } => message_text(message),
            Effect::Changed { verb, item: Item::Task(task) } => task_text(*verb, task, &name),
            _ => None,
        };
        let principal = record.principal.strip_prefix("agent:").unwrap_or(&record.principal);
        let line = line.unwrap_or_else(|| {
            let shown = Shown::new(effect, record, n, &names);
            format!("[{principal}] LOGGED: {}", effect_as_text(effect.as_str(), &shown))
        });
        let _ = writeln!(out, "[{at}] {}", visible(&line));
    }
}

/// Replaces line breaks and other control characters, and escapes characters that a reader would not see: agents must not
/// be able to inject lines or to hide text.
fn visible(line: &str) -> String {
    let mut visible = String::with_capacity(line.len());
    for ch in line.chars() {
        match ch {
            ch if ch.is_control() => visible.push(' '),
            ch if is_hidden_in_text(ch) => drop(write!(visible, "\\u{{{:x}}}", u32::from(ch))),
            ch => visible.push(ch),
        }
    }
    visible
}

fn name_of(agents: &AgentRegistry, number: AgentNo) -> String {
    agents.get(number).map_or_else(|| format!("#{number}"), |agent| agent.id.to_string())
}

fn confidence_text(confidence: Option<f64>) -> String {
    confidence.map_or_else(String::new, |confidence| format!(" (confidence: {confidence:.2})"))
}

fn message_text(message: &Message) -> Option<String> {
    let from = message.from.as_ref().map_or("hub", |from| from.as_str());
    let kind = message.kind.as_str().to_uppercase();
    let rationale =
        message.rationale.as_ref().map_or_else(String::new, |rationale| format!(" - {rationale}"));
    Some(format!(
        "[{from}→{}] {kind}: {}{rationale}{}",
        message.to,
        message.action,
        confidence_text(message.confidence)
    ))
}

fn task_text(verb: Verb, task: &Task, name: &dyn Fn(AgentNo) -> String) -> Option<String> {
    let spec = &task.spec;
    let creator = spec.creator.map_or_else(|| "hub".to_owned(), name);
    let target = spec.agent.map_or_else(|| format!("can:{}", spec.task_type), name);
    let holder = |by: AgentNo| format!("[{}→{creator}]", name(by));
    Some(match (verb, &task.state) {
        (Verb::TaskCreated, _) => format!("[{creator}→{target}] TASK: {} {}", spec.task_type, spec.id),
        (_, TaskState::Done(end)) => {
            format!(
                "{} SUCCESS: {}{}{}",
                holder(end.by),
                spec.id,
                rationale_text(&end.rationale),
                confidence_text(end.confidence)
            )
        }
        (_, TaskState::Partial(end)) => {
            format!(
                "{} PARTIAL: {}{}{}",
                holder(end.by),
                spec.id,
                rationale_text(&end.rationale),
                confidence_text(end.confidence)
            )
        }
        (Verb::TaskFailed, _) => format!("[{target}→{creator}] FAILURE: {}", spec.id),
        _ => return None,
    })
}

fn rationale_text(rationale: &Option<String>) -> String {
    rationale.as_ref().map_or_else(String::new, |rationale| format!(" - {rationale}"))
}

/// Renders an effect as its name and fields: nested fields by path, lists by length.
fn effect_as_text(name: &str, effect: &Shown) -> String {
    let mut text = name.to_owned();
    let fields = serde_json::to_value(effect).unwrap_or_default();
    for (field, value) in fields.as_object().into_iter().flatten().filter(|(field, _)| *field != "effect") {
        field_as_text(field, value, &mut text);
    }
    text
}

fn field_as_text(path: &str, value: &Value, text: &mut String) {
    match value {
        Value::Null => {}
        Value::String(string) => drop(write!(text, " {path}={string}")),
        Value::Bool(_) | Value::Number(_) => drop(write!(text, " {path}={value}")),
        Value::Array(list) => drop(write!(text, " {path}={}", list.len())),
        Value::Object(fields) => {
            for (field, value) in fields {
                field_as_text(&format!("{path}.{field}"), value, text);
            }
        }
    }
}

/// Ids of agents; `#NUMBER` for an unknown one, so that a damaged record can still be rendered.
pub(super) struct NamesOrNumbers<'a>(pub(super) &'a AgentRegistry);

impl AgentIds for NamesOrNumbers<'_> {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        self.0.agent_id(number).or_else(|| AgentId::new(format!("#{number}")).ok())
    }
}

/// A message with open deliveries.
struct Open {
    id: String,
    at: Timestamp,
    message: Arc<Message>,
    bytes: u64,
}

/// Reports deliveries when they end.
#[derive(Default)]
pub(super) struct DeliveryReporter {
    open: HashMap<DeliveryNo, (Arc<Open>, Option<AgentNo>)>,
    order: VecDeque<DeliveryNo>,
}

/// The end of a delivery.
struct End<'a> {
    open: &'a Open,
    to: Option<AgentNo>,
    state: EndState,
    at: Timestamp,
}

impl DeliveryReporter {
    /// Appends one object per message that was acked, dead-lettered, expired or purged.
    pub(super) fn decisions(&mut self, record: &Record, space: &Space, is_exported: bool, out: &mut String) {
        self.each(record, space, is_exported, out, |end, to| {
            let message = &end.open.message;
            let metadata: Value = { message.metadata.as_deref() }
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default();
            let tokens = metadata["tokensTransferred"].as_u64();
            json!({
                "timestamp": time::format(end.at),
                "type": "agent_communication",
                "protocol": protocol(message),
                "from": message.from.as_ref().map(AgentId::as_str),
                "to": to,
                "tokensTransferred": tokens.unwrap_or(end.open.bytes.div_ceil(BYTES_PER_TOKEN)),
                "compressionRatio": metadata["compressionRatio"].as_f64().unwrap_or(1.0),
                "success": end.state == EndState::Acked,
            })
        });
    }

    /// Appends one object per delivery that ended.
    pub(super) fn messages(&mut self, record: &Record, space: &Space, is_exported: bool, out: &mut String) {
        self.each(record, space, is_exported, out, |end, to| {
            let event = match end.state {
                EndState::Acked => "message_delivered",
                EndState::Dead => "message_dead",
                EndState::Expired => "message_expired",
                EndState::Purged => "message_purged",
            };
            json!({
                "timestamp": time::format(end.at),
                "event": event,
                "messageId": end.open.id,
                "from": end.open.message.from.as_ref().map(AgentId::as_str),
                "to": to,
                "type": end.open.message.kind.as_str(),
                "latencyMs": end.at.0.saturating_sub(end.open.at.0),
                "success": end.state == EndState::Acked,
            })
        });
    }

    fn each(
        &mut self,
        record: &Record,
        space: &Space,
        is_exported: bool,
        out: &mut String,
        render: impl Fn(&End<'_>, String) -> Value,
    ) {
        let Ok(body) = codec::read_without_payload(record) else { return };
        let published = space.published();
        let mut n = 0;
        let mut ends: Vec<(Arc<Open>, Option<AgentNo>, EndState)> = Vec::new();
        for effect in &body.effects {
            match effect {
                Effect::Sent { message, part, first, deliveries } => {
                    let id = published.generations.message_id(record.seq, n).to_string();
                    n += 1;
                    let bytes = body.parts.get(*part as usize).map_or(0, |(length, _)| *length);
                    let open = Arc::new(Open { id, at: record.at, message: Arc::clone(message), bytes });
                    if deliveries.is_empty() && message.kind == MessageType::Response {
                        // An answer goes directly to the waiting requester, without a delivery.
                        ends.push((Arc::clone(&open), None, EndState::Acked));
                    }
                    for (number, delivery) in (first.0..).map(DeliveryNo).zip(deliveries) {
                        self.remember(number, (Arc::clone(&open), delivery.to.agent_no()));
                    }
                }
                Effect::LeasedFromPool { agent, deliveries, .. } => {
                    for held in deliveries {
                        if let Some((_, to)) = self.open.get_mut(&held.delivery) {
                            *to = Some(*agent);
                        }
                    }
                }
                Effect::AckedMany { deliveries } => {
                    let acked = deliveries.iter().filter_map(|held| self.open.remove(&held.delivery));
                    ends.extend(acked.map(|(open, to)| (open, to, EndState::Acked)));
                }
                other => ends.extend(self.ended_by(other)),
            }
        }
        if !is_exported {
            return;
        }
        for (open, to, state) in ends {
            let end = End { open: &open, to, state, at: record.at };
            let to = end.to.map_or_else(|| open.message.to.to_string(), |to| name_of(&published.agents, to));
            let _ = writeln!(out, "{}", render(&end, to));
        }
    }

    fn ended_by(&mut self, effect: &Effect) -> Option<(Arc<Open>, Option<AgentNo>, EndState)> {
        let number = match effect {
            Effect::Acked { delivery, .. }
            | Effect::Returned { delivery, .. }
            | Effect::Expired { delivery, .. }
            | Effect::Purged { delivery, .. }
            | Effect::DeniedByPolicy { delivery, .. } => *delivery,
            _ => return None,
        };
        let (state, _) = effect.ended(number)?;
        self.open.remove(&number).map(|(open, to)| (open, to, state))
    }

    fn remember(&mut self, number: DeliveryNo, entry: (Arc<Open>, Option<AgentNo>)) {
        self.open.insert(number, entry);
        self.order.push_back(number);
        if self.order.len() > OPEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
    }
}

/// Classifies a message by communication pattern.
fn protocol(message: &Message) -> &'static str {
    match (&message.to, message.kind) {
        (Destination::Agent(_) | Destination::Agents(_) | Destination::Can(_), kind) => match kind {
            MessageType::Query | MessageType::Response => "query",
            MessageType::Command | MessageType::Event => "handoff",
        },
        _ => "broadcast",
    }
}
