//! Answers of an agent to requests. The usage of an answer is in its metadata. A failure is answered with `{"error": "…"}`, so
//! that the calls made so far are accounted for as well. Each answer states its confidence and its rationale, which the policy
//! of a space may require.

use std::sync::Arc;
use std::time::Duration;

use quorate::{AgentBuilder, Failure, Hub, MessageType, Policy, Work};
use quorate_core::Timestamp;
use quorate_env::{Clock as _, SystemClock};
use quorate_procedures::deliberation::{ANALYSE, DISCUSS, ReportedUsage};
use quorate_procedures::proposal::REVISE;
use serde_json::{Value, json};

use super::event::{EventSink, WorkItem, WorkKind, WorkReport};
use crate::agent::DeclaredAgent;
use crate::limits::{ANSWER_TIMEOUT, CALL_TIMEOUT};
use crate::prompts;
use crate::question::Usage;

/// Minimum time for an answer, if the clocks of hub and worker differ.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Adds the handler for all requests.
pub(super) fn handle(
    builder: AgentBuilder,
    hub: &Hub,
    agent: &Arc<DeclaredAgent>,
    events: &EventSink,
) -> AgentBuilder {
    let (hub, agent, events) = (hub.clone(), Arc::clone(agent), Arc::clone(events));
    let clock = SystemClock::new();
    builder.supports(ANALYSE).supports(DISCUSS).supports(REVISE).on_other(move |work: Work<Value>| {
        let (hub, agent, events) = (hub.clone(), Arc::clone(&agent), Arc::clone(&events));
        let now = clock.now().wall;
        async move { answer(&hub, &agent, work, now, &events).await }
    })
}

async fn answer(
    hub: &Hub,
    agent: &DeclaredAgent,
    work: Work<Value>,
    now: Timestamp,
    events: &EventSink,
) -> Result<Value, Failure> {
    let received = work.message();
    // Nobody waits for the answer to a notification.
    if matches!(received.message().kind, MessageType::Event | MessageType::Response) {
        return Ok(Value::Null);
    }
    let action = received.action().to_owned();
    let item = WorkItem {
        kind: WorkKind::Request,
        id: received.id().to_string(),
        action: action.clone(),
        attempt: received.attempt(),
    };
    let report = WorkReport::start(&agent.name, item, events);
    let timeout = time_left(received.message().expires_at, received.sent_at(), now);
    let result = agent.answer(&prompts::question(&action, work.payload.clone(), timeout)).await;
    // If the policy cannot be read, the hub decides about the answer.
    let policy = hub.policy().await.unwrap_or_default();
    match result {
        Ok(reply) => {
            work.answer_metadata("usage", to_usage(reply.usage));
            if !reply.notes.is_empty() {
                work.answer_metadata("notes", &reply.notes);
            }
            let body = to_finding(&action, reply.body);
            if let Some(reason) = unjustified(&policy, &body) {
                report.failed(reason.to_owned(), false);
                return Ok(failed(&work, &policy, reason));
            }
            justify(&work, &policy, &body);
            report.done();
            Ok(body)
        }
        Err(failure) => {
            work.answer_metadata("usage", to_usage(*failure.usage));
            let reason = super::failure_reason(&failure);
            report.failed(reason.clone(), failure.retryable());
            // The requester decides whether to ask again, with this reason.
            Ok(failed(&work, &policy, &reason))
        }
    }
}

/// Returns the confidence of a finding or position.
fn confidence(body: &Value) -> Option<f64> {
    body["confidence"].as_f64().filter(|confidence| (0.0..=1.0).contains(confidence))
}

/// Returns the rationale of a finding or position.
fn rationale(body: &Value) -> Option<&str> {
    let texts = ["rationale", "reasoning", "summary"].into_iter().filter_map(|field| body[field].as_str());
    texts.map(str::trim).find(|text| !text.is_empty())
}

/// Returns what an answer lacks that the policy requires.
fn unjustified(policy: &Policy, body: &Value) -> Option<&'static str> {
    if policy.confidence && confidence(body).is_none() {
        return Some("the answer has no `confidence` from 0 to 1, which the policy of the space requires");
    }
    if policy.rationale && rationale(body).is_none() {
        return Some("the answer has no `summary` or `reasoning`, which the policy of the space requires");
    }
    None
}

/// States the confidence and the rationale of an answer.
fn justify(work: &Work<Value>, policy: &Policy, body: &Value) {
    if let Some(confidence) = confidence(body) {
        work.answer_confidence(confidence);
    }
    if let Some(rationale) = rationale(body) {
        work.answer_rationale(cut(rationale, policy));
    }
}

/// Reports a failure to the requester.
fn failed(work: &Work<Value>, policy: &Policy, reason: &str) -> Value {
    work.answer_rationale(cut(reason, policy));
    json!({ "error": reason })
}

/// Cuts a text to the length of a rationale.
fn cut(text: &str, policy: &Policy) -> String {
    text.chars().take(policy.rationale_chars_max as usize).collect()
}

/// Returns the time until the request expires, at most the time that it had when it was sent, and at most that of a call: a request
/// may wait for days for its worker.
fn time_left(expires_at: Option<Timestamp>, sent_at: Timestamp, now: Timestamp) -> Duration {
    let Some(Timestamp(expires_at)) = expires_at else { return ANSWER_TIMEOUT };
    let millis = expires_at.saturating_sub(now.0).min(expires_at.saturating_sub(sent_at.0));
    Duration::from_millis(millis).clamp(TIMEOUT_MIN, CALL_TIMEOUT)
}

fn to_usage(usage: Usage) -> ReportedUsage {
    ReportedUsage {
        calls: usage.calls.into(),
        tokens_in: usage.input_tokens,
        tokens_out: usage.output_tokens,
        money_micros: usage.money_micros,
    }
}

/// Converts a plain-text answer to a finding with only a summary.
fn to_finding(action: &str, body: Value) -> Value {
    match body.get("text").and_then(Value::as_str) {
        Some(text) if action == ANALYSE && body.get("summary").is_none() => json!({ "summary": text }),
        _ => body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: an answer that may take longer than its request; a timeout of 0 if the clock of the hub is behind.
    #[test]
    fn c2_an_answer_has_the_time_that_its_request_has_left() {
        let at = |millis: u64| Timestamp(1_000_000 + millis);
        let left = |now| time_left(Some(at(60_000)), at(0), at(now)).as_millis();
        assert_eq!((left(0), left(20_000), left(59_900), left(90_000)), (60_000, 40_000, 1_000, 1_000));
        assert_eq!(
            time_left(Some(at(60_000)), at(0), Timestamp(0)).as_millis(),
            60_000,
            "a clock that is behind"
        );
        assert_eq!(time_left(None, at(0), at(0)), ANSWER_TIMEOUT);
        assert_eq!(time_left(Some(at(86_400_000)), at(0), at(0)), CALL_TIMEOUT, "a call that hangs");
    }
}
