//! Redaction of operations. Only human-readable text is rewritten: a changed name or key would refer to another
//! resource.

use std::sync::Arc;

use quorate_core::{CreateTasks, Message, Op, Payload, SendRequest};
use quorate_store::Entropy;

use super::Scanner;

/// Returns the operation with the secrets of that field redacted; `None` if the field is an identifier. A payload is
/// sealed again.
pub(super) fn rewrite(op: &Op, field: &str, scanner: &Scanner, entropy: &Entropy) -> Option<Op> {
    let mut op = op.clone();
    if op.payloads().any(|(name, _)| name == field) {
        payload(&mut op, field, scanner, entropy)?;
    } else {
        let text = text(&mut op, field)?;
        *text = String::from_utf8(scanner.redact(text.as_bytes())?).ok()?;
    }
    Some(match op {
        // Recomputes the fingerprint: it must not disclose anything about the original text.
        Op::Send { message, .. } => Op::send(Arc::unwrap_or_clone(message)),
        Op::Request(request) => Op::Request(request.with_message(Message::clone(&request.message))),
        op => op,
    })
}

fn payload(op: &mut Op, field: &str, scanner: &Scanner, entropy: &Entropy) -> Option<()> {
    let payload = match op {
        Op::Send { message, .. } | Op::Request(SendRequest { message, .. }) => {
            &mut Arc::make_mut(message).payload
        }
        Op::Put(put) => &mut put.content,
        Op::OpenSession(open) => open.task.as_mut()?,
        Op::AddToSession(add) => &mut add.body,
        Op::HeartbeatTask(heartbeat) => heartbeat.partial.as_mut()?,
        Op::CompleteTask(complete) => complete.result.as_mut()?,
        Op::FailTask(fail) => fail.details.as_mut()?,
        Op::RequestApproval(request) => &mut request.document,
        Op::StartProcedure(start) => start.spec.as_mut()?,
        Op::StepProcedure(step) if field == "state" => step.state.as_mut()?,
        Op::StepProcedure(step) => step.result.as_mut()?,
        Op::SignalProcedure(signal) => signal.payload.as_mut()?,
        Op::CreateTasks(create) => {
            *create = inputs(create, scanner, entropy);
            return Some(());
        }
        _ => return None,
    };
    *payload = Payload::seal(scanner.redact(&payload.bytes)?.into(), entropy.bytes_16());
    Some(())
}

/// Redacts the concatenated inputs of tasks. Their ranges change.
fn inputs(create: &CreateTasks, scanner: &Scanner, entropy: &Entropy) -> CreateTasks {
    let rewritten = create.tasks.iter().map(|task| {
        let input =
            create.input_of(task).map(|input| scanner.redact(&input).unwrap_or_else(|| input.to_vec()));
        (task.clone(), input)
    });
    CreateTasks::pack(rewritten, entropy.bytes_16())
}

/// Returns the text of a field that is not an identifier.
fn text<'a>(op: &'a mut Op, field: &str) -> Option<&'a mut String> {
    match (op, field) {
        (Op::Send { message, .. } | Op::Request(SendRequest { message, .. }), "rationale") => {
            Arc::make_mut(message).rationale.as_mut()
        }
        (Op::Send { message, .. } | Op::Request(SendRequest { message, .. }), "metadata") => {
            Arc::make_mut(message).metadata.as_mut()
        }
        (Op::Nack(nack), "reason") => Some(&mut nack.reason),
        (Op::OpenSession(open), "title") => Some(&mut open.title),
        (Op::ChangeSession(change), "reason") => Some(&mut change.reason),
        (Op::AddToSession(add), "rationale") => Some(&mut add.rationale),
        (Op::CompleteTask(complete), "rationale") => complete.rationale.as_mut(),
        (Op::FailTask(fail), "reason") => Some(&mut fail.reason),
        (Op::RequestApproval(request), "rationale") => request.rationale.as_mut(),
        (Op::RequestApproval(request), "default") => Some(&mut request.default),
        (Op::DecideApproval(decide), "reason") => Some(&mut decide.reason),
        (Op::CancelTask(cancel), "reason") => Some(&mut cancel.reason),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
