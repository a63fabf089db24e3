//! Which texts a commit brings into the log. An operation that is added has to say what it brings: the list has no other
//! way to end.

use quorate_core::{
    ApprovalId, ClientId, Commit, CreateTasks, Destination, Message, NewTask, Op, ProcedureId, PutEntry,
    RegisterAgent, RequestApproval, RollbackWhat, SessionId, TaskId,
};

/// Shows every text of a commit: the number of its operation, its field, its bytes. Ends with the first error.
pub(super) fn each<'a, E>(
    commit: &'a Commit,
    mut see: impl FnMut(usize, &'static str, &'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if let Some((key, _)) = &commit.key {
        see(0, "idempotencyKey", key.as_str().as_bytes())?;
    }
    for (number, op) in commit.ops.iter().enumerate() {
        match op {
            Op::CreateTasks(create) => inputs(create, &mut |input| see(number, "input", input))?,
            other => other.payloads().try_for_each(|(field, payload)| see(number, field, &payload.bytes))?,
        }
        words(op, &mut |field, text| see(number, field, text.as_bytes()))?;
    }
    Ok(())
}

/// The inputs of tasks lie one behind the other in one payload. Each is a text by itself: what ends one must not hide what
/// begins the next.
fn inputs<'a, E>(create: &'a CreateTasks, see: &mut dyn FnMut(&'a [u8]) -> Result<(), E>) -> Result<(), E> {
    let Some(payload) = &create.inputs else { return Ok(()) };
    let mut unseen = payload.bytes.len();
    for (start, length) in create.tasks.iter().filter_map(|task| task.input) {
        let (start, length) = (start as usize, length as usize);
        if let Some(input) = payload.bytes.get(start..start.saturating_add(length)) {
            unseen = unseen.saturating_sub(input.len());
            see(input)?;
        }
    }
    // Bytes that no task owns are written all the same.
    if unseen > 0 { see(&payload.bytes) } else { Ok(()) }
}

/// Takes a field and its text.
type See<'s, 'a, E> = &'s mut dyn FnMut(&'static str, &'a str) -> Result<(), E>;

/// Everything but the payload.
fn words<'a, E>(op: &'a Op, see: See<'_, 'a, E>) -> Result<(), E> {
    match op {
        Op::RegisterAgent(agent) => of_agent(agent, see),
        Op::Send { message, .. } => of_message(message, see),
        Op::Nack(nack) => see("reason", &nack.reason),
        Op::Put(put) => of_entry(put, see),
        Op::Delete(delete) => see("key", delete.key.as_str()),
        Op::AcquireLocks(ask) => ask.names.iter().try_for_each(|name| see("names", name.as_str())),
        Op::SetBudget(set) => see("id", set.id.as_str()),
        Op::OpenSession(open) => named(open.id.as_ref().map(SessionId::as_str), ("title", &open.title), see),
        Op::ChangeSession(change) => see("reason", &change.reason),
        Op::AddToSession(add) => {
            see("contentType", add.content_type.as_deref().unwrap_or_default())?;
            see("rationale", &add.rationale)
        }
        Op::CreateTasks(CreateTasks { tasks, .. }) => tasks.iter().try_for_each(|task| of_task(task, see)),
        Op::CompleteTask(complete) => {
            see("contentType", complete.content_type.as_deref().unwrap_or_default())?;
            see("rationale", complete.rationale.as_deref().unwrap_or_default())
        }
        Op::FailTask(fail) => see("reason", &fail.reason),
        Op::CancelTask(cancel) => see("reason", &cancel.reason),
        Op::MakeSnapshot(make) => {
            see("name", make.name.as_str())?;
            see("prefix", &make.prefix)
        }
        Op::Rollback(rollback) => match &rollback.what {
            RollbackWhat::Key { key, .. } => see("key", key.as_str()),
            RollbackWhat::Prefix(prefix) => see("prefix", prefix),
        },
        Op::Request(ask) => of_message(&ask.message, see),
        Op::Heartbeat(heartbeat) => see("health", heartbeat.health.note()),
        Op::Subscribe(subscribe) => see("pattern", subscribe.pattern.as_str()),
        Op::CreateToken(new) => see("name", new.name.as_str()),
        Op::StartProcedure(start) => {
            named(start.id.as_ref().map(ProcedureId::as_str), ("kind", &start.kind), see)
        }
        Op::StepProcedure(step) => see("phase", &step.phase),
        Op::RequestApproval(ask) => of_approval(ask, see),
        Op::DecideApproval(decide) => see("reason", &decide.reason),
        // These name what is there already, or nothing.
        Op::RemoveAgent { .. }
        | Op::Claim { .. }
        | Op::Grant { .. }
        | Op::Close { .. }
        | Op::Ack(_)
        | Op::AckMany(_)
        | Op::Extend(_)
        | Op::Redrive { .. }
        | Op::Purge { .. }
        | Op::Erase(_)
        | Op::Sweep
        | Op::SetPolicy(_)
        | Op::RenewLocks(_)
        | Op::ReleaseLocks(_)
        | Op::ClaimTasks(_)
        | Op::HeartbeatTask(_)
        | Op::ReleaseTask(_)
        | Op::DropSnapshot { .. }
        | Op::Unsubscribe { .. }
        | Op::BringHistory(_)
        | Op::AwaitRequest { .. }
        | Op::CancelRequest { .. }
        | Op::Inspect(_)
        | Op::AwaitTask(_)
        | Op::RevokeToken { .. }
        | Op::Heard { .. }
        | Op::Resume { .. } => Ok(()),
    }
}

/// An id, if there is one, and a text.
fn named<'a, E>(id: Option<&'a str>, text: (&'static str, &'a str), see: See<'_, 'a, E>) -> Result<(), E> {
    id.map_or(Ok(()), |id| see("id", id))?;
    see(text.0, text.1)
}

fn of_agent<'a, E>(agent: &'a RegisterAgent, see: See<'_, 'a, E>) -> Result<(), E> {
    see("id", agent.id.as_str())?;
    see("name", &agent.name)?;
    agent.capabilities.iter().try_for_each(|word| see("capabilities", word))?;
    agent.supported_actions.iter().try_for_each(|word| see("supportedActions", word))
}

fn of_message<'a, E>(message: &'a Message, see: See<'_, 'a, E>) -> Result<(), E> {
    see("action", &message.action)?;
    match &message.to {
        Destination::Topic(topic) => see("to", topic.as_str())?,
        Destination::Can(capability) => see("to", capability.as_str())?,
        // Agents and roles are there already.
        Destination::Agent(_) | Destination::Agents(_) | Destination::Everybody | Destination::Role(_) => {}
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
    optional.into_iter().try_for_each(|(field, text)| text.map_or(Ok(()), |text| see(field, text)))
}

fn of_entry<'a, E>(put: &'a PutEntry, see: See<'_, 'a, E>) -> Result<(), E> {
    see("key", put.key.as_str())?;
    see("type", &put.entry_type)?;
    see("contentType", put.content_type.as_deref().unwrap_or_default())?;
    put.depends_on.iter().try_for_each(|key| see("dependsOn", key.as_str()))
}

fn of_approval<'a, E>(ask: &'a RequestApproval, see: See<'_, 'a, E>) -> Result<(), E> {
    named(ask.id.as_ref().map(ApprovalId::as_str), ("action", &ask.action), see)?;
    see("rationale", ask.rationale.as_deref().unwrap_or_default())?;
    see("default", &ask.default)?;
    see("session", ask.session.as_deref().unwrap_or_default())?;
    ask.then.iter().try_for_each(|(_, action)| see("then", action))
}

fn of_task<'a, E>(task: &'a NewTask, see: See<'_, 'a, E>) -> Result<(), E> {
    see("id", task.id.as_ref().map_or("", TaskId::as_str))?;
    see("type", &task.task_type)?;
    see("contentType", task.content_type.as_deref().unwrap_or_default())?;
    see("session", task.session.as_deref().unwrap_or_default())
}
