//! Backend operations over the network.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate::backend::{
    AgentIdentity, Answer, Backend, BackendFuture, ChangeStream, DeliveryStream, HeldTask, LeaseEventStream,
    MessageRef, ReceivedDelivery, ReplyStream, TaskClaimQuery, TaskStream,
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

use super::commit_and_claim::{RESPONSE_GRACE, to_millis, with_epoch};
use super::task_poll::TaskPoll;
use super::watch::EntryWatch;
use super::{PrincipalClient, RemoteHub};
use crate::http::percent_encode;
use crate::socket::{Hello, SocketInbox, SocketLeaseEvents, SocketOwner, unsupported_remotely};
use crate::wire;
use crate::wire::message::message_ref_of;
use crate::wire::task::task_graph;

/// Maximum duration of one call that waits for a lock. Longer waits are split into several calls.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(60);

impl Backend for RemoteHub {
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(Self::clock(self))
    }

    fn salt(&self) -> [u8; 16] {
        self.retrier.entropy.bytes_16()
    }

    fn seal(&self, bytes: Bytes) -> Payload {
        // The hub seals payloads when it stores them.
        Payload::unsealed(bytes)
    }

    fn register(&self, _: Principal, agent: RegisterAgent) -> BackendFuture<'_, Epoch> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}", percent_encode(agent.id.as_str()));
            let body = wire::to_json(&AgentRegistration::from(&agent))?;
            // A repeated registration only increments the epoch once more, which is harmless.
            let response =
                self.retrier.retry(|| self.caller.http.put(&path).json(body.clone()).send()).await?;
            let registered: RegisteredAgent = response.json()?;
            let epoch = registered
                .epoch
                .ok_or_else(|| wire::unexpected_response(&"a registration without an epoch"))?;
            // An update keeps the connection of the agent.
            if agent.epoch.is_some() && self.lock_agents().contains_key(&agent.id) {
                return Ok(epoch);
            }
            let token = self.token_for(&agent.id, registered.token).await?;
            let http = self.caller.http.with_token(&token)?;
            let client = Arc::new(PrincipalClient { http, token, socket: std::sync::Mutex::default() });
            let previous = self.lock_agents().insert(agent.id, client);
            // Ends an earlier registration of the same agent over this connection.
            drop(previous);
            Ok(epoch)
        })
    }

    fn commit(&self, commit: Commit) -> BackendFuture<'_, Receipt> {
        Box::pin(self.commit_with_retry(commit))
    }

    fn submit(&self, commits: Vec<Commit>) {
        for commit in commits {
            // Best effort: one call for each commit, not retried.
            let (client, key) = (self.client_for(&commit.principal), self.new_key());
            if let Ok(body) = wire::op::commit_json(&commit.ops, &key, commit.epoch) {
                tokio::spawn(async move {
                    if let Err(error) = client.http.post("/v1/commit").json(body).send().await {
                        tracing::warn!(code = error.code().as_str(), "submitted commit failed");
                    }
                });
            }
        }
    }

    fn claim(
        &self,
        identity: AgentIdentity,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> BackendFuture<'_, Vec<ReceivedDelivery>> {
        Box::pin(self.claim_deliveries(identity, max, lease_ms, wait))
    }

    fn consume(
        &self,
        identity: AgentIdentity,
        credit: u32,
        lease_ms: u64,
    ) -> BackendFuture<'_, Box<dyn DeliveryStream>> {
        Box::pin(async move {
            let client = self.client_of(&identity.agent);
            let hello = Hello { lease_ms, deliveries: true, ..self.hello(&client, &identity) };
            let socket = self.open_socket(&client, hello, credit).await?;
            Ok(Box::new(SocketInbox::new(socket)) as Box<dyn DeliveryStream>)
        })
    }

    fn lease_events(&self, identity: AgentIdentity) -> BackendFuture<'_, Box<dyn LeaseEventStream>> {
        Box::pin(async move {
            let client = self.client_of(&identity.agent);
            let shared = client.socket().filter(|socket| socket.epoch() == identity.epoch);
            let events = match shared {
                Some(socket) => SocketLeaseEvents::new(socket, SocketOwner::Inbox),
                None => {
                    let socket = self.open_socket(&client, self.hello(&client, &identity), 0).await?;
                    SocketLeaseEvents::new(socket, SocketOwner::LeaseEvents)
                }
            };
            Ok(Box::new(events) as Box<dyn LeaseEventStream>)
        })
    }

    fn send_ephemeral(&self, identity: AgentIdentity, message: Message) -> BackendFuture<'_, MessageRef> {
        Box::pin(async move {
            let client = self.client_of(&identity.agent);
            let body = wire::to_json(&NewMessage::new(&message)?)?;
            if let Some(socket) = client.socket() {
                let response = socket.call("send", &body, false).await?;
                return message_ref_of(&wire::parse_json(&response)?);
            }
            let response =
                with_epoch(client.http.post("/v1/messages"), identity.epoch).json(body).send().await?;
            let sent: SendReceipts = response.json()?;
            let first = sent
                .receipts
                .first()
                .ok_or_else(|| wire::unexpected_response(&"a sent message without a receipt"))?;
            message_ref_of(first)
        })
    }

    fn request(
        &self,
        identity: AgentIdentity,
        request: SendRequest,
    ) -> BackendFuture<'_, Box<dyn ReplyStream>> {
        Box::pin(
            async move { Ok(Box::new(self.send_request(identity, &request).await?) as Box<dyn ReplyStream>) },
        )
    }

    fn ask(&self, identity: AgentIdentity, request: SendRequest) -> BackendFuture<'_, Answer> {
        Box::pin(async move { self.ask_one(identity, &request).await })
    }

    fn await_request(
        &self,
        identity: AgentIdentity,
        id: MessageId,
    ) -> BackendFuture<'_, Box<dyn ReplyStream>> {
        Box::pin(
            async move { Ok(Box::new(self.resume_request(identity, id).await?) as Box<dyn ReplyStream>) },
        )
    }

    fn request_ephemeral(
        &self,
        identity: AgentIdentity,
        message: Message,
        timeout: Option<Duration>,
    ) -> BackendFuture<'_, Answer> {
        Box::pin(async move { self.ask_ephemeral(identity, &message, timeout).await })
    }

    fn heartbeat(
        &self,
        identity: AgentIdentity,
        status: AgentStatus,
        health: Health,
    ) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            let client = self.client_of(&identity.agent);
            let heartbeat = Heartbeat { agent: identity.agent.clone(), status, health };
            let body = wire::to_json(&HeartbeatJson::from(&heartbeat))?;
            let call =
                with_epoch(client.http.post(&Self::agent_path(&identity, "/heartbeat")), identity.epoch);
            call.json(body).send().await.map(drop)
        })
    }

    fn create_tasks(&self, commit: Commit) -> BackendFuture<'_, Vec<TaskId>> {
        Box::pin(async move {
            let [Op::CreateTasks(create)] = commit.ops.as_slice() else {
                return Err(unsupported_remotely(
                    "creating tasks together with other operations in this call",
                ));
            };
            let (client, key) = (self.client_for(&commit.principal), self.new_key());
            let body = wire::to_json(&task_graph(create, &key)?)?;
            let call = || {
                let call = client.http.post("/v1/tasks").idempotency_key(&key).json(body.clone());
                with_epoch(call, commit.epoch).send()
            };
            let created: CreatedTasks = self.retrier.retry(call).await?.json()?;
            Ok(created.tasks.into_iter().map(|task| task.id).collect())
        })
    }

    fn claim_tasks(
        &self,
        claim: TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> BackendFuture<'_, Vec<HeldTask>> {
        Box::pin(self.claim_tasks_before(claim, max, wait))
    }

    fn consume_tasks(&self, claim: TaskClaimQuery, credit: u32) -> BackendFuture<'_, Box<dyn TaskStream>> {
        let client = self.client_of(&claim.agent);
        let poll = TaskPoll::start(client, self.retrier.clone(), claim, credit);
        Box::pin(std::future::ready(Ok(Box::new(poll) as Box<dyn TaskStream>)))
    }

    fn wait_for_task_as_agent(
        &self,
        identity: AgentIdentity,
        task: TaskId,
        wait: Duration,
    ) -> BackendFuture<'_, TaskWithPayloads> {
        Box::pin(async move {
            let client = self.client_of(&identity.agent);
            let view = self.task_until(&client.http, Some(identity.epoch), &task, wait).await?;
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
    ) -> BackendFuture<'_, RollbackResult> {
        Box::pin(async move {
            let (client, key) = (self.client_for(&principal), self.new_key());
            let body = wire::to_json(&RollbackJson::from(&rollback))?;
            let call = || {
                let call = client.http.post("/v1/context:rollback").idempotency_key(&key).json(body.clone());
                with_epoch(call, epoch).send()
            };
            self.retrier.retry(call).await?.json()
        })
    }

    fn watch(&self, prefix: String, from: Seq) -> Box<dyn ChangeStream> {
        Box::new(EntryWatch::new(self.caller.http.clone(), self.retrier.clone(), prefix, from))
    }

    fn lock(
        &self,
        identity: AgentIdentity,
        acquire: AcquireLocks,
        wait: Duration,
    ) -> BackendFuture<'_, GrantedLocks> {
        Box::pin(async move {
            let Some(first) = acquire.names.first() else {
                return Err(unsupported_remotely("acquiring an empty list of locks"));
            };
            let (client, until) = (self.client_of(&identity.agent), self.clock().now().plus(wait).mono);
            let path = format!("/v1/locks/{}/acquire", percent_encode(first.as_str()));
            let acquired: AcquiredLocks = loop {
                let wait = self.time_left(until).min(LOCK_WAIT_MAX);
                let mut request = LockRequest::from(&acquire);
                // The first name is part of the path.
                request.names.remove(0);
                request.agent = Some(identity.agent.clone());
                request.wait_ms = Some(to_millis(wait));
                // Retried with the same key, the call keeps its position in the queue and returns the same locks.
                let (body, key) = (wire::to_json(&request)?, self.new_key());
                let call = || {
                    let call = client
                        .http
                        .post(&path)
                        .idempotency_key(&key)
                        .json(body.clone())
                        .timeout(wait + RESPONSE_GRACE);
                    with_epoch(call, identity.epoch).send()
                };
                match self.retrier.retry(call).await {
                    Err(error) if error.code() == Code::Timeout && !self.time_left(until).is_zero() => {}
                    response => break response?.json()?,
                }
            };
            Ok(GrantedLocks {
                locks: acquired.locks.into_iter().map(Into::into).collect(),
                ttl_ms: acquire.ttl_ms,
            })
        })
    }

    fn subscribe(
        &self,
        identity: AgentIdentity,
        pattern: Pattern,
        history: Option<History>,
    ) -> BackendFuture<'_, Seq> {
        Box::pin(async move {
            let client = self.client_of(&identity.agent);
            let path = Self::agent_path(
                &identity,
                &format!("/subscriptions/{}", percent_encode(&pattern.to_string())),
            );
            let body = wire::to_json(&SubscriptionHistory::from(history.as_ref()))?;
            let call = || with_epoch(client.http.put(&path), identity.epoch).json(body.clone()).send();
            let subscribed: AgentSubscription = self.retrier.retry(call).await?.json()?;
            Ok(subscribed.since)
        })
    }

    fn unsubscribe(&self, identity: AgentIdentity, pattern: Pattern) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            let client = self.client_of(&identity.agent);
            let path = Self::agent_path(
                &identity,
                &format!("/subscriptions/{}", percent_encode(&pattern.to_string())),
            );
            with_epoch(client.http.delete(&path), identity.epoch).send().await.map(drop)
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let clients: Vec<_> = self.lock_agents().drain().map(|(_, client)| client).collect();
            for client in clients {
                let socket = client.socket_slot().take();
                if let Some(socket) = socket {
                    socket.close().await;
                }
            }
            let tokens =
                std::mem::take(&mut *self.created_tokens.lock().unwrap_or_else(PoisonError::into_inner));
            for id in tokens {
                if let Err(error) = self.caller.http.delete(&format!("/v1/tokens/{id}")).send().await {
                    // An admin can find the token by its name, `connection`, and revoke it.
                    tracing::warn!(token = %id, code = error.code().as_str(), "revoking a token failed");
                }
            }
        })
    }
}
