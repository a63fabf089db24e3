//! Subscriptions of agents to topics.

use axum::extract::Path;
use quorate_api::page::{CursorQuery, invalid_cursor};
use quorate_api::subscription::{
    AgentSubscription, EndedSubscription, Subscription, SubscriptionHistory, TopicPattern,
};
use quorate_core::{AgentId, Op, Pattern, Subscribe};

use super::check_limit;
use crate::api::{Route, delete, get, put, schema};
use crate::body;
use crate::call::{ApiResult, Call, ok_response, page_response};

pub(crate) fn routes() -> Vec<Route> {
    const SUBSCRIPTION: &str = "/v1/agents/{id}/subscriptions/{topic}";
    vec![
        get(
            "/v1/agents/{id}/subscriptions",
            "subscriptions.list",
            "List the subscriptions of an agent by topic.",
        )
        .path_parameter::<schema::Id>("id", "Agent ID.")
        .own_agent_only()
        .query_parameters::<CursorQuery>()
        .returns_page::<Subscription>("subscriptions")
        .handled_with_id_in_bulk_by(list),
        put(
            SUBSCRIPTION,
            "subscriptions.subscribe",
            "Subscribe an agent to a topic, optionally including past messages.",
        )
        .path_parameter::<schema::Id>("id", "Agent ID.")
        .path_parameter::<schema::Id>(
            "topic",
            "Topic or pattern. `*` matches one word, a final `>` one or more; encode it as `%3E`.",
        )
        .own_agent_only()
        .request_body::<SubscriptionHistory>()
        .returns::<AgentSubscription>(200, "The agent is subscribed.")
        .handled_by(subscribe),
        delete(SUBSCRIPTION, "subscriptions.unsubscribe", "Unsubscribe an agent from a topic.")
            .path_parameter::<schema::Id>("id", "Agent ID.")
            .path_parameter::<schema::Id>(
                "topic",
                "Topic or pattern. `*` matches one word, a final `>` one or more; encode it as `%3E`.",
            )
            .own_agent_only()
            .returns::<EndedSubscription>(200, "The agent is unsubscribed.")
            .handled_by(unsubscribe),
    ]
}

pub(crate) async fn subscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> ApiResult {
    let (agent, pattern) = (AgentId::new(id)?, pattern.parse::<TopicPattern>()?.0);
    let history = body::parse::<SubscriptionHistory>(&call.body)?.into_core()?;
    let subscribe_op = Subscribe { agent: agent.clone(), pattern: pattern.clone(), history };
    let since = call.space.subscribe_idempotent(&|ops| call.new_commit(ops), subscribe_op).await?;
    ok_response(&AgentSubscription { agent, topic: pattern, since })
}

pub(crate) async fn unsubscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> ApiResult {
    let (agent, pattern) = (AgentId::new(id)?, pattern.parse::<TopicPattern>()?.0);
    let op = Op::Unsubscribe { agent: agent.clone(), pattern: pattern.clone() };
    call.commit(vec![op]).await?;
    ok_response(&EndedSubscription { agent, topic: pattern })
}

pub(crate) async fn list(Path(id): Path<String>, call: Call) -> ApiResult {
    let agent = AgentId::new(id)?;
    let query: CursorQuery = call.query()?;
    let limit = check_limit(query.limit)?;
    let after = query.cursor.map(|cursor| cursor.parse::<Pattern>()).transpose();
    let after = after.map_err(|_| invalid_cursor())?.map(|pattern| pattern.to_string());
    let subscriptions = call.space.subscriptions(&agent).await?;
    let mut items: Vec<_> =
        subscriptions.iter().map(|subscription| (subscription.pattern.to_string(), subscription)).collect();
    items.sort_by(|left, right| left.0.cmp(&right.0));
    items.retain(|(topic, _)| after.as_ref().is_none_or(|after| topic > after));
    let cursor = items.get(limit - 1).map(|(topic, _)| topic.clone());
    items.truncate(limit);
    let items_json = items.into_iter().map(|(topic, subscription)| {
        (topic, Subscription { topic: subscription.pattern.clone(), since: subscription.since })
    });
    page_response("subscriptions", items_json, cursor)
}
