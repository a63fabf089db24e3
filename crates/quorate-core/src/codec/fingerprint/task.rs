//! Fingerprints of the operations on tasks. Only compared, never decoded.

use crate::codec::Writer;
use crate::codec::fingerprint::write_payload;
use crate::commit::WaitMode;
use crate::message::Payload;
use crate::task::{
    CancelTask, ClaimTasks, CompleteTask, CreateTasks, Dependency, EscalateTo, FailTask, HeartbeatTask,
    NewTask, TaskLeaseRef,
};

pub(super) fn write_create(out: &mut Writer, create: &CreateTasks) {
    out.numbers(&[30, create.tasks.len() as u64]);
    create.tasks.iter().for_each(|task| write_new(out, task));
    write_optional(out, create.inputs.as_ref());
}

fn write_new(out: &mut Writer, task: &NewTask) {
    for text in [task.id.as_ref().map(AsRef::as_ref), task.agent.as_ref().map(AsRef::as_ref)] {
        write_text(out, text);
    }
    write_text(out, task.content_type.as_deref());
    write_text(out, task.session.as_deref());
    out.text(&task.task_type);
    out.option(task.input.map(|(start, _)| start));
    out.option(task.input.map(|(_, length)| length));
    out.option(task.timeout_ms);
    out.numbers(&[
        u64::from(task.priority.level),
        u64::from(task.priority.rank),
        task.lease_ms,
        u64::from(task.attempts_max),
        task.backoff_ms,
        task.depends_on.len() as u64,
    ]);
    for dependency in &task.depends_on {
        match dependency {
            Dependency::Task(id) => write_text(out, Some(id.as_str())),
            Dependency::Index(n) => out.numbers(&[0, u64::from(*n)]),
        }
    }
    out.text(task.on_dependency_failure.as_str());
    match &task.escalate_to {
        EscalateTo::Nobody => out.number(0),
        EscalateTo::Coordinators => out.number(1),
        EscalateTo::Agent(agent) => {
            out.number(2);
            out.text(agent);
        }
    }
}

pub(super) fn write_claim(out: &mut Writer, claim: &ClaimTasks) {
    out.number(31);
    out.text(&claim.agent);
    out.number(claim.types.len() as u64);
    claim.types.iter().for_each(|task_type| out.text(task_type));
    out.numbers(&[u64::from(claim.max), u64::from(claim.wait != WaitMode::NoWait)]);
    out.option(claim.lease_ms);
}

pub(super) fn write_heartbeat(out: &mut Writer, heartbeat: &HeartbeatTask) {
    write_lease(out, 32, &heartbeat.lease);
    write_optional(out, heartbeat.partial.as_ref());
}

pub(super) fn write_complete(out: &mut Writer, complete: &CompleteTask) {
    write_lease(out, 33, &complete.lease);
    out.number(u64::from(complete.status.number()));
    write_optional(out, complete.result.as_ref());
    write_text(out, complete.content_type.as_deref());
    out.option(complete.confidence.map(f64::to_bits));
    write_text(out, complete.rationale.as_deref());
}

pub(super) fn write_fail(out: &mut Writer, fail: &FailTask) {
    write_lease(out, 34, &fail.lease);
    out.text(&fail.reason);
    write_optional(out, fail.details.as_ref());
    out.number(u64::from(fail.recoverable));
}

pub(super) fn write_cancel(out: &mut Writer, cancel: &CancelTask) {
    out.number(36);
    out.text(&cancel.task);
    out.text(&cancel.reason);
}

pub(super) fn write_lease(out: &mut Writer, op: u64, lease: &TaskLeaseRef) {
    out.number(op);
    out.text(&lease.task);
    out.number(lease.token.0);
}

fn write_text(out: &mut Writer, text: Option<&str>) {
    out.number(u64::from(text.is_some()));
    if let Some(text) = text {
        out.text(text);
    }
}

fn write_optional(out: &mut Writer, payload: Option<&Payload>) {
    out.number(u64::from(payload.is_some()));
    if let Some(payload) = payload {
        write_payload(out, payload);
    }
}
