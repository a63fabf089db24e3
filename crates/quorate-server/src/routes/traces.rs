//! `GET /v1/traces/{id}`: the messages of a trace as spans, oldest first, each with the span that led to it.

use axum::extract::Path;
use quorate_core::{AgentId, Code, Refused, Seq, TraceId};
use quorate_engine::{Error, MessageView};
use serde_json::{Value, json};

use crate::call::{Answer, Call, ok};
use crate::observe::spans::{Delivered, Place, SPANS_MAX, Span};
use crate::otlp::span::{word_of, wrong_with};
use crate::wire::time;

/// Spans that one answer shows.
const SHOWN_MAX: usize = 500;

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let trace: TraceId = id.parse().map_err(|_| {
        Refused::new(Code::Invalid, "the id of a trace is 32 hexadecimal digits in lower case")
            .hint("it is the second part of a message's traceparent")
    })?;
    let (mut found, oldest) = call
        .app
        .observed()
        .look(&call.space, |fold| (fold.spans.of_trace(trace, SHOWN_MAX + 1), fold.spans.oldest()))
        .await?;
    let has_more = found.len() > SHOWN_MAX;
    found.truncate(SHOWN_MAX);
    let mut spans = Vec::with_capacity(found.len());
    for (place, span) in &found {
        spans.extend(shown(&call, *place, span).await?);
    }
    let head = call.space.published().head.seq;
    let oldest = oldest.unwrap_or(head);
    if spans.is_empty() {
        return Err(Refused::new(Code::NotFound, format!("there is no trace {trace}"))
            .hint(format!(
                "traces are kept for the newest {SPANS_MAX} messages, here back to record {oldest}; what is older is in GET /v1/audit"
            ))
            .into());
    }
    ok(&json!({
        "traceId": trace.to_string(),
        "spans": spans,
        "more": has_more,
        "searched": {"from": oldest.0, "to": head.0},
    }))
}

/// A span as its viewer may see it: an agent sees what it sent or got.
async fn shown(call: &Call, (seq, n): Place, span: &Span) -> Result<Option<Value>, Error> {
    let id = call.space.published().eras.message_id(Seq(seq.0), n);
    let view = match call.space.message(id).await {
        Ok(view) => view,
        // Of a history that a restore replaced.
        Err(Error::Refused(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let agents = &call.space.published().agents;
    let name = |delivery: &Delivered| -> Option<AgentId> {
        delivery.agent.and_then(|number| agents.get(number)).map(|agent| agent.id.clone())
    };
    let viewer = call.by();
    let is_sender = viewer.is_none() || view.message.from.as_ref() == viewer;
    let deliveries: Vec<_> = { span.deliveries.iter() }
        .map(|delivery| (delivery, name(delivery)))
        // Who else got it is the sender's business.
        .filter(|(_, agent)| is_sender || agent.as_ref() == viewer)
        .collect();
    if !is_sender && deliveries.is_empty() {
        return Ok(None);
    }
    Ok(Some(of(span, &view, &deliveries)))
}

fn of(span: &Span, view: &MessageView, deliveries: &[(&Delivered, Option<AgentId>)]) -> Value {
    let message = &view.message;
    let id = view.id.to_string();
    let wrong = wrong_with(span);
    let mut logs = vec![(span.at, json!({"at": time::shown(span.at), "event": "message_sent"}))];
    for (delivery, agent) in deliveries {
        let agent = agent.as_ref().map(AgentId::as_str);
        if let Some(at) = delivery.handed_at {
            logs.push((at, json!({"at": time::shown(at), "event": "message_delivered", "agent": agent})));
        }
        if let Some((at, end)) = delivery.ended {
            let event = format!("message_{}", word_of(end));
            logs.push((at, json!({"at": time::shown(at), "event": event, "agent": agent})));
        }
    }
    logs.sort_by_key(|(at, _)| *at);
    let to: Vec<Value> = deliveries
        .iter()
        .map(|(delivery, agent)| {
            json!({
                "agent": agent.as_ref().map(AgentId::as_str),
                "spanId": span.context.of_delivery(delivery.number).to_string(),
                "deliveredAt": delivery.handed_at.map(time::shown),
                "endedAt": delivery.ended.map(|(at, _)| time::shown(at)),
                "state": delivery.ended.map_or("open", |(_, end)| word_of(end)),
                "attempts": delivery.attempts,
                "returned": delivery.returned.map(|cause| cause.as_str()),
            })
        })
        .collect();
    json!({
        "traceId": span.context.trace.to_string(),
        "spanId": span.context.span.to_string(),
        "parentSpanId": span.parent.map(|parent| parent.to_string()),
        "messageId": id,
        "operation": format!("send {}", message.to),
        "startTime": time::shown(span.at),
        "endTime": span.ended_at.map(time::shown),
        "status": if wrong.is_some() { "error" } else { "ok" },
        "error": wrong,
        "from": message.from.as_ref().map(AgentId::as_str),
        "to": message.to.to_string(),
        "type": message.kind.as_str(),
        "action": message.action,
        "tags": tags(view),
        "logs": logs.into_iter().map(|(_, log)| log).collect::<Vec<_>>(),
        "deliveries": to,
    })
}

/// What else is known of a message, in words.
fn tags(view: &MessageView) -> Value {
    let message = &view.message;
    let all = [
        ("sessionId", &message.session_id),
        ("correlationId", &message.correlation_id),
        ("causationId", &message.causation_id),
        ("inReplyTo", &message.in_reply_to),
        ("budget", &message.budget),
        ("origin", &message.origin),
    ];
    let set = all.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text.clone()?.into())));
    Value::Object(set.collect())
}
