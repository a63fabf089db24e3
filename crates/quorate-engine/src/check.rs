//! What is declared to be JSON must be JSON. Behind the door payloads are opaque bytes.

use quorate_core::limits::JSON_DEPTH_MAX;
use quorate_core::{Code, Commit, CreateTasks, Message, Op, Payload, Policy, Refused};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::approvals;

mod path;

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

/// Refuses what is not JSON, or nested deeper than anybody may read.
pub(crate) fn json(what: &str, bytes: &[u8]) -> Result<(), Refused> {
    if let Some(at) = too_deep(bytes) {
        return Err(Refused::new(
            Code::LimitExceeded,
            format!("the {what} is nested deeper than {JSON_DEPTH_MAX} levels at byte {at}"),
        )
        .limit(JSON_DEPTH_MAX as u64)
        .hint("flatten it, or send it with another content type"));
    }
    // First of all text: a reader that skips strings does not look at their bytes.
    let parsed = std::str::from_utf8(bytes)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str::<IgnoredAny>(text).map_err(|error| error.to_string()));
    match parsed {
        Ok(_) => match half_a_letter(bytes) {
            Some(at) => Err(Refused::new(
                Code::Invalid,
                format!("the {what} has half a letter at {}: an escape that is no text", path::of(bytes, at)),
            )
            .hint("an escape from \\ud800 to \\udbff needs one from \\udc00 to \\udfff behind it")),
            None => Ok(()),
        },
        Err(error) => Err(Refused::new(Code::Invalid, format!("the {what} is not JSON: {error}"))
            .hint("send JSON, or say with the content type what it is")),
    }
}

/// Where a string of valid JSON holds one half of a surrogate pair without the other. Readers of most languages refuse the whole
/// document for it, so one such text would keep everybody from reading a list that it stands in.
fn half_a_letter(bytes: &[u8]) -> Option<usize> {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => return Some(at),
            Some(_) => at += 6,
            // Another escape is two bytes long.
            None => at += 2,
        }
    }
    None
}

/// Where the nesting passes the limit. Looks at brackets outside strings only, so it needs no stack of its own.
fn too_deep(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > JSON_DEPTH_MAX {
                    return Some(at);
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
