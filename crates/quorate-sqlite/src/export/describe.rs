//! An effect in words and numbers, for reading. Never the content of a payload.

use quorate_core::{AgentNo, Destination, Effect, Message, NewDelivery, Next, Priority, Timestamp};

/// A value of a field.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A number between 0 and 1.
    Share(f64),
    /// Several values.
    List(Vec<Value>),
    /// Several named values.
    Group(Fields),
}

/// Named values, in order.
pub type Fields = Vec<(&'static str, Value)>;

fn text(text: impl ToString) -> Value {
    Value::Text(text.to_string())
}

/// What an effect says: first its name under `effect`, then its fields. Agents are named by `agents`; times are in
/// milliseconds since 1970; deliveries are named by their number, the last part of their id.
#[must_use]
pub fn describe(effect: &Effect, agents: &dyn Fn(AgentNo) -> String) -> Fields {
    let mut fields = vec![("effect", text(effect.as_str()))];
    let mut add = |name, value| fields.push((name, value));
    match effect {
        Effect::SpaceCreated { name, id, generation } => {
            add("name", text(name));
            add("id", text(id.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>()));
            add("generation", Value::Number(generation.0));
        }
        Effect::Restored { generation } => add("generation", Value::Number(generation.0)),
        Effect::AgentRegistered { number, agent } => {
            add("agent", text(&agent.id));
            add("number", Value::Number(number.0));
            add("name", text(&agent.name));
            add("role", text(agent.role.as_str()));
            add("capabilities", Value::List(agent.capabilities.iter().map(text).collect()));
            add("supportedActions", Value::List(agent.supported_actions.iter().map(text).collect()));
            add("epoch", Value::Number(agent.epoch.0));
        }
        Effect::AgentRemoved { number } => {
            add("agent", text(agents(*number)));
            add("number", Value::Number(number.0));
        }
        Effect::Sent { message, part, first, deliveries } => {
            add("part", Value::Number(u64::from(*part)));
            envelope(message, &mut add);
            add("deliveries", new_deliveries(first.0, deliveries, agents));
        }
        Effect::Leased { lease_ms, deliveries } => {
            let lease = |(delivery, token): &(quorate_core::DeliveryNo, quorate_core::Token)| {
                let fields = [("delivery", delivery.0), ("token", token.0)];
                Value::Group(fields.map(|(name, number)| (name, Value::Number(number))).into())
            };
            add("leaseMs", Value::Number(*lease_ms));
            add("deliveries", Value::List(deliveries.iter().map(lease).collect()));
        }
        Effect::Acked { delivery, token } => {
            add("delivery", Value::Number(delivery.0));
            add("token", Value::Number(token.0));
        }
        Effect::Returned { delivery, token, cause, reason, next } => {
            add("delivery", Value::Number(delivery.0));
            add("token", Value::Number(token.0));
            add("cause", text(cause.as_str()));
            if !reason.is_empty() {
                add("reason", text(reason));
            }
            let (word, due) = match next {
                Next::Ready => ("ready", None),
                Next::Scheduled(due) => ("scheduled", Some(due)),
                Next::Dead => ("dead", None),
                Next::Expired => ("expired", None),
            };
            add("next", text(word));
            if let Some(due) = due {
                add("dueMs", Value::Number(due.0));
            }
        }
        Effect::Expired { delivery } | Effect::Purged { delivery } => {
            add("delivery", Value::Number(delivery.0));
        }
        Effect::Redriven { delivery, agent, seq, n, priority, attempts_max, expires_at } => {
            add("delivery", Value::Number(delivery.0));
            add("agent", text(agents(*agent)));
            add("seq", Value::Number(seq.0));
            add("n", Value::Number(u64::from(*n)));
            add("priority", shown_priority(*priority));
            add("maxAttempts", Value::Number(u64::from(*attempts_max)));
            if let Some(at) = expires_at {
                add("expiresAtMs", Value::Number(at.0));
            }
        }
        Effect::Written { key, version, entry_type, content_type, part, depends_on } => {
            add("key", text(key));
            add("version", Value::Number(version.0));
            add("type", text(entry_type));
            if let Some(content_type) = content_type {
                add("contentType", text(content_type));
            }
            add("part", Value::Number(u64::from(*part)));
            let depends = depends_on.iter().map(|(key, version)| {
                Value::Group(vec![("key", text(key)), ("version", Value::Number(version.0))])
            });
            add("dependsOn", Value::List(depends.collect()));
        }
        Effect::Deleted { key, version } => {
            add("key", text(key));
            add("version", Value::Number(version.0));
        }
        Effect::Erased { seq, part } => {
            add("seq", Value::Number(seq.0));
            add("part", Value::Number(u64::from(*part)));
        }
    }
    fields
}

/// The fields of a message that are set.
fn envelope(message: &Message, add: &mut impl FnMut(&'static str, Value)) {
    if let Some(from) = &message.from {
        add("from", text(from));
    }
    add(
        "to",
        match &message.to {
            Destination::Agent(agent) => text(agent),
            Destination::Agents(agents) => Value::List(agents.iter().map(text).collect()),
        },
    );
    add("type", text(message.kind.as_str()));
    if !message.action.is_empty() {
        add("action", text(&message.action));
    }
    let words = [
        ("id", message.client_id.as_ref().map(AsRef::as_ref)),
        ("contentType", message.content_type.as_deref()),
        ("replyTo", message.reply_to.as_ref().map(AsRef::as_ref)),
        ("inReplyTo", message.in_reply_to.as_deref()),
        ("correlationId", message.correlation_id.as_deref()),
        ("causationId", message.causation_id.as_deref()),
        ("sessionId", message.session_id.as_deref()),
        ("budget", message.budget.as_deref()),
        ("traceparent", message.traceparent.as_deref()),
        ("origin", message.origin.as_deref()),
        ("rationale", message.rationale.as_deref()),
        ("metadata", message.metadata.as_deref()),
    ];
    for (name, word) in words {
        if let Some(word) = word {
            add(name, text(word));
        }
    }
    add("priority", shown_priority(message.priority));
    add("maxAttempts", Value::Number(u64::from(message.attempts_max)));
    let ms = |at: Timestamp| at.0;
    let numbers = [
        ("expiresAtMs", message.expires_at.map(ms)),
        ("deliverAtMs", message.deliver_at.map(ms)),
        ("hops", Some(u64::from(message.hops)).filter(|hops| *hops > 0)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            add(name, Value::Number(number));
        }
    }
    if let Some(confidence) = message.confidence {
        add("confidence", Value::Share(confidence));
    }
}

fn new_deliveries(first: u64, deliveries: &[NewDelivery], agents: &dyn Fn(AgentNo) -> String) -> Value {
    let one = |(index, delivery): (usize, &NewDelivery)| {
        let mut fields = vec![
            ("delivery", Value::Number(first.saturating_add(index as u64))),
            ("agent", text(agents(delivery.agent))),
        ];
        if let Some((token, lease_ms)) = delivery.lease {
            fields.push(("token", Value::Number(token.0)));
            fields.push(("leaseMs", Value::Number(lease_ms)));
        }
        Value::Group(fields)
    };
    Value::List(deliveries.iter().enumerate().map(one).collect())
}

fn shown_priority(priority: Priority) -> Value {
    let level = Value::Number(u64::from(priority.level));
    Value::Group(vec![("level", level), ("rank", Value::Number(u64::from(priority.rank)))])
}
