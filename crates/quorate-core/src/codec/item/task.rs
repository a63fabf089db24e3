//! Encoding of tasks: the specification as numbered fields, omitting those with their default value; then the progress.
//! The numbers never change.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentNo, Generation, LeaseToken, MessageId, Seq, TaskId};
use crate::limits::{ATTEMPTS_DEFAULT, BACKOFF_MS_DEFAULT, LEASE_MS_DEFAULT};
use crate::message::Priority;
use crate::task::{
    AttemptFailure, AttemptFailureKind, Cancellation, Completion, Escalation, EscalationTarget,
    OnDependencyFailure, PartRef, Task, TaskFailure, TaskInput, TaskLease, TaskNo, TaskPartial, TaskSpec,
    TaskState, TaskStatus,
};
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, task: &Task) {
    let mut fields = Writer(Vec::with_capacity(96));
    write_spec(&mut fields, &task.spec);
    out.bytes(&fields.0);
    out.numbers(&[u64::from(task.attempt), u64::from(task.status().number())]);
    write_state(out, &task.state);
    out.number(u64::from(task.last_failure.is_some()));
    if let Some(failure) = &task.last_failure {
        write_failure(out, failure);
    }
    out.number(task.partials.len() as u64);
    for partial in &task.partials {
        out.numbers(&[u64::from(partial.attempt), partial.at.0]);
        write_part(out, partial.part);
    }
    write_ids(out, &task.missing);
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Task, DecodeError> {
    let spec = Arc::new(read_spec(&mut input.nested()?)?);
    let attempt = input.narrow()?;
    let state = read_state(input)?;
    let last_failure = match input.number()? {
        0 => None,
        1 => Some(Box::new(read_failure(input)?)),
        _ => return input.expected("a failed attempt or none"),
    };
    let count = input.count(4)?;
    let mut partials = Vec::with_capacity(count);
    for _ in 0..count {
        let (attempt, at) = (input.narrow()?, Timestamp(input.number()?));
        partials.push(TaskPartial { attempt, at, part: read_part(input)? });
    }
    Ok(Task { spec, attempt, state, last_failure, partials, missing: read_ids(input)? })
}

fn write_spec(out: &mut Writer, spec: &TaskSpec) {
    let mut text = |field: u64, value: Option<&str>| {
        if let Some(value) = value {
            out.number(field);
            out.text(value);
        }
    };
    text(1, Some(spec.id.as_str()));
    text(6, Some(&*spec.task_type).filter(|task_type| !task_type.is_empty()));
    text(9, spec.content_type.as_deref());
    spec.depends_on.iter().for_each(|id| text(11, Some(id.as_str())));
    text(18, spec.session.as_deref());
    let mut number = |field: u64, value: Option<u64>| {
        if let Some(value) = value {
            out.numbers(&[field, value]);
        }
    };
    number(2, Some(spec.number.seq.0));
    number(3, Some(u64::from(spec.number.n)).filter(|n| *n != 0));
    number(4, Some(spec.created_at.0));
    number(5, spec.creator.map(|agent| agent.0));
    number(7, spec.agent.map(|agent| agent.0));
    let priority = u64::from(spec.priority.level) << 8 | u64::from(spec.priority.rank);
    number(10, Some(priority).filter(|_| spec.priority != Priority::NORMAL));
    number(12, spec.timeout_ms.map(NonZeroU64::get));
    number(13, Some(spec.lease_ms.get()).filter(|ms| *ms != LEASE_MS_DEFAULT));
    number(14, Some(u64::from(spec.attempts_max)).filter(|max| *max != u64::from(ATTEMPTS_DEFAULT)));
    number(15, Some(spec.backoff_ms).filter(|ms| *ms != BACKOFF_MS_DEFAULT));
    number(16, Some(policy_number(spec.on_dependency_failure)).filter(|policy| *policy != 0));
    number(
        17,
        match spec.escalate {
            EscalationTarget::Coordinators => None,
            EscalationTarget::Nobody => Some(0),
            EscalationTarget::Agent(agent) => Some(agent.0),
        },
    );
    if let Some(TaskInput { part, start, length }) = spec.input {
        out.numbers(&[8, u64::from(part), start, length]);
    }
}

fn read_spec(input: &mut Reader<'_>) -> Result<TaskSpec, DecodeError> {
    let mut id = None;
    let mut spec = TaskSpec {
        id: TaskId::generated(Generation(0), Seq(0), 0),
        number: TaskNo { seq: Seq(0), n: 0 },
        created_at: Timestamp(0),
        creator: None,
        task_type: "".into(),
        agent: None,
        input: None,
        content_type: None,
        priority: Priority::NORMAL,
        depends_on: Vec::new(),
        timeout_ms: None,
        lease_ms: NonZeroU64::new(LEASE_MS_DEFAULT).expect("the default is not zero"),
        attempts_max: ATTEMPTS_DEFAULT,
        backoff_ms: BACKOFF_MS_DEFAULT,
        on_dependency_failure: OnDependencyFailure::Fail,
        escalate: EscalationTarget::Coordinators,
        session: None,
    };
    while !input.is_done() {
        match input.number()? {
            1 => id = Some(input.id()?),
            2 => spec.number.seq = Seq(input.number()?),
            3 => spec.number.n = input.narrow()?,
            4 => spec.created_at = Timestamp(input.number()?),
            5 => spec.creator = Some(AgentNo(input.number()?)),
            6 => spec.task_type = input.text()?.into(),
            7 => spec.agent = Some(AgentNo(input.number()?)),
            8 => {
                let (part, start, length) = (input.narrow()?, input.number()?, input.number()?);
                spec.input = Some(TaskInput { part, start, length });
            }
            9 => spec.content_type = Some(input.text()?.into()),
            10 => {
                let [level, rank] = input.narrow::<u16>()?.to_be_bytes();
                spec.priority = Priority { level, rank };
            }
            11 => spec.depends_on.push(input.id()?),
            12 => spec.timeout_ms = Some(read_duration(input)?),
            13 => spec.lease_ms = read_duration(input)?,
            14 => spec.attempts_max = input.narrow()?,
            15 => spec.backoff_ms = input.number()?,
            16 => spec.on_dependency_failure = read_policy(input)?,
            17 => {
                spec.escalate = match input.number()? {
                    0 => EscalationTarget::Nobody,
                    agent => EscalationTarget::Agent(AgentNo(agent)),
                }
            }
            18 => spec.session = Some(input.text()?.into()),
            _ => return input.expected("a known field of a task"),
        }
    }
    let Some(id) = id else { return input.expected("the id of a task") };
    Ok(TaskSpec { id, ..spec })
}

/// Reads a non-zero duration, so that every decoded lease expires.
fn read_duration(input: &mut Reader<'_>) -> Result<NonZeroU64, DecodeError> {
    NonZeroU64::new(input.number()?).map_or_else(|| input.expected("a non-zero duration"), Ok)
}

fn write_state(out: &mut Writer, state: &TaskState) {
    match state {
        TaskState::Blocked { held_by } => write_ids(out, held_by),
        TaskState::Ready { since } => out.number(since.0),
        TaskState::Scheduled { due } => out.number(due.0),
        TaskState::Leased(lease) => out.numbers(&[
            lease.by.0,
            lease.token.0,
            lease.length_ms.get(),
            lease.ready_since.0,
            lease.since.0,
        ]),
        TaskState::AwaitingApproval { approval } => out.text(approval),
        TaskState::Done(end) | TaskState::Partial(end) => {
            out.numbers(&[end.by.0, end.token.0, end.seq.0, end.at.0]);
            out.option(end.result.map(|result| result.seq.0));
            out.number(end.result.map_or(0, |result| u64::from(result.part)));
            out.text(end.content_type.as_deref().unwrap_or(""));
            out.option(end.confidence.map(f64::to_bits));
            out.text(end.rationale.as_deref().unwrap_or(""));
        }
        TaskState::Failed(end) => {
            out.numbers(&[end.seq.0, end.at.0]);
            out.text(end.failed_dependency.as_ref().map_or("", TaskId::as_str));
        }
        TaskState::Cancelled(end) => {
            out.numbers(&[end.seq.0, end.at.0]);
            out.option(end.by.map(|agent| agent.0));
            out.text(&end.reason);
            out.option(end.token.map(|token| token.0));
        }
        TaskState::Escalated(end) => {
            let MessageId { generation, seq, n } = end.message;
            out.numbers(&[end.at.0, generation.0, seq.0, u64::from(n)]);
        }
    }
}

fn read_state(input: &mut Reader<'_>) -> Result<TaskState, DecodeError> {
    let Some(status) = TaskStatus::from_number(input.narrow()?) else {
        return input.expected("the state of a task");
    };
    Ok(match status {
        TaskStatus::Blocked => TaskState::Blocked { held_by: read_ids(input)? },
        TaskStatus::Ready => TaskState::Ready { since: Timestamp(input.number()?) },
        TaskStatus::Scheduled => TaskState::Scheduled { due: Timestamp(input.number()?) },
        TaskStatus::Leased => TaskState::Leased(TaskLease {
            by: AgentNo(input.number()?),
            token: LeaseToken(input.number()?),
            length_ms: read_duration(input)?,
            ready_since: Timestamp(input.number()?),
            since: Timestamp(input.number()?),
        }),
        TaskStatus::AwaitingApproval => TaskState::AwaitingApproval { approval: input.text()?.into() },
        TaskStatus::Done => TaskState::Done(Box::new(read_completion(input)?)),
        TaskStatus::Partial => TaskState::Partial(Box::new(read_completion(input)?)),
        TaskStatus::Failed => TaskState::Failed(TaskFailure {
            seq: Seq(input.number()?),
            at: Timestamp(input.number()?),
            failed_dependency: read_optional_id(input)?,
        }),
        TaskStatus::Cancelled => TaskState::Cancelled(Box::new(Cancellation {
            seq: Seq(input.number()?),
            at: Timestamp(input.number()?),
            by: input.option()?.map(AgentNo),
            reason: input.text()?.into(),
            token: input.option()?.map(LeaseToken),
        })),
        TaskStatus::Escalated => TaskState::Escalated(Escalation {
            at: Timestamp(input.number()?),
            message: MessageId {
                generation: Generation(input.number()?),
                seq: Seq(input.number()?),
                n: input.narrow()?,
            },
        }),
    })
}

fn read_completion(input: &mut Reader<'_>) -> Result<Completion, DecodeError> {
    let (by, token) = (AgentNo(input.number()?), LeaseToken(input.number()?));
    let (seq, at) = (Seq(input.number()?), Timestamp(input.number()?));
    let (record, part) = (input.option()?, input.narrow()?);
    let result = record.map(|record| PartRef { seq: Seq(record), part });
    let content_type = read_optional_text(input)?;
    let confidence = input.option()?.map(f64::from_bits);
    let rationale = read_optional_text(input)?;
    Ok(Completion { by, token, seq, at, result, content_type, confidence, rationale })
}

fn write_failure(out: &mut Writer, failure: &AttemptFailure) {
    out.numbers(&[
        failure_number(failure.kind),
        failure.by.0,
        failure.token.0,
        u64::from(failure.attempt),
        failure.seq.0,
        failure.at.0,
    ]);
    out.text(&failure.reason);
    out.option(failure.details.map(|details| u64::from(details.part)));
}

fn read_failure(input: &mut Reader<'_>) -> Result<AttemptFailure, DecodeError> {
    let number = input.number()?;
    let Some(kind) = FAILURE_KINDS.into_iter().find(|kind| failure_number(*kind) == number) else {
        return input.expected("the cause of a failed attempt");
    };
    let (by, token, attempt) = (AgentNo(input.number()?), LeaseToken(input.number()?), input.narrow()?);
    let (seq, at, reason) = (Seq(input.number()?), Timestamp(input.number()?), input.text()?.into());
    // The details of a failed attempt are in the record of the failure itself.
    let details = match input.option()? {
        Some(part) => match u32::try_from(part) {
            Ok(part) => Some(PartRef { seq, part }),
            Err(_) => return input.expected("a smaller number"),
        },
        None => None,
    };
    Ok(AttemptFailure { kind, by, token, attempt, seq, at, reason, details })
}

const FAILURE_KINDS: [AttemptFailureKind; 5] = [
    AttemptFailureKind::Failed,
    AttemptFailureKind::Permanent,
    AttemptFailureKind::TimedOut,
    AttemptFailureKind::LeaseExpired,
    AttemptFailureKind::HolderGone,
];

fn failure_number(kind: AttemptFailureKind) -> u64 {
    match kind {
        AttemptFailureKind::Failed => 0,
        AttemptFailureKind::Permanent => 1,
        AttemptFailureKind::TimedOut => 2,
        AttemptFailureKind::LeaseExpired => 3,
        AttemptFailureKind::HolderGone => 4,
    }
}

fn policy_number(policy: OnDependencyFailure) -> u64 {
    match policy {
        OnDependencyFailure::Fail => 0,
        OnDependencyFailure::Skip => 1,
        OnDependencyFailure::Wait => 2,
    }
}

fn read_policy(input: &mut Reader<'_>) -> Result<OnDependencyFailure, DecodeError> {
    let number = input.number()?;
    let all = [OnDependencyFailure::Fail, OnDependencyFailure::Skip, OnDependencyFailure::Wait];
    let found = all.into_iter().find(|policy| policy_number(*policy) == number);
    found.map_or_else(|| input.expected("the behaviour on a failed dependency"), Ok)
}

fn write_part(out: &mut Writer, part: PartRef) {
    out.numbers(&[part.seq.0, u64::from(part.part)]);
}

fn read_part(input: &mut Reader<'_>) -> Result<PartRef, DecodeError> {
    Ok(PartRef { seq: Seq(input.number()?), part: input.narrow()? })
}

fn write_ids(out: &mut Writer, ids: &[TaskId]) {
    out.number(ids.len() as u64);
    ids.iter().for_each(|id| out.text(id));
}

fn read_ids(input: &mut Reader<'_>) -> Result<Vec<TaskId>, DecodeError> {
    let count = input.count(2)?;
    (0..count).map(|_| input.id()).collect()
}

fn read_optional_id(input: &mut Reader<'_>) -> Result<Option<TaskId>, DecodeError> {
    let text = input.text()?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map_or_else(|_| input.expected("an id"), |id| Ok(Some(id)))
}

fn read_optional_text(input: &mut Reader<'_>) -> Result<Option<String>, DecodeError> {
    Ok(Some(input.text()?).filter(|text| !text.is_empty()).map(Into::into))
}

#[cfg(test)]
mod tests;
