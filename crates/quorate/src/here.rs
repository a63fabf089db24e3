//! A hub in this process, as the library sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    AcquireLocks, AgentId, Ask, Code, Commit, Epoch, Health, History, Key, Locked, Message, MessageId, Op,
    OpResult, Pattern, Payload, Principal, Receipt, Refused, RegisterAgent, Seq, Status, TaskId, Version,
};
use quorate_engine::{Consumer, Space, TaskConsumer};
use quorate_store::Clock;

use crate::link::{
    Answer, Asked, Delivery, Entry, Inbox, Link, MessageRef, Promise, Room, TaskClaim, TaskEvent, TaskInHand,
    TaskInbox, When, Who,
};

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
                _ => Err(Refused::new(Code::Conflict, "the registration was not answered").into()),
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
        let sent = Self::send_ephemeral(self, &who.principal(), Some(who.epoch), message);
        Box::pin(std::future::ready(sent))
    }

    fn request(&self, who: Who, ask: Ask) -> Promise<'_, Box<dyn Asked>> {
        Box::pin(async move {
            let asking = Self::request(self, &who.principal(), Some(who.epoch), ask).await?;
            Ok(Box::new(asking) as Box<dyn Asked>)
        })
    }

    fn request_ephemeral(&self, who: Who, message: Message, within: Option<Duration>) -> Promise<'_, Answer> {
        Box::pin(async move {
            Self::request_ephemeral(self, &who.principal(), Some(who.epoch), message, within).await
        })
    }

    fn heartbeat(&self, who: Who, status: Status, health: Health) -> Promise<'_, ()> {
        Box::pin(async move { Self::heartbeat(self, &who.agent, Some(who.epoch), status, health).await })
    }

    fn entry(&self, key: Key, when: When) -> Promise<'_, Option<Entry>> {
        Box::pin(async move { Self::entry(self, &key, when).await })
    }

    fn history(&self, key: Key, after: Version, limit: usize) -> Promise<'_, Vec<Entry>> {
        Box::pin(async move { Self::history(self, &key, after, limit).await })
    }

    fn entries(&self, prefix: String, after: Option<Key>, limit: usize) -> Promise<'_, Vec<Entry>> {
        Box::pin(async move { Self::entries(self, &prefix, after, limit).await })
    }

    fn create_tasks(&self, commit: Commit) -> Promise<'_, Vec<TaskId>> {
        Box::pin(Self::create_tasks(self, commit))
    }

    fn claim_tasks(&self, claim: TaskClaim, max: u32, wait: Duration) -> Promise<'_, Vec<TaskInHand>> {
        Box::pin(async move { Self::claim_tasks(self, &claim, max, wait).await })
    }

    fn consume_tasks(&self, claim: TaskClaim, credit: u32) -> Promise<'_, Box<dyn TaskInbox>> {
        Box::pin(async move {
            Ok(Box::new(Self::consume_tasks(self, &claim, credit).await?) as Box<dyn TaskInbox>)
        })
    }

    fn lock(&self, who: Who, ask: AcquireLocks, wait: Duration) -> Promise<'_, Locked> {
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

    fn subscriptions(&self, agent: AgentId) -> Promise<'_, Vec<Pattern>> {
        Box::pin(async move {
            let all = Self::subscriptions(self, &agent).await?;
            Ok(all.into_iter().map(|one| one.pattern).collect())
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
        Room::InCommit(self.grant(1))
    }

    fn close(self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(Self::close(*self))
    }
}

impl TaskInbox for TaskConsumer {
    fn next(&mut self) -> Promise<'_, Option<TaskEvent>> {
        Box::pin(Self::next(self))
    }

    fn room(&self) -> Room {
        Room::InCommit(self.grant(1))
    }

    fn close(self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(Self::close(*self))
    }
}

impl Asked for quorate_engine::Asking {
    fn id(&self) -> Option<MessageId> {
        Some(Self::id(self))
    }

    fn next(&mut self) -> Promise<'_, Option<Answer>> {
        Box::pin(Self::next(self))
    }

    fn cancel(self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(Self::cancel(*self))
    }
}
