//! Subscriptions: which topics an agent hears.

use axum::extract::Path;
use quorate_core::{AgentId, Code, History, Pattern, Refused, Seq};
use serde::Deserialize;
use serde_json::json;

use crate::body;
use crate::call::{Answer, Call, ok};
use crate::wire::time;

/// What was sent before; nothing if nothing is said.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SubscribeIn {
    from_seq: Option<u64>,
    from_time: Option<String>,
    last: Option<u32>,
}

pub(crate) async fn subscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> Answer {
    let (agent, pattern) = (AgentId::new(id)?, pattern.parse::<Pattern>()?);
    let asked: SubscribeIn = body::parse(&call.body)?;
    let history = match (asked.from_seq, asked.from_time, asked.last) {
        (None, None, None) => None,
        (Some(seq), None, None) => Some(History::Seq(Seq(seq))),
        (None, Some(text), None) => Some(History::Time(time::read("fromTime", &text)?)),
        (None, None, Some(last)) => Some(History::Last(last)),
        _ => return Err(Refused::new(Code::Invalid, "fromSeq, fromTime and last exclude each other").into()),
    };
    let since = call.space.subscribe(&call.principal, call.epoch, &agent, &pattern, history).await?;
    ok(&json!({"agent": agent.to_string(), "topic": pattern.to_string(), "since": since.0}))
}

pub(crate) async fn unsubscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> Answer {
    let (agent, pattern) = (AgentId::new(id)?, pattern.parse::<Pattern>()?);
    call.space.unsubscribe(&call.principal, call.epoch, &agent, &pattern).await?;
    ok(&json!({"agent": agent.to_string(), "topic": pattern.to_string()}))
}

pub(crate) async fn list(Path(id): Path<String>, call: Call) -> Answer {
    let agent = AgentId::new(id)?;
    let found = call.space.subscriptions(&agent).await?;
    let shown = found.iter().map(|one| json!({"topic": one.pattern.to_string(), "since": one.since.0}));
    ok(&json!({"subscriptions": shown.collect::<Vec<_>>()}))
}
