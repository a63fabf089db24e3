//! What is declared to be JSON must be JSON. Behind the door payloads are opaque bytes.

use quorate_api::wellformed::json;
use quorate_core::{Commit, CreateTasks, Message, Op, Payload, Policy, Refused};
use serde_json::Value;

use crate::approvals;

/// Refuses a commit in which something is declared to be JSON and is not, and what only the door can see that the policy
/// forbids: behind it nobody reads payloads.
pub(crate) fn texts(commit: &Commit, policy: &Policy) -> Result<(), Refused> {
    for (index, op) in commit.ops.iter().enumerate() {
        let checked = match op {
            Op::Send { message, .. } => in_message(message, policy),
            Op::Request(ask) => in_message(&ask.message, policy),
            Op::Put(put) if put.is_json() => json("content", &put.content.bytes),
            Op::OpenSession(open) => open.task.as_ref().map_or(Ok(()), |task| json("task", &task.bytes)),
            Op::AddToSession(add) if add.is_json() => json("body", &add.body.bytes),
            Op::CreateTasks(create) => inputs(create),
            Op::HeartbeatTask(heartbeat) => json_or_none("partial result", heartbeat.partial.as_ref()),
            Op::CompleteTask(complete) if complete.is_json() => {
                json_or_none("result", complete.result.as_ref())
            }
            Op::FailTask(fail) => json_or_none("details", fail.details.as_ref()),
            Op::RequestApproval(ask) => approvals::check_document(Some(&ask.action), &ask.document),
            Op::DecideApproval(decide) => approvals::check_verdict(&decide.verdict),
            Op::StartProcedure(start) => json_or_none("spec", start.spec.as_ref()),
            Op::StepProcedure(step) => json_or_none("state", step.state.as_ref())
                .and_then(|()| json_or_none("result", step.result.as_ref())),
            _ => Ok(()),
        };
        checked.map_err(|refused| refused.at_op(index))?;
    }
    Ok(())
}

fn in_message(message: &Message, policy: &Policy) -> Result<(), Refused> {
    if message.is_json() {
        json("payload", &message.payload.bytes)?;
    }
    message.metadata.as_deref().map_or(Ok(()), |text| json("metadata", text.as_bytes()))?;
    actions(message, policy)
}

/// The inputs of tasks, each by itself.
fn inputs(create: &CreateTasks) -> Result<(), Refused> {
    for task in create.tasks.iter().filter(|task| task.is_json()) {
        if let Some(input) = create.input_of(task) {
            json("input", &input)?;
        }
    }
    Ok(())
}

fn json_or_none(what: &str, payload: Option<&Payload>) -> Result<(), Refused> {
    payload.map_or(Ok(()), |payload| json(what, &payload.bytes))
}

/// Under these names messages list what was done.
const ACTIONS: [&str; 3] = ["actions_taken", "actionsTaken", "actions"];

/// Refuses a message that lists more actions than the policy allows.
fn actions(message: &Message, policy: &Policy) -> Result<(), Refused> {
    if policy.actions_max.is_none() || !message.is_json() {
        return Ok(());
    }
    let Ok(Value::Object(payload)) = serde_json::from_slice(&message.payload.bytes) else { return Ok(()) };
    let lists = ACTIONS.iter().filter_map(|name| payload.get(*name)?.as_array());
    policy.check_actions(lists.map(Vec::len).max().unwrap_or(0))
}
