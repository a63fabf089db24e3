//! Calls that wait: requests to other agents, claims of tasks and acquisitions of locks. They are enqueued in the order of
//! their frames, but answered when they end, ahead of pending replies. All other calls about tasks and locks are
//! operations of a commit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use quorate_api::claim::TaskClaim;
use quorate_api::lock::{AcquiredLocks, LockRequest};
use quorate_api::message::NewMessage;
use quorate_api::request::{RequestOptions, SocketAnswer, take_retries};
use quorate_core::{
    AgentId, Code, Commit, Durability, IdempotencyKey, Message as CoreMessage, Op, Refused, SendRequest,
};
use quorate_engine::{Answer, Error, RequestWaiter, TaskClaimQuery, views};
use quorate_env::{Attempt, FailedRequest, retry_request};

use super::Session;
use super::connection::{PendingWait, WsConnection};
use super::frame::{self, REQUESTS_MAX};
use super::receive::Outcome;
use crate::body::RequestFields;
use crate::call::NamedList;
use crate::observe;
use crate::problem::Problem;
use crate::routes::check_wait;

/// Payloads above this size are scanned on another thread. The connection waits for it, to preserve the order.
const LARGE_BYTES: usize = 32 * 1024;

impl WsConnection {
    /// Sends a request to another agent. The request is enqueued when this returns; its answer is sent when it
    /// arrives.
    pub(super) async fn request(
        &mut self,
        n: u64,
        mut fields: RequestFields<'_>,
        bytes: &Bytes,
    ) -> Result<Outcome, Problem> {
        self.check_waits()?;
        let (options, retries) = (RequestOptions::take(&mut fields)?, take_retries(&mut fields)?);
        let mut new_message = self.new_message(fields.parse_into::<NewMessage<'_>>()?, bytes)?;
        observe::propagate_trace(&self.session.app, &self.session.space, &mut new_message, None).await;
        let is_known = self.session.space.preload_cause(&new_message).await;
        let is_large = new_message.payload.bytes.len() > LARGE_BYTES;
        let session = Arc::clone(&self.session);
        // Both cases may need several polls to enqueue the request, and later frames must come after it.
        let is_durable = new_message.durability == Durability::Durable;
        let request = options.into_core(new_message);
        if (is_large || !is_known) && is_durable {
            let sent = Some(request_durable(&session, request.clone()).await);
            let answered =
                async move { (n, answer(n, send_request(&session, request, retries, sent).await)) };
            self.pending_waits.push(Box::pin(answered));
            return Ok(Outcome::Handled);
        }
        Ok(self.wait(Box::pin(async move {
            (n, answer(n, send_request(&session, request, retries, None).await))
        })))
    }

    /// Claims tasks, and waits for the first one if asked to.
    pub(super) fn claim_tasks(&mut self, n: u64, mut fields: RequestFields<'_>) -> Result<Outcome, Problem> {
        self.check_waits()?;
        let key = take_key(&mut fields)?;
        let request: TaskClaim = fields.parse_into()?;
        let session = Arc::clone(&self.session);
        let wait = check_wait(&session.app.settings().durations, request.wait_ms)?;
        let claim = TaskClaimQuery {
            principal: session.principal.clone(),
            epoch: session.epoch,
            token: session.agent_token,
            agent: session.acting_agent(request.agent)?,
            types: request.types,
            lease_ms: request.lease_ms,
        };
        let max = request.max.unwrap_or(1);
        Ok(self.wait(Box::pin(async move {
            let make_commit = |ops| session.keyed_commit(ops, key.clone());
            let claimed = session.space.claim_tasks_idempotent(&make_commit, &claim, max, wait).await;
            let reply = claimed.map_err(Problem::from).map(|(held, since)| {
                let agents = &session.space.published().agents;
                let items = held.iter().map(|task| views::held_task(agents, task, since)).collect();
                frame::ok(n, &NamedList { name: "tasks", items })
            });
            (n, reply)
        })))
    }

    /// Acquires locks, and waits for them if asked to.
    pub(super) fn acquire_locks(
        &mut self,
        n: u64,
        mut fields: RequestFields<'_>,
        bytes: &Bytes,
    ) -> Result<Outcome, Problem> {
        self.check_waits()?;
        let key = take_key(&mut fields)?;
        let request: LockRequest = fields.parse_into()?;
        let session = Arc::clone(&self.session);
        let wait = check_wait(&session.app.settings().durations, request.wait_ms)?;
        let acquire = request.into_core(&session.parse_context(bytes), None)?;
        Ok(self.wait(Box::pin(async move {
            let make_commit = |ops| session.keyed_commit(ops, key.clone());
            let acquired = session.space.lock_idempotent(&make_commit, acquire, wait).await;
            let reply = acquired.map_err(Problem::from);
            (n, reply.map(|(granted, since)| frame::ok(n, &AcquiredLocks::new(&granted, since))))
        })))
    }

    fn check_waits(&self) -> Result<(), Refused> {
        if self.pending_waits.len() < REQUESTS_MAX {
            return Ok(());
        }
        Err(Refused::new(
            Code::LimitExceeded,
            "too many pending requests, claims and acquisitions on this connection",
        )
        .limit(REQUESTS_MAX as u64)
        .retryable()
        .hint("wait for some replies before sending more of them"))
    }

    /// Starts to wait. The first poll enqueues the operation, so later frames come after it.
    fn wait(&mut self, mut wait: PendingWait) -> Outcome {
        let ended = (&mut wait).now_or_never();
        self.pending_waits.push(match ended {
            Some(reply) => Box::pin(std::future::ready(reply)),
            None => wait,
        });
        Outcome::Handled
    }
}

impl Session {
    fn acting_agent(&self, named: Option<AgentId>) -> Result<AgentId, Refused> {
        named.or_else(|| self.agent.clone()).ok_or_else(|| {
            Refused::new(Code::Invalid, "agent is missing").hint("set agent to the agent to act for")
        })
    }

    fn keyed_commit(&self, ops: Vec<Op>, key: Option<IdempotencyKey>) -> Commit {
        let commit = self.commit(ops);
        match key {
            Some(key) => commit.keyed(key),
            None => commit,
        }
    }
}

fn take_key(fields: &mut RequestFields<'_>) -> Result<Option<IdempotencyKey>, Refused> {
    fields.take_optional_string("idempotencyKey")?.map(IdempotencyKey::new).transpose()
}

fn answer(n: u64, answer: Result<Answer, Error>) -> Result<String, Problem> {
    let Answer { id, at, message } = answer?;
    Ok(frame::ok(n, &SocketAnswer { message: views::message(id, at, &message) }))
}

/// Sends a request, waits for the answer, and retries. `sent` is the first attempt, if it was made before.
async fn send_request(
    session: &Session,
    request: SendRequest,
    retries: u32,
    mut sent: Option<Result<RequestWaiter, Error>>,
) -> Result<Answer, Error> {
    let pause = |delay| async move {
        session.space.sleep(delay).await;
        Ok(())
    };
    retry_request(retries, Error::code, pause, |attempt| {
        let sent = sent.take();
        ask(session, &request, attempt, sent)
    })
    .await
}

async fn ask(
    session: &Session,
    request: &SendRequest,
    Attempt { retries, retry_of }: Attempt,
    sent: Option<Result<RequestWaiter, Error>>,
) -> Result<Answer, FailedRequest<Error>> {
    let not_sent = |error| FailedRequest { request: None, error };
    if request.message.durability == Durability::Ephemeral {
        let timeout = request.timeout_ms.map(Duration::from_millis);
        let message = CoreMessage::clone(&request.message);
        let answer = session.space.request_ephemeral(&session.principal, session.epoch, message, timeout);
        return answer.await.map_err(not_sent);
    }
    let sent = match (sent, retries) {
        (Some(sent), _) => sent,
        (None, 0) => request_durable(session, request.clone()).await,
        (None, _) => request_durable(session, request.for_retry(retries, retry_of)).await,
    };
    let mut waiter = sent.map_err(not_sent)?;
    let id = Some(waiter.id());
    waiter.answer().await.map_err(|error| FailedRequest { request: id, error })
}

/// Sends a durable request. Returns once it is in the log.
async fn request_durable(session: &Session, request: SendRequest) -> Result<RequestWaiter, Error> {
    let has_client_id = request.message.client_id.is_some();
    let mut waiter = session.space.request(&session.principal, session.epoch, request).await?;
    // A request with a client id can be repeated after a reconnect and gets the same answer.
    if has_client_id {
        waiter.keep_open();
    }
    Ok(waiter)
}
