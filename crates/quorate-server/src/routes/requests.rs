//! Requests: ask and wait for the answer. And `why`: where something is, what it waits for, what happens next.

use std::time::Duration;

use axum::extract::Path;
use quorate_core::{Ask, Durability, WaitsFor, Why, WhyNext};
use serde_json::{Value, json};

use crate::body::{self, Fields};
use crate::call::{Answer, Call, ok};
use crate::wire::message::{MessageIn, MessageOut};
use crate::wire::time;

/// Asks, and answers with the response message. A caller that goes away wants no answer any more, unless the question has
/// an id: then it may ask again under the same id, and waits for the same answer.
pub(crate) async fn request(call: Call) -> Answer {
    let mut fields: Fields<'_> = body::parse(&call.body)?;
    let timeout_ms = fields.take_number("timeoutMs")?;
    let message = fields.read::<MessageIn<'_>>()?.read(&call.sealing(), call.by())?;
    if message.durability == Durability::Ephemeral {
        let within = timeout_ms.map(Duration::from_millis);
        let asked = call.space.request_ephemeral(&call.principal, call.epoch, message, within);
        let answer = asked.await?;
        return ok(&MessageOut::new(answer.id.to_string(), answer.at, &answer.message));
    }
    let named = message.client_id.is_some();
    let ask = Ask::new(message, timeout_ms, None);
    let mut asking = call.space.request(&call.principal, call.epoch, ask).await?;
    if named {
        asking.outlive();
    }
    let answer = asking.answer().await?;
    ok(&MessageOut::new(answer.id.to_string(), answer.at, &answer.message))
}

/// Why a message or a task is where it is.
pub(crate) async fn why(Path(id): Path<String>, call: Call) -> Answer {
    ok(&shown(&call.space.why(&id).await?))
}

fn shown(why: &Why) -> Value {
    let next = match why.next {
        WhyNext::Nothing => None,
        WhyNext::GivenOut => Some("given out"),
        WhyNext::GivenOutAgain => Some("given out again"),
        WhyNext::DeadLetter => Some("dead letter"),
        WhyNext::Expires => Some("expires"),
        WhyNext::TimesOut => Some("times out"),
        WhyNext::Starts => Some("starts"),
        WhyNext::GivenUp => Some("given up"),
    };
    json!({
        "id": why.id,
        "state": why.state,
        "whose": why.whose,
        "since": why.since.map(time::shown),
        "attempt": why.attempt.map(|(attempt, _)| attempt),
        "maxAttempts": why.attempt.map(|(_, max)| max),
        "waitsFor": waits_for(&why.waits_for),
        "next": next,
        "nextAt": why.next_at.map(time::shown),
        "sentence": why.sentence,
        "parts": why.parts.iter().map(shown).collect::<Vec<_>>(),
    })
}

fn waits_for(what: &WaitsFor) -> Value {
    match what {
        WaitsFor::Nothing => Value::Null,
        WaitsFor::Time => json!({"kind": "time"}),
        WaitsFor::Claim(agent) => json!({"kind": "claim", "agent": agent}),
        WaitsFor::Ack(agent) => json!({"kind": "ack", "agent": agent}),
        WaitsFor::Return(agent) => json!({"kind": "return", "agent": agent}),
        WaitsFor::Resume => json!({"kind": "resume"}),
        WaitsFor::Answers(agents) => json!({"kind": "answers", "agents": agents}),
        WaitsFor::Redrive => json!({"kind": "redrive"}),
        WaitsFor::Tasks(tasks) => json!({"kind": "tasks", "tasks": tasks}),
        WaitsFor::Approval(approval) => json!({"kind": "approval", "approval": approval}),
    }
}
