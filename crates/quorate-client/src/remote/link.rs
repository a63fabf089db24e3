//! The verbs of the seam, over the network.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate::link::{
    Answer, Asked, Changes, Delivery, HeldTask, Inbox, Link, MessageRef, Promise, TaskClaim, TaskInbox, Who,
};
use quorate::{Clock, Code, Error, Refused, RolledBack, TaskView};
use quorate_core::{
    AcquireLocks, Ask, Commit, Epoch, Fence, FenceRef, Health, History, LockName, Locked, Message, MessageId,
    Op, Pattern, Payload, Principal, Receipt, RegisterAgent, Rollback, Seq, Status, TaskId,
};
use serde::Deserialize;
use serde_json::json;

use super::calls::{GRACE, as_of};
use super::tasks::TaskPoll;
use super::watch::Watching;
use super::{Connection, Seat};
use crate::http::segment;
use crate::socket::{Hello, Socket, SocketInbox, not_here};
use crate::wire::going_back::{RolledBackIn, rollback_out};
use crate::wire::message::{MessageOut, ref_of};
use crate::wire::task::{MadeIn, TasksOut};
use crate::wire::{self, time_out};

/// How long one call waits for a lock. Longer waits are several calls.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct JoinedIn {
    epoch: u64,
    token: Option<String>,
}

#[derive(Deserialize)]
struct LockedIn {
    locks: Vec<LockIn>,
}

#[derive(Deserialize)]
struct LockIn {
    lock: String,
    fence: u64,
}

#[derive(Deserialize)]
struct SinceIn {
    since: u64,
}

#[derive(Deserialize)]
struct SentIn {
    id: Option<String>,
    /// Instead of an id, if it was raised as a conduct flag.
    #[serde(default)]
    received: bool,
}

impl SentIn {
    fn read(self) -> Result<MessageRef, Error> {
        match self.id {
            Some(id) => ref_of(&id),
            None if self.received => Ok(MessageRef::Flag),
            None => Err(wire::strange(&"a receipt without an id")),
        }
    }
}

#[derive(Deserialize)]
struct ReceiptsIn {
    receipts: Vec<SentIn>,
}

impl Link for Connection {
    fn space(&self) -> Option<&quorate::link::Space> {
        None
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(Self::clock(self))
    }

    fn salt(&self) -> [u8; 16] {
        self.patience.chance.sixteen()
    }

    fn seal(&self, bytes: Bytes) -> Payload {
        // The hub seals what it writes.
        Payload::unsealed(bytes)
    }

    fn join(&self, _: Principal, agent: RegisterAgent) -> Promise<'_, Epoch> {
        Box::pin(async move {
            let path = format!("/v1/agents/{}", segment(agent.id.as_str()));
            let body = json!({
                "name": agent.name,
                "role": agent.role.as_str(),
                "capabilities": agent.capabilities,
                "supportedActions": agent.supported_actions,
                "heartbeatMs": agent.heartbeat_ms,
            });
            let body = body.to_string();
            // A start that was repeated is one more start, which does no harm.
            let answer = self.patience.persist(|| self.own.http.put(&path).json(body.clone()).send()).await?;
            let joined: JoinedIn = answer.json()?;
            let token = self.token_for(&agent.id, joined.token).await?;
            let http = self.own.http.bearing(&token)?;
            let seat = Arc::new(Seat { http, token, socket: std::sync::Mutex::default() });
            let before = self.seats().insert(agent.id, seat);
            // An earlier start of the same agent in this program is over.
            drop(before);
            Ok(Epoch(joined.epoch))
        })
    }

    fn commit(&self, commit: Commit) -> Promise<'_, Receipt> {
        Box::pin(self.commit_surely(commit))
    }

    fn submit(&self, commits: Vec<Commit>) {
        for commit in commits {
            // Without waiting: each by a call of its own, once.
            let (seat, key) = (self.seat(&commit.principal), self.key());
            if let Ok(body) = wire::op::commit(&commit.ops, &key, commit.epoch) {
                tokio::spawn(async move { seat.http.post("/v1/commit").json(body).send().await.map(drop) });
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
            let body = wire::write(&MessageOut::new(&message, None)?)?;
            if let Some(socket) = seat.socket() {
                let told = socket.ask("send", &body, false).await?;
                return wire::read::<SentIn>(&told)?.read();
            }
            let answer = as_of(seat.http.post("/v1/messages"), who.epoch).json(body).send().await?;
            let sent: ReceiptsIn = answer.json()?;
            let first = sent.receipts.into_iter().next().ok_or_else(|| wire::strange(&"no receipt"))?;
            first.read()
        })
    }

    fn request(&self, who: Who, ask: Ask) -> Promise<'_, Box<dyn Asked>> {
        Box::pin(async move { Ok(Box::new(self.begin(who, &ask).await?) as Box<dyn Asked>) })
    }

    fn ask(&self, who: Who, ask: Ask) -> Promise<'_, Answer> {
        Box::pin(async move { self.ask_one(who, &ask).await })
    }

    fn await_request(&self, who: Who, question: MessageId) -> Promise<'_, Box<dyn Asked>> {
        Box::pin(async move { Ok(Box::new(self.come_back(who, question).await?) as Box<dyn Asked>) })
    }

    fn request_ephemeral(&self, who: Who, message: Message, within: Option<Duration>) -> Promise<'_, Answer> {
        Box::pin(async move { self.ask_in_memory(who, &message, within).await })
    }

    fn heartbeat(&self, who: Who, status: Status, health: Health) -> Promise<'_, ()> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let body = json!({"status": status.as_str(), "health": health.as_str(), "note": health.note()});
            let call = as_of(seat.http.post(&Self::of(&who, "/heartbeat")), who.epoch);
            call.json(body.to_string()).send().await.map(drop)
        })
    }

    fn create_tasks(&self, commit: Commit) -> Promise<'_, Vec<TaskId>> {
        Box::pin(async move {
            let [Op::CreateTasks(create)] = commit.ops.as_slice() else {
                return Err(not_here("a commit that makes tasks and does something else"));
            };
            let (seat, key) = (self.seat(&commit.principal), self.key());
            let body = wire::write(&TasksOut::new(create, &key)?)?;
            let call = || {
                let call = seat.http.post("/v1/tasks").key(&key).json(body.clone());
                as_of(call, commit.epoch).send()
            };
            let made: MadeIn = self.patience.persist(call).await?.json()?;
            Ok(made.tasks.into_iter().map(|one| TaskId::new(one.id)).collect::<Result<_, _>>()?)
        })
    }

    fn claim_tasks(&self, claim: TaskClaim, max: u32, wait: Duration) -> Promise<'_, Vec<HeldTask>> {
        Box::pin(self.claim_tasks_until(claim, max, wait))
    }

    fn consume_tasks(&self, claim: TaskClaim, credit: u32) -> Promise<'_, Box<dyn TaskInbox>> {
        let seat = self.seat_of(&claim.agent);
        let poll = TaskPoll::start(seat, self.patience.clone(), claim, credit);
        Box::pin(std::future::ready(Ok(Box::new(poll) as Box<dyn TaskInbox>)))
    }

    fn await_task(&self, who: Who, task: TaskId, wait: Duration) -> Promise<'_, TaskView> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let view = self.task_until(&seat.http, Some(who.epoch), &task, wait).await?;
            if view.task.status.is_over() {
                return Ok(view);
            }
            Err(Refused::new(Code::Timeout, format!("task {task} was not over in time"))
                .hint("it goes on; ask `why` what it waits for, or wait longer")
                .into())
        })
    }

    fn rollback(
        &self,
        principal: Principal,
        epoch: Option<Epoch>,
        rollback: Rollback,
    ) -> Promise<'_, RolledBack> {
        Box::pin(async move {
            let (seat, key, body) = (self.seat(&principal), self.key(), rollback_out(&rollback).to_string());
            let call = || {
                let call = seat.http.post("/v1/context:rollback").key(&key).json(body.clone());
                as_of(call, epoch).send()
            };
            Ok(self.patience.persist(call).await?.json::<RolledBackIn>()?.read())
        })
    }

    fn watch(&self, prefix: String, from: Seq) -> Box<dyn Changes> {
        Box::new(Watching::new(self.own.http.clone(), self.patience.clone(), prefix, from))
    }

    fn lock(&self, who: Who, ask: AcquireLocks, wait: Duration) -> Promise<'_, Locked> {
        Box::pin(async move {
            let Some((first, rest)) = ask.names.split_first() else { return Err(not_here("no lock at all")) };
            let (seat, until) = (self.seat_of(&who.agent), self.clock().now().plus(wait).mono);
            let path = format!("/v1/locks/{}/acquire", segment(first.as_str()));
            let held: LockedIn = loop {
                let wait = self.rest(until).min(LOCK_WAIT_MAX);
                let body = json!({
                    "agent": who.agent.to_string(),
                    "names": rest.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "ttlMs": ask.ttl_ms,
                    "waitMs": wait.as_millis() as u64,
                    "priority": ask.priority.level,
                    "capacity": ask.capacity,
                    "within": ask.within.map(|id| id.to_string()),
                });
                // Said again under the same key, it has the same place in line, and the same locks.
                let (body, key) = (body.to_string(), self.key());
                let call = || {
                    let call = seat.http.post(&path).key(&key).json(body.clone()).within(wait + GRACE);
                    as_of(call, who.epoch).send()
                };
                match self.patience.persist(call).await {
                    Err(error) if error.code() == Code::Timeout && !self.rest(until).is_zero() => {}
                    answer => break answer?.json()?,
                }
            };
            let locks = held.locks.into_iter();
            let locks =
                locks.map(|one| Ok(FenceRef { lock: LockName::new(one.lock)?, fence: Fence(one.fence) }));
            Ok(Locked { locks: locks.collect::<Result<_, Error>>()?, ttl_ms: ask.ttl_ms })
        })
    }

    fn subscribe(&self, who: Who, pattern: Pattern, history: Option<History>) -> Promise<'_, Seq> {
        Box::pin(async move {
            let seat = self.seat_of(&who.agent);
            let path = Self::of(&who, &format!("/subscriptions/{}", segment(&pattern.to_string())));
            let body = match history {
                None => json!({}),
                Some(History::Seq(seq)) => json!({"fromSeq": seq.0}),
                Some(History::Time(time)) => json!({"fromTime": time_out(time)}),
                Some(History::Last(count)) => json!({"last": count}),
            };
            let body = body.to_string();
            let call = || as_of(seat.http.put(&path), who.epoch).json(body.clone()).send();
            let made: SinceIn = self.patience.persist(call).await?.json()?;
            Ok(Seq(made.since))
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
                // If it cannot be revoked now, an admin finds it by its name.
                let _ = self.own.http.delete(&format!("/v1/tokens/{id}")).send().await;
            }
        })
    }
}
