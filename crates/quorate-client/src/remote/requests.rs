//! Requests over the network, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate::backend::{AgentIdentity, Answer, BackendFuture, ReplyStream};
use quorate::{Error, Refused};
use quorate_api::message::NewMessage;
use quorate_api::request::{Answers as AnswersJson, NewRequest, Request as RequestJson, SocketAnswer};
use quorate_core::{AnswerFrom, ClientId, Message, MessageId, SendRequest};
use tokio::runtime::Handle;

use super::commit_and_claim::{LONG_POLL_WAIT, RESPONSE_GRACE, with_epoch};
use super::{PrincipalClient, RemoteHub};
use crate::http::percent_encode;
use crate::retry::Retrier;
use crate::wire;
use crate::wire::message;

/// Default timeout for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds the JSON of a request.
fn new_request(message: &Message, timeout_ms: Option<u64>) -> Result<NewRequest<'static>, Error> {
    let (message, answer_from) = (NewMessage::new(message)?, AnswerFrom::default());
    Ok(NewRequest { message, timeout_ms, again: None, answer_from })
}

impl RemoteHub {
    /// Sends a request to one recipient and waits for its answer. The request has an id, so that a retry waits for
    /// the same answer.
    pub(super) async fn ask_one(
        &self,
        identity: AgentIdentity,
        request: &SendRequest,
    ) -> Result<Answer, Error> {
        let client = self.client_of(&identity.agent);
        let mut body = new_request(&request.message, request.timeout_ms)?;
        body.answer_from = request.answer_from;
        let id = match &body.message.id {
            Some(id) => id.clone(),
            None => ClientId::new(format!("ask-{}", self.new_key()))?,
        };
        body.message.id = Some(id.clone());
        let mut cancel_on_drop = CancelOnDrop {
            client: Arc::clone(&client),
            identity: identity.clone(),
            id: Some(id.to_string()),
        };
        let body = wire::to_json(&body)?;
        let timeout = request.timeout_ms.map_or(ANSWER_TIMEOUT, Duration::from_millis) + RESPONSE_GRACE;
        let answer = match client.socket() {
            Some(socket) => {
                let response = socket.call("request", &body, true).await;
                response.and_then(|text| {
                    message::convert_answer(wire::parse_json::<SocketAnswer>(&text)?.message)
                })
            }
            None => {
                let call = || {
                    let call = client.http.post("/v1/request").json(body.clone()).timeout(timeout);
                    with_epoch(call, identity.epoch).send()
                };
                let response = self.retrier.retry(call).await;
                response.and_then(|response| message::convert_answer(response.json()?))
            }
        };
        cancel_on_drop.id = None;
        answer
    }

    /// Sends an ephemeral request once. It ends with the connection.
    pub(super) async fn ask_ephemeral(
        &self,
        identity: AgentIdentity,
        message: &Message,
        timeout: Option<Duration>,
    ) -> Result<Answer, Error> {
        let client = self.client_of(&identity.agent);
        let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let body = wire::to_json(&new_request(message, timeout_ms)?)?;
        if let Some(socket) = client.socket() {
            let response = socket.call("request", &body, false).await?;
            return message::convert_answer(wire::parse_json::<SocketAnswer>(&response)?.message);
        }
        let call = client
            .http
            .post("/v1/request")
            .json(body)
            .timeout(timeout.unwrap_or(ANSWER_TIMEOUT) + RESPONSE_GRACE);
        let response = with_epoch(call, identity.epoch).send().await?;
        message::convert_answer(response.json()?)
    }

    /// Sends a request and returns the stream of its answers.
    pub(super) async fn send_request(
        &self,
        identity: AgentIdentity,
        request: &SendRequest,
    ) -> Result<AnswerPoll, Error> {
        let (client, key) = (self.client_of(&identity.agent), self.new_key());
        let body = new_request(&request.message, request.timeout_ms)?;
        let body =
            wire::to_json(&NewRequest { again: request.retry_of, answer_from: request.answer_from, ..body })?;
        let call = || {
            let call = client.http.post("/v1/requests").idempotency_key(&key).json(body.clone());
            with_epoch(call, identity.epoch).send()
        };
        let accepted: RequestJson = self.retrier.retry(call).await?.json()?;
        Ok(self.answers(client, identity, accepted.id))
    }

    /// Returns the stream of answers to an earlier request, after checking that it exists.
    pub(super) async fn resume_request(
        &self,
        identity: AgentIdentity,
        id: MessageId,
    ) -> Result<AnswerPoll, Error> {
        let mut answers = self.answers(self.client_of(&identity.agent), identity, id);
        if let Err(error) = answers.read_page(Duration::ZERO).await {
            // Do not cancel the request of another agent on drop.
            answers.ended = true;
            return Err(error);
        }
        Ok(answers)
    }

    fn answers(&self, client: Arc<PrincipalClient>, identity: AgentIdentity, id: MessageId) -> AnswerPoll {
        let retrier = self.retrier.clone();
        let cursor = "0".to_owned();
        AnswerPoll {
            client,
            retrier,
            identity,
            id,
            cursor,
            received: VecDeque::new(),
            end: None,
            ended: false,
        }
    }
}

/// Stream of the answers to a request, read by long polling.
pub(super) struct AnswerPoll {
    client: Arc<PrincipalClient>,
    retrier: Retrier,
    identity: AgentIdentity,
    id: MessageId,
    cursor: String,
    /// Received answers that are not consumed yet.
    received: VecDeque<Answer>,
    /// Error that ended the request, to be returned after the last answer.
    end: Option<Refused>,
    /// Whether no further answers can arrive.
    ended: bool,
}

impl AnswerPoll {
    async fn read_page(&mut self, wait: Duration) -> Result<(), Error> {
        let path = format!("/v1/requests/{}/answers", self.id);
        let call = || {
            let call = self.client.http.get(&path).query("cursor", &self.cursor);
            with_epoch(
                call.query("waitMs", wait.as_millis()).timeout(wait + RESPONSE_GRACE),
                self.identity.epoch,
            )
            .send()
        };
        let AnswersJson { page, status } = self.retrier.retry(call).await?.json()?;
        match page.cursor {
            Some(cursor) => self.cursor = cursor,
            None => self.ended = true,
        }
        let answers = page.answers.into_iter().map(message::convert_answer).collect::<Result<Vec<_>, _>>()?;
        self.received.extend(answers);
        self.end = status.refusal(self.id);
        Ok(())
    }
}

impl ReplyStream for AnswerPoll {
    fn id(&self) -> MessageId {
        self.id
    }

    fn next(&mut self) -> BackendFuture<'_, Option<Answer>> {
        Box::pin(async move {
            loop {
                if let Some(answer) = self.received.pop_front() {
                    return Ok(Some(answer));
                }
                if self.ended {
                    return self.end.take().map_or(Ok(None), |refused| Err(refused.into()));
                }
                self.read_page(LONG_POLL_WAIT).await?;
            }
        })
    }

    fn cancel(mut self: Box<Self>) -> BackendFuture<'static, ()> {
        self.ended = true;
        let (client, epoch, id) = (Arc::clone(&self.client), self.identity.epoch, self.id.to_string());
        let retrier = self.retrier.clone();
        Box::pin(async move {
            let path = format!("/v1/requests/{id}/cancel");
            let key = format!("cancel-{id}");
            let call = || with_epoch(client.http.post(&path).idempotency_key(&key), epoch).send();
            retrier.retry(call).await.map(drop)
        })
    }
}

impl Drop for AnswerPoll {
    fn drop(&mut self) {
        if !self.ended {
            drop(CancelOnDrop {
                client: Arc::clone(&self.client),
                identity: self.identity.clone(),
                id: Some(self.id.to_string()),
            });
        }
    }
}

/// Cancels a request when dropped. If that fails, the request ends by its timeout.
struct CancelOnDrop {
    client: Arc<PrincipalClient>,
    identity: AgentIdentity,
    /// Id of the request; `None` once it is answered.
    id: Option<String>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) {
            let path = format!("/v1/requests/{}/cancel", percent_encode(&id));
            let call = with_epoch(self.client.http.post(&path), self.identity.epoch);
            runtime.spawn(async move { call.send().await.map(drop) });
        }
    }
}
