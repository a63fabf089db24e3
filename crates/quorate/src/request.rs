//! Requests: messages that expect an answer.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use quorate_api::Error;
use quorate_api::received::Answer;
use quorate_core::{
    AnswerFrom, Durability, IfUnavailable, MessageId, MessageType, Op, Priority, SendRequest,
};
use quorate_env::{Attempt, FailedRequest, retry_request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::{Agent, ReceivedMessage, from_json, to_json};
use crate::backend::ReplyStream;
use crate::send::MessageDraft;

impl Agent {
    /// Sends a request to an agent, or to one agent with a capability (`can:CAPABILITY`), and waits for the answer.
    /// Await the returned builder.
    ///
    /// The default timeout is 30 s for a command, 5 s for a query and 1 s for a request to several recipients.
    pub fn ask(
        &self,
        to: impl Into<String>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> AskBuilder {
        AskBuilder::new(self.clone(), MessageDraft::new(vec![to.into()], action.into(), to_json(payload)))
    }

    /// Sends a request to several agents. Collect the answers with [`AskBuilder::all`].
    pub fn ask_all<T: Into<String>>(
        &self,
        to: impl IntoIterator<Item = T>,
        action: impl Into<String>,
        payload: impl Serialize,
    ) -> AskBuilder {
        let to = to.into_iter().map(Into::into).collect();
        AskBuilder::new(self.clone(), MessageDraft::new(to, action.into(), to_json(payload)))
    }

    /// Resumes waiting for the answer to an earlier request, for example after a restart of the agent or the hub.
    ///
    /// # Errors
    /// Returns the error that ended the request, `NOT_FOUND`, `FORBIDDEN` if another agent sent it, or a storage
    /// error.
    pub async fn wait_for_answer(&self, request: MessageId) -> Result<Reply, Error> {
        let mut replies = self.backend.await_request(self.identity(), request).await?;
        replies.answer().await.map(Reply)
    }

    /// Cancels a request. Deliveries that are not yet claimed are withdrawn.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, `CONFLICT` if the request has ended, or a storage error.
    pub async fn cancel_request(&self, request: MessageId) -> Result<(), Error> {
        let op = Op::CancelRequest { request };
        self.backend.commit(self.new_commit(vec![op])).await.map(drop)
    }
}

/// Builder for a request. Await it for the answer.
#[must_use = "a request is sent when the builder is awaited"]
pub struct AskBuilder {
    agent: Agent,
    draft: MessageDraft,
    timeout: Option<Duration>,
    retries: u32,
    answer_from: AnswerFrom,
}

/// An answer to a request.
#[derive(Clone, Debug)]
pub struct Reply(Answer);

/// Handle to a pending request, which receives its answers. Dropping it before the last answer cancels the request.
pub struct RequestHandle(Box<dyn ReplyStream>);

impl RequestHandle {
    /// Returns the id of the request, which is the id of its message.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.0.id()
    }

    /// Waits for the next answer. Returns `None` when all expected answers have arrived.
    ///
    /// # Errors
    /// Returns the error that ended the request, such as `TIMEOUT`, `UNAVAILABLE` or `DEADLOCK`, or a storage error.
    pub async fn next(&mut self) -> Result<Option<Answer>, Error> {
        self.0.next().await
    }

    /// Waits for the only answer of a request with one recipient.
    ///
    /// # Errors
    /// See [`RequestHandle::next`].
    pub async fn answer(&mut self) -> Result<Answer, Error> {
        self.0.answer().await
    }

    /// Cancels the request.
    ///
    /// # Errors
    /// Returns `CONFLICT` if the request has ended, or a storage error.
    pub async fn cancel(self) -> Result<(), Error> {
        self.0.cancel().await
    }
}

/// Outcome of a request to several recipients.
#[derive(Debug)]
pub struct Replies {
    /// Answers in order of arrival.
    pub answers: Vec<Reply>,
    /// Reason why some recipients did not answer; `None` if all of them answered.
    pub incomplete: Option<Error>,
}

impl AskBuilder {
    fn new(agent: Agent, draft: MessageDraft) -> Self {
        Self { agent, draft, timeout: None, retries: 0, answer_from: AnswerFrom::default() }
    }

    /// Makes the request part of the conversation of a received message: one hop further, with the same correlation
    /// id, session and budget. Deadlock detection takes into account that the message waits for the answer.
    pub fn caused_by(mut self, cause: &ReceivedMessage) -> Self {
        self.draft.continue_from(cause);
        self
    }

    /// Sets the timeout of each attempt.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends a query instead of a command: it changes nothing at the recipient. The default timeout is 5 s.
    pub fn query(mut self) -> Self {
        self.draft.kind = MessageType::Query;
        self
    }

    /// Sets the message id. Sending the same request again with the same id sends nothing and waits for the same
    /// answer.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.draft.id = Some(id.into());
        self
    }

    /// Sets the delivery priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.draft.priority = priority;
        self
    }

    /// Sets which agents may answer. By default the recipients, and the agents to which they delegate the answer.
    pub fn answer_from(mut self, answer_from: AnswerFrom) -> Self {
        self.answer_from = answer_from;
        self
    }

    /// Sets the hop limit of the chain that this request starts. Defaults to 100.
    pub fn max_hops(mut self, hops: u16) -> Self {
        self.draft.max_hops = Some(hops);
        self
    }

    /// Sets what happens if the recipient is unavailable. By default the request is queued.
    pub fn if_unavailable(mut self, if_unavailable: IfUnavailable) -> Self {
        self.draft.if_unavailable = if_unavailable;
        self
    }

    /// Sets how often the request is retried after `TIMEOUT`, `UNAVAILABLE` or `OVERLOADED`, with exponential backoff
    /// starting at 1 s. Not retried by default.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Keeps the request in memory only: faster, but lost if the hub restarts. Supports a single recipient.
    pub fn ephemeral(mut self) -> Self {
        self.draft.durability = Durability::Ephemeral;
        self
    }

    /// Sends the request and returns the answers that arrived before the timeout.
    ///
    /// # Errors
    /// Returns an error if the request is rejected or the storage fails.
    pub async fn all(self) -> Result<Replies, Error> {
        let mut request = self.send_request(Attempt::default()).await?;
        let mut answers = Vec::new();
        loop {
            match request.next().await {
                Ok(Some(answer)) => answers.push(Reply(answer)),
                Ok(None) => return Ok(Replies { answers, incomplete: None }),
                Err(error @ Error::Refused(_)) => return Ok(Replies { answers, incomplete: Some(error) }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the request and returns a handle without waiting for answers. The request is on disk when this returns.
    ///
    /// # Errors
    /// Returns an error if the request is rejected or the storage fails.
    pub async fn start(self) -> Result<RequestHandle, Error> {
        self.send_request(Attempt::default()).await
    }

    async fn send_request(&self, attempt: Attempt) -> Result<RequestHandle, Error> {
        let request = match attempt {
            Attempt { retries: 0, .. } => self.request()?,
            Attempt { retries, retry_of } => self.request()?.for_retry(retries, retry_of),
        };
        self.agent.backend.request(self.agent.identity(), request).await.map(RequestHandle)
    }

    fn request(&self) -> Result<SendRequest, Error> {
        let message = self.draft.clone().into_message(&*self.agent.backend, &self.agent.id)?;
        let timeout_ms = self.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let answer_from = self.answer_from;
        Ok(SendRequest { answer_from, ..SendRequest::new(message, timeout_ms, None) })
    }

    /// Makes one attempt.
    async fn attempt(&self, attempt: Attempt) -> Result<Reply, FailedRequest<Error>> {
        let not_sent = |error| FailedRequest { request: None, error };
        if self.draft.durability == Durability::Ephemeral {
            return self.attempt_ephemeral().await.map_err(not_sent);
        }
        if self.retries == 0 {
            let answer = async { self.agent.backend.ask(self.agent.identity(), self.request()?).await };
            return answer.await.map(Reply).map_err(not_sent);
        }
        let mut request = self.send_request(attempt).await.map_err(not_sent)?;
        let id = Some(request.id());
        request.answer().await.map(Reply).map_err(|error| FailedRequest { request: id, error })
    }

    async fn attempt_ephemeral(&self) -> Result<Reply, Error> {
        let Self { agent, draft, timeout, .. } = self;
        let message = draft.clone().into_message(&*agent.backend, &agent.id)?;
        agent.backend.request_ephemeral(agent.identity(), message, *timeout).await.map(Reply)
    }

    async fn send(self) -> Result<Reply, Error> {
        let this = &self;
        let pause = |delay| async move {
            this.agent.backend.sleep(delay).await;
            Ok(())
        };
        retry_request(self.retries, Error::code, pause, |attempt| this.attempt(attempt)).await
    }
}

impl IntoFuture for AskBuilder {
    type Output = Result<Reply, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl Reply {
    /// Deserializes the answer.
    ///
    /// # Errors
    /// Returns `INVALID` if the answer does not match the type.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_json(&self.0.message.payload.bytes)
    }

    /// Returns the id of the agent that answered.
    #[must_use]
    pub fn sender(&self) -> &str {
        self.0.message.from.as_ref().map_or("", quorate_core::AgentId::as_str)
    }

    /// Returns the message with all its fields.
    #[must_use]
    pub fn message(&self) -> &quorate_core::Message {
        &self.0.message
    }
}
