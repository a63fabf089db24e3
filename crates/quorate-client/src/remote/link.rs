//! Backend operations over the network.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate::link::{
    Answer, Asked, Changes, Delivery, HeldTask, Inbox, Link, MessageRef, Promise, TaskClaimQuery, TaskInbox,
    Who,
};
use quorate::{Clock, Code, Refused, RollbackResult, TaskWithPayloads};
use quorate_api::agent::{AgentRegistration, Heartbeat as HeartbeatJson, RegisteredAgent};
use quorate_api::claim::CreatedTasks;
use quorate_api::lock::{AcquiredLocks, LockRequest};
use quorate_api::message::NewMessage;
use quorate_api::result::SendReceipts;
use quorate_api::rollback::Rollback as RollbackJson;
use quorate_api::subscription::{AgentSubscription, SubscriptionHistory};
use quorate_core::{
    AcquireLocks, AgentStatus, Commit, Epoch, GrantedLocks, Health, Heartbeat, History, Message, MessageId,
    Op, Pattern, Payload, Principal, Receipt, RegisterAgent, Rollback, SendRequest, Seq, TaskId,
};

use super::calls::{GRACE, as_of, ms};
use super::tasks::TaskPoll;
use super::watch::Watching;
use super::{Connection, Seat};
use crate::http::segment;
use crate::socket::{Hello, Socket, SocketInbox, not_here};
use crate::wire;
use crate::wire::message::sent_ref;
use crate::wire::task::graph;

/// Maximum duration of one call that waits for a lock. Longer waits are split into several calls.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(60);

impl Link for Connection {
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(Self::clock(self))
    }

    fn salt(&self) -> [u8; 16] {
        self.patience.chance.bytes_16()
    }

    fn seal(&self, bytes: Bytes) -> Payload {
        // The hub seals payloads when it stores them.
        Payload::unsealed(bytes)
    }

    fn join(&self, _: Principal, agent: RegisterAgent) -> Promise<'_, Epoch> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}", segment(agent.id.as_str()));
            let body = wire::write(&AgentRegistration::from(&agent))?;
            // A repeated registration only increments the epoch once more, which is harmless.
            let response =
                self.patience.persist(|| self.own.http.put(&path).json(body.clone()).send()).await?;
            let registered: RegisteredAgent = response.json()?;
            let epoch = registered.epoch.ok_or_else(|| wire::strange(&"a registration without an epoch"))?;
            let token = self.token_for(&agent.id, registered.token).await?;
            let http = self.own.http.bearing(&token)?;
            let seat = Arc::new(Seat { http, token, socket: std::sync::Mutex::default() });
            let previous = self.seats().insert(agent.id, seat);
            // Ends an earlier registration of the same agent over this connection.
            drop(previous);
            Ok(epoch)
        })
    }

    fn commit(&self, commit: Commit) -> Promise<'_, Receipt> {
        Box::pin(self.commit_surely(commit))
    }

    fn submit(&self, commits: Vec<Commit>) {
        for commit in commits {
            // Best effort: one call for each commit, not retried.
            let (seat, key) = (self.seat(&commit.principal), self.key());
            if let Ok(body) = wire::op::commit(&commit.ops, &key, commit.epoch) {
                tokio::spawn(async move {
                    if let Err(error) = seat.http.post("/v1/commit").json(body).send().await {
                        tracing::warn!(code = error.code().as_str(), "submitted commit failed");
                    }
                });
            }
        }
    }

    fn claim(&self, who: Who, max: u32, lease_ms: u64, wait: Duration) -> Promise<'_, Vec<Delivery>> {
        Box::pin(self.claim_deliveries(who, max, lease_ms, wait))
    }

    fn consume(&self, who: Who, credit: u32, lease_ms: u64) -> Promise<'_, Box<dyn Inbox>> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let hello = Hello {
                token: seat.token.clone(),
                agent: who.agent.to_string(),
                epoch: who.epoch.0,
                lease_ms,
                space: self.space.clone(),
            };
            let socket = Socket::open(seat.http.dial(), hello, self.patience.clone(), credit).await?;
            *seat.slot() = Some(socket.clone());
            Ok(Box::new(SocketInbox::new(socket)) as Box<dyn Inbox>)
        })
    }

    fn send_ephemeral(&self, who: Who, message: Message) -> Promise<'_, MessageRef> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let body = wire::write(&NewMessage::new(&message)?)?;
            if let Some(socket) = seat.socket() {
                let response = socket.ask("send", &body, false).await?;
                return sent_ref(&wire::read(&response)?);
            }
            let response = as_of(seat.http.post("/v1/messages"), who.epoch).json(body).send().await?;
            let sent: SendReceipts = response.json()?;
            let first =
                sent.receipts.first().ok_or_else(|| wire::strange(&"a sent message without a receipt"))?;
            sent_ref(first)
        })
    }

    fn request(&self, who: Who, ask: SendRequest) -> Promise<'_, Box<dyn Asked>> {
        Box::pin(async move { Ok(Box::new(self.begin(who, &ask).await?) as Box<dyn Asked>) })
    }

    fn ask(&self, who: Who, ask: SendRequest) -> Promise<'_, Answer> {
        Box::pin(async move { self.ask_one(who, &ask).await })
    }

    fn await_request(&self, who: Who, question: MessageId) -> Promise<'_, Box<dyn Asked>> {
        Box::pin(async move { Ok(Box::new(self.come_back(who, question).await?) as Box<dyn Asked>) })
    }

    fn request_ephemeral(&self, who: Who, message: Message, within: Option<Duration>) -> Promise<'_, Answer> {
        Box::pin(async move { self.ask_in_memory(who, &message, within).await })
    }

    fn heartbeat(&self, who: Who, status: AgentStatus, health: Health) -> Promise<'_, ()> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let heartbeat = Heartbeat { agent: who.agent.clone(), status, health };
            let body = wire::write(&HeartbeatJson::from(&heartbeat))?;
            let call = as_of(seat.http.post(&Self::of(&who, "/heartbeat")), who.epoch);
            call.json(body).send().await.map(drop)
        })
    }

    fn create_tasks(&self, commit: Commit) -> Promise<'_, Vec<TaskId>> {
        Box::pin(async move {
            let [Op::CreateTasks(create)] = commit.ops.as_slice() else {
                return Err(not_here("creating tasks together with other operations in this call"));
            };
            let (seat, key) = (self.seat(&commit.principal), self.key());
            let body = wire::write(&graph(create, &key)?)?;
            let call = || {
                let call = seat.http.post("/v1/tasks").key(&key).json(body.clone());
                as_of(call, commit.epoch).send()
            };
            let created: CreatedTasks = self.patience.persist(call).await?.json()?;
            Ok(created.tasks.into_iter().map(|task| task.id).collect())
        })
    }

    fn claim_tasks(&self, claim: TaskClaimQuery, max: u32, wait: Duration) -> Promise<'_, Vec<HeldTask>> {
        Box::pin(self.claim_tasks_until(claim, max, wait))
    }

    fn consume_tasks(&self, claim: TaskClaimQuery, credit: u32) -> Promise<'_, Box<dyn TaskInbox>> {
        let seat = self.seat_of(&claim.agent);
        let poll = TaskPoll::start(seat, self.patience.clone(), claim, credit);
        Box::pin(std::future::ready(Ok(Box::new(poll) as Box<dyn TaskInbox>)))
    }

    fn await_task(&self, who: Who, task: TaskId, wait: Duration) -> Promise<'_, TaskWithPayloads> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let view = self.task_until(&seat.http, Some(who.epoch), &task, wait).await?;
            if view.task.status.has_ended() {
                return Ok(view);
            }
            Err(Refused::new(Code::Timeout, format!("task {task} did not end in time"))
                .hint("the task continues; wait longer, or call `why` to see what it waits for")
                .into())
        })
    }

    fn rollback(
        &self,
        principal: Principal,
        epoch: Option<Epoch>,
        rollback: Rollback,
    ) -> Promise<'_, RollbackResult> {
        Box::pin(async move {
            let (seat, key) = (self.seat(&principal), self.key());
            let body = wire::write(&RollbackJson::from(&rollback))?;
            let call = || {
                let call = seat.http.post("/v1/context:rollback").key(&key).json(body.clone());
                as_of(call, epoch).send()
            };
            self.patience.persist(call).await?.json()
        })
    }

    fn watch(&self, prefix: String, from: Seq) -> Box<dyn Changes> {
        Box::new(Watching::new(self.own.http.clone(), self.patience.clone(), prefix, from))
    }

    fn lock(&self, who: Who, ask: AcquireLocks, wait: Duration) -> Promise<'_, GrantedLocks> {
        Box::pin(async move {
            let Some(first) = ask.names.first() else {
                return Err(not_here("acquiring an empty list of locks"));
            };
            let (seat, until) = (self.seat_of(&who.agent), self.clock().now().plus(wait).mono);
            let path = format!("/v1/locks/{}/acquire", segment(first.as_str()));
            let held: AcquiredLocks = loop {
                let wait = self.rest(until).min(LOCK_WAIT_MAX);
                let mut request = LockRequest::from(&ask);
                // The first name is part of the path.
                request.names.remove(0);
                request.agent = Some(who.agent.clone());
                request.wait_ms = Some(ms(wait));
                // Retried with the same key, the call keeps its position in the queue and returns the same locks.
                let (body, key) = (wire::write(&request)?, self.key());
                let call = || {
                    let call = seat.http.post(&path).key(&key).json(body.clone()).within(wait + GRACE);
                    as_of(call, who.epoch).send()
                };
                match self.patience.persist(call).await {
                    Err(error) if error.code() == Code::Timeout && !self.rest(until).is_zero() => {}
                    response => break response?.json()?,
                }
            };
            Ok(GrantedLocks { locks: held.locks.into_iter().map(Into::into).collect(), ttl_ms: ask.ttl_ms })
        })
    }

    fn subscribe(&self, who: Who, pattern: Pattern, history: Option<History>) -> Promise<'_, Seq> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let path = Self::of(&who, &format!("/subscriptions/{}", segment(&pattern.to_string())));
            let body = wire::write(&SubscriptionHistory::from(history.as_ref()))?;
            let call = || as_of(seat.http.put(&path), who.epoch).json(body.clone()).send();
            let subscribed: AgentSubscription = self.patience.persist(call).await?.json()?;
            Ok(subscribed.since)
        })
    }

    fn unsubscribe(&self, who: Who, pattern: Pattern) -> Promise<'_, ()> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let path = Self::of(&who, &format!("/subscriptions/{}", segment(&pattern.to_string())));
            as_of(seat.http.delete(&path), who.epoch).send().await.map(drop)
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let seats: Vec<_> = self.seats().drain().map(|(_, seat)| seat).collect();
            for seat in seats {
                let socket = seat.slot().take();
                if let Some(socket) = socket {
                    socket.close().await;
                }
            }
            let minted = std::mem::take(&mut *self.minted.lock().unwrap_or_else(PoisonError::into_inner));
            for id in minted {
                if let Err(error) = self.own.http.delete(&format!("/v1/tokens/{id}")).send().await {
                    // An admin can find the token by its name, `connection`, and revoke it.
                    tracing::warn!(token = %id, code = error.code().as_str(), "revoking a token failed");
                }
            }
        })
    }
}
