//! Requests over the network, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate::link::{Answer, Asked, Promise, Who};
use quorate::{Error, Refused};
use quorate_api::message::NewMessage;
use quorate_api::request::{Answers as AnswersJson, NewRequest, Request as RequestJson, SocketAnswer};
use quorate_core::{ClientId, Message, MessageId, SendRequest};
use tokio::runtime::Handle;

use super::calls::{GRACE, WAIT, as_of};
use super::{Connection, Seat};
use crate::http::segment;
use crate::patience::Patience;
use crate::wire;
use crate::wire::message;

/// Default timeout for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds the JSON of a request.
fn request(ask: &Message, timeout_ms: Option<u64>) -> Result<NewRequest<'static>, Error> {
    Ok(NewRequest { message: NewMessage::new(ask)?, timeout_ms, again: None })
}

impl Connection {
    /// Sends a request to one recipient and waits for its answer. The request has an id, so that a retry waits for
    /// the same answer.
    pub(super) async fn ask_one(&self, who: Who, ask: &SendRequest) -> Result<Answer, Error> {
        let seat = self.seat_of(&who.agent);
        let mut body = request(&ask.message, ask.timeout_ms)?;
        let id = match &body.message.id {
            Some(id) => id.clone(),
            None => ClientId::new(format!("ask-{}", self.key()))?,
        };
        body.message.id = Some(id.clone());
        let mut cancel_on_drop =
            CancelOnDrop { seat: Arc::clone(&seat), who: who.clone(), id: Some(id.to_string()) };
        let body = wire::write(&body)?;
        let timeout = ask.timeout_ms.map_or(ANSWER_TIMEOUT, Duration::from_millis) + GRACE;
        let answer = match seat.socket() {
            Some(socket) => {
                let response = socket.ask("request", &body, true).await;
                response.and_then(|text| message::answer(wire::read::<SocketAnswer>(&text)?.message))
            }
            None => {
                let call = || {
                    let call = seat.http.post("/v1/request").json(body.clone()).within(timeout);
                    as_of(call, who.epoch).send()
                };
                let response = self.patience.persist(call).await;
                response.and_then(|response| message::answer(response.json()?))
            }
        };
        cancel_on_drop.id = None;
        answer
    }

    /// Sends an ephemeral request once. It ends with the connection.
    pub(super) async fn ask_in_memory(
        &self,
        who: Who,
        asked: &Message,
        within: Option<Duration>,
    ) -> Result<Answer, Error> {
        let seat = self.seat_of(&who.agent);
        let timeout_ms = within.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let body = wire::write(&request(asked, timeout_ms)?)?;
        if let Some(socket) = seat.socket() {
            let response = socket.ask("request", &body, false).await?;
            return message::answer(wire::read::<SocketAnswer>(&response)?.message);
        }
        let call = seat.http.post("/v1/request").json(body).within(within.unwrap_or(ANSWER_TIMEOUT) + GRACE);
        let response = as_of(call, who.epoch).send().await?;
        message::answer(response.json()?)
    }

    /// Sends a request and returns the stream of its answers.
    pub(super) async fn begin(&self, who: Who, ask: &SendRequest) -> Result<Answers, Error> {
        let (seat, key) = (self.seat_of(&who.agent), self.key());
        let request = NewRequest { again: ask.retry_of, ..request(&ask.message, ask.timeout_ms)? };
        let body = wire::write(&request)?;
        let call = || {
            let call = seat.http.post("/v1/requests").key(&key).json(body.clone());
            as_of(call, who.epoch).send()
        };
        let accepted: RequestJson = self.patience.persist(call).await?.json()?;
        Ok(self.answers(seat, who, accepted.id))
    }

    /// Returns the stream of answers to an earlier request, after checking that it exists.
    pub(super) async fn come_back(&self, who: Who, question: MessageId) -> Result<Answers, Error> {
        let mut answers = self.answers(self.seat_of(&who.agent), who, question);
        if let Err(error) = answers.page(Duration::ZERO).await {
            // Do not cancel the request of another agent on drop.
            answers.ended = true;
            return Err(error);
        }
        Ok(answers)
    }

    fn answers(&self, seat: Arc<Seat>, who: Who, id: MessageId) -> Answers {
        let patience = self.patience.clone();
        let cursor = "0".to_owned();
        Answers { seat, patience, who, id, cursor, received: VecDeque::new(), end: None, ended: false }
    }
}

/// Stream of the answers to a request, read by long polling.
pub(super) struct Answers {
    seat: Arc<Seat>,
    patience: Patience,
    who: Who,
    id: MessageId,
    cursor: String,
    /// Received answers that are not consumed yet.
    received: VecDeque<Answer>,
    /// Error that ended the request, to be returned after the last answer.
    end: Option<Refused>,
    /// Whether no further answers can arrive.
    ended: bool,
}

impl Answers {
    async fn page(&mut self, wait: Duration) -> Result<(), Error> {
        let path = format!("/v1/requests/{}/answers", self.id);
        let call = || {
            let call = self.seat.http.get(&path).query("cursor", &self.cursor);
            as_of(call.query("waitMs", wait.as_millis()).within(wait + GRACE), self.who.epoch).send()
        };
        let AnswersJson { page, status } = self.patience.persist(call).await?.json()?;
        match page.cursor {
            Some(cursor) => self.cursor = cursor,
            None => self.ended = true,
        }
        let answers = page.answers.into_iter().map(message::answer).collect::<Result<Vec<_>, _>>()?;
        self.received.extend(answers);
        self.end = status.refusal(self.id);
        Ok(())
    }
}

impl Asked for Answers {
    fn id(&self) -> MessageId {
        self.id
    }

    fn next(&mut self) -> Promise<'_, Option<Answer>> {
        Box::pin(async move {
            loop {
                if let Some(answer) = self.received.pop_front() {
                    return Ok(Some(answer));
                }
                if self.ended {
                    return self.end.take().map_or(Ok(None), |refused| Err(refused.into()));
                }
                self.page(WAIT).await?;
            }
        })
    }

    fn cancel(mut self: Box<Self>) -> Promise<'static, ()> {
        self.ended = true;
        let (seat, epoch, id) = (Arc::clone(&self.seat), self.who.epoch, self.id.to_string());
        let patience = self.patience.clone();
        Box::pin(async move {
            let path = format!("/v1/requests/{id}/cancel");
            let key = format!("cancel-{id}");
            let call = || as_of(seat.http.post(&path).key(&key), epoch).send();
            patience.persist(call).await.map(drop)
        })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if !self.ended {
            drop(CancelOnDrop {
                seat: Arc::clone(&self.seat),
                who: self.who.clone(),
                id: Some(self.id.to_string()),
            });
        }
    }
}

/// Cancels a request when dropped. If that fails, the request ends by its timeout.
struct CancelOnDrop {
    seat: Arc<Seat>,
    who: Who,
    /// Id of the request; `None` once it is answered.
    id: Option<String>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) {
            let path = format!("/v1/requests/{}/cancel", segment(&id));
            let call = as_of(self.seat.http.post(&path), self.who.epoch);
            runtime.spawn(async move { call.send().await.map(drop) });
        }
    }
}
