//! Requests as callers see them: ask, hear the answers, wait again, call off.

use std::collections::VecDeque;

use quorate_core::{
    Ask, Code, Commit, ConsumerId, Epoch, MessageId, Op, OpResult, Principal, Refused, Request, RequestState,
    Told,
};
use quorate_store::{Read, Rows, StoreError};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::Error;
use crate::flagged::{is_private, nobody_answers};
use crate::post::{Mail, MessageRef};
use crate::space::{Closing, Space};

pub use quorate_api::received::Answer;

/// A question on its way, and a place to hear the answers. Whoever lets go of it before the end wants no answer any
/// more: the request is called off.
pub struct Asking {
    space: Space,
    principal: Principal,
    epoch: Option<Epoch>,
    request: MessageId,
    id: ConsumerId,
    mail: UnboundedReceiver<Mail>,
    /// Answers that came before anybody waited here.
    earlier: VecDeque<Answer>,
    /// Those, since they may be told again.
    heard: Vec<MessageId>,
    end: End,
    /// Whether the request goes on without whoever waits here.
    stays: bool,
}

/// Whether more can come.
enum End {
    NotYet,
    /// All that could come came.
    Over,
    /// The wait ended like this, and nobody was told yet.
    Failed(Refused),
}

impl Space {
    /// Asks: the question is on disk when this returns, and the answers come through what it returns. Who is told is not
    /// for the question to say.
    ///
    /// # Errors
    /// The refusal, or a failure of the storage.
    pub async fn request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        ask: Ask,
    ) -> Result<Asking, Error> {
        self.listen(principal, epoch, |waiting| Op::Request(Ask { waiting: Some(waiting), ..ask })).await
    }

    /// Waits, or waits again, for the answers to a request: after a restart, or instead of whoever waited before.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN` if somebody else asked, or a failure of the storage.
    pub async fn await_request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        request: MessageId,
    ) -> Result<Asking, Error> {
        self.listen(principal, epoch, |waiting| Op::AwaitRequest { request, waiting }).await
    }

    async fn listen(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        op: impl FnOnce(ConsumerId) -> Op,
    ) -> Result<Asking, Error> {
        let (id, mail) = self.post().wait(self.number());
        let mut closing = Closing { space: self, id, waits: true, mailbox: true };
        let commit = Commit { epoch, ..Commit::new(principal.clone(), vec![op(id)]) };
        let outcome = self.commit(commit).await;
        if is_private(&outcome) {
            // The head never heard of it, and must not be told that nobody waits.
            closing.waits = false;
            return outcome.and_then(|_| Err(nobody_answers().into()));
        }
        let receipt = outcome?;
        let Some(OpResult::Requested { id: request, is_open, .. }) = receipt.results.into_iter().next()
        else {
            return Err(StoreError::Read("a request was not answered".into()).into());
        };
        let mut asking = Asking {
            space: self.clone(),
            principal: principal.clone(),
            epoch,
            request,
            id,
            mail,
            earlier: VecDeque::new(),
            heard: Vec::new(),
            end: End::NotYet,
            stays: false,
        };
        // From here on it looks after itself.
        closing.waits = false;
        closing.mailbox = false;
        // Nothing can have come before the question itself.
        if receipt.seq != Some(request.seq) {
            asking.catch_up(is_open).await?;
        }
        Ok(asking)
    }

    /// Wants no answer any more; what nobody took yet is withdrawn. An answer that comes nevertheless is on record only.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN` if somebody else asked, `CONFLICT` if it is over, or a failure of the storage.
    pub async fn cancel_request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        request: MessageId,
    ) -> Result<(), Error> {
        let op = Op::CancelRequest { request };
        self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await.map(drop)
    }
}

impl Asking {
    /// The id of the question and of the request.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.request
    }

    /// Letting go of it does not call the request off: whoever asked may come back and ask the same question again, under the
    /// same id or key, and waits for the same answer then. Its time ends it otherwise.
    pub fn stays(&mut self) {
        self.stays = true;
    }

    /// The next answer; `None` when all that could come came.
    ///
    /// # Errors
    /// `TIMEOUT`, `UNAVAILABLE`, `DEADLOCK` or what else ended the wait, and which question it was: that stands. A failure
    /// of the storage.
    pub async fn next(&mut self) -> Result<Option<Answer>, Error> {
        let question = self.request;
        self.heard_next().await.map_err(|error| match error {
            Error::Refused(refused) => refused.asked(question).into(),
            other => other,
        })
    }

    async fn heard_next(&mut self) -> Result<Option<Answer>, Error> {
        if let Some(answer) = self.earlier.pop_front() {
            return Ok(Some(answer));
        }
        match std::mem::replace(&mut self.end, End::Over) {
            End::NotYet => {}
            End::Over => return Ok(None),
            End::Failed(refused) => return Err(refused.into()),
        }
        self.end = End::NotYet;
        loop {
            match self.mail.recv().await {
                Some(Mail::Told(Told::Answered { id, at, message, is_last })) => {
                    if is_last {
                        self.end = End::Over;
                    }
                    if !self.heard.contains(&id) {
                        return Ok(Some(Answer { id: MessageRef::Durable(id), at, message }));
                    }
                    if is_last {
                        return Ok(None);
                    }
                }
                Some(Mail::Told(Told::Refused(refused))) => {
                    self.end = End::Over;
                    return Err(refused.into());
                }
                Some(_) => return Err(StoreError::Read("a request was not answered".into()).into()),
                None => {
                    self.end = End::Over;
                    return Err(Refused::new(Code::StaleEpoch, "the agent was started again or removed")
                        .hint("this start of the agent is over; the next one may wait for the answer again")
                        .into());
                }
            }
        }
    }

    /// The one answer, of somebody who was asked alone.
    ///
    /// # Errors
    /// As [`Asking::next`].
    pub async fn answer(&mut self) -> Result<Answer, Error> {
        let nothing = |question| {
            Refused::new(Code::Cancelled, "no answer can come any more")
                .hint("look at the request: it says what became of it")
                .asked(question)
        };
        self.next().await?.ok_or_else(|| nothing(self.request).into())
    }

    /// Wants no answer any more.
    ///
    /// # Errors
    /// `CONFLICT` if it is over, or a failure of the storage.
    pub async fn cancel(mut self) -> Result<(), Error> {
        self.end = End::Over;
        self.space.cancel_request(&self.principal, self.epoch, self.request).await
    }

    /// Answers that came before, and how it ended if it is over.
    async fn catch_up(&mut self, is_open: bool) -> Result<(), Error> {
        let Some(request) = self.space.find::<Request>(&self.request).await? else { return Ok(()) };
        let id = self.request;
        let over = |code, detail: String| End::Failed(Refused::new(code, detail));
        self.end = match &request.state {
            // What ended it meanwhile lies in the mailbox.
            _ if is_open => End::NotYet,
            RequestState::Waiting | RequestState::Answered => End::Over,
            RequestState::TimedOut => over(Code::Timeout, format!("no answer to {id} came in time")),
            RequestState::Cancelled => over(Code::Cancelled, format!("request {id} was cancelled")),
            RequestState::Failed { code, reason } => {
                over(*code, format!("request {id} has no answer: {reason}"))
            }
        };
        for (seq, n) in request.answers() {
            if let Rows::Message(Some(stored)) = self.space.read_one(Read::Message { seq, n }).await? {
                let id = self.space.published().eras.message_id(seq, n);
                self.heard.push(id);
                let id = MessageRef::Durable(id);
                self.earlier.push_back(Answer { id, at: stored.at, message: stored.message });
            }
        }
        Ok(())
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.space.post().close(self.id);
        if matches!(self.end, End::NotYet) && !self.stays {
            let op = Op::CancelRequest { request: self.request };
            let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) };
            // If the queue is full or closed, its time runs out: late, but not for ever.
            self.space.submit(vec![commit]);
        }
    }
}
