//! Backend of an embedded hub.

mod convert;
mod reads;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_api::rollback::RollbackResult;
use quorate_core::{
    AcquireLocks, AgentRegistry, AgentStatus, Code, Commit, Epoch, GrantedLocks, Health, History,
    HolderEvent, Message, MessageId, Op, OpResult, Pattern, Payload, Principal, Receipt, Refused,
    RegisterAgent, Rollback, SendRequest, Seq, TaskId, TaskLeaseRef,
};
use quorate_engine::{
    Consumer, HolderEvents, LeasedTaskWithInput, MemoryEntryChange, Space, TaskConsumer,
    TaskConsumerEvent as Event, Watch,
};
use quorate_store::Clock;

use crate::backend::{
    AgentIdentity, Answer, Backend, BackendFuture, ChangeStream, CreditReturn, DeliveryStream, HeldTask,
    HeldWork, LeaseEvent, LeaseEventStream, MessageRef, ReceivedDelivery, ReplyStream, TaskClaimQuery,
    TaskEvent, TaskStream,
};
use crate::task::{Task, TaskWithPayloads};

impl Backend for Space {
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

    fn register(&self, principal: Principal, agent: RegisterAgent) -> BackendFuture<'_, Epoch> {
        Box::pin(async move {
            let receipt = Self::commit(self, Commit::new(principal, vec![Op::RegisterAgent(agent)])).await?;
            match receipt.results.first() {
                Some(OpResult::Registered { epoch }) => Ok(*epoch),
                _ => Err(Refused::new(Code::Conflict, "the registration returned no epoch").into()),
            }
        })
    }

    fn commit(&self, commit: Commit) -> BackendFuture<'_, Receipt> {
        Box::pin(Self::commit(self, commit))
    }

    fn submit(&self, commits: Vec<Commit>) {
        Self::submit(self, commits);
    }

    fn claim(
        &self,
        identity: AgentIdentity,
        max: u32,
        lease_ms: u64,
        wait: Duration,
    ) -> BackendFuture<'_, Vec<ReceivedDelivery>> {
        Box::pin(async move {
            Self::claim(
                self,
                &identity.principal(),
                Some(identity.epoch),
                &identity.agent,
                max,
                lease_ms,
                wait,
            )
            .await
        })
    }

    fn consume(
        &self,
        identity: AgentIdentity,
        credit: u32,
        lease_ms: u64,
    ) -> BackendFuture<'_, Box<dyn DeliveryStream>> {
        Box::pin(async move {
            let principal = identity.principal();
            let consumer =
                Self::consume(self, &principal, Some(identity.epoch), &identity.agent, credit, lease_ms);
            Ok(Box::new(consumer.await?) as Box<dyn DeliveryStream>)
        })
    }

    fn lease_events(&self, identity: AgentIdentity) -> BackendFuture<'_, Box<dyn LeaseEventStream>> {
        let opened = self.holder_events(&identity.agent);
        Box::pin(async move {
            let events = SpaceLeaseEvents { space: self.clone(), events: opened? };
            Ok(Box::new(events) as Box<dyn LeaseEventStream>)
        })
    }

    fn send_ephemeral(&self, identity: AgentIdentity, message: Message) -> BackendFuture<'_, MessageRef> {
        Box::pin(async move {
            Self::send_ephemeral(self, &identity.principal(), Some(identity.epoch), message).await
        })
    }

    fn request(
        &self,
        identity: AgentIdentity,
        request: SendRequest,
    ) -> BackendFuture<'_, Box<dyn ReplyStream>> {
        Box::pin(async move {
            let waiter = Self::request(self, &identity.principal(), Some(identity.epoch), request).await?;
            Ok(Box::new(waiter) as Box<dyn ReplyStream>)
        })
    }

    fn ask(&self, identity: AgentIdentity, request: SendRequest) -> BackendFuture<'_, Answer> {
        Box::pin(async move {
            let mut waiter =
                Self::request(self, &identity.principal(), Some(identity.epoch), request).await?;
            waiter.answer().await
        })
    }

    fn await_request(
        &self,
        identity: AgentIdentity,
        request: MessageId,
    ) -> BackendFuture<'_, Box<dyn ReplyStream>> {
        Box::pin(async move {
            let waiter =
                Self::await_request(self, &identity.principal(), Some(identity.epoch), request).await?;
            Ok(Box::new(waiter) as Box<dyn ReplyStream>)
        })
    }

    fn request_ephemeral(
        &self,
        identity: AgentIdentity,
        message: Message,
        timeout: Option<Duration>,
    ) -> BackendFuture<'_, Answer> {
        Box::pin(async move {
            Self::request_ephemeral(self, &identity.principal(), Some(identity.epoch), message, timeout).await
        })
    }

    fn heartbeat(
        &self,
        identity: AgentIdentity,
        status: AgentStatus,
        health: Health,
    ) -> BackendFuture<'_, ()> {
        Box::pin(
            async move { Self::heartbeat(self, &identity.agent, Some(identity.epoch), status, health).await },
        )
    }

    fn create_tasks(&self, commit: Commit) -> BackendFuture<'_, Vec<TaskId>> {
        Box::pin(Self::create_tasks(self, commit))
    }

    fn claim_tasks(
        &self,
        claim: TaskClaimQuery,
        max: u32,
        wait: Duration,
    ) -> BackendFuture<'_, Vec<HeldTask>> {
        Box::pin(async move {
            let claimed = Self::claim_tasks(self, &claim, max, wait).await?;
            let agents = &self.published().agents;
            Ok(claimed.into_iter().map(|task| held_task(agents, task)).collect())
        })
    }

    fn consume_tasks(&self, claim: TaskClaimQuery, credit: u32) -> BackendFuture<'_, Box<dyn TaskStream>> {
        Box::pin(async move {
            let consumer = Self::consume_tasks(self, &claim, credit).await?;
            Ok(Box::new(SpaceTasks { space: self.clone(), consumer }) as Box<dyn TaskStream>)
        })
    }

    fn wait_for_task_as_agent(
        &self,
        identity: AgentIdentity,
        task: TaskId,
        wait: Duration,
    ) -> BackendFuture<'_, TaskWithPayloads> {
        Box::pin(async move {
            let view =
                Self::wait_for_task_as_agent(self, &identity.agent, Some(identity.epoch), &task, None, wait)
                    .await?;
            Ok(convert::task(self, &view))
        })
    }

    fn rollback(
        &self,
        principal: Principal,
        epoch: Option<Epoch>,
        rollback: Rollback,
    ) -> BackendFuture<'_, RollbackResult> {
        Box::pin(async move { Self::rollback(self, &principal, epoch, None, rollback).await })
    }

    fn watch(&self, prefix: String, from: Seq) -> Box<dyn ChangeStream> {
        Box::new(Self::watch(self, &prefix, from))
    }

    fn lock(
        &self,
        identity: AgentIdentity,
        acquire: AcquireLocks,
        wait: Duration,
    ) -> BackendFuture<'_, GrantedLocks> {
        Box::pin(
            async move { Self::lock(self, &identity.principal(), Some(identity.epoch), acquire, wait).await },
        )
    }

    fn subscribe(
        &self,
        identity: AgentIdentity,
        pattern: Pattern,
        history: Option<History>,
    ) -> BackendFuture<'_, Seq> {
        Box::pin(async move {
            Self::subscribe(
                self,
                &identity.principal(),
                Some(identity.epoch),
                &identity.agent,
                &pattern,
                history,
            )
            .await
        })
    }

    fn unsubscribe(&self, identity: AgentIdentity, pattern: Pattern) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            Self::unsubscribe(self, &identity.principal(), Some(identity.epoch), &identity.agent, &pattern)
                .await
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.engine().close())
    }
}

impl DeliveryStream for Consumer {
    fn next(&mut self) -> BackendFuture<'_, Option<ReceivedDelivery>> {
        Box::pin(Self::next(self))
    }

    fn credit_return(&self) -> CreditReturn {
        CreditReturn::InCommit(self.grant_credit_op(1))
    }

    fn close(self: Box<Self>) -> BackendFuture<'static, ()> {
        Box::pin(Self::close(*self))
    }
}

/// Stream of the events for an agent as the holder of leases.
struct SpaceLeaseEvents {
    space: Space,
    events: HolderEvents,
}

impl LeaseEventStream for SpaceLeaseEvents {
    fn next(&mut self) -> BackendFuture<'_, Option<LeaseEvent>> {
        Box::pin(async move {
            let event = self.events.next().await;
            Ok(event.map(|event| {
                LeaseEvent::Ended(match event {
                    HolderEvent::TaskLost { task, token, .. } => HeldWork::Task(TaskLeaseRef { task, token }),
                    HolderEvent::RequestEnded { delivery, .. } => {
                        HeldWork::Delivery(self.space.published().generations.delivery_id(delivery))
                    }
                })
            }))
        })
    }
}

impl ChangeStream for Watch {
    fn next(&mut self) -> BackendFuture<'_, MemoryEntryChange> {
        Box::pin(Self::next(self))
    }
}

/// Stream of the tasks claimed by an agent.
struct SpaceTasks {
    space: Space,
    consumer: TaskConsumer,
}

fn held_task(agents: &AgentRegistry, leased: LeasedTaskWithInput) -> HeldTask {
    let lease_ms = leased.task.lease().map_or(0, |lease| lease.length_ms.get());
    let task = Task::new(agents, &leased.task);
    HeldTask { lease: leased.lease, lease_ms, task, input: leased.input, context: leased.context }
}

impl TaskStream for SpaceTasks {
    fn next(&mut self) -> BackendFuture<'_, Option<TaskEvent>> {
        Box::pin(async move {
            let event = self.consumer.next().await?;
            Ok(event.map(|event| match event {
                Event::Task(task) => {
                    TaskEvent::Task(Box::new(held_task(&self.space.published().agents, *task)))
                }
                Event::Lost { task, token, .. } => TaskEvent::Lost(TaskLeaseRef { task, token }),
            }))
        })
    }

    fn credit_return(&self) -> CreditReturn {
        CreditReturn::InCommit(self.consumer.grant_credit_op(1))
    }

    fn close(self: Box<Self>) -> BackendFuture<'static, ()> {
        Box::pin(self.consumer.close())
    }
}

impl ReplyStream for quorate_engine::RequestWaiter {
    fn id(&self) -> MessageId {
        Self::id(self)
    }

    fn next(&mut self) -> BackendFuture<'_, Option<Answer>> {
        Box::pin(Self::next(self))
    }

    fn cancel(self: Box<Self>) -> BackendFuture<'static, ()> {
        Box::pin(Self::cancel(*self))
    }
}
