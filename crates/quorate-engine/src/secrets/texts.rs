//! All texts that a commit writes to the log. The match is exhaustive, so that a new operation has to declare its
//! texts.

use quorate_core::{
    ApprovalId, ClientId, Commit, CreateTasks, CreateToken, Destination, Granted, Message, NewTask, Op,
    ProcedureId, PutEntry, RegisterAgent, RequestApproval, RollbackScope, SessionId, StepProcedure, TaskId,
};

/// Visits every text of a commit: index of the operation, field and bytes. Stops at the first error.
pub(super) fn each<'a, E>(
    commit: &'a Commit,
    mut visit: impl FnMut(usize, &'static str, &'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some((key, _)) = &commit.key {
        visit(0, "idempotencyKey", key.as_str().as_bytes())?;
    }
    for (index, op) in commit.ops.iter().enumerate() {
        match op {
            Op::CreateTasks(create) => inputs(create, &mut |input| visit(index, "input", input))?,
            other => other.payloads().try_for_each(|(field, payload)| visit(index, field, &payload.bytes))?,
        }
        fields(op, &mut |field, text| visit(index, field, text.as_bytes()))?;
    }
    Ok(())
}

/// Visits the inputs of tasks, which are concatenated in one payload. Each is scanned separately, so that the end of
/// one cannot hide the start of the next.
fn inputs<'a, E>(create: &'a CreateTasks, visit: &mut dyn FnMut(&'a [u8]) -> Result<(), E>) -> Result<(), E> {
    let Some(payload) = &create.inputs else { return Ok(()) };
    let mut unseen = payload.bytes.len();
    for (start, length) in create.tasks.iter().filter_map(|task| task.input) {
        let (start, length) = (start as usize, length as usize);
        if let Some(input) = payload.bytes.get(start..start.saturating_add(length)) {
            unseen = unseen.saturating_sub(input.len());
            visit(input)?;
        }
    }
    // Bytes that belong to no task are written too.
    if unseen > 0 { visit(&payload.bytes) } else { Ok(()) }
}

/// Visitor of a field and its text.
type Visit<'s, 'a, E> = &'s mut dyn FnMut(&'static str, &'a str) -> Result<(), E>;

fn of_step<'a, E>(step: &'a StepProcedure, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    visit("phase", &step.phase)?;
    visit("reason", &step.reason)
}

fn of_content<'a, E>(
    content_type: Option<&'a str>,
    rationale: &'a str,
    visit: Visit<'_, 'a, E>,
) -> Result<(), E> {
    visit("contentType", content_type.unwrap_or_default())?;
    visit("rationale", rationale)
}

/// Visits all texts except for payloads.
fn fields<'a, E>(op: &'a Op, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    match op {
        Op::RegisterAgent(agent) => of_agent(agent, visit),
        Op::Send { message, .. } => of_message(message, visit),
        Op::Nack(nack) => visit("reason", &nack.reason),
        Op::Put(put) => of_entry(put, visit),
        Op::Delete(delete) => visit("key", delete.key.as_str()),
        Op::AcquireLocks(request) => request.names.iter().try_for_each(|name| visit("names", name.as_str())),
        Op::SetBudget(set) => visit("id", set.id.as_str()),
        Op::OpenSession(new) => named(new.id.as_ref().map(SessionId::as_str), ("title", &new.title), visit),
        Op::ChangeSession(change) => visit("reason", &change.reason),
        Op::AddToSession(add) => of_content(add.content_type.as_deref(), &add.rationale, visit),
        Op::CreateTasks(CreateTasks { tasks, .. }) => tasks.iter().try_for_each(|task| of_task(task, visit)),
        Op::CompleteTask(complete) => {
            let rationale = complete.rationale.as_deref().unwrap_or_default();
            of_content(complete.content_type.as_deref(), rationale, visit)
        }
        Op::FailTask(fail) => visit("reason", &fail.reason),
        Op::CancelTask(cancel) => visit("reason", &cancel.reason),
        Op::MakeSnapshot(make) => {
            visit("name", make.name.as_str())?;
            visit("prefix", &make.prefix)
        }
        Op::Rollback(rollback) => match &rollback.scope {
            RollbackScope::Key { key, .. } => visit("key", key.as_str()),
            RollbackScope::Prefix(prefix) => visit("prefix", prefix),
        },
        Op::Request(request) => of_message(&request.message, visit),
        Op::Heartbeat(heartbeat) => visit("health", heartbeat.health.note()),
        Op::Subscribe(subscribe) => visit("pattern", subscribe.pattern.as_str()),
        Op::CreateToken(new) => of_token(new, visit),
        Op::StartProcedure(start) => {
            named(start.id.as_ref().map(ProcedureId::as_str), ("kind", &start.kind), visit)
        }
        Op::StepProcedure(step) => of_step(step, visit),
        Op::ControlProcedure(control) => visit("reason", &control.reason),
        Op::SignalProcedure(signal) => visit("name", &signal.name),
        Op::RequestApproval(request) => of_approval(request, visit),
        Op::DecideApproval(decide) => visit("reason", &decide.reason),
        // These only refer to existing resources, or contain no text.
        Op::RemoveAgent { .. }
        | Op::Claim { .. }
        | Op::GrantCredit { .. }
        | Op::CloseConsumer { .. }
        | Op::Ack(_)
        | Op::AckMany(_)
        | Op::Extend(_)
        | Op::Redrive { .. }
        | Op::Purge { .. }
        | Op::ErasePayload(_)
        | Op::Sweep
        | Op::SetPolicy(_)
        | Op::RenewLocks(_)
        | Op::ReleaseLocks(_)
        | Op::ClaimTasks(_)
        | Op::HeartbeatTask(_)
        | Op::ReleaseTask(_)
        | Op::DropSnapshot { .. }
        | Op::Unsubscribe { .. }
        | Op::Backfill(_)
        | Op::AwaitRequest { .. }
        | Op::CancelRequest { .. }
        | Op::Inspect(_)
        | Op::AwaitTask(_)
        | Op::RevokeToken { .. }
        | Op::HeartbeatBatch { .. }
        | Op::ConnectionClosed { .. }
        | Op::ResumeLeases { .. } => Ok(()),
    }
}

/// Visits an optional ID and a text.
fn named<'a, E>(
    id: Option<&'a str>,
    text: (&'static str, &'a str),
    visit: Visit<'_, 'a, E>,
) -> Result<(), E> {
    id.map_or(Ok(()), |id| visit("id", id))?;
    visit(text.0, text.1)
}

fn of_token<'a, E>(new: &'a CreateToken, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    visit("name", new.name.as_str())?;
    match &new.grants.capabilities {
        Granted::ByPolicy | Granted::All => Ok(()),
        Granted::Only(names) => names.iter().try_for_each(|name| visit("grants.capabilities", name)),
    }
}

fn of_agent<'a, E>(agent: &'a RegisterAgent, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    visit("id", agent.id.as_str())?;
    visit("name", &agent.name)?;
    agent.capabilities.iter().try_for_each(|name| visit("capabilities", name))?;
    agent.supported_actions.iter().try_for_each(|name| visit("supportedActions", name))
}

fn of_message<'a, E>(message: &'a Message, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    visit("action", &message.action)?;
    match &message.to {
        Destination::Topic(topic) => visit("to", topic.as_str())?,
        Destination::Can(capability) => visit("to", capability.as_str())?,
        // Agents and roles exist already.
        Destination::Agent(_) | Destination::Agents(_) | Destination::Broadcast | Destination::Role(_) => {}
    }
    let optional = [
        ("id", message.client_id.as_ref().map(ClientId::as_str)),
        ("replyTo", message.reply_to.as_ref().map(quorate_core::AgentId::as_str)),
        ("contentType", message.content_type.as_deref()),
        ("inReplyTo", message.in_reply_to.as_deref()),
        ("correlationId", message.correlation_id.as_deref()),
        ("causationId", message.causation_id.as_deref()),
        ("sessionId", message.session_id.as_deref()),
        ("budget", message.budget.as_deref()),
        ("traceparent", message.traceparent.as_deref()),
        ("origin", message.origin.as_deref()),
        ("rationale", message.rationale.as_deref()),
        ("metadata", message.metadata.as_deref()),
    ];
    optional.into_iter().try_for_each(|(field, text)| text.map_or(Ok(()), |text| visit(field, text)))
}

fn of_entry<'a, E>(put: &'a PutEntry, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    visit("key", put.key.as_str())?;
    visit("type", &put.entry_type)?;
    visit("contentType", put.content_type.as_deref().unwrap_or_default())?;
    put.depends_on.iter().try_for_each(|key| visit("dependsOn", key.as_str()))
}

fn of_approval<'a, E>(request: &'a RequestApproval, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    named(request.id.as_ref().map(ApprovalId::as_str), ("action", &request.action), visit)?;
    visit("rationale", request.rationale.as_deref().unwrap_or_default())?;
    visit("default", &request.default)?;
    visit("session", request.session.as_deref().unwrap_or_default())?;
    request.follow_ups.iter().try_for_each(|(_, action)| visit("then", action))
}

fn of_task<'a, E>(task: &'a NewTask, visit: Visit<'_, 'a, E>) -> Result<(), E> {
    visit("id", task.id.as_ref().map_or("", TaskId::as_str))?;
    visit("type", &task.task_type)?;
    visit("contentType", task.content_type.as_deref().unwrap_or_default())?;
    visit("session", task.session.as_deref().unwrap_or_default())
}
