//! Renders an effect on one line. `--json` prints all fields.

use quorate_api::event::{
    AgentRegisteredEffect, AgentStatusEffect, ApprovalEffect, DeliveriesEffect, DeliveriesEffectName,
    DeliveryEffect, DeliveryEffectName, DeliveryRef, Effect, LockEffect, MessageEffect, NextState,
    RequestEffect, SessionEffect, TaskEffect,
};
use quorate_core::{AgentId, Destination};

use crate::msg::priority_name;
use crate::output::{format_time, truncated};

/// Characters of a text that are printed.
const TEXT_MAX: usize = 60;
/// Maximum number of messages that are listed.
const LISTED_MAX: usize = 4;

/// Renders the resource and its change.
pub(super) fn render(effect: &Effect) -> String {
    match effect {
        Effect::Space(space) => {
            let name = space.name.as_ref().map_or_else(String::new, ToString::to_string);
            joined([name, format!("generation {}", space.generation)])
        }
        Effect::AgentRegistered(registered) => registration(registered),
        Effect::AgentStatus(status) => presence(status),
        Effect::AgentRemoved(removed) => id(&removed.agent_id),
        Effect::Message(sent) => message(sent),
        Effect::Deliveries(deliveries) => many_deliveries(deliveries),
        Effect::Delivery(delivery) => one_delivery(delivery),
        Effect::Entry(change) => {
            let kind = Some(&change.entry.entry_type).filter(|kind| !kind.is_empty());
            let kind = kind.map_or_else(String::new, |kind| format!(" ({kind})"));
            format!("{} v{}{kind}", change.entry.key, change.entry.version)
        }
        Effect::Erasure(erased) => format!("part {} of record {}", erased.part, erased.seq),
        Effect::Deadlock(deadlock) => {
            let waits = deadlock.cycle.iter();
            let waits: Vec<_> =
                waits.map(|wait| format!("{} waits for {}", id(&wait.agent), wait.waits_for)).collect();
            format!("deadlock broken: {}", waits.join(", "))
        }
        Effect::SessionContribution(added) => {
            let reason = truncated(&added.rationale, TEXT_MAX);
            let addition = format!("{} {}", added.kind.as_str(), added.n);
            format!("{}: {}", added.session_id, joined([addition, reason]))
        }
        Effect::Session(change) => session(change),
        Effect::Task(change) => task(change),
        Effect::Lock(change) => lock(change),
        Effect::Budget(change) => {
            let budget = &change.budget;
            format!("{}: {} of {} messages", budget.id, budget.messages_used, budget.messages_max)
        }
        Effect::Snapshot(change) => {
            format!("{} at record {}", change.snapshot.name, change.snapshot.seq)
        }
        Effect::Policy(change) => format!("preset {}", change.policy.preset.as_str()),
        Effect::Subscription(change) => {
            format!("{} to {}", change.subscription.agent, change.subscription.topic)
        }
        Effect::Pool(pool) => format!("can:{}", pool.capability),
        Effect::Request(change) => request(change),
        Effect::Token(change) => {
            let token = &change.token;
            let holder = token.agent.as_ref().map_or_else(|| token.name.to_string(), ToString::to_string);
            format!("{} of {} {holder}", token.id, token.role)
        }
        Effect::Procedure(change) => {
            let procedure = &change.procedure;
            let state = joined([procedure.phase.clone(), procedure.status.as_str().to_owned()]);
            format!("{} {}: {state}", procedure.id, procedure.kind)
        }
        Effect::Approval(change) => approval(change),
        Effect::Unknown(unknown) => unknown.reason.clone(),
    }
}

fn registration(registered: &AgentRegisteredEffect) -> String {
    let agent = &registered.agent;
    let capabilities = match agent.capabilities.as_slice() {
        [] => String::new(),
        all => format!("can {}", truncated(&all.join(", "), TEXT_MAX)),
    };
    let epoch = format!("epoch {}", agent.epoch);
    format!("{}: {}", agent.id, joined([agent.role.as_str().into(), epoch, capabilities]))
}

fn presence(change: &AgentStatusEffect) -> String {
    let presence = &change.presence;
    let reachable = if presence.available { "" } else { "unavailable" };
    let parts = [
        presence.status.as_str().to_owned(),
        presence.health.as_str().to_owned(),
        presence.note.clone(),
        reachable.to_owned(),
    ];
    format!("{}: {}", id(&change.agent_id), joined(parts))
}

fn session(change: &SessionEffect) -> String {
    let session = &change.session;
    let title = truncated(&session.title, TEXT_MAX);
    let parts = [title, session.status.as_str().to_owned(), session.reason.clone()];
    format!("{}: {}", session.id, joined(parts))
}

fn lock(change: &LockEffect) -> String {
    let holders = change.lock.holders.iter();
    let holders: Vec<_> =
        holders.map(|holder| format!("{} (fence {})", id(&holder.agent), holder.fence)).collect();
    let holders = if holders.is_empty() { "free".into() } else { format!("held by {}", holders.join(", ")) };
    format!("{}: {holders}", change.lock.name)
}

fn approval(change: &ApprovalEffect) -> String {
    let approval = &change.approval;
    let principal = match &approval.decided_by {
        Some(by) => format!("by {by}"),
        None => {
            let until = format_time(&approval.expires_at.to_string().into());
            format!("requested by {}, expires {until}", approval.asked_by)
        }
    };
    let reason = truncated(approval.reason.as_deref().unwrap_or_default(), TEXT_MAX);
    let parts = [approval.state.as_str().to_owned(), principal, reason];
    format!("{} {}: {}", approval.id, approval.action, joined(parts))
}

fn id(agent: &Option<AgentId>) -> String {
    agent.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string)
}

fn message(sent: &MessageEffect) -> String {
    let message = &sent.message;
    let from = message.from.as_ref().map_or_else(|| "the hub".to_owned(), ToString::to_string);
    let to = match &message.to {
        Destination::Agents(agents) => agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let priority = Some(priority_name(&message.priority.into())).filter(|name| name != "normal");
    let count = match sent.deliveries.len() {
        0 | 1 => String::new(),
        count => format!("{count} recipients"),
    };
    let kind = message.kind.as_str().to_owned();
    let summary = joined([kind, message.action.clone(), priority.unwrap_or_default(), count]);
    format!("{} from {from} to {}: {summary}", message.id, truncated(&to, TEXT_MAX))
}

/// Returns the agent or pool of a delivery.
fn recipient(delivery: &DeliveryRef) -> String {
    match (&delivery.agent, delivery.pool) {
        (Some(agent), _) => agent.to_string(),
        (None, Some(pool)) => format!("pool {pool}"),
        (None, None) => "?".to_owned(),
    }
}

fn many_deliveries(change: &DeliveriesEffect) -> String {
    let listed = change.deliveries.iter().take(LISTED_MAX);
    let listed: Vec<_> = listed.map(|delivery| delivery.message_id.to_string()).collect();
    let more = match change.deliveries.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let messages = format!("{}{more}", listed.join(", "));
    let agent = match (&change.agent, change.deliveries.first()) {
        (Some(agent), _) => agent.to_string(),
        (None, Some(first)) => recipient(first),
        (None, None) => "?".to_owned(),
    };
    match change.effect {
        DeliveriesEffectName::Leased | DeliveriesEffectName::LeasedFromPool => {
            format!("{messages} leased by {agent}")
        }
        DeliveriesEffectName::AckedMany => format!("{messages} acked by {agent}"),
        DeliveriesEffectName::Backfilled => format!("{messages} for {agent}"),
    }
}

fn one_delivery(change: &DeliveryEffect) -> String {
    let (message, agent) = (&change.delivery.message_id, recipient(&change.delivery));
    match change.effect {
        DeliveryEffectName::Acked => format!("{message} acked by {agent}"),
        DeliveryEffectName::Expired => format!("{message} for {agent}: expired"),
        DeliveryEffectName::Purged => format!("{message} for {agent}: purged"),
        DeliveryEffectName::Redriven => format!("{message} for {agent}: redelivered from dead letters"),
        DeliveryEffectName::Denied => {
            format!("{message} for {agent}: moved to dead letters, no longer allowed by policy")
        }
        DeliveryEffectName::Returned => {
            let next = match change.next {
                Some(NextState::Dead) => "moved to dead letters".to_owned(),
                Some(NextState::Scheduled) => {
                    let due = change.due.map(|due| due.to_string()).unwrap_or_default();
                    format!("redelivered at {}", format_time(&due.into()))
                }
                Some(NextState::Redirected) => format!("redirected to {}", id(&change.to)),
                Some(NextState::Expired) => "expired".to_owned(),
                Some(NextState::Ready) | None => "redelivered".to_owned(),
            };
            let cause = change.cause.clone().unwrap_or_default();
            let reason = joined([cause, change.reason.clone().unwrap_or_default()]);
            format!("{message} returned by {agent} ({}): {next}", truncated(&reason, TEXT_MAX))
        }
    }
}

fn task(change: &TaskEffect) -> String {
    let task = &change.task;
    let assignee = match (&task.holder, &task.agent) {
        (Some(holder), _) => format!("by {holder}"),
        (None, Some(agent)) => format!("for {agent}"),
        (None, None) => String::new(),
    };
    let reason = task.reason.as_ref().or(task.rationale.as_ref());
    let reason = truncated(reason.map_or("", String::as_str), TEXT_MAX);
    format!("{}: {}", task.id, joined([task.status.as_str().to_owned(), assignee, reason]))
}

fn request(change: &RequestEffect) -> String {
    let recipients =
        change.asked.iter().take(LISTED_MAX).map(|recipient| match (&recipient.agent, recipient.pool) {
            (Some(agent), _) => agent.to_string(),
            (None, Some(pool)) => format!("pool {pool}"),
            (None, None) => "?".to_owned(),
        });
    let request = &change.request;
    let status = &request.status;
    let code = status.code.clone().unwrap_or_default();
    let reason = status.reason.clone().unwrap_or_default();
    let state = serde_json::to_value(status.state).ok();
    let state = state.and_then(|state| state.as_str().map(str::to_owned)).unwrap_or_default();
    let to = recipients.collect::<Vec<_>>().join(", ");
    format!("{} from {} to {to}: {}", request.id, id(&request.from), joined([state, code, reason]))
}

/// Joins the parts that are not empty with commas.
fn joined<const N: usize>(parts: [String; N]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rendered(effect: Value) -> String {
        render(&serde_json::from_value(effect).expect("an effect"))
    }

    fn merge(mut base: Value, fields: Value) -> Value {
        let (Some(base_fields), Value::Object(fields)) = (base.as_object_mut(), fields) else { return base };
        base_fields.extend(fields);
        base
    }

    #[test]
    fn deliveries_name_messages_and_agents() {
        let delivery =
            json!({"deliveryId": "dlv_0-7", "messageId": "msg_0-5-0", "agent": "bob", "leaseToken": 3});
        for (effect, line) in [
            (json!({"effect": "delivery.leased", "deliveries": [delivery]}), "msg_0-5-0 leased by bob"),
            (
                json!({"effect": "delivery.ackedMany",
                       "deliveries": [delivery, delivery, delivery, delivery, delivery]}),
                "msg_0-5-0, msg_0-5-0, msg_0-5-0, msg_0-5-0 and 1 more acked by bob",
            ),
            (
                merge(
                    delivery.clone(),
                    json!({"effect": "delivery.returned", "cause": "lapsed", "next": "dead"}),
                ),
                "msg_0-5-0 returned by bob (lapsed): moved to dead letters",
            ),
            (
                merge(
                    delivery.clone(),
                    json!({"effect": "delivery.returned", "cause": "nacked", "reason": "busy",
                           "next": "scheduled", "due": "2026-01-31T09:30:00.000Z"}),
                ),
                "msg_0-5-0 returned by bob (nacked, busy): redelivered at 2026-01-31 09:30:00Z",
            ),
        ] {
            assert_eq!(rendered(effect), line);
        }
    }

    #[test]
    fn resources_are_rendered_with_their_state() {
        for (effect, line) in [
            (
                json!({"effect": "entry.written", "entry": {"key": "plan", "version": 3, "type": "note",
                       "deleted": false, "dependsOn": []}}),
                "plan v3 (note)",
            ),
            (
                json!({"effect": "agent.registered", "number": 1, "agent": {"id": "bob", "name": "Bob",
                       "role": "worker", "epoch": 6, "capabilities": ["review"], "supportedActions": [],
                       "heartbeatMs": 0}}),
                "bob: worker, epoch 6, can review",
            ),
            (
                json!({"effect": "lock.granted", "lock": {"name": "db", "capacity": 1, "lastFence": 4,
                       "holders": [{"agent": "bob", "fence": 4, "since": "2026-01-31T09:30:00.000Z",
                                    "ttlMs": 1000}]}}),
                "db: held by bob (fence 4)",
            ),
            (
                json!({"effect": "session.opened", "session": {"id": "s", "title": "T", "coordinator": null,
                       "participants": [], "status": "active", "since": "2026-01-31T09:30:00.000Z",
                       "reason": "", "openedAt": "2026-01-31T09:30:00.000Z", "added": {}}}),
                "s: T, active",
            ),
            (json!({"effect": "some.future", "x": 1}), ""),
        ] {
            assert_eq!(rendered(effect), line);
        }
    }
}
