//! Statements about locks, and rendering of locks and consumer events.

use quorate_core::{
    AcquireLocks, AgentNo, ConsumerEvent, Fence, FenceRef, GrantedLocks, HolderEvent, Item, ItemKind, Lock,
    LockName, Op, Priority, Verb, WaitMode, limits,
};
use quorate_store::{ReadQuery, ReadResult, Store as _};

use super::names::delivery_id;
use super::parse::{Words, agent_id, duration_ms};
use super::runner::ScriptRunner;

fn name(text: &str) -> LockName {
    LockName::new(text).expect("valid lock name")
}

impl ScriptRunner {
    /// Parses `locks x,y [for T] [capacity N] [low high urgent] [within M] [as C]`
    pub(super) fn parse_acquire(&mut self, actor: &str, words: &mut Words<'_>) -> Op {
        let mut request = AcquireLocks {
            agent: agent_id(actor),
            names: words.require("a lock").split(',').map(name).collect(),
            ttl_ms: limits::LEASE_MS_DEFAULT,
            priority: Priority::NORMAL,
            capacity: None,
            wait: WaitMode::NoWait,
            within: None,
        };
        while let Some(word) = words.next() {
            let mut value = || words.require(word);
            match word {
                "low" => request.priority = Priority::LOW,
                "high" => request.priority = Priority::HIGH,
                "urgent" => request.priority = Priority::URGENT,
                "for" => request.ttl_ms = duration_ms(value()),
                "capacity" => request.capacity = Some(value().parse().expect("a capacity")),
                "of" => request.agent = agent_id(value()),
                "within" => request.within = Some(delivery_id(self.names().delivery(value(), actor))),
                "as" => {
                    let consumer = value().to_owned();
                    request.wait = WaitMode::Once(self.names_mut().consumer(&consumer));
                }
                other => panic!("unknown lock option: {other}"),
            }
        }
        Op::AcquireLocks(request)
    }

    /// Parses `x,y`, each with its newest granted fence, or `x@3` with an explicit fence.
    pub(super) fn parse_fences(&self, text: &str) -> Vec<FenceRef> {
        text.split(',').map(|fence| self.parse_fence(fence)).collect()
    }

    pub(super) fn parse_fence(&self, text: &str) -> FenceRef {
        match text.split_once('@') {
            Some((lock, fence)) => {
                FenceRef { lock: name(lock), fence: Fence(fence.parse().expect("a fence")) }
            }
            None => FenceRef { lock: name(text), fence: self.names().newest_fence(text) },
        }
    }

    pub(super) fn agent_name(&self, number: AgentNo) -> String {
        let published = self.store().published(self.space()).expect("space exists");
        let agents = published.borrow().agents.clone();
        agents.get(number).map_or_else(|| number.to_string(), |agent| agent.id.to_string())
    }

    fn holders(&self, lock: &Lock) -> String {
        if lock.grants.is_empty() {
            return "free".into();
        }
        let holder = |grant: &quorate_core::Grant| {
            format!("held by {} with fence {}", self.agent_name(grant.holder), grant.fence)
        };
        lock.grants.iter().map(holder).collect::<Vec<_>>().join(", ")
    }

    /// Renders a change of a lock.
    pub(super) fn lock_line(&self, verb: Verb, lock: &Lock) -> String {
        format!("{} {}: {}", verb.as_str(), lock.name, self.holders(lock))
    }

    /// Renders an aborted wait and the cycle that caused it.
    pub(super) fn cycle_line(&self, cycle: &[(AgentNo, String)]) -> String {
        let edge =
            |(agent, resource): &(AgentNo, String)| format!("{} for {resource}", self.agent_name(*agent));
        format!("wait aborted: {}", cycle.iter().map(edge).collect::<Vec<_>>().join(", "))
    }

    /// Records the fences of granted locks.
    pub(super) fn record_locks(&mut self, granted: &GrantedLocks) {
        for fence in &granted.locks {
            self.names_mut().record_fence(fence.lock.as_str(), fence.fence);
        }
    }

    /// Renders a consumer event, that is, anything a consumer receives except deliveries.
    pub(super) fn event_line(&mut self, consumer: &str, event: &ConsumerEvent) -> String {
        match event {
            ConsumerEvent::LocksGranted(granted) => {
                self.record_locks(granted);
                let fences =
                    granted.locks.iter().map(|fence| format!("{} with fence {}", fence.lock, fence.fence));
                format!("{consumer} holds {}", fences.collect::<Vec<_>>().join(", "))
            }
            ConsumerEvent::Answered { id, message, is_last, .. } => {
                self.answer_line(consumer, *id, message, *is_last)
            }
            ConsumerEvent::Refused(refused) if refused.facts.cycle.is_empty() => {
                format!("{consumer} is refused {}", refused.code)
            }
            ConsumerEvent::Refused(refused) => {
                let cycle = refused.facts.cycle.iter();
                let cycle: Vec<_> =
                    cycle.map(|edge| format!("{} for {}", edge.agent, edge.waits_for)).collect();
                format!("{consumer} is refused {}: {}", refused.code, cycle.join(", "))
            }
            ConsumerEvent::TaskLeased(task) => self.leased_task_line(consumer, task),
            ConsumerEvent::TaskEnded(task) => format!("{consumer} is notified that {task} ended"),
            ConsumerEvent::TaskLost { task, token, loss } => {
                format!("{consumer} loses {task} (token {token}, {})", loss.as_str())
            }
        }
    }

    /// Renders an event for the holder of a lease.
    pub(super) fn holder_event_line(&self, holder: AgentNo, event: &HolderEvent) -> String {
        let holder = self.agent_name(holder);
        match event {
            HolderEvent::TaskLost { task, token, loss, reason } => {
                let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                format!("{holder} is notified: {task} (token {token}) {}{reason}", loss.as_str())
            }
            HolderEvent::RequestEnded { delivery, code, .. } => {
                let (name, _) = self.names().delivery_name(*delivery);
                format!("{holder} is notified: request {name} ended with {code}")
            }
        }
    }

    pub(super) async fn render_locks(&mut self) {
        let query = ReadQuery::items(ItemKind::Lock, 1000);
        let ReadResult::Items(items) = self.read(query).await else { panic!("expected items") };
        for listed in items {
            let Item::Lock(lock) = listed.item else { continue };
            let line = format!("lock {} for {}: {}", lock.name, lock.capacity, self.holders(&lock));
            self.push_line(line);
        }
    }
}
