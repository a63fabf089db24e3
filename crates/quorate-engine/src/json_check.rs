//! Checks that content declared as JSON is JSON. After admission, payloads are opaque bytes.

use quorate_api::wellformed::check_json;
use quorate_core::{Commit, CreateTasks, Message, Op, Payload, Policy, Refused};
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
                optional_json("result", complete.result.as_ref())
            }
            Op::FailTask(fail) => optional_json("details", fail.details.as_ref()),
            Op::RequestApproval(request) => {
                approvals::check_document(Some(&request.action), &request.document)
            }
            Op::DecideApproval(decide) => approvals::check_verdict(&decide.verdict),
            Op::StartProcedure(start) => optional_json("spec", start.spec.as_ref()),
            Op::StepProcedure(step) => optional_json("state", step.state.as_ref())
                .and_then(|()| optional_json("result", step.result.as_ref())),
            _ => Ok(()),
        };
        checked.map_err(|refused| refused.at_op(index))?;
    }
    Ok(())
}

fn check_message(message: &Message, policy: &Policy) -> Result<(), Refused> {
    if message.is_json() {
        check_json("payload", &message.payload.bytes)?;
    }
    message.metadata.as_deref().map_or(Ok(()), |text| check_json("metadata", text.as_bytes()))?;
    check_actions(message, policy)
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

/// Payload fields under which messages list their actions.
const ACTIONS: [&str; 3] = ["actions_taken", "actionsTaken", "actions"];

/// Rejects a message that lists more actions than the policy allows.
fn check_actions(message: &Message, policy: &Policy) -> Result<(), Refused> {
    if policy.actions_max.is_none() || !message.is_json() {
        return Ok(());
    }
    let Ok(Value::Object(payload)) = serde_json::from_slice(&message.payload.bytes) else { return Ok(()) };
    let lists = ACTIONS.iter().filter_map(|name| payload.get(*name)?.as_array());
    policy.check_actions(lists.map(Vec::len).max().unwrap_or(0))
}
