//! A task in words and numbers.

use crate::{Completion, Escalate, Setback, Task, TaskId, TaskSpec, TaskState, TaskStatus};

use super::{Fields, Names, Value, number, shown_priority, text, time};

/// What became of a task: always what it is and whose, and the rest of what was asked for only where it was made.
pub(super) fn fields(task: &Task, names: &Names<'_>) -> Fields {
    let spec = &task.spec;
    let mut fields = vec![("task", text(&spec.id)), ("state", text(task.status().as_str()))];
    if !spec.task_type.is_empty() {
        fields.push(("type", text(&spec.task_type)));
    }
    fields.extend(spec.agent.map(|agent| ("agent", names.agent(agent))));
    fields.extend(shown_priority(spec.priority));
    let untouched = task.attempt == 0 && task.setback.is_none();
    let waits = matches!(task.status(), TaskStatus::Blocked | TaskStatus::Ready);
    if untouched && waits {
        asked_for(spec, names, &mut fields);
    }
    fields.push(("attempt", number(task.attempt)));
    state(&task.state, names, &mut fields);
    if let Some(setback) = &task.setback {
        fields.push(("setback", Value::Group(setback_fields(setback, names))));
    }
    if !task.missing.is_empty() {
        fields.push(("missing", ids(&task.missing)));
    }
    if let Some(partial) = task.partials.last() {
        fields.push(("partialSeq", number(partial.part.seq.0)));
    }
    fields
}

fn asked_for(spec: &TaskSpec, names: &Names<'_>, fields: &mut Fields) {
    if !spec.depends_on.is_empty() {
        fields.push(("dependsOn", ids(&spec.depends_on)));
        fields.push(("onDependencyFailure", text(spec.on_dependency_failure.as_str())));
    }
    fields.extend(spec.timeout_ms.map(|timeout| ("timeoutMs", number(timeout.get()))));
    fields.push(("leaseMs", number(spec.lease_ms.get())));
    fields.push(("maxAttempts", number(spec.attempts_max)));
    fields.push(("backoffMs", number(spec.backoff_ms)));
    fields.push(match spec.escalate {
        Escalate::Nobody => ("escalateTo", text("nobody")),
        Escalate::Coordinators => ("escalateTo", text("coordinators")),
        Escalate::To(agent) => ("escalateTo", names.agent(agent)),
    });
    fields.extend(spec.input.map(|input| ("part", number(input.part))));
    fields.extend(spec.content_type.as_ref().map(|kind| ("contentType", text(kind))));
    fields.extend(spec.session.as_ref().map(|session| ("sessionId", text(session))));
}

fn state(state: &TaskState, names: &Names<'_>, fields: &mut Fields) {
    match state {
        TaskState::Blocked { held_by } if held_by.is_empty() => {}
        TaskState::Blocked { held_by } => fields.push(("heldBy", ids(held_by))),
        TaskState::Ready { .. } => {}
        TaskState::Scheduled { due } => fields.push(("due", time(*due))),
        TaskState::Leased(lease) => fields.extend([
            ("by", names.agent(lease.by)),
            ("leaseToken", number(lease.token.0)),
            ("leaseMs", number(lease.length_ms.get())),
        ]),
        TaskState::AwaitingApproval { approval } => fields.push(("approval", text(approval))),
        TaskState::Done(end) | TaskState::Partial(end) => completion(end, names, fields),
        TaskState::Failed(end) => {
            fields.extend(end.because_of.as_ref().map(|id| ("dependency", text(id))));
        }
        TaskState::Cancelled(end) => {
            fields.extend(end.by.map(|agent| ("by", names.agent(agent))));
            if !end.reason.is_empty() {
                fields.push(("reason", text(&end.reason)));
            }
            fields.extend(end.token.map(|token| ("leaseToken", number(token.0))));
        }
        TaskState::Escalated(end) => fields.push(("messageId", text(end.message))),
    }
}

fn completion(end: &Completion, names: &Names<'_>, fields: &mut Fields) {
    fields.extend([("by", names.agent(end.by)), ("leaseToken", number(end.token.0))]);
    fields.extend(end.result.map(|result| ("part", number(result.part))));
    fields.extend(end.content_type.as_ref().map(|kind| ("contentType", text(kind))));
    fields.extend(
        end.confidence.filter(|sure| sure.is_finite()).map(|sure| ("confidence", Value::Share(sure))),
    );
    fields.extend(end.rationale.as_ref().map(|rationale| ("rationale", text(rationale))));
}

fn setback_fields(setback: &Setback, names: &Names<'_>) -> Fields {
    let mut fields = vec![("kind", text(setback.kind.as_str())), ("by", names.agent(setback.by))];
    if setback.token.0 != 0 {
        fields.push(("leaseToken", number(setback.token.0)));
    }
    fields.push(("attempt", number(setback.attempt)));
    if !setback.reason.is_empty() {
        fields.push(("reason", text(&setback.reason)));
    }
    fields.extend(setback.details.map(|details| ("part", number(details.part))));
    fields
}

fn ids(ids: &[TaskId]) -> Value {
    Value::List(ids.iter().map(text).collect())
}
