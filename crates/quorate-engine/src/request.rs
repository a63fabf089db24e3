//! Requests: sending them, receiving the responses, resuming the wait, and cancelling.

use std::collections::VecDeque;

use quorate_core::{
    Code, Commit, ConsumerEvent, ConsumerId, Epoch, MessageId, Op, OpResult, Principal, Refused, Request,
    RequestState, SendRequest,
};
use quorate_store::{ReadQuery, ReadResult, StoreError};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::Error;
use crate::flag_screening::{flag_has_no_answer, is_private};
use crate::mailboxes::{MailboxItem, MessageRef};
use crate::space::{ConsumerGuard, Space};

pub use quorate_api::received::Answer;

/// Pending request and the receiver of its responses. Dropping it before the end cancels the request.
pub struct RequestWaiter {
    space: Space,
    principal: Principal,
    epoch: Option<Epoch>,
    request: MessageId,
    id: ConsumerId,
    mail: UnboundedReceiver<MailboxItem>,
    /// Responses that arrived before this wait started.
    earlier: VecDeque<Answer>,
    /// IDs of those responses, which can be delivered again.
    received: Vec<MessageId>,
    end: End,
    /// Whether the request remains open when this is dropped.
    stays: bool,
}

/// Whether more responses can arrive.
enum End {
    NotYet,
    /// All possible responses have arrived.
    Over,
    /// The wait ended with this error, which was not returned yet.
    Failed(Refused),
}

impl Space {
    /// Sends a request. It is durable when this returns; the responses arrive through the returned value. The
    /// `waiting` field of the request is ignored.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        ask: SendRequest,
    ) -> Result<RequestWaiter, Error> {
        self.open_request(principal, epoch, |waiting| {
            Op::Request(SendRequest { waiting: Some(waiting), ..ask })
        })
        .await
    }

    /// Waits for the responses to a request, after a restart or instead of an earlier waiter.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN` if another agent sent the request, or a storage failure.
    pub async fn await_request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        request: MessageId,
    ) -> Result<RequestWaiter, Error> {
        self.open_request(principal, epoch, |waiting| Op::AwaitRequest { request, waiting }).await
    }

    async fn open_request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        op: impl FnOnce(ConsumerId) -> Op,
    ) -> Result<RequestWaiter, Error> {
        let (id, mail) = self.mailboxes().open_waiter(self.number());
        let mut closing = ConsumerGuard { space: self, id, registered: true, owns_mailbox: true };
        let commit = Commit { epoch, ..Commit::new(principal.clone(), vec![op(id)]) };
        let outcome = self.commit(commit).await;
        if is_private(&outcome) {
            // The writer never saw the request, so there is no consumer to close.
            closing.registered = false;
            return outcome.and_then(|_| Err(flag_has_no_answer().into()));
        }
        let receipt = outcome?;
        let Some(OpResult::Requested { id: request, is_open, .. }) = receipt.results.into_iter().next()
        else {
            return Err(StoreError::Read("unexpected result of a request".into()).into());
        };
        let mut asking = RequestWaiter {
            space: self.clone(),
            principal: principal.clone(),
            epoch,
            request,
            id,
            mail,
            earlier: VecDeque::new(),
            received: Vec::new(),
            end: End::NotYet,
            stays: false,
        };
        // From here on the pending request closes itself when dropped.
        closing.registered = false;
        closing.owns_mailbox = false;
        // No response can precede the request itself.
        if receipt.seq != Some(request.seq) {
            asking.catch_up(is_open).await?;
        }
        Ok(asking)
    }

    /// Cancels a request. Deliveries that no agent has claimed are withdrawn; a late response is only recorded.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN` if another agent sent it, `CONFLICT` if it has ended, or a storage failure.
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

impl RequestWaiter {
    /// Returns the ID of the request, which is that of its message.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.request
    }

    /// Keeps the request open when this is dropped: the caller can repeat the request under the same ID or key and
    /// await the same response. Otherwise it ends with its timeout.
    pub fn keep_open(&mut self) {
        self.stays = true;
    }

    /// Returns the next response; `None` when all possible responses have arrived.
    ///
    /// # Errors
    /// `TIMEOUT`, `UNAVAILABLE`, `DEADLOCK` or another error that ended the wait, with the ID of the request, which
    /// remains stored; or a storage failure.
    pub async fn next(&mut self) -> Result<Option<Answer>, Error> {
        let question = self.request;
        self.receive_next().await.map_err(|error| match error {
            Error::Refused(refused) => refused.sent_request(question).into(),
            other => other,
        })
    }

    async fn receive_next(&mut self) -> Result<Option<Answer>, Error> {
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
                Some(MailboxItem::Event(ConsumerEvent::Answered { id, at, message, is_last })) => {
                    if is_last {
                        self.end = End::Over;
                    }
                    if !self.received.contains(&id) {
                        return Ok(Some(Answer { id: MessageRef::Durable(id), at, message }));
                    }
                    if is_last {
                        return Ok(None);
                    }
                }
                Some(MailboxItem::Event(ConsumerEvent::Refused(refused))) => {
                    self.end = End::Over;
                    return Err(refused.into());
                }
                Some(_) => return Err(StoreError::Read("unexpected result of a request".into()).into()),
                None => {
                    self.end = End::Over;
                    return Err(Refused::new(
                        Code::StaleEpoch,
                        "the agent has registered again, or was removed",
                    )
                    .hint("stop this instance of the agent; the new epoch can await the response")
                    .into());
                }
            }
        }
    }

    /// Returns the only response of a request to a single recipient.
    ///
    /// # Errors
    /// As [`Asking::next`].
    pub async fn answer(&mut self) -> Result<Answer, Error> {
        let no_response = |question| {
            Refused::new(Code::Cancelled, "no response can arrive any longer")
                .hint("read the request to see how it ended")
                .sent_request(question)
        };
        self.next().await?.ok_or_else(|| no_response(self.request).into())
    }

    /// Cancels the request.
    ///
    /// # Errors
    /// `CONFLICT` if it has ended, or a storage failure.
    pub async fn cancel(mut self) -> Result<(), Error> {
        self.end = End::Over;
        self.space.cancel_request(&self.principal, self.epoch, self.request).await
    }

    /// Loads earlier responses and the final state, if the request has ended.
    async fn catch_up(&mut self, is_open: bool) -> Result<(), Error> {
        let Some(request) = self.space.find::<Request>(&self.request).await? else { return Ok(()) };
        let id = self.request;
        let over = |code, detail: String| End::Failed(Refused::new(code, detail));
        self.end = match &request.state {
            // An end in the meantime is in the mailbox.
            _ if is_open => End::NotYet,
            RequestState::Waiting | RequestState::Answered => End::Over,
            RequestState::TimedOut => over(Code::Timeout, format!("no response to {id} in time")),
            RequestState::Cancelled => over(Code::Cancelled, format!("request {id} was cancelled")),
            RequestState::Failed { code, reason } => {
                over(*code, format!("request {id} has no answer: {reason}"))
            }
        };
        for (seq, n) in request.replies() {
            if let ReadResult::Message(Some(stored)) =
                self.space.read_one(ReadQuery::Message { seq, n }).await?
            {
                let id = self.space.published().generations.message_id(seq, n);
                self.received.push(id);
                let id = MessageRef::Durable(id);
                self.earlier.push_back(Answer { id, at: stored.at, message: stored.message });
            }
        }
        Ok(())
    }
}

impl Drop for RequestWaiter {
    fn drop(&mut self) {
        self.space.mailboxes().close(self.id);
        if matches!(self.end, End::NotYet) && !self.stays {
            let op = Op::CancelRequest { request: self.request };
            let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) };
            // If the queue is full or closed, the request ends with its timeout.
            self.space.submit(vec![commit]);
        }
    }
}
