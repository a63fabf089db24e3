//! Questions over the network, and the answers to them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate::link::{Answer, Asked, Promise, Who};
use quorate::{Error, Refused};
use quorate_api::message::{Message as MessageJson, NewMessage};
use quorate_api::request::{Answers as AnswersJson, NewRequest};
use quorate_core::{Ask, ClientId, Message, MessageId};
use serde::Deserialize;
use tokio::runtime::Handle;

use super::calls::{GRACE, WAIT, as_of};
use super::{Connection, Seat};
use crate::http::segment;
use crate::patience::Patience;
use crate::wire;
use crate::wire::message;

/// How long an answer is waited for if nothing is said.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The answer to a request over the WebSocket.
#[derive(Deserialize)]
struct Answered {
    message: MessageJson,
}

/// A request that was accepted.
#[derive(Deserialize)]
struct Accepted {
    id: MessageId,
}

/// A request as it is sent.
fn request(ask: &Message, timeout_ms: Option<u64>) -> Result<NewRequest<'static>, Error> {
    Ok(NewRequest { message: NewMessage::new(ask)?, timeout_ms, again: None })
}

impl Connection {
    /// Asks somebody alone, and waits. The question has an id, so that it can be said again and waits for the same answer.
    pub(super) async fn ask_one(&self, who: Who, ask: &Ask) -> Result<Answer, Error> {
        let seat = self.seat_of(&who.agent);
        let mut out = request(&ask.message, ask.timeout_ms)?;
        let id = match &out.message.id {
            Some(id) => id.clone(),
            None => ClientId::new(format!("ask-{}", self.key()))?,
        };
        out.message.id = Some(id.clone());
        let mut unheard = Unheard { seat: Arc::clone(&seat), who: who.clone(), id: Some(id.to_string()) };
        let body = wire::write(&out)?;
        let within = ask.timeout_ms.map_or(ANSWER_WITHIN, Duration::from_millis) + GRACE;
        let answer = match seat.socket() {
            Some(socket) => {
                let told = socket.ask("request", &body, true).await;
                told.and_then(|told| message::answer(wire::read::<Answered>(&told)?.message))
            }
            None => {
                let call = || {
                    let call = seat.http.post("/v1/request").json(body.clone()).within(within);
                    as_of(call, who.epoch).send()
                };
                let told = self.patience.persist(call).await;
                told.and_then(|told| message::answer(told.json()?))
            }
        };
        unheard.id = None;
        answer
    }

    /// Asks in memory only: once, and gone with the connection.
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
            let told = socket.ask("request", &body, false).await?;
            return message::answer(wire::read::<Answered>(&told)?.message);
        }
        let call = seat.http.post("/v1/request").json(body).within(within.unwrap_or(ANSWER_WITHIN) + GRACE);
        let told = as_of(call, who.epoch).send().await?;
        message::answer(told.json()?)
    }

    /// Asks, and gives a place to hear the answers at.
    pub(super) async fn begin(&self, who: Who, ask: &Ask) -> Result<Answers, Error> {
        let (seat, key) = (self.seat_of(&who.agent), self.key());
        let out = NewRequest { again: ask.again, ..request(&ask.message, ask.timeout_ms)? };
        let body = wire::write(&out)?;
        let call = || {
            let call = seat.http.post("/v1/requests").key(&key).json(body.clone());
            as_of(call, who.epoch).send()
        };
        let begun: Accepted = self.patience.persist(call).await?.json()?;
        Ok(self.answers(seat, who, begun.id))
    }

    /// A place to hear the answers to a question that was asked before. Whether it was shows at once.
    pub(super) async fn come_back(&self, who: Who, question: MessageId) -> Result<Answers, Error> {
        let mut answers = self.answers(self.seat_of(&who.agent), who, question);
        if let Err(error) = answers.page(Duration::ZERO).await {
            // Somebody else's question is not called off.
            answers.over = true;
            return Err(error);
        }
        Ok(answers)
    }

    fn answers(&self, seat: Arc<Seat>, who: Who, id: MessageId) -> Answers {
        let patience = self.patience.clone();
        let cursor = "0".to_owned();
        Answers { seat, patience, who, id, cursor, came: VecDeque::new(), end: None, over: false }
    }
}

/// Answers to a question, as they come.
pub(super) struct Answers {
    seat: Arc<Seat>,
    patience: Patience,
    who: Who,
    id: MessageId,
    cursor: String,
    /// Told, and not looked at yet.
    came: VecDeque<Answer>,
    /// What ended the wait, and nobody was told yet.
    end: Option<Refused>,
    /// Nothing more can come.
    over: bool,
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
            None => self.over = true,
        }
        let came = page.answers.into_iter().map(message::answer).collect::<Result<Vec<_>, _>>()?;
        self.came.extend(came);
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
                if let Some(answer) = self.came.pop_front() {
                    return Ok(Some(answer));
                }
                if self.over {
                    return self.end.take().map_or(Ok(None), |refused| Err(refused.into()));
                }
                self.page(WAIT).await?;
            }
        })
    }

    fn cancel(mut self: Box<Self>) -> Promise<'static, ()> {
        self.over = true;
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
        if !self.over {
            drop(Unheard {
                seat: Arc::clone(&self.seat),
                who: self.who.clone(),
                id: Some(self.id.to_string()),
            });
        }
    }
}

/// A question whose asker goes away: it is called off. If that cannot be said, its time ends it.
struct Unheard {
    seat: Arc<Seat>,
    who: Who,
    /// `None` once the answer was heard.
    id: Option<String>,
}

impl Drop for Unheard {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) {
            let path = format!("/v1/requests/{}/cancel", segment(&id));
            let call = as_of(self.seat.http.post(&path), self.who.epoch);
            runtime.spawn(async move { call.send().await.map(drop) });
        }
    }
}
