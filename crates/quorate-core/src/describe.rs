//! What the log says, in words and numbers, for reading: for the audit and for whoever follows. Never the content of a payload.

mod approval;
mod budget;
mod lock;
mod procedure;
mod requests;
mod sessions;
mod task;
mod token;

use crate::hex;
use crate::{
    Agent, AgentNo, DeliveryNo, Destination, Effect, Eras, History, Holding, IfUnavailable, InForce, Item,
    Key, Letter, Message, NewDelivery, Next, Origin, Priority, Recipient, Restored, Seq, Subscription,
    SubscriptionState, Takers, Timestamp, Token, Version,
};

/// A value of a field.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A number between 0 and 1.
    Share(f64),
    /// A time.
    Time(Timestamp),
    /// Nobody, or nothing.
    Nothing,
    /// Several values.
    List(Vec<Value>),
    /// Several named values.
    Group(Fields),
}

/// Named values, in order.
pub type Fields = Vec<(&'static str, Value)>;

/// How things are called outside.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// The ids of agents.
    pub agents: &'a dyn Fn(AgentNo) -> String,
    /// In which generation records and deliveries were made: a part of their ids.
    pub eras: &'a Eras,
}

impl Names<'_> {
    fn agent(&self, number: AgentNo) -> Value {
        Value::Text((self.agents)(number))
    }

    fn message(&self, seq: Seq, n: u32) -> Value {
        text(self.eras.message_id(seq, n))
    }

    fn delivery(&self, number: DeliveryNo) -> Value {
        text(self.eras.delivery_id(number))
    }
}

/// Effects of a record, each with how many messages the record holds before it: a part of the id of a message.
pub fn placed(effects: &[Effect]) -> impl Iterator<Item = (u32, &Effect)> {
    let mut next = 0;
    effects.iter().map(move |effect| {
        let n = next;
        next += u32::from(matches!(effect, Effect::Sent { .. }));
        (n, effect)
    })
}

fn text(text: impl ToString) -> Value {
    Value::Text(text.to_string())
}

fn number(number: impl Into<u64>) -> Value {
    Value::Number(number.into())
}

fn time(at: Timestamp) -> Value {
    Value::Time(at)
}

fn words(words: &[String]) -> Value {
    Value::List(words.iter().map(text).collect())
}

/// What an effect of a record says: first its name under `effect`, then its fields. `n` is as [`placed`] tells.
#[must_use]
pub fn describe(effect: &Effect, (seq, n): (Seq, u32), names: &Names<'_>) -> Fields {
    let fields = match effect {
        Effect::SpaceCreated { name, id, generation } => {
            let id = hex::encode(&id.0);
            vec![("name", text(name)), ("id", text(id)), ("generation", number(generation.0))]
        }
        Effect::Restored { generation } => vec![("generation", number(generation.0))],
        Effect::AgentRegistered { number, agent } => registered(*number, agent),
        Effect::AgentRemoved { number: agent } => {
            vec![("agent", names.agent(*agent)), ("number", number(agent.0))]
        }
        Effect::Sent { message, part, first, deliveries } => {
            let mut fields = vec![("id", names.message(seq, n)), ("part", number(*part))];
            envelope(message, &mut fields);
            fields.push(("deliveries", new_deliveries(first.0, deliveries, names)));
            fields
        }
        Effect::Leased { lease_ms, deliveries } => {
            vec![("leaseMs", number(*lease_ms)), ("deliveries", leases(deliveries, names))]
        }
        Effect::Acked { delivery, token, origin } => held((*delivery, *token), *origin, names),
        Effect::Returned { delivery, token, cause, reason, next, origin } => {
            let mut fields = held((*delivery, *token), *origin, names);
            fields.push(("cause", text(cause.as_str())));
            if !reason.is_empty() {
                fields.push(("reason", text(reason)));
            }
            fields.extend(whereto(*next, names));
            fields
        }
        Effect::Expired { delivery, origin }
        | Effect::Purged { delivery, origin }
        | Effect::Barred { delivery, origin } => about(*delivery, *origin, names),
        Effect::Redriven { delivery, to, seq, n, priority, attempts_max, expires_at, .. } => {
            let mut fields = about(*delivery, Origin { to: *to, seq: *seq, n: *n }, names);
            fields.extend(shown_priority(*priority));
            fields.push(("maxAttempts", number(*attempts_max)));
            fields.extend(expires_at.map(|at| ("expiresAt", time(at))));
            fields
        }
        Effect::Written { .. } => written(effect),
        Effect::Deleted { key, version } => entry(key, *version),
        Effect::Erased { seq, part } => vec![("seq", number(seq.0)), ("part", number(*part))],
        Effect::Changed { item, .. } => self::item(item, names),
        Effect::WaitAborted { cycle } => {
            let one = |(agent, what): &(AgentNo, String)| {
                Value::Group(vec![("agent", names.agent(*agent)), ("waitsFor", text(what))])
            };
            vec![("cycle", Value::List(cycle.iter().map(one).collect()))]
        }
        Effect::SessionAdded { .. } => sessions::added(effect),
        Effect::AckedMany { deliveries } => vec![("deliveries", leases(deliveries, names))],
        Effect::Taken { agent, lease_ms, deliveries } => vec![
            ("agent", names.agent(*agent)),
            ("leaseMs", number(*lease_ms)),
            ("deliveries", leases(deliveries, names)),
        ],
        Effect::Brought { agent, first, letters } => {
            let letters = letters
                .iter()
                .zip(first.0..)
                .map(|(letter, delivery)| letter_fields(letter, delivery, names));
            vec![("agent", names.agent(*agent)), ("deliveries", Value::List(letters.collect()))]
        }
        Effect::AgentStatus { number: agent, presence } => requests::status(names.agent(*agent), presence),
    };
    [("effect", text(effect.as_str()))].into_iter().chain(fields).collect()
}

fn written(effect: &Effect) -> Fields {
    let Effect::Written { key, version, entry_type, content_type, part, depends_on, restores } = effect
    else {
        return Fields::new();
    };
    let mut fields = entry(key, *version);
    fields.push(("type", text(entry_type)));
    fields.extend(content_type.as_ref().map(|content_type| ("contentType", text(content_type))));
    let depends_on = depends_on.iter().map(|(key, version)| Value::Group(entry(key, *version)));
    fields.extend([("part", number(*part)), ("dependsOn", Value::List(depends_on.collect()))]);
    if let Some(Restored { seq, version }) = restores {
        fields.extend([("restores", number(version.0)), ("contentSeq", number(seq.0))]);
    }
    fields
}

/// The state of an item.
#[must_use]
pub fn item(item: &Item, names: &Names<'_>) -> Fields {
    match item {
        Item::Lock(lock) => lock::fields(lock, names),
        Item::Budget(budget) => budget::fields(budget, names),
        Item::Session(session) => sessions::session(session),
        Item::Task(task) => task::fields(task, names),
        Item::Snapshot(snapshot) => vec![
            ("snapshot", text(&snapshot.name)),
            ("prefix", text(&snapshot.prefix)),
            ("seq", number(snapshot.seq.0)),
            ("at", time(snapshot.at)),
            ("by", text(&snapshot.by)),
        ],
        Item::Policy(policy) => policy_fields(policy),
        Item::Subscription(subscription) => subscription_fields(subscription),
        Item::Pool(pool) => {
            let takers = match pool.takers {
                Takers::Anybody => "anybody",
                Takers::Coordinators => "coordinators",
            };
            let (pool, capability) = (number(pool.number.0), text(&pool.capability));
            vec![("pool", pool), ("capability", capability), ("takers", text(takers))]
        }
        Item::Request(request) => requests::request(request, names),
        Item::Token(token) => token::fields(token),
        Item::Procedure(procedure) => procedure::fields(procedure),
        Item::Approval(approval) => approval::fields(approval, names),
    }
}

fn policy_fields(policy: &InForce) -> Fields {
    let InForce { rules, supervised_since } = policy;
    let mut fields = vec![
        ("preset", text(rules.preset.as_str())),
        ("payloadBytesMax", number(rules.payload_bytes_max)),
        ("rationaleCharsMax", number(rules.rationale_chars_max)),
    ];
    fields.extend(rules.actions_max.map(|max| ("actionsMax", number(max))));
    fields.push(("broadcastsPerMinute", number(rules.broadcasts_per_minute)));
    fields.push(("openTasksMax", number(rules.open_tasks_max)));
    let required =
        [("structured", rules.structured), ("confidence", rules.confidence), ("rationale", rules.rationale)];
    let required = required.iter().filter(|(_, asked)| *asked).map(|(name, _)| text(name));
    fields.push(("required", Value::List(required.collect())));
    fields.extend(Some(("supervisedSince", number(supervised_since.0))).filter(|_| supervised_since.0 > 0));
    fields
}

fn subscription_fields(subscription: &Subscription) -> Fields {
    let mut fields = vec![
        ("agent", text(&subscription.agent)),
        ("pattern", text(&subscription.pattern)),
        ("since", number(subscription.since.0)),
    ];
    let (state, history) = match subscription.state {
        SubscriptionState::Active => ("active", None),
        SubscriptionState::CatchingUp(History::Seq(seq)) => ("catching up", Some(("fromSeq", number(seq.0)))),
        SubscriptionState::CatchingUp(History::Time(time)) => {
            ("catching up", Some(("fromTime", Value::Time(time))))
        }
        SubscriptionState::CatchingUp(History::Last(last)) => ("catching up", Some(("last", number(last)))),
        SubscriptionState::Ended => ("ended", None),
    };
    fields.push(("state", text(state)));
    fields.extend(history);
    fields
}

fn leases(leases: &[Holding], names: &Names<'_>) -> Value {
    let one = |one: &Holding| Value::Group(held((one.delivery, one.token), one.origin, names));
    Value::List(leases.iter().map(one).collect())
}

fn letter_fields(letter: &Letter, delivery: u64, names: &Names<'_>) -> Value {
    Value::Group(vec![
        ("deliveryId", names.delivery(DeliveryNo(delivery))),
        ("messageId", names.message(letter.seq, letter.n)),
    ])
}

/// Whom a delivery is for: an agent, a pool, or who took it from there.
fn recipient(to: Recipient, names: &Names<'_>) -> Fields {
    let pool = to.pool_no().map(|pool| ("pool", number(pool.0)));
    let agent = to.agent_no().map(|agent| ("agent", names.agent(agent)));
    pool.into_iter().chain(agent).collect()
}

fn registered(agent: AgentNo, described: &Agent) -> Fields {
    vec![
        ("agent", text(&described.id)),
        ("number", number(agent.0)),
        ("name", text(&described.name)),
        ("role", text(described.role.as_str())),
        ("capabilities", words(&described.capabilities)),
        ("supportedActions", words(&described.supported_actions)),
        ("epoch", number(described.epoch.0)),
        ("heartbeatMs", number(described.heartbeat_ms)),
    ]
}

/// Which delivery, of which message, and whose.
fn about(delivery: DeliveryNo, origin: Origin, names: &Names<'_>) -> Fields {
    let mut fields =
        vec![("deliveryId", names.delivery(delivery)), ("messageId", names.message(origin.seq, origin.n))];
    fields.extend(recipient(origin.to, names));
    fields
}

/// A delivery under a lease; one that was redirected while it waited had none.
fn held((delivery, token): (DeliveryNo, Token), origin: Origin, names: &Names<'_>) -> Fields {
    let mut fields = about(delivery, origin, names);
    fields.extend(Some(("leaseToken", number(token.0))).filter(|_| token.0 > 0));
    fields
}

fn entry(key: &Key, version: Version) -> Fields {
    vec![("key", text(key)), ("version", number(version.0))]
}

fn whereto(next: Next, names: &Names<'_>) -> Fields {
    match next {
        Next::Ready => vec![("next", text("ready"))],
        Next::Scheduled(due) => vec![("next", text("scheduled")), ("due", time(due))],
        Next::Dead => vec![("next", text("dead"))],
        Next::Expired => vec![("next", text("expired"))],
        Next::Redirected(agent) => vec![("next", text("redirected")), ("to", names.agent(agent))],
    }
}

/// The fields of a message that are set.
fn envelope(message: &Message, fields: &mut Fields) {
    let mut add = |name, value| fields.push((name, value));
    if let Some(from) = &message.from {
        add("from", text(from));
    }
    add(
        "to",
        match &message.to {
            Destination::Agent(agent) => text(agent),
            Destination::Agents(agents) => Value::List(agents.iter().map(text).collect()),
            other => text(other),
        },
    );
    add("type", text(message.kind.as_str()));
    if !message.action.is_empty() {
        add("action", text(&message.action));
    }
    let words = [
        ("clientId", message.client_id.as_ref().map(AsRef::as_ref)),
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
    // A number, as in the envelope.
    add("priority", number(message.priority.level));
    if message.priority.rank > 0 {
        add("rank", number(message.priority.rank));
    }
    add("maxAttempts", number(message.attempts_max));
    let rest = [
        ("expiresAt", message.expires_at.map(time)),
        ("deliverAt", message.deliver_at.map(time)),
        ("hops", Some(message.hops).filter(|hops| *hops > 0).map(number)),
    ];
    for (name, value) in rest {
        if let Some(value) = value {
            add(name, value);
        }
    }
    if message.if_unavailable != IfUnavailable::Queue {
        add("ifUnavailable", text(message.if_unavailable.as_str()));
    }
    if let Some(confidence) = message.confidence.filter(|confidence| confidence.is_finite()) {
        add("confidence", Value::Share(confidence));
    }
}

fn new_deliveries(first: u64, deliveries: &[NewDelivery], names: &Names<'_>) -> Value {
    let one = |(index, delivery): (usize, &NewDelivery)| {
        let mut fields = vec![("deliveryId", names.delivery(DeliveryNo(first.saturating_add(index as u64))))];
        fields.extend(recipient(delivery.to, names));
        if let Some((token, lease_ms)) = delivery.lease {
            fields.push(("leaseToken", number(token.0)));
            fields.push(("leaseMs", number(lease_ms)));
        }
        Value::Group(fields)
    };
    Value::List(deliveries.iter().enumerate().map(one).collect())
}

/// The word for a priority, and its place on a scale of 1 to 10 if it was said so.
fn shown_priority(priority: Priority) -> Fields {
    let rank = Some(("rank", number(priority.rank))).filter(|_| priority.rank > 0);
    [("priority", text(priority.as_str()))].into_iter().chain(rank).collect()
}
