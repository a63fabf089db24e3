//! Requests: sending them, receiving the answers, resuming the wait, and cancelling.

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

/// Pending request and the receiver of its answers. Dropping it before the end cancels the request.
pub struct RequestWaiter {
    space: Space,
    principal: Principal,
    epoch: Option<Epoch>,
    request: MessageId,
    id: ConsumerId,
    mailbox: UnboundedReceiver<MailboxItem>,
    /// Answers that arrived before this wait started.
    earlier: VecDeque<Answer>,
    /// IDs of those answers, which can be delivered again.
    received: Vec<MessageId>,
    state: WaitState,
    /// Whether the request remains open when this is dropped.
    keep_open: bool,
}

/// State of the wait for answers.
enum WaitState {
    /// More answers can arrive.
    Open,
    /// All possible answers have arrived.
    Ended,
    /// The wait ended with this error, which was not returned yet.
    Failed(Refused),
}

impl Space {
    /// Sends a request. It is durable when this returns; the answers arrive through the returned value. The
    /// `waiting` field of the request is ignored.
    ///
    /// # Errors
    /// The refusal, or a storage failure.
    pub async fn request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        request: SendRequest,
    ) -> Result<RequestWaiter, Error> {
        self.open_request(principal, epoch, |consumer| {
            Op::Request(SendRequest { consumer: Some(consumer), ..request })
        })
        .await
    }

    /// Waits for the answers to a request, after a restart or instead of an earlier waiter.
    ///
    /// # Errors
    /// `NOT_FOUND`, `FORBIDDEN` if another agent sent the request, or a storage failure.
    pub async fn await_request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        request: MessageId,
    ) -> Result<RequestWaiter, Error> {
        self.open_request(principal, epoch, |consumer| Op::AwaitRequest { request, consumer }).await
    }

    async fn open_request(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        op: impl FnOnce(ConsumerId) -> Op,
    ) -> Result<RequestWaiter, Error> {
        let (id, mailbox) = self.mailboxes().open_waiter(self.number());
        let mut guard = ConsumerGuard { space: self, id, registered: true, owns_mailbox: true };
        let commit = Commit { epoch, ..Commit::new(principal.clone(), vec![op(id)]) };
        let outcome = self.commit(commit).await;
        if is_private(&outcome) {
            // The writer never saw the request, so there is no consumer to close.
            guard.registered = false;
            return outcome.and_then(|_| Err(flag_has_no_answer().into()));
        }
        let receipt = outcome?;
        let Some(OpResult::Requested { id: request, is_open, .. }) = receipt.results.into_iter().next()
        else {
            return Err(StoreError::Read("unexpected result of a request".into()).into());
        };
        let mut waiter = RequestWaiter {
            space: self.clone(),
            principal: principal.clone(),
            epoch,
            request,
            id,
            mailbox,
            earlier: VecDeque::new(),
            received: Vec::new(),
            state: WaitState::Open,
            // A call that is dropped while it loads earlier answers does not cancel an earlier request.
            keep_open: true,
        };
        // From here on the pending request closes itself when dropped.
        guard.registered = false;
        guard.owns_mailbox = false;
        // No answer can precede the request itself.
        if receipt.seq != Some(request.seq) {
            waiter.catch_up(is_open).await?;
        }
        waiter.keep_open = false;
        Ok(waiter)
    }

    /// Cancels a request. Its deliveries end, also leased ones, and their holders are notified.
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
    /// await the same answer. Otherwise it ends with its timeout.
    pub fn keep_open(&mut self) {
        self.keep_open = true;
    }

    /// Returns the next answer; `None` when all possible answers have arrived.
    ///
    /// # Errors
    /// `TIMEOUT`, `UNAVAILABLE`, `DEADLOCK` or another error that ended the wait, with the ID of the request, which
    /// remains stored; or a storage failure.
    pub async fn next(&mut self) -> Result<Option<Answer>, Error> {
        let request = self.request;
        self.receive_next().await.map_err(|error| match error {
            Error::Refused(refused) => refused.sent_request(request).into(),
            other => other,
        })
    }

    async fn receive_next(&mut self) -> Result<Option<Answer>, Error> {
        if let Some(answer) = self.earlier.pop_front() {
            return Ok(Some(answer));
        }
        match std::mem::replace(&mut self.state, WaitState::Ended) {
            WaitState::Open => {}
            WaitState::Ended => return Ok(None),
            WaitState::Failed(refused) => return Err(refused.into()),
        }
        self.state = WaitState::Open;
        loop {
            match self.mailbox.recv().await {
                Some(MailboxItem::Event(ConsumerEvent::Answered { id, at, message, is_last })) => {
                    if is_last {
                        self.state = WaitState::Ended;
                    }
                    if !self.received.contains(&id) {
                        return Ok(Some(Answer { id: MessageRef::Durable(id), at, message }));
                    }
                    if is_last {
                        return Ok(None);
                    }
                }
                Some(MailboxItem::Event(ConsumerEvent::Refused(refused))) => {
                    self.state = WaitState::Ended;
                    return Err(self.space.record_aborted_wait(refused).into());
                }
                Some(_) => return Err(StoreError::Read("unexpected result of a request".into()).into()),
                None => {
                    self.state = WaitState::Ended;
                    return Err(Refused::new(
                        Code::StaleEpoch,
                        "the agent has registered again, or was removed",
                    )
                    .hint("stop this instance of the agent; the new epoch can await the answer")
                    .into());
                }
            }
        }
    }

    /// Returns the only answer of a request to a single recipient.
    ///
    /// # Errors
    /// As [`RequestWaiter::next`].
    pub async fn answer(&mut self) -> Result<Answer, Error> {
        let no_answer = |request| {
            Refused::new(Code::Cancelled, "no answer can arrive any longer")
                .hint("read the request to see how it ended")
                .sent_request(request)
        };
        self.next().await?.ok_or_else(|| no_answer(self.request).into())
    }

    /// Cancels the request.
    ///
    /// # Errors
    /// `CONFLICT` if it has ended, or a storage failure.
    pub async fn cancel(mut self) -> Result<(), Error> {
        self.state = WaitState::Ended;
        self.space.cancel_request(&self.principal, self.epoch, self.request).await
    }

    /// Loads earlier answers and the final state, if the request has ended.
    async fn catch_up(&mut self, is_open: bool) -> Result<(), Error> {
        let Some(request) = self.space.find::<Request>(&self.request).await? else { return Ok(()) };
        let id = self.request;
        let failed = |code, detail: String| WaitState::Failed(Refused::new(code, detail));
        self.state = match &request.state {
            // If it ends in the meantime, the event is in the mailbox.
            _ if is_open => WaitState::Open,
            RequestState::Waiting | RequestState::Answered => WaitState::Ended,
            RequestState::TimedOut => failed(Code::Timeout, format!("no answer to {id} in time")),
            RequestState::Cancelled => failed(Code::Cancelled, format!("request {id} was cancelled")),
            RequestState::Failed { code, reason } => {
                failed(*code, format!("request {id} has no answer: {reason}"))
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
        if matches!(self.state, WaitState::Open) && !self.keep_open {
            let op = Op::CancelRequest { request: self.request };
            let commit = Commit { epoch: self.epoch, ..Commit::new(self.principal.clone(), vec![op]) };
            // If the queue is full or closed, the request ends with its timeout.
            self.space.submit(vec![commit]);
        }
    }
}
