//! Subscriptions to topics.

use quorate_core::{AgentId, Code, History, Pattern, Refused, Seq, Subscribe, Timestamp};
use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// A subscription in a commit: from now on. A call of its own can bring earlier messages, too.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSubscription {
    /// The subscriber; by default the agent of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// A topic or a pattern: `findings.high`, `findings.*`, `findings.>`.
    pub topic: TopicPattern,
}

impl NewSubscription {
    /// The subscriber and the pattern.
    ///
    /// # Errors
    /// `INVALID` if no agent is named.
    pub fn read(self, reading: &Reading<'_>) -> Result<(AgentId, Pattern), Refused> {
        Ok((reading.agent(self.agent)?, self.topic.0))
    }

    /// A subscription as a client sends it.
    #[must_use]
    pub fn new(agent: &AgentId, pattern: &Pattern) -> Self {
        Self { agent: Some(agent.clone()), topic: TopicPattern(pattern.clone()) }
    }
}

/// A pattern, also in the form of the destination of its messages: `topic:findings.*`.
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

/// Earlier messages to deliver with a subscription: one of the fields; none by default.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscriptionHistory {
    /// From this record on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_seq: Option<Seq>,
    /// From this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_time: Option<Timestamp>,
    /// The newest ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = quorate_core::limits::HISTORY_LAST_MAX)))]
    pub last: Option<u32>,
}

impl SubscriptionHistory {
    /// The messages to bring.
    ///
    /// # Errors
    /// `INVALID` for more than one field.
    pub fn read(self) -> Result<Option<History>, Refused> {
        Ok(match (self.from_seq, self.from_time, self.last) {
            (None, None, None) => None,
            (Some(seq), None, None) => Some(History::Seq(seq)),
            (None, Some(time), None) => Some(History::Time(time)),
            (None, None, Some(last)) => Some(History::Last(last)),
            _ => {
                return Err(Refused::new(Code::Invalid, "fromSeq, fromTime and last exclude each other")
                    .hint("keep one of them"));
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

/// A subscription of an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscription {
    /// A topic or a pattern.
    pub topic: Pattern,
    /// The record from which on it gets messages.
    pub since: Seq,
}

/// A subscription that was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subscribed {
    /// The subscriber.
    pub agent: AgentId,
    /// A topic or a pattern.
    pub topic: Pattern,
    /// The record from which on it gets messages.
    pub since: Seq,
}

/// A subscription that was ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unsubscribed {
    /// The subscriber.
    pub agent: AgentId,
    /// A topic or a pattern.
    pub topic: Pattern,
}

/// The operation of a subscription from now on.
///
/// # Errors
/// `INVALID` if no agent is named.
pub(crate) fn subscribe(new: NewSubscription, reading: &Reading<'_>) -> Result<Subscribe, Refused> {
    let (agent, pattern) = new.read(reading)?;
    Ok(Subscribe { agent, pattern, history: None })
}
