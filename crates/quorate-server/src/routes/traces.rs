//! `GET /v1/traces/{id}`: messages of a trace as spans, oldest first, each with its parent span.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::extract::Path;
use quorate_api::trace::{SearchedRecords, Span, SpanDelivery, SpanLog, Trace};
use quorate_core::{AgentId, Code, Refused, Seq, Timestamp, TraceId};
use quorate_engine::{Error, MessageView};

use crate::api::{Route, get, schema};
use crate::call::{ApiResult, Call, ok_response};
use crate::observe::span_index::{DeliveryTrace, MessagePosition, MessageSpan, SPANS_MAX};
use crate::otlp::span::{end_state_name, span_error};

/// Maximum number of spans of a trace in a response.
const SPANS_PER_RESPONSE_MAX: usize = 500;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/traces/{id}", "traces.get", "Get the messages of a trace as spans, oldest first.")
            .path_parameter::<schema::TraceId>("id", "Trace ID in W3C trace context format.")
            .returns::<Trace>(200, "Spans of recent messages that the caller may see.")
            .handled_with_id_in_bulk_by(show),
    ]
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    let trace: TraceId = id.parse().map_err(|_| {
        Refused::new(Code::Invalid, "invalid trace id: expected 32 lowercase hexadecimal digits")
            .hint("use the second part of a message's traceparent")
    })?;
    let (mut found, oldest) = call
        .app
        .telemetry()
        .with_log_metrics(&call.space, |metrics| {
            (metrics.spans.of_trace(trace, SPANS_PER_RESPONSE_MAX + 1), metrics.spans.oldest_seq())
        })
        .await?;
    let has_more = found.len() > SPANS_PER_RESPONSE_MAX;
    found.truncate(SPANS_PER_RESPONSE_MAX);
    let mut spans = Vec::with_capacity(found.len());
    for (position, span) in &found {
        spans.extend(visible_span(&call, *position, span).await?);
    }
    let head = call.space.published().head.seq;
    let oldest = oldest.unwrap_or(head);
    if spans.is_empty() {
        return Err(Refused::new(Code::NotFound, format!("there is no trace {trace}"))
            .hint(format!(
                "traces cover the newest {SPANS_MAX} messages, here back to record {oldest}; older messages are in GET /v1/audit"
            ))
            .into());
    }
    let searched = SearchedRecords { from: oldest.0, to: head.0 };
    ok_response(&Trace { trace_id: trace.to_string(), spans, more: has_more, searched })
}

/// Returns a span as the caller may see it: agents see messages they sent or received.
async fn visible_span(
    call: &Call,
    (seq, n): MessagePosition,
    span: &MessageSpan,
) -> Result<Option<Span>, Error> {
    let id = call.space.published().generations.message_id(Seq(seq.0), n);
    let view = match call.space.message(id).await {
        Ok(view) => view,
        // The message belongs to a history that a restore has replaced.
        Err(Error::Refused(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let agents = &call.space.published().agents;
    let name = |delivery: &DeliveryTrace| -> Option<AgentId> {
        delivery.agent.and_then(|number| agents.get(number)).map(|agent| agent.id.clone())
    };
    let viewer = call.calling_agent();
    let is_sender = viewer.is_none() || view.message.from.as_ref() == viewer;
    let deliveries: Vec<_> = { span.deliveries.iter() }
        .map(|delivery| (delivery, name(delivery)))
        // Only the sender sees the other recipients.
        .filter(|(_, agent)| is_sender || agent.as_ref() == viewer)
        .collect();
    if !is_sender && deliveries.is_empty() {
        return Ok(None);
    }
    Ok(Some(span_json(span, &view, &deliveries)))
}

fn span_json(
    span: &MessageSpan,
    view: &MessageView,
    deliveries: &[(&DeliveryTrace, Option<AgentId>)],
) -> Span {
    let message = &view.message;
    let error = span_error(span);
    let log = |at: Timestamp, event: String, agent: Option<&AgentId>| {
        (at, SpanLog { at, event, agent: agent.map(ToString::to_string) })
    };
    let mut logs = vec![log(span.at, "message_sent".into(), None)];
    for (delivery, agent) in deliveries {
        logs.extend(delivery.delivered_at.map(|at| log(at, "message_delivered".into(), agent.as_ref())));
        let ended = delivery.ended;
        logs.extend(
            ended.map(|(at, end)| log(at, format!("message_{}", end_state_name(end)), agent.as_ref())),
        );
    }
    logs.sort_by_key(|(at, _)| *at);
    Span {
        trace_id: span.context.trace.to_string(),
        span_id: span.context.span.to_string(),
        parent_span_id: span.parent.map(|parent| parent.to_string()),
        message_id: view.id.to_string(),
        operation: format!("send {}", message.to),
        start_time: span.at,
        end_time: span.ended_at,
        status: if error.is_some() { "error" } else { "ok" }.into(),
        error: error.map(Cow::Borrowed),
        from: message.from.as_ref().map(ToString::to_string),
        to: message.to.to_string(),
        kind: message.kind.as_str().into(),
        action: message.action.clone(),
        tags: tags(view),
        logs: logs.into_iter().map(|(_, log)| log).collect(),
        deliveries: deliveries.iter().map(|(delivery, agent)| delivery_json(span, delivery, agent)).collect(),
    }
}

fn delivery_json(span: &MessageSpan, delivery: &DeliveryTrace, agent: &Option<AgentId>) -> SpanDelivery {
    SpanDelivery {
        agent: agent.as_ref().map(ToString::to_string),
        span_id: span.context.delivery_span(delivery.number).to_string(),
        delivered_at: delivery.delivered_at,
        ended_at: delivery.ended.map(|(at, _)| at),
        state: delivery.ended.map_or("open", |(_, end)| end_state_name(end)).into(),
        attempts: delivery.attempts,
        returned: delivery.last_return.map(|cause| cause.as_str().into()),
    }
}

/// Returns further properties of a message as text.
fn tags(view: &MessageView) -> BTreeMap<Cow<'static, str>, String> {
    let message = &view.message;
    let all = [
        ("sessionId", &message.session_id),
        ("correlationId", &message.correlation_id),
        ("causationId", &message.causation_id),
        ("inReplyTo", &message.in_reply_to),
        ("budget", &message.budget),
        ("origin", &message.origin),
    ];
    all.into_iter().filter_map(|(name, text)| Some((name.into(), text.clone()?))).collect()
}
