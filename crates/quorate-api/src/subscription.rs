//! Subscriptions to topics.

use quorate_core::{AgentId, Code, History, Pattern, Refused, Seq, Subscribe, Timestamp};
use serde::{Deserialize, Serialize};

use crate::parse_context::ParseContext;

/// Subscription in a commit. It delivers new messages only; `PUT /v1/agents/{id}/subscriptions/{topic}` can also
/// deliver earlier ones.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSubscription {
    /// Subscriber; the agent of the access token by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Topic or wildcard pattern: `findings.high`, `findings.*`, `findings.>`.
    pub topic: TopicPattern,
}

impl NewSubscription {
    /// Returns the subscriber and the pattern.
    ///
    /// # Errors
    /// `INVALID` if the agent is missing.
    pub fn into_core(self, context: &ParseContext<'_>) -> Result<(AgentId, Pattern), Refused> {
        Ok((context.agent(self.agent)?, self.topic.0))
    }

    /// Creates the request body that a client sends.
    #[must_use]
    pub fn new(agent: &AgentId, pattern: &Pattern) -> Self {
        Self { agent: Some(agent.clone()), topic: TopicPattern(pattern.clone()) }
    }
}

/// Topic pattern. Also accepts the form of a message destination: `topic:findings.*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicPattern(pub Pattern);

impl std::str::FromStr for TopicPattern {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        text.strip_prefix("topic:").unwrap_or(text).parse().map(Self)
    }
}

impl Serialize for TopicPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TopicPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        quorate_core::parse_text(deserializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for TopicPattern {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TopicPattern".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        crate::schema::Id::json_schema(generator)
    }
}

/// Earlier messages to deliver with a subscription. Set at most one field; none are delivered by default.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscriptionHistory {
    /// Deliver messages from this record on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<Seq>,
    /// Deliver messages from this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_time: Option<Timestamp>,
    /// Number of most recent messages to deliver.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = quorate_core::limits::HISTORY_LAST_MAX)))]
    pub last: Option<u32>,
}

impl SubscriptionHistory {
    /// Returns the requested history.
    ///
    /// # Errors
    /// `INVALID` if more than one field is set.
    pub fn into_core(self) -> Result<Option<History>, Refused> {
        Ok(match (self.from_seq, self.from_time, self.last) {
            (None, None, None) => None,
            (Some(seq), None, None) => Some(History::Seq(seq)),
            (None, Some(time), None) => Some(History::Time(time)),
            (None, None, Some(last)) => Some(History::Last(last)),
            _ => {
                return Err(Refused::new(Code::Invalid, "fromSeq, fromTime and last cannot be combined")
                    .hint("send only one of them"));
            }
        })
    }
}

impl From<Option<&History>> for SubscriptionHistory {
    fn from(history: Option<&History>) -> Self {
        match history {
            None => Self::default(),
            Some(History::Seq(seq)) => Self { from_seq: Some(*seq), ..Self::default() },
            Some(History::Time(time)) => Self { from_time: Some(*time), ..Self::default() },
            Some(History::Last(last)) => Self { last: Some(*last), ..Self::default() },
        }
    }
}

/// Subscription of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscription {
    /// Topic or wildcard pattern.
    pub topic: Pattern,
    /// Sequence number of the first record whose messages are delivered.
    pub since: Seq,
}

/// Subscription with its subscriber.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentSubscription {
    /// Subscriber.
    pub agent: AgentId,
    /// Topic or wildcard pattern.
    pub topic: Pattern,
    /// Sequence number of the first record whose messages are delivered.
    pub since: Seq,
}

/// Subscription that was ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EndedSubscription {
    /// Subscriber.
    pub agent: AgentId,
    /// Topic or wildcard pattern.
    pub topic: Pattern,
}

/// Creates the operation for a subscription without history.
///
/// # Errors
/// `INVALID` if the agent is missing.
pub(crate) fn subscribe_op(
    subscription: NewSubscription,
    context: &ParseContext<'_>,
) -> Result<Subscribe, Refused> {
    let (agent, pattern) = subscription.into_core(context)?;
    Ok(Subscribe { agent, pattern, history: None })
}
