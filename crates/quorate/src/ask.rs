//! Asking: a message whose answer is waited for.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_api::received::Answer;
use quorate_core::{Ask, Durability, IfUnavailable, MessageId, MessageType, Op, Priority, retry};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, Received, from_json, to_json};
use crate::link::Asked;
use crate::send::Draft;

impl Agent {
    /// Asks an agent, or one that `can:CAPABILITY`, and waits for the answer. Await it. A command waits 30 s, a query 5 s,
    /// a question to several 1 s, unless `within` says otherwise.
    pub fn ask(&self, to: impl Into<String>, action: impl Into<String>, payload: impl Serialize) -> Question {
        Question::new(self.clone(), Draft::new(vec![to.into()], action.into(), to_json(payload)))
    }

    /// Asks several agents at once; the answers come with [`Question::all`].
    pub fn ask_all<T: Into<String>>(
        &self,
        to: impl IntoIterator<Item = T>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> Question {
        let to = to.into_iter().map(Into::into).collect();
        Question::new(self.clone(), Draft::new(to, action.into(), to_json(payload)))
    }

    /// Waits again for the answer to a question that was asked before, by its id: after a restart of the agent or the hub.
    ///
    /// # Errors
    /// What ended the wait; `NOT_FOUND`, `FORBIDDEN` if somebody else asked, or a failure of the storage.
    pub async fn wait_for_answer(&self, question: MessageId) -> Result<Reply, Error> {
        let mut asking = self.link.await_request(self.who(), question).await?;
        asking.answer().await.map(Reply)
    }

    /// Wants no answer to a question any more; what nobody took yet is withdrawn.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if it is over, or a failure of the storage.
    pub async fn cancel_question(&self, question: MessageId) -> Result<(), Error> {
        let op = Op::CancelRequest { request: question };
        self.link.commit(self.commit_of(vec![op])).await.map(drop)
    }
}

/// A question that is about to be asked. Await it for the answer.
#[must_use = "a question is asked when it is awaited"]
pub struct Question {
    agent: Agent,
    draft: Draft,
    timeout: Option<Duration>,
    retries: u32,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply(Answer);

/// A question on its way, and a place to hear the answers. Whoever lets go of it before the end wants no answer any
/// more: the request is called off.
pub struct Asking(Box<dyn Asked>);

impl Asking {
    /// The id of the question and of the request.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.0.id()
    }

    /// The next answer; `None` when all that could come came.
    ///
    /// # Errors
    /// `TIMEOUT`, `UNAVAILABLE`, `DEADLOCK` or what else ended the wait; a failure of the storage.
    pub async fn next(&mut self) -> Result<Option<Answer>, Error> {
        self.0.next().await
    }

    /// The one answer, of somebody who was asked alone.
    ///
    /// # Errors
    /// As [`Asking::next`].
    pub async fn answer(&mut self) -> Result<Answer, Error> {
        self.0.answer().await
    }

    /// Wants no answer any more.
    ///
    /// # Errors
    /// `CONFLICT` if it is over, or a failure of the storage.
    pub async fn cancel(self) -> Result<(), Error> {
        self.0.cancel().await
    }
}

/// What came of a question to several.
#[derive(Debug)]
pub struct Replies {
    /// The answers, as they came.
    pub answers: Vec<Reply>,
    /// Why there are not more: `None` if everybody answered.
    pub missing: Option<Error>,
}

impl Question {
    fn new(agent: Agent, draft: Draft) -> Self {
        Self { agent, draft, timeout: None, retries: 0 }
    }

    /// A question that came up while working on this message: it belongs to the same conversation, one hop further, and
    /// whoever waits for this work waits for the answer with it.
    pub fn upon(mut self, cause: &Received) -> Self {
        self.draft.follow(cause);
        self
    }

    /// How long to wait for the answer; each try anew.
    pub fn within(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Only wants to know: waits 5 s if nothing is said.
    pub fn query(mut self) -> Self {
        self.draft.kind = MessageType::Query;
        self
    }

    /// An id of your own: asking the same question with the same id again asks nothing and waits for the same answer.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.draft.id = Some(id.into());
        self
    }

    /// Which goes first.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.draft.priority = priority;
        self
    }

    /// What to do when whoever is asked cannot be reached: wait if nothing is said.
    pub fn if_unavailable(mut self, choice: IfUnavailable) -> Self {
        self.draft.if_unavailable = choice;
        self
    }

    /// Asks again so many times, after 1, 2, 4 s and so on, when the answer is `TIMEOUT`, `UNAVAILABLE` or `OVERLOADED`.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// In memory only: fast, and gone if the hub is. Of one agent, not of several.
    pub fn ephemeral(mut self) -> Self {
        self.draft.durability = Durability::Ephemeral;
        self
    }

    /// Asks, and gives the answers of all who were asked, as far as they came in time.
    ///
    /// # Errors
    /// The refusal of the question itself, or a failure of the storage.
    pub async fn all(self) -> Result<Replies, Error> {
        let mut asking = self.begin(None).await?;
        let mut answers = Vec::new();
        loop {
            match asking.next().await {
                Ok(Some(answer)) => answers.push(Reply(answer)),
                Ok(None) => return Ok(Replies { answers, missing: None }),
                Err(error @ Error::Refused(_)) => return Ok(Replies { answers, missing: Some(error) }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks, without waiting: the question is on disk when this returns, and the answers come through what it returns.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn start(self) -> Result<Asking, Error> {
        self.begin(None).await
    }

    async fn begin(&self, again: Option<MessageId>) -> Result<Asking, Error> {
        let ask = Ask { again, ..self.ask()? };
        self.agent.link.request(self.agent.who(), ask).await.map(Asking)
    }

    fn ask(&self) -> Result<Ask, Error> {
        let message = self.draft.clone().message(&*self.agent.link, &self.agent.id)?;
        let timeout_ms = self.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Ok(Ask::new(message, timeout_ms, None))
    }

    /// One try; if it fails, with the id of the question, if it was asked.
    async fn once(&self, again: Option<MessageId>) -> Result<Reply, (Option<MessageId>, Error)> {
        if self.draft.durability == Durability::Ephemeral {
            return self.once_in_memory().await.map_err(|error| (None, error));
        }
        if self.retries == 0 {
            let asked = async { self.agent.link.ask(self.agent.who(), self.ask()?).await };
            return asked.await.map(Reply).map_err(|error| (None, error));
        }
        let mut asking = self.begin(again).await.map_err(|error| (again, error))?;
        let id = asking.id();
        asking.answer().await.map(Reply).map_err(|error| (Some(id), error))
    }

    async fn once_in_memory(&self) -> Result<Reply, Error> {
        let Self { agent, draft, timeout, .. } = self;
        let message = draft.clone().message(&*agent.link, &agent.id)?;
        agent.link.request_ephemeral(agent.who(), message, *timeout).await.map(Reply)
    }

    async fn go(self) -> Result<Reply, Error> {
        let (mut tried, mut again) = (0, None);
        loop {
            let (asked, error) = match self.once(again).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            let Some(wait_ms) = retry::wait_ms(tried, self.retries, error.code()) else { return Err(error) };
            (tried, again) = (tried + 1, asked);
            self.agent.link.pass(Duration::from_millis(wait_ms)).await;
        }
    }
}

impl IntoFuture for Question {
    type Output = Result<Reply, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.go())
    }
}

impl Reply {
    /// The answer, typed.
    ///
    /// # Errors
    /// `INVALID` if it is not of that shape.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(&self.0.message.payload.bytes)
    }

    /// Who gave it.
    #[must_use]
    pub fn from(&self) -> &str {
        self.0.message.from.as_ref().map_or("", quorate_core::AgentId::as_str)
    }

    /// The message with all its fields.
    #[must_use]
    pub fn message(&self) -> &quorate_core::Message {
        &self.0.message
    }
}
