//! Backend of an embedded hub.

mod reads;
mod views;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::rollback::RollbackResult;
use quorate_core::{
    AcquireLocks, AgentRegistry, AgentStatus, Code, Commit, Epoch, GrantedLocks, Health, History, Message,
    MessageId, Op, OpResult, Pattern, Payload, Principal, Receipt, Refused, RegisterAgent, Rollback,
    SendRequest, Seq, TaskId, TaskLeaseRef,
};
use quorate_engine::{
    ClaimedTask, Consumer, MemoryEntryChange, Space, TaskConsumer, TaskEvent as Event, Watch,
};
use quorate_store::Clock;

use crate::link::{
    Answer, Asked, Changes, Delivery, HeldTask, Inbox, Link, MessageRef, Promise, Room, TaskClaimQuery,
    TaskEvent, TaskInbox, Who,
};
use crate::task::{Task, TaskWithPayloads};

impl Link for Space {
    fn space(&self) -> Option<&Space> {
        Some(self)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(self.engine().clock())
    }

    fn salt(&self) -> [u8; 16] {
        Self::salt(self)
    }

    fn seal(&self, bytes: Bytes) -> Payload {
        Self::seal(self, bytes)
    }

    fn join(&self, principal: Principal, agent: RegisterAgent) -> Promise<'_, Epoch> {
        Box::pin(async move {
            let receipt = Self::commit(self, Commit::new(principal, vec![Op::RegisterAgent(agent)])).await?;
            match receipt.results.first() {
                Some(OpResult::Registered { epoch }) => Ok(*epoch),
                _ => Err(Refused::new(Code::Conflict, "the registration returned no epoch").into()),
            }
        })
    }

    fn commit(&self, commit: Commit) -> Promise<'_, Receipt> {
        Box::pin(Self::commit(self, commit))
    }

    fn submit(&self, commits: Vec<Commit>) {
        Self::submit(self, commits);
    }

    fn claim(&self, who: Who, max: u32, lease_ms: u64, wait: Duration) -> Promise<'_, Vec<Delivery>> {
        Box::pin(async move {
            Self::claim(self, &who.principal(), Some(who.epoch), &who.agent, max, lease_ms, wait).await
        })
    }

    fn consume(&self, who: Who, credit: u32, lease_ms: u64) -> Promise<'_, Box<dyn Inbox>> {
        Box::pin(async move {
            let principal = who.principal();
            let opened = Self::consume(self, &principal, Some(who.epoch), &who.agent, credit, lease_ms);
            Ok(Box::new(opened.await?) as Box<dyn Inbox>)
        })
    }

    fn send_ephemeral(&self, who: Who, message: Message) -> Promise<'_, MessageRef> {
        Box::pin(async move { Self::send_ephemeral(self, &who.principal(), Some(who.epoch), message).await })
    }

    fn request(&self, who: Who, ask: SendRequest) -> Promise<'_, Box<dyn Asked>> {
        Box::pin(async move {
            let asking = Self::request(self, &who.principal(), Some(who.epoch), ask).await?;
            Ok(Box::new(asking) as Box<dyn Asked>)
        })
    }

    fn ask(&self, who: Who, ask: SendRequest) -> Promise<'_, Answer> {
        Box::pin(async move {
            let mut asking = Self::request(self, &who.principal(), Some(who.epoch), ask).await?;
            asking.answer().await
        })
    }

    fn await_request(&self, who: Who, question: MessageId) -> Promise<'_, Box<dyn Asked>> {
        Box::pin(async move {
            let asking = Self::await_request(self, &who.principal(), Some(who.epoch), question).await?;
            Ok(Box::new(asking) as Box<dyn Asked>)
        })
    }

    fn request_ephemeral(&self, who: Who, message: Message, within: Option<Duration>) -> Promise<'_, Answer> {
        Box::pin(async move {
            Self::request_ephemeral(self, &who.principal(), Some(who.epoch), message, within).await
        })
    }

    fn heartbeat(&self, who: Who, status: AgentStatus, health: Health) -> Promise<'_, ()> {
        Box::pin(async move { Self::heartbeat(self, &who.agent, Some(who.epoch), status, health).await })
    }

    fn create_tasks(&self, commit: Commit) -> Promise<'_, Vec<TaskId>> {
        Box::pin(Self::create_tasks(self, commit))
    }

    fn claim_tasks(&self, claim: TaskClaimQuery, max: u32, wait: Duration) -> Promise<'_, Vec<HeldTask>> {
        Box::pin(async move {
            let held = Self::claim_tasks(self, &claim, max, wait).await?;
            let agents = &self.published().agents;
            Ok(held.into_iter().map(|one| held_task(agents, one)).collect())
        })
    }

    fn consume_tasks(&self, claim: TaskClaimQuery, credit: u32) -> Promise<'_, Box<dyn TaskInbox>> {
        Box::pin(async move {
            let consumer = Self::consume_tasks(self, &claim, credit).await?;
            Ok(Box::new(SpaceTasks { space: self.clone(), consumer }) as Box<dyn TaskInbox>)
        })
    }

    fn await_task(&self, who: Who, task: TaskId, wait: Duration) -> Promise<'_, TaskWithPayloads> {
        Box::pin(async move {
            let view = Self::await_task(self, &who.agent, Some(who.epoch), &task, None, wait).await?;
            Ok(views::task(self, &view))
        })
    }

    fn rollback(
        &self,
        principal: Principal,
        epoch: Option<Epoch>,
        rollback: Rollback,
    ) -> Promise<'_, RollbackResult> {
        Box::pin(async move {
            Ok(quorate_engine::views::rollback_result(
                Self::rollback(self, &principal, epoch, None, rollback).await?,
            ))
        })
    }

    fn watch(&self, prefix: String, from: Seq) -> Box<dyn Changes> {
        Box::new(Self::watch(self, &prefix, from))
    }

    fn lock(&self, who: Who, ask: AcquireLocks, wait: Duration) -> Promise<'_, GrantedLocks> {
        Box::pin(async move { Self::lock(self, &who.principal(), Some(who.epoch), ask, wait).await })
    }

    fn subscribe(&self, who: Who, pattern: Pattern, history: Option<History>) -> Promise<'_, Seq> {
        Box::pin(async move {
            Self::subscribe(self, &who.principal(), Some(who.epoch), &who.agent, &pattern, history).await
        })
    }

    fn unsubscribe(&self, who: Who, pattern: Pattern) -> Promise<'_, ()> {
        Box::pin(async move {
            Self::unsubscribe(self, &who.principal(), Some(who.epoch), &who.agent, &pattern).await
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.engine().close())
    }
}

impl Inbox for Consumer {
    fn next(&mut self) -> Promise<'_, Option<Delivery>> {
        Box::pin(Self::next(self))
    }

    fn room(&self) -> Room {
        Room::InCommit(self.grant_credit_op(1))
    }

    fn close(self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(Self::close(*self))
    }
}

impl Changes for Watch {
    fn next(&mut self) -> Promise<'_, MemoryEntryChange> {
        Box::pin(Self::next(self))
    }
}

/// Stream of the tasks claimed by an agent.
struct SpaceTasks {
    space: Space,
    consumer: TaskConsumer,
}

fn held_task(agents: &AgentRegistry, held: ClaimedTask) -> HeldTask {
    let lease_ms = held.task.lease().map_or(0, |lease| lease.length_ms.get());
    let task = Task::new(agents, &held.task);
    HeldTask { lease: held.lease, lease_ms, task, input: held.input }
}

impl TaskInbox for SpaceTasks {
    fn next(&mut self) -> Promise<'_, Option<TaskEvent>> {
        Box::pin(async move {
            let event = self.consumer.next().await?;
            Ok(event.map(|event| match event {
                Event::Task(held) => {
                    TaskEvent::Task(Box::new(held_task(&self.space.published().agents, *held)))
                }
                Event::Lost { task, token, .. } => TaskEvent::Lost(TaskLeaseRef { task, token }),
            }))
        })
    }

    fn room(&self) -> Room {
        Room::InCommit(self.consumer.grant_credit_op(1))
    }

    fn close(self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(self.consumer.close())
    }
}

impl Asked for quorate_engine::RequestHandle {
    fn id(&self) -> MessageId {
        Self::id(self)
    }

    fn next(&mut self) -> Promise<'_, Option<Answer>> {
        Box::pin(Self::next(self))
    }

    fn cancel(self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(Self::cancel(*self))
    }
}
