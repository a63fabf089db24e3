//! Visibility of effects: which events a reader may see.

use quorate_api::IdResolver;
use quorate_api::event::Effect as Shown;
use quorate_core::{AgentId, AgentNo, Effect, Item, Record, ReturnOutcome};
use quorate_engine::PublishedState;

/// Visibility and filter of an event reader.
pub(crate) struct EventFilter {
    /// The reading agent. It sees effects that concern it and effects that are visible to all. `None` sees
    /// everything.
    pub(crate) viewer: Option<AgentId>,
    /// Effect names to include; empty includes all.
    pub(crate) kinds: Vec<String>,
    /// Includes only effects that concern this agent.
    pub(crate) agent: Option<AgentId>,
    /// Includes only effects of this session.
    pub(crate) session: Option<String>,
}

/// Returns the effects of a record that a reader sees.
pub(crate) fn visible_effects(
    record: &Record,
    effects: &[Effect],
    filter: &EventFilter,
    space: &PublishedState,
) -> Vec<Shown> {
    let numbered = Effect::with_message_numbers(effects);
    numbered.filter_map(|(n, effect)| visible_effect(effect, n, record, filter, space)).collect()
}

fn visible_effect(
    effect: &Effect,
    n: u32,
    record: &Record,
    filter: &EventFilter,
    space: &PublishedState,
) -> Option<Shown> {
    let agents = &space.agents;
    if !filter.kinds.is_empty() && !filter.kinds.iter().any(|kind| kind == effect.as_str()) {
        return None;
    }
    if filter.session.as_ref().is_some_and(|session| session_of(effect) != Some(session)) {
        return None;
    }
    let concerns = |agent: &AgentId| {
        record.principal.strip_prefix("agent:") == Some(agent.as_str())
            || concerns_agent(effect, agent, agents.number(agent))
    };
    if filter.agent.as_ref().is_some_and(|agent| !concerns(agent)) {
        return None;
    }
    if let Some(viewer) = &filter.viewer
        && !is_public(effect)
        && !concerns(viewer)
    {
        return None;
    }
    let resolver = IdResolver { agents: &**agents, generations: &space.generations };
    let mut shown = Shown::new(effect, record, n, &resolver);
    if let Some(viewer) = &filter.viewer
        && !is_sent_by(effect, viewer)
    {
        // Only the sender sees the other recipients, and each recipient only its own leases and acks.
        let is_visible = |agent: &Option<AgentId>| agent.as_ref().is_none_or(|agent| agent == viewer);
        match &mut shown {
            Shown::Message(sent) => sent.deliveries.retain(|delivery| is_visible(&delivery.agent)),
            Shown::Deliveries(held) => held.deliveries.retain(|delivery| is_visible(&delivery.agent)),
            _ => {}
        }
    }
    Some(shown)
}

/// Whether all principals of the space may see the effect: agents, shared memory, and shared resources.
fn is_public(effect: &Effect) -> bool {
    match effect {
        Effect::SpaceCreated { .. } | Effect::SpaceRestored { .. } => true,
        Effect::AgentRegistered { .. } | Effect::AgentRemoved { .. } | Effect::PresenceChanged { .. } => true,
        Effect::Written { .. } | Effect::Deleted { .. } | Effect::ContributionAdded { .. } => true,
        Effect::Changed { item, .. } => is_item_public(item),
        _ => false,
    }
}

/// Whether all principals of the space may see the item.
pub(crate) fn is_item_public(item: &Item) -> bool {
    match item {
        Item::Lock(_) | Item::Session(_) | Item::Task(_) | Item::Snapshot(_) => true,
        Item::Policy(_) | Item::Pool(_) | Item::Procedure(_) => true,
        Item::Budget(_) | Item::Subscription(_) | Item::Request(_) | Item::Token(_) => false,
        Item::Approval(_) => false,
    }
}

/// Whether the effect is a message sent by this agent.
fn is_sent_by(effect: &Effect, agent: &AgentId) -> bool {
    matches!(effect, Effect::Sent { message, .. } if message.from.as_ref() == Some(agent))
}

/// Whether the effect concerns an agent.
fn concerns_agent(effect: &Effect, agent: &AgentId, number: Option<AgentNo>) -> bool {
    let is = |other: AgentNo| number == Some(other);
    match effect {
        Effect::Sent { message, deliveries, .. } => {
            message.from.as_ref() == Some(agent)
                || deliveries.iter().any(|delivery| delivery.to.agent_no().is_some_and(is))
        }
        Effect::AgentRegistered { number: other, .. }
        | Effect::AgentRemoved { number: other }
        | Effect::PresenceChanged { number: other, .. } => is(*other),
        Effect::LeasedFromPool { agent: other, .. } | Effect::Backfilled { agent: other, .. } => is(*other),
        Effect::Returned { next: ReturnOutcome::Redirected(other), .. } if is(*other) => true,
        Effect::WaitAborted { cycle } => cycle.iter().any(|(other, _)| is(*other)),
        Effect::Changed { item, .. } => item_concerns_agent(item, agent, number),
        // Changes of a delivery concern its recipient, even if caused by a timer.
        other => other.affected_deliveries().any(|(_, origin)| origin.to.agent_no().is_some_and(is)),
    }
}

/// Whether the item concerns an agent.
pub(crate) fn item_concerns_agent(item: &Item, agent: &AgentId, number: Option<AgentNo>) -> bool {
    let is = |other: AgentNo| number == Some(other);
    match item {
        Item::Budget(budget) => budget.owner.is_some_and(is),
        Item::Subscription(subscription) => subscription.agent == *agent,
        Item::Request(request) => {
            is(request.from)
                || request.recipients.iter().any(|recipient| recipient.recipient.agent_no().is_some_and(is))
        }
        Item::Token(token) => token.bearer.agent() == Some(agent),
        Item::Lock(lock) => lock.grants.iter().any(|grant| is(grant.holder)),
        Item::Session(session) => {
            session.coordinator.as_ref() == Some(agent)
                || session.participants.iter().any(|participant| participant.agent == *agent)
        }
        Item::Task(task) => task.spec.agent.is_some_and(is) || task.lease().is_some_and(|lease| is(lease.by)),
        Item::Procedure(procedure) => procedure.driver.as_ref() == Some(agent),
        Item::Approval(approval) => {
            approval.agent.is_some_and(is) || approval.follow_ups.iter().any(|follow_up| is(follow_up.to))
        }
        Item::Snapshot(_) | Item::Policy(_) | Item::Pool(_) => false,
    }
}

/// Returns the session that an effect belongs to.
fn session_of(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::Sent { message, .. } => message.session_id.as_deref(),
        Effect::ContributionAdded { session, .. } => Some(session.as_str()),
        Effect::Changed { item: Item::Session(session), .. } => Some(session.id.as_str()),
        Effect::Changed { item: Item::Approval(approval), .. } => approval.session.as_deref(),
        Effect::Changed { item: Item::Task(task), .. } => task.spec.session.as_ref().map(AsRef::as_ref),
        _ => None,
    }
}
