//! Effects in JSON, and who may see which. Never the content of a payload.

use quorate_core::describe::{self, Fields, Value as Described};
use quorate_core::{AgentId, AgentNo, Agents, Effect, Item};
use serde_json::{Map, Value};

/// What a reader may see and wants to.
pub(crate) struct Sight {
    /// The agent that looks: it sees what concerns it, and what everybody may see. `None` sees all.
    pub(crate) viewer: Option<AgentId>,
    /// Names of effects; none for all of them.
    pub(crate) kinds: Vec<String>,
    /// Only what concerns this agent.
    pub(crate) agent: Option<AgentId>,
    /// Only what belongs to this session.
    pub(crate) session: Option<String>,
}

/// An effect as a reader sees it, if it does.
pub(crate) fn seen(effect: &Effect, principal: &str, sight: &Sight, agents: &Agents) -> Option<Value> {
    if !sight.kinds.is_empty() && !sight.kinds.iter().any(|kind| kind == effect.as_str()) {
        return None;
    }
    if sight.session.as_ref().is_some_and(|session| session_of(effect) != Some(session)) {
        return None;
    }
    let concerns = |agent: &AgentId| {
        principal.strip_prefix("agent:") == Some(agent.as_str()) || names(effect, agent, agents.number(agent))
    };
    if sight.agent.as_ref().is_some_and(|agent| !concerns(agent)) {
        return None;
    }
    if let Some(viewer) = &sight.viewer
        && !is_for_all(effect)
        && !concerns(viewer)
    {
        return None;
    }
    let name = |number: AgentNo| agents.get(number).map_or_else(String::new, |agent| agent.id.to_string());
    let mut shown = fields(describe::describe(effect, &name));
    if let (Some(viewer), Effect::Sent { message, .. }) = (&sight.viewer, effect)
        && message.from.as_ref() != Some(viewer)
        && let Some(Value::Array(deliveries)) = shown.get_mut("deliveries")
    {
        // Who else got it is the sender's business.
        deliveries.retain(|one| one["agent"] == viewer.as_str());
    }
    Some(Value::Object(shown))
}

/// What everybody in a space may see: who is there, the shared memory, and the nouns that all work with.
fn is_for_all(effect: &Effect) -> bool {
    match effect {
        Effect::SpaceCreated { .. } | Effect::Restored { .. } => true,
        Effect::AgentRegistered { .. } | Effect::AgentRemoved { .. } | Effect::AgentStatus { .. } => true,
        Effect::Written { .. } | Effect::Deleted { .. } | Effect::SessionAdded { .. } => true,
        Effect::Changed { item, .. } => match item {
            Item::Lock(_) | Item::Session(_) | Item::Task(_) | Item::Snapshot(_) => true,
            Item::Policy(_) | Item::Pool(_) | Item::Procedure(_) => true,
            Item::Budget(_) | Item::Subscription(_) | Item::Request(_) | Item::Token(_) => false,
            Item::Approval(_) => false,
        },
        _ => false,
    }
}

/// Whether an effect names an agent as one whom it is about.
fn names(effect: &Effect, agent: &AgentId, number: Option<AgentNo>) -> bool {
    let is = |other: AgentNo| number == Some(other);
    match effect {
        Effect::Sent { message, deliveries, .. } => {
            message.from.as_ref() == Some(agent)
                || deliveries.iter().any(|delivery| delivery.to.agent_no().is_some_and(is))
        }
        Effect::AgentRegistered { number: other, .. }
        | Effect::AgentRemoved { number: other }
        | Effect::AgentStatus { number: other, .. } => is(*other),
        Effect::Taken { agent: other, .. } | Effect::Brought { agent: other, .. } => is(*other),
        Effect::Redriven { to, .. } => to.agent_no().is_some_and(is),
        Effect::WaitAborted { cycle } => cycle.iter().any(|(other, _)| is(*other)),
        Effect::Changed { item, .. } => match item {
            Item::Budget(budget) => budget.owner.is_some_and(is),
            Item::Subscription(subscription) => subscription.agent == *agent,
            Item::Request(request) => {
                is(request.from) || request.asked.iter().any(|one| one.to.agent_no().is_some_and(is))
            }
            Item::Token(token) => token.bearer.agent() == Some(agent),
            Item::Lock(lock) => lock.grants.iter().any(|grant| is(grant.holder)),
            Item::Session(session) => {
                session.coordinator.as_ref() == Some(agent)
                    || session.participants.iter().any(|one| one.agent == *agent)
            }
            Item::Task(task) => {
                task.spec.agent.is_some_and(is) || task.lease().is_some_and(|lease| is(lease.by))
            }
            Item::Procedure(procedure) => procedure.driver.as_ref() == Some(agent),
            Item::Approval(approval) => {
                approval.agent.is_some_and(is) || approval.then.iter().any(|then| is(then.to))
            }
            Item::Snapshot(_) | Item::Policy(_) | Item::Pool(_) => false,
        },
        _ => false,
    }
}

/// The session that an effect belongs to.
fn session_of(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::Sent { message, .. } => message.session_id.as_deref(),
        Effect::SessionAdded { session, .. } => Some(session.as_str()),
        Effect::Changed { item: Item::Session(session), .. } => Some(session.id.as_str()),
        Effect::Changed { item: Item::Approval(approval), .. } => approval.session.as_deref(),
        Effect::Changed { item: Item::Task(task), .. } => task.spec.session.as_ref().map(AsRef::as_ref),
        _ => None,
    }
}

/// Named values as an object.
pub(crate) fn fields(fields: Fields) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value_of(value))).collect()
}

fn value_of(value: Described) -> Value {
    match value {
        Described::Text(text) => text.into(),
        Described::Number(number) => number.into(),
        Described::Share(share) => share.into(),
        Described::List(list) => list.into_iter().map(value_of).collect(),
        Described::Group(group) => Value::Object(fields(group)),
    }
}
