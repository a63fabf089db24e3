//! Subscriptions: which topics an agent hears.

use axum::extract::Path;
use quorate_core::limits::HISTORY_LAST_MAX;
use quorate_core::{AgentId, Code, History, Op, Pattern, Refused, Seq, Subscribe};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, checked_limit};
use crate::api::{Route, delete, get, put, words};
use crate::body;
use crate::call::{Answer, Call, ok, page};
use crate::wire::time;

pub(crate) fn routes() -> Vec<Route> {
    const ONE: &str = "/v1/agents/{id}/subscriptions/{topic}";
    vec![
        get("/v1/agents/{id}/subscriptions", "subscriptions.list", "Which topics an agent hears.")
            .path::<words::Id>("id")
            .for_itself()
            .query::<Page>()
            .lists::<SubscriptionOut>("subscriptions")
            .bulk_of(list),
        put(
            ONE,
            "subscriptions.subscribe",
            "The messages of a topic are for an agent as well, from now on or from before.",
        )
        .path::<words::Id>("id")
        .path::<words::Id>("topic")
        .for_itself()
        .body::<SubscribeIn>()
        .answers::<SubscribedOut>(200, "It hears them.")
        .to(subscribe),
        delete(ONE, "subscriptions.unsubscribe", "They are not any more.")
            .path::<words::Id>("id")
            .path::<words::Id>("topic")
            .for_itself()
            .answers::<UnsubscribedOut>(200, "It does not hear them any more.")
            .to(unsubscribe),
    ]
}

/// A subscription: a pattern such as `findings.*` or `findings.>`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscription")]
struct SubscriptionOut {
    topic: String,
    /// The record from which on it hears.
    since: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Subscribed")]
struct SubscribedOut {
    agent: String,
    topic: String,
    /// The record from which on it hears.
    since: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Unsubscribed")]
struct UnsubscribedOut {
    agent: String,
    topic: String,
}

/// What was sent before; nothing if nothing is said.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HistoryWanted")]
pub(crate) struct SubscribeIn {
    /// From this record on.
    from_seq: Option<u64>,
    #[schemars(with = "Option<words::Time>")]
    from_time: Option<String>,
    /// So many of the newest.
    #[schemars(range(max = HISTORY_LAST_MAX))]
    last: Option<u32>,
}

impl SubscribeIn {
    fn read(self) -> Result<Option<History>, Refused> {
        Ok(match (self.from_seq, self.from_time, self.last) {
            (None, None, None) => None,
            (Some(seq), None, None) => Some(History::Seq(Seq(seq))),
            (None, Some(text), None) => Some(History::Time(time::read("fromTime", &text)?)),
            (None, None, Some(last)) => Some(History::Last(last)),
            _ => {
                return Err(Refused::new(Code::Invalid, "fromSeq, fromTime and last exclude each other")
                    .hint("keep one of them"));
            }
        })
    }
}

/// A subscription in a commit: from now on. What was sent before is brought by the call of its own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SubscriptionWish")]
pub(crate) struct TopicIn {
    /// Whoever asks, if nothing is said.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    #[schemars(with = "words::Id")]
    topic: String,
}

impl TopicIn {
    pub(crate) fn read(self, by: Option<&AgentId>) -> Result<(AgentId, Pattern), Refused> {
        let named = self.agent.map(AgentId::new).transpose()?;
        let missing = || Refused::new(Code::Invalid, "agent is missing").hint("say for which agent");
        Ok((named.or_else(|| by.cloned()).ok_or_else(missing)?, pattern_of(&self.topic)?))
    }
}

/// A pattern, also as the destination that messages to it name: `topic:findings.*`.
fn pattern_of(text: &str) -> Result<Pattern, Refused> {
    text.strip_prefix("topic:").unwrap_or(text).parse()
}

pub(crate) async fn subscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> Answer {
    let (agent, pattern) = (AgentId::new(id)?, pattern_of(&pattern)?);
    let history = body::parse::<SubscribeIn>(&call.body)?.read()?;
    let asked = Subscribe { agent: agent.clone(), pattern: pattern.clone(), history };
    let since = call.space.subscribe_once(&|ops| call.as_commit(ops), asked).await?;
    ok(&SubscribedOut { agent: agent.to_string(), topic: pattern.to_string(), since: since.0 })
}

pub(crate) async fn unsubscribe(Path((id, pattern)): Path<(String, String)>, call: Call) -> Answer {
    let (agent, pattern) = (AgentId::new(id)?, pattern_of(&pattern)?);
    let op = Op::Unsubscribe { agent: agent.clone(), pattern: pattern.clone() };
    call.commit(vec![op]).await?;
    ok(&UnsubscribedOut { agent: agent.to_string(), topic: pattern.to_string() })
}

pub(crate) async fn list(Path(id): Path<String>, call: Call) -> Answer {
    let agent = AgentId::new(id)?;
    let asked: Page = call.query()?;
    let limit = checked_limit(asked.limit)?;
    let after = asked.cursor.map(|cursor| cursor.parse::<Pattern>()).transpose()?.map(|one| one.to_string());
    let found = call.space.subscriptions(&agent).await?;
    let mut items: Vec<_> = found.iter().map(|one| (one.pattern.to_string(), one.since.0)).collect();
    items.sort();
    items.retain(|(topic, _)| after.as_ref().is_none_or(|after| topic > after));
    let cursor = items.get(limit - 1).map(|(topic, _)| topic.clone());
    items.truncate(limit);
    let shown = items.into_iter().map(|(topic, since)| (topic.clone(), SubscriptionOut { topic, since }));
    page("subscriptions", shown, cursor)
}
