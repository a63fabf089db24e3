//! Topics: publish and subscribe.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_core::{History, MessageType, Pattern, Seq};
use serde::Serialize;

use crate::agent::{Agent, to_json};
use crate::send::SendBuilder;

impl Agent {
    /// Publishes an event to all subscribers of a topic except this agent. Await the returned builder; when it
    /// resolves, the event is on disk.
    pub fn publish(
        &self,
        topic: impl AsRef<str>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> SendBuilder {
        let topic = topic.as_ref();
        let to = format!("topic:{}", topic.strip_prefix("topic:").unwrap_or(topic));
        SendBuilder::new(self.clone(), vec![to], action.into(), to_json(payload)).kind(MessageType::Event)
    }

    /// Subscribes to all topics that match a pattern: `*` matches one word, `>` matches the rest.
    ///
    /// Await the returned builder; from then on no message is missed. The subscription is durable: it survives
    /// restarts until [`Agent::unsubscribe`] ends it.
    pub fn subscribe(&self, pattern: impl Into<String>) -> SubscribeBuilder {
        SubscribeBuilder { agent: self.clone(), pattern: pattern.into(), history: None }
    }

    /// Ends a subscription. Messages that are already in the inbox stay there.
    ///
    /// # Errors
    /// Returns `NOT_FOUND` if there is no such subscription, or a storage error.
    pub async fn unsubscribe(&self, pattern: &str) -> Result<(), Error> {
        let pattern = Pattern::new(pattern)?;
        self.backend.unsubscribe(self.identity(), pattern).await
    }

    /// Returns the patterns of this agent's subscriptions.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn subscriptions(&self) -> Result<Vec<Pattern>, Error> {
        self.backend.subscriptions(self.id.clone()).await
    }
}

/// Builder for a subscription. Await it to subscribe.
#[must_use = "a subscription starts when the builder is awaited"]
pub struct SubscribeBuilder {
    agent: Agent,
    pattern: String,
    history: Option<Backfill>,
}

enum Backfill {
    From(Seq),
    Within(Duration),
    Last(u32),
}

impl SubscribeBuilder {
    /// Also delivers earlier messages, starting at a sequence number, if the subscription is new.
    pub fn from_seq(mut self, seq: Seq) -> Self {
        self.history = Some(Backfill::From(seq));
        self
    }

    /// Also delivers the messages of the given time span before now, if the subscription is new.
    pub fn from_last(mut self, span: Duration) -> Self {
        self.history = Some(Backfill::Within(span));
        self
    }

    /// Also delivers the last `count` messages, if the subscription is new.
    pub fn last_messages(mut self, count: u32) -> Self {
        self.history = Some(Backfill::Last(count));
        self
    }

    async fn subscribe(self) -> Result<Seq, Error> {
        let Self { agent, pattern, history } = self;
        let pattern = Pattern::new(pattern)?;
        let history = history.map(|backfill| match backfill {
            Backfill::From(seq) => History::Seq(seq),
            Backfill::Last(count) => History::Last(count),
            Backfill::Within(span) => {
                let mut from = agent.backend.clock().now().wall;
                from.0 = from.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
                History::Time(from)
            }
        });
        agent.backend.subscribe(agent.identity(), pattern, history).await
    }
}

impl IntoFuture for SubscribeBuilder {
    /// Sequence number after which new messages are delivered.
    type Output = Result<Seq, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.subscribe())
    }
}
