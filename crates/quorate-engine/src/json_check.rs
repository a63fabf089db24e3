//! Checks that content declared as JSON is JSON. After admission, payloads are opaque bytes.

use std::sync::Arc;

use quorate_api::wellformed::check_json;
use quorate_core::{Commit, CreateTasks, Message, MessageType, Op, Payload, Policy, Refused};
use serde_json::Value;

use crate::approvals;

/// Rejects a commit with content that is declared as JSON but is not, and payloads that violate the policy: after
/// admission, payloads are not parsed.
pub(crate) fn check_commit(commit: &Commit, policy: &Policy) -> Result<(), Refused> {
    for (index, op) in commit.ops.iter().enumerate() {
        let checked = match op {
            Op::Send { message, .. } => check_message(message, policy),
            Op::Request(request) => check_message(&request.message, policy),
            Op::Put(put) if put.is_json() => check_json("content", &put.content.bytes),
            Op::OpenSession(open) => {
                open.task.as_ref().map_or(Ok(()), |task| check_json("task", &task.bytes))
            }
            Op::AddToSession(add) if add.is_json() => check_json("body", &add.body.bytes),
            Op::CreateTasks(create) => check_inputs(create),
            Op::HeartbeatTask(heartbeat) => optional_json("partial result", heartbeat.partial.as_ref()),
            Op::CompleteTask(complete) if complete.is_json() => {
                complete.result.as_ref().map_or(Ok(()), |result| {
                    check_json("result", &result.bytes)?;
                    check_fields("result", &result.bytes, policy)
                })
            }
            Op::FailTask(fail) => optional_json("details", fail.details.as_ref()),
            Op::RequestApproval(request) => {
                approvals::check_document(Some(&request.action), &request.document)
            }
            Op::DecideApproval(decide) => approvals::check_verdict(&decide.verdict),
            Op::StartProcedure(start) => optional_json("spec", start.spec.as_ref()),
            Op::StepProcedure(step) => optional_json("state", step.state.as_ref())
                .and_then(|()| optional_json("result", step.result.as_ref())),
            Op::SignalProcedure(signal) => optional_json("payload", signal.payload.as_ref()),
            _ => Ok(()),
        };
        checked.map_err(|refused| refused.at_op(index))?;
    }
    Ok(())
}

/// Marks the responses that report a failure, so that the policy requires no confidence of them.
pub(crate) fn mark_failures(commit: &mut Commit, policy: &Policy) {
    if !policy.confidence {
        return;
    }
    for op in &mut commit.ops {
        if let Op::Send { message, .. } = op
            && message.kind == MessageType::Response
            && message.confidence.is_none()
            && message.is_json()
            && reports_failure(&message.payload.bytes)
        {
            Arc::make_mut(message).reports_failure = true;
        }
    }
}

/// Whether a payload reports a failure: `"success": false`, an `error`, or a `status` that says so.
fn reports_failure(payload: &[u8]) -> bool {
    let Ok(Value::Object(payload)) = serde_json::from_slice(payload) else { return false };
    let has_error =
        payload.get("error").is_some_and(|error| !matches!(error, Value::Null | Value::Bool(false)));
    has_error
        || payload.get("success") == Some(&Value::Bool(false))
        || matches!(payload.get("status").and_then(Value::as_str), Some("failure" | "failed" | "error"))
}

fn check_message(message: &Message, policy: &Policy) -> Result<(), Refused> {
    if message.is_json() {
        check_json("payload", &message.payload.bytes)?;
        check_fields("payload", &message.payload.bytes, policy)?;
    }
    message.metadata.as_deref().map_or(Ok(()), |text| check_json("metadata", text.as_bytes()))
}

/// Checks the input of each task.
fn check_inputs(create: &CreateTasks) -> Result<(), Refused> {
    for task in create.tasks.iter().filter(|task| task.is_json()) {
        if let Some(input) = create.input_of(task) {
            check_json("input", &input)?;
        }
    }
    Ok(())
}

fn optional_json(name: &str, payload: Option<&Payload>) -> Result<(), Refused> {
    payload.map_or(Ok(()), |payload| check_json(name, &payload.bytes))
}

/// Payload fields under which messages and task results list their actions.
const ACTIONS: [&str; 3] = ["actions_taken", "actionsTaken", "actions"];

/// Rejects a payload that lists more actions, or has a longer `rationale`, than the policy allows.
fn check_fields(name: &str, payload: &[u8], policy: &Policy) -> Result<(), Refused> {
    if policy.actions_max.is_none() && !policy.limits_rationale_in_payloads() {
        return Ok(());
    }
    let Ok(Value::Object(payload)) = serde_json::from_slice(payload) else { return Ok(()) };
    let lists = ACTIONS.iter().filter_map(|name| payload.get(*name)?.as_array());
    policy.check_actions(name, lists.map(Vec::len).max().unwrap_or(0))?;
    match payload.get("rationale").and_then(Value::as_str) {
        Some(rationale) if policy.limits_rationale_in_payloads() => {
            policy.check_rationale_length(&format!("{name}.rationale"), rationale)
        }
        _ => Ok(()),
    }
}
