//! Subscriptions: which topics an agent hears.

use axum::extract::Path;
use quorate_api::page::invalid_cursor;
use quorate_api::subscription::{Subscribed, Subscription, SubscriptionHistory, TopicPattern, Unsubscribed};
use quorate_core::{AgentId, Op, Pattern, Subscribe};

use super::{Page, checked_limit};
use crate::api::{Route, delete, get, put, words};
use crate::body;
use crate::call::{Answer, Call, ok, page};

pub(crate) fn routes() -> Vec<Route> {
    const ONE: &str = "/v1/agents/{id}/subscriptions/{topic}";
    vec![
        get(
            "/v1/agents/{id}/subscriptions",
            "subscriptions.list",
            "List the subscriptions of an agent, by topic.",
        )
        .path::<words::Id>("id")
        .for_itself()
        .query::<Page>()
        .lists::<Subscription>("subscriptions")
        .bulk_of(list),
        put(
            ONE,
            "subscriptions.subscribe",
            "The messages of a topic are for an agent as well, from now on or from before.",
        )
        .path::<words::Id>("id")
        .path::<words::Id>("topic")
        .for_itself()
        .body::<SubscriptionHistory>()
        .answers::<Subscribed>(200, "It hears them.")
        .to(subscribe),
        delete(ONE, "subscriptions.unsubscribe", "They are not any more.")
            .path::<words::Id>("id")
            .path::<words::Id>("topic")
            .for_itself()
            .answers::<Unsubscribed>(200, "It does not hear them any more.")
            .to(unsubscribe),
    ]
}

pub(crate) async fn subscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> Answer {
    let (agent, pattern) = (AgentId::new(id)?, pattern.parse::<TopicPattern>()?.0);
    let history = body::parse::<SubscriptionHistory>(&call.body)?.read()?;
    let asked = Subscribe { agent: agent.clone(), pattern: pattern.clone(), history };
    let since = call.space.subscribe_once(&|ops| call.as_commit(ops), asked).await?;
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
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = asked.cursor.map(|cursor| cursor.parse::<Pattern>()).transpose();
    let after = after.map_err(|_| invalid_cursor())?.map(|one| one.to_string());
    let found = call.space.subscriptions(&agent).await?;
    let mut items: Vec<_> = found.iter().map(|one| (one.pattern.to_string(), one)).collect();
    items.sort_by(|one, other| one.0.cmp(&other.0));
    items.retain(|(topic, _)| after.as_ref().is_none_or(|after| topic > after));
    let cursor = items.get(limit - 1).map(|(topic, _)| topic.clone());
    items.truncate(limit);
    let shown = items
        .into_iter()
        .map(|(text, one)| (text, Subscription { topic: one.pattern.clone(), since: one.since }));
    page("subscriptions", shown, cursor)
}
