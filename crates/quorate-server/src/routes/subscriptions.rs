//! Subscriptions of agents to topics.

use axum::extract::Path;
use quorate_api::page::invalid_cursor;
use quorate_api::subscription::{Subscribed, Subscription, SubscriptionHistory, TopicPattern, Unsubscribed};
use quorate_core::{AgentId, Op, Pattern, Subscribe};

use super::{Page, checked_limit};
use crate::api::{Route, delete, get, put, schema};
use crate::body;
use crate::call::{Answer, Call, ok, page};

pub(crate) fn routes() -> Vec<Route> {
    const ONE: &str = "/v1/agents/{id}/subscriptions/{topic}";
    vec![
        get(
            "/v1/agents/{id}/subscriptions",
            "subscriptions.list",
            "List the subscriptions of an agent by topic.",
        )
        .path::<schema::Id>("id")
        .for_itself()
        .query::<Page>()
        .lists::<Subscription>("subscriptions")
        .bulk_of(list),
        put(
            ONE,
            "subscriptions.subscribe",
            "Subscribe an agent to a topic, optionally including past messages.",
        )
        .path::<schema::Id>("id")
        .path::<schema::Id>("topic")
        .for_itself()
        .body::<SubscriptionHistory>()
        .answers::<Subscribed>(200, "The agent is subscribed.")
        .to(subscribe),
        delete(ONE, "subscriptions.unsubscribe", "Unsubscribe an agent from a topic.")
            .path::<schema::Id>("id")
            .path::<schema::Id>("topic")
            .for_itself()
            .answers::<Unsubscribed>(200, "The agent is unsubscribed.")
            .to(unsubscribe),
    ]
}

pub(crate) async fn subscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> Answer {
    let (agent, pattern) = (AgentId::new(id)?, pattern.parse::<TopicPattern>()?.0);
    let history = body::parse::<SubscriptionHistory>(&call.body)?.read()?;
    let query = Subscribe { agent: agent.clone(), pattern: pattern.clone(), history };
    let since = call.space.subscribe_once(&|ops| call.as_commit(ops), query).await?;
    ok(&Subscribed { agent, topic: pattern, since })
}

pub(crate) async fn unsubscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> Answer {
    let (agent, pattern) = (AgentId::new(id)?, pattern.parse::<TopicPattern>()?.0);
    let op = Op::Unsubscribe { agent: agent.clone(), pattern: pattern.clone() };
    call.commit(vec![op]).await?;
    ok(&Unsubscribed { agent, topic: pattern })
}

pub(crate) async fn list(Path(id): Path<String>, call: Call) -> Answer {
    let agent = AgentId::new(id)?;
    let query: Page = call.query()?;
    let limit = checked_limit(query.limit)?;
    let after = query.cursor.map(|cursor| cursor.parse::<Pattern>()).transpose();
    let after = after.map_err(|_| invalid_cursor())?.map(|one| one.to_string());
    let found = call.space.subscriptions(&agent).await?;
    let mut items: Vec<_> = found.iter().map(|one| (one.pattern.to_string(), one)).collect();
    items.sort_by(|one, other| one.0.cmp(&other.0));
    items.retain(|(topic, _)| after.as_ref().is_none_or(|after| topic > after));
    let cursor = items.get(limit - 1).map(|(topic, _)| topic.clone());
    items.truncate(limit);
    let items_json = items
        .into_iter()
        .map(|(text, one)| (text, Subscription { topic: one.pattern.clone(), since: one.since }));
    page("subscriptions", items_json, cursor)
}
