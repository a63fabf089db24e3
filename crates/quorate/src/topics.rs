//! Topics: publishing and subscribing.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_core::{History, MessageType, Pattern, Seq};
use serde::Serialize;

use crate::agent::{Agent, to_json};
use crate::send::Sending;

impl Agent {
    /// Tells all who subscribe to a topic, but not itself, that something happened. Await it: then it is on disk.
    pub fn publish(
        &self,
        topic: impl AsRef<str>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> Sending {
        let topic = topic.as_ref();
        let to = format!("topic:{}", topic.strip_prefix("topic:").unwrap_or(topic));
        Sending::new(self.clone(), vec![to], action.into(), to_json(payload)).kind(MessageType::Event)
    }

    /// Subscribes to topics: `*` stands for any one word, `>` for the rest. It lasts until it is ended, also over restarts.
    /// Await it: from then on nothing is missed.
    pub fn subscribe(&self, pattern: impl Into<String>) -> Subscribing {
        Subscribing { agent: self.clone(), pattern: pattern.into(), history: None }
    }

    /// Ends a subscription. What waits already stays.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none, or a failure of the storage.
    pub async fn unsubscribe(&self, pattern: &str) -> Result<(), Error> {
        let pattern = Pattern::new(pattern)?;
        self.link.unsubscribe(self.who(), pattern).await
    }

    /// The patterns of its subscriptions.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn subscriptions(&self) -> Result<Vec<Pattern>, Error> {
        self.link.subscriptions(self.id.clone()).await
    }
}

/// A subscription that is about to begin. Await it.
#[must_use = "a subscription begins when it is awaited"]
pub struct Subscribing {
    agent: Agent,
    pattern: String,
    history: Option<Wanted>,
}

enum Wanted {
    From(Seq),
    Within(Duration),
    Last(u32),
}

impl Subscribing {
    /// With the messages from this record on, if the subscription is new.
    pub fn from(mut self, seq: Seq) -> Self {
        self.history = Some(Wanted::From(seq));
        self
    }

    /// With the messages of the time before, if the subscription is new.
    pub fn within(mut self, time: Duration) -> Self {
        self.history = Some(Wanted::Within(time));
        self
    }

    /// With the last so many messages, if the subscription is new.
    pub fn last(mut self, count: u32) -> Self {
        self.history = Some(Wanted::Last(count));
        self
    }

    async fn go(self) -> Result<Seq, Error> {
        let Self { agent, pattern, history } = self;
        let pattern = Pattern::new(pattern)?;
        let history = history.map(|wanted| match wanted {
            Wanted::From(seq) => History::Seq(seq),
            Wanted::Last(count) => History::Last(count),
            Wanted::Within(time) => {
                let mut from = agent.link.clock().now().wall;
                from.0 = from.0.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
                History::Time(from)
            }
        });
        agent.link.subscribe(agent.who(), pattern, history).await
    }
}

impl IntoFuture for Subscribing {
    /// The record since which messages come by themselves.
    type Output = Result<Seq, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.go())
    }
}
