//! Conversions of engine types to the JSON types of `quorate-api`, for resources that need more than core types.

use quorate_api::agent::{Agent, AgentLoad};
use quorate_api::delivery::{
    Delivery as HeldDelivery, DeliveryLease, DeliveryState as ApiDeliveryState, DeliveryStatus,
};
use quorate_api::entry::{Entry as ApiEntry, EntryVersion};
use quorate_api::inbox::InboxDelivery;
use quorate_api::message::{Deliveries, Message as ApiMessage, MessageWithDeliveries};
use quorate_api::session::{
    TimelineChange, TimelineContribution, TimelineEntry as ApiTimelineEntry, TimelineEvent, TimelineMessage,
    TimelineRecord,
};
use quorate_api::task::{HeldTask, StoredTaskPayloads, TaskWithPayloads};
use quorate_api::{RawJson, payload};
use quorate_core::{AgentRegistry, LastSeen, Message, OpenDeliveryState, TimelineKind, Timestamp};
use quorate_store::{StoredDeliveryState, StoredEntry};

use crate::mailboxes::{MessageRef, ReceivedDelivery};
use crate::reads::{DeliveryView, MessageView};
use crate::registry::{AgentView, InboxEntry};
use crate::sessions::{RecordedSessionEvent, SessionEvent};
use crate::space::Space;
use crate::task::{LeasedTaskWithInput, TaskView};

/// Converts a message.
#[must_use]
pub fn message(id: impl Into<MessageRef>, at: Timestamp, message: &Message) -> ApiMessage {
    let id = id.into();
    let durable = match id {
        MessageRef::Durable(id) => Some(id),
        MessageRef::Ephemeral(_) | MessageRef::Flag => None,
    };
    ApiMessage::new(id.to_string(), durable, at, message)
}

/// Converts a message with its deliveries.
#[must_use]
pub fn message_with_deliveries(view: &MessageView) -> MessageWithDeliveries {
    let deliveries = view.deliveries.iter().map(delivery_state).collect();
    MessageWithDeliveries {
        message: message(view.id, view.at, &view.message),
        more: Deliveries { deliveries },
    }
}

/// Returns the lease of a delivery that is held since `since`.
#[must_use]
pub fn delivery_lease(delivery: &ReceivedDelivery, since: Timestamp) -> DeliveryLease {
    DeliveryLease {
        delivery_id: delivery.lease.map(|lease| lease.delivery),
        lease_token: delivery.lease.map(|lease| lease.token),
        attempt: delivery.attempt,
        lease_until: delivery.lease.map(|_| since.plus_ms(delivery.lease_ms)),
    }
}

/// Converts a delivery that is held since `since`, with its message in any representation.
#[must_use]
pub fn delivery<M>(delivery: &ReceivedDelivery, since: Timestamp, message: M) -> HeldDelivery<M> {
    let DeliveryLease { delivery_id, lease_token, attempt, lease_until } = delivery_lease(delivery, since);
    HeldDelivery { delivery_id, lease_token, attempt, lease_until, message }
}

/// Converts the state of a delivery.
#[must_use]
pub fn delivery_state(view: &DeliveryView) -> ApiDeliveryState {
    let base = |state| ApiDeliveryState {
        delivery_id: view.id,
        agent: view.agent.to_string(),
        state,
        attempt: None,
        due: None,
        reason: None,
        ended_by: None,
    };
    match view.state {
        StoredDeliveryState::Open { state, attempt } => {
            let (status, due, reason) = match state {
                OpenDeliveryState::Ready { .. } => (DeliveryStatus::Ready, None, None),
                OpenDeliveryState::Scheduled { due } => (DeliveryStatus::Scheduled, Some(due), None),
                OpenDeliveryState::Held { .. } => {
                    (DeliveryStatus::Scheduled, None, Some("paused".to_owned()))
                }
                OpenDeliveryState::Leased { .. } => (DeliveryStatus::Leased, None, None),
            };
            ApiDeliveryState { attempt: Some(attempt), due, reason, ..base(status) }
        }
        StoredDeliveryState::Ended { state, seq } => {
            ApiDeliveryState { ended_by: Some(seq), ..base(state.into()) }
        }
    }
}

/// Converts a version of an entry.
#[must_use]
pub fn entry(entry: &StoredEntry) -> ApiEntry {
    let version = &entry.version;
    let content = entry.content.as_ref();
    let depends_on = version.depends_on.iter();
    ApiEntry {
        key: entry.key.clone(),
        version: version.head.version,
        entry_type: version.entry_type.clone(),
        content: content
            .map_or(RawJson::NULL, |content| payload::render(content, version.content_type.as_deref())),
        content_type: version.content_type.clone(),
        author: version.author.clone(),
        at: version.at,
        seq: version.head.seq,
        deleted: content.is_none(),
        depends_on: depends_on
            .map(|(key, version)| EntryVersion { key: key.clone(), version: *version })
            .collect(),
        restores: version.restores,
    }
}

/// Converts an agent with its load.
#[must_use]
pub fn agent(space: &Space, view: &AgentView) -> Agent {
    let agent = &view.agent;
    let generations = &space.published().generations;
    Agent {
        id: agent.id.clone(),
        name: agent.name.clone(),
        role: agent.role,
        capabilities: agent.capabilities.clone(),
        supported_actions: agent.supported_actions.clone(),
        epoch: agent.epoch,
        heartbeat_ms: agent.heartbeat_ms,
        declaration: agent.declaration,
        status: view.status,
        health: (&agent.presence.health).into(),
        note: agent.presence.health.note().to_owned(),
        available: agent.presence.available,
        load: AgentLoad {
            open: view.open_deliveries,
            leased: view.leased_deliveries,
            listening: view.consumers,
            asking: view.open_requests,
            tasks: view.leased_tasks,
            current_task: view.current_task.clone(),
            current_delivery: view.current_delivery.map(|number| generations.delivery_id(number)),
        },
        heard_at: match view.last_seen {
            LastSeen::At(at) => Some(at),
            LastSeen::BeforeRestart(_) => None,
        },
        not_seen_since: match view.last_seen {
            LastSeen::At(_) => None,
            LastSeen::BeforeRestart(restarted_at) => Some(restarted_at),
        },
        disconnected_at: view.disconnected_at,
        offline_at: view.offline_at,
    }
}

/// Converts a task with its payloads.
#[must_use]
pub fn task_with_payloads(agents: &AgentRegistry, view: &TaskView) -> TaskWithPayloads {
    let stored = StoredTaskPayloads {
        blocked_on: view.blocked_on.clone(),
        lease_until: view.lease_until,
        input: view.input.clone(),
        result: view.result.clone(),
        partials: view.partials.iter().map(|partial| partial.bytes.clone()).collect(),
        failure_details: view.failure_details.clone(),
    };
    TaskWithPayloads::new(agents, &view.task, &stored)
}

/// Converts a task that is held since `since`.
#[must_use]
pub fn held_task(agents: &AgentRegistry, held: &LeasedTaskWithInput, since: Timestamp) -> HeldTask {
    HeldTask::new(agents, &held.task, held.lease.token, &held.input, &held.context, since)
}

/// Converts a delivery in an inbox.
#[must_use]
pub fn inbox_delivery(delivery: &InboxEntry) -> InboxDelivery {
    InboxDelivery {
        delivery_id: delivery.id,
        message_id: delivery.message,
        attempt: delivery.delivery.open.attempt,
        lease_until: delivery.delivery.lease_period.map(|(_, until)| until),
    }
}

/// Converts an entry of the timeline of a session.
#[must_use]
pub fn timeline_entry(recorded: &RecordedSessionEvent) -> ApiTimelineEntry {
    let event = match &recorded.event {
        SessionEvent::Message { id, message: sent } => TimelineEvent::Message(TimelineMessage {
            kind: TimelineKind::Message.as_str().to_owned(),
            message: Box::new(message(*id, recorded.at, sent)),
        }),
        SessionEvent::Changed { verb, session } => TimelineEvent::Changed(TimelineChange {
            kind: TimelineKind::Change.as_str().to_owned(),
            verb: verb.as_str().to_owned(),
            agent: session.changed_participant(*verb).cloned(),
            status: session.status,
            reason: session.reason.clone(),
        }),
        SessionEvent::Added(added) => TimelineEvent::Added(TimelineContribution {
            kind: added.kind,
            n: added.n,
            body: payload::render(&added.body, added.content_type.as_deref()),
            content_type: added.content_type.clone(),
            rationale: added.rationale.clone(),
        }),
    };
    ApiTimelineEntry {
        record: TimelineRecord { seq: recorded.seq, at: recorded.at, by: recorded.by.clone() },
        event,
    }
}
