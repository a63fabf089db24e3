//! Items in memory, with their timers. One function replaces an item and maintains all indexes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::{AgentNo, TaskId};
use crate::item::{Item, ItemKey, ItemKind, ItemTimer, Retention};
use crate::policy::{ActivePolicy, Policy};
use crate::snapshot::{Snapshot, SnapshotState};
use crate::time::{Mono, Now, Timestamp};
use crate::working::approvals::Approvals;
use crate::working::item_counts::ItemCounts;
use crate::working::locks::Locks;
use crate::working::pause_scopes::PauseScopes;
use crate::working::procedures::Procedures;
use crate::working::requests::Requests;
use crate::working::sessions::Sessions;
use crate::working::subscriptions::Subscriptions;
use crate::working::tasks::Tasks;
use crate::working::tokens::TokenIndex;
use crate::working::{AccessTokens, Map, SubscriptionTree, Undo, WorkingState};

/// Identifies a timer: an item, and the part of it that the timer belongs to.
type TimerKey = (ItemKey, u64);

/// The items that the working state keeps in memory.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) policy: Arc<ActivePolicy>,
    pub(super) locks: Locks,
    pub(crate) sessions: Sessions,
    pub(super) tasks: Tasks,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) requests: Requests,
    pub(crate) tokens: TokenIndex,
    pub(crate) approvals: Approvals,
    pub(crate) procedures: Procedures,
    pub(super) pause_scopes: PauseScopes,
    /// Budgets, by owner. They are not in memory themselves.
    pub(crate) budgets: ItemCounts<AgentNo>,
    /// Snapshots, by the agent that made them. They are not in memory themselves.
    pub(crate) snapshots: ItemCounts<Box<str>>,
    /// Monotonic deadline of each running timer.
    deadlines: Map<TimerKey, Mono>,
    by_deadline: BTreeSet<(Mono, TimerKey)>,
    by_time: BTreeSet<(Timestamp, TimerKey)>,
}

impl Items {
    /// Replaces an item and returns the previous one.
    fn replace(&mut self, key: &ItemKey, new: Option<Item>) -> Option<Item> {
        let scope = new.as_ref().and_then(Item::pause_scope);
        let old = self.replace_in_memory(key, new);
        self.pause_scopes.replace(key, old.as_ref(), scope);
        old
    }

    fn replace_in_memory(&mut self, key: &ItemKey, new: Option<Item>) -> Option<Item> {
        match key.kind {
            ItemKind::Policy => {
                let new = match new {
                    Some(Item::Policy(policy)) => policy,
                    _ => ActivePolicy::default(),
                };
                Some(Item::Policy((*std::mem::replace(&mut self.policy, Arc::new(new))).clone()))
            }
            ItemKind::Lock => {
                let new = match new {
                    Some(Item::Lock(lock)) => Some(lock),
                    _ => None,
                };
                self.locks.replace(&key.id, new).map(Item::Lock)
            }
            ItemKind::Session => {
                let new = match new {
                    Some(Item::Session(session)) => Some(session),
                    _ => None,
                };
                self.sessions.replace(&key.id, new).map(Item::Session)
            }
            ItemKind::Task => {
                let new = match new {
                    Some(Item::Task(task)) => Some(task),
                    _ => None,
                };
                self.tasks.replace(&TaskId::from_key(key), new).map(Item::Task)
            }
            // Not kept in memory: no decision needs it.
            ItemKind::Snapshot => None,
            // Not kept in memory: looked up when a message names it.
            ItemKind::Budget => None,
            ItemKind::Subscription => {
                let new = match new {
                    Some(Item::Subscription(subscription)) => Some(*subscription),
                    _ => None,
                };
                self.subscriptions.replace(&key.id, new).map(|old| Item::Subscription(Box::new(old)))
            }
            // Pools are stored together with their inboxes.
            ItemKind::Pool => None,
            ItemKind::Request => {
                let new = match new {
                    Some(Item::Request(request)) => Some(request),
                    _ => None,
                };
                self.requests.replace(&key.id, new).map(Item::Request)
            }
            ItemKind::Token => {
                let new = match new {
                    Some(Item::Token(token)) => Some(token),
                    _ => None,
                };
                self.tokens.replace(&key.id, new).map(Item::Token)
            }
            ItemKind::Approval => {
                let new = match new {
                    Some(Item::Approval(approval)) => Some(*approval),
                    _ => None,
                };
                self.approvals.replace(&key.id, new).map(|old| Item::Approval(Box::new(old)))
            }
            ItemKind::Procedure => {
                let new = match new {
                    Some(Item::Procedure(procedure)) => Some(procedure),
                    _ => None,
                };
                self.procedures.replace(&key.id, new).map(Item::Procedure)
            }
        }
    }

    /// Returns an item that is in memory.
    pub(crate) fn get(&self, key: &ItemKey) -> Option<Item> {
        match key.kind {
            ItemKind::Policy => Some(Item::Policy((*self.policy).clone())),
            ItemKind::Lock => self.locks.by_id(&key.id).cloned().map(Item::Lock),
            ItemKind::Session => self.sessions.get(&key.id).cloned().map(Item::Session),
            ItemKind::Task => self.tasks.get(&TaskId::from_key(key)).cloned().map(Item::Task),
            ItemKind::Snapshot => None,
            ItemKind::Budget => None,
            ItemKind::Subscription => {
                let found = self.subscriptions.get(&key.id).cloned();
                found.map(|subscription| Item::Subscription(Box::new(subscription)))
            }
            ItemKind::Pool => None,
            ItemKind::Request => self.requests.by_id(&key.id).cloned().map(Item::Request),
            ItemKind::Token => self.tokens.get(&key.id).cloned().map(Item::Token),
            ItemKind::Procedure => self.procedures.get(&key.id).cloned().map(Item::Procedure),
            ItemKind::Approval => {
                self.approvals.get(&key.id).cloned().map(|approval| Item::Approval(Box::new(approval)))
            }
        }
    }

    /// Returns the deadline of a running timer.
    pub(crate) fn deadline(&self, key: &ItemKey, part: u64) -> Option<Mono> {
        self.deadlines.get(&(key.clone(), part)).copied()
    }

    /// Returns the earliest timer of each clock.
    pub(crate) fn wake(&self) -> (Option<Timestamp>, Option<Mono>) {
        let dispatch = self.tasks.has_scheduled_dispatch().then_some(Timestamp(0));
        let by_time = dispatch.or_else(|| self.by_time.first().map(|(at, _)| *at));
        (by_time, self.by_deadline.first().map(|(at, _)| *at))
    }

    /// Returns up to `max` timers that are due, earliest first per clock.
    pub(crate) fn due_timers(&self, now: Now, max: usize) -> Vec<TimerKey> {
        let by_deadline = self.by_deadline.iter().take_while(|(at, _)| *at <= now.mono);
        let by_time = self.by_time.iter().take_while(|(at, _)| *at <= now.wall);
        by_deadline.map(|(_, part)| part).chain(by_time.map(|(_, part)| part)).take(max).cloned().collect()
    }

    fn stop_timers(&mut self, key: &ItemKey, timers: &[ItemTimer]) -> Vec<(u64, Mono)> {
        let mut stopped = Vec::new();
        for timer in timers {
            match timer {
                ItemTimer::At { part, time } => {
                    self.by_time.remove(&(*time, (key.clone(), *part)));
                }
                ItemTimer::After { part, .. } => {
                    let timer_key = (key.clone(), *part);
                    if let Some(deadline) = self.deadlines.remove(&timer_key) {
                        self.by_deadline.remove(&(deadline, timer_key));
                        stopped.push((*part, deadline));
                    }
                }
            }
        }
        stopped
    }

    fn start_timers(&mut self, key: &ItemKey, timers: &[ItemTimer], running: &[(u64, Mono)], now: Mono) {
        for timer in timers {
            match timer {
                ItemTimer::At { part, time } => {
                    self.by_time.insert((*time, (key.clone(), *part)));
                }
                ItemTimer::After { part, length_ms } => {
                    let before = running.iter().find(|(other, _)| other == part);
                    let deadline = before.map_or(now.plus_ms(*length_ms), |(_, deadline)| *deadline);
                    self.set_deadline(key, *part, deadline);
                }
            }
        }
    }

    fn set_deadline(&mut self, key: &ItemKey, part: u64, deadline: Mono) {
        let timer_key = (key.clone(), part);
        if let Some(old) = self.deadlines.insert(timer_key.clone(), deadline) {
            self.by_deadline.remove(&(old, timer_key.clone()));
        }
        self.by_deadline.insert((deadline, timer_key));
    }
}

/// The previous state of an item, with the deadlines of its running timers.
#[derive(Debug)]
pub(super) struct ItemUndo {
    key: ItemKey,
    item: Option<Item>,
    running: Vec<(u64, Mono)>,
    /// Whether the change created a pool.
    new_pool: bool,
    counted: Option<Counted>,
}

/// A change of the number of items that are not in memory.
#[derive(Debug)]
enum Counted {
    /// A budget of this agent was created.
    Budget(Option<AgentNo>),
    /// A snapshot by this principal was made.
    SnapshotMade(Box<str>),
    /// A snapshot by this principal was dropped.
    SnapshotDropped(Box<str>),
}

impl Items {
    /// Counts a new or dropped item that is not in memory.
    fn count(&mut self, item: &Item) -> Option<Counted> {
        let counted = match item {
            // Numbers are dense: that of a new budget is the next one.
            Item::Budget(budget) if budget.number.0 as usize == self.budgets.total() + 1 => {
                Counted::Budget(budget.owner)
            }
            Item::Snapshot(Snapshot { by, state: SnapshotState::Active, .. }) => {
                Counted::SnapshotMade(by.as_str().into())
            }
            Item::Snapshot(Snapshot { by, state: SnapshotState::Dropped, .. }) => {
                Counted::SnapshotDropped(by.as_str().into())
            }
            _ => return None,
        };
        match &counted {
            Counted::Budget(owner) => self.budgets.add(*owner),
            Counted::SnapshotMade(by) => self.snapshots.add(Some(by.clone())),
            Counted::SnapshotDropped(by) => self.snapshots.remove(Some(by.clone())),
        }
        Some(counted)
    }

    fn undo_count(&mut self, counted: Counted) {
        match counted {
            Counted::Budget(owner) => self.budgets.remove(owner),
            Counted::SnapshotMade(by) => self.snapshots.remove(Some(by)),
            Counted::SnapshotDropped(by) => self.snapshots.add(Some(by)),
        }
    }
}

impl WorkingState {
    /// Returns the items in memory.
    pub(crate) fn items(&self) -> &Items {
        &self.items
    }

    /// Returns the rules of the current policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.items.policy.policy
    }

    /// Returns the current policy with its metadata.
    #[must_use]
    pub fn active_policy(&self) -> &Arc<ActivePolicy> {
        &self.items.policy
    }

    /// Returns the subscription tree.
    #[must_use]
    pub fn subscription_tree(&self) -> &Arc<SubscriptionTree> {
        self.items.subscriptions.tree()
    }

    /// Returns the valid access tokens.
    #[must_use]
    pub fn tokens(&self) -> &Arc<AccessTokens> {
        self.items.tokens.published()
    }

    /// Loads a stored item. Timers of the monotonic clock restart with their full duration.
    pub fn load_item(&mut self, item: Item, now: Now) {
        match &item {
            _ if item.retention() == Retention::InMemory => drop(self.put_item(item, now.mono)),
            Item::Task(task) => self.load_ended_task(task),
            // Stored items are not sorted by number.
            Item::Budget(budget) => self.items.budgets.add(budget.owner),
            Item::Snapshot(_) => drop(self.items.count(&item)),
            _ => {}
        }
    }

    /// Sets the new state of an item. A timer that is already running keeps its deadline.
    pub(super) fn set_item(&mut self, item: &Item, now: Now) {
        let before = self.put_item(item.clone(), now.mono);
        let was_paused = before.item.as_ref().and_then(Item::pause_scope).is_some_and(|(_, paused)| paused);
        self.journal.push(Undo::Item(Box::new(before)));
        if let Some((scope, paused)) = item.pause_scope()
            && paused != was_paused
        {
            self.apply_pause(scope);
        }
        if let Item::Task(task) = item {
            self.update_task_counters(task);
        }
        if let Item::Pool(pool) = item {
            self.requeue_pool_consumers(pool);
        }
    }

    /// Returns an item that is in memory.
    #[must_use]
    pub fn item(&self, key: &ItemKey) -> Option<Item> {
        self.items.get(key)
    }

    fn put_item(&mut self, item: Item, now: Mono) -> ItemUndo {
        let key = item.key();
        let timers = item.timers();
        let pools = self.pools.len();
        if let Item::Pool(pool) = &item {
            self.put_pool(pool);
        }
        let counted = self.items.count(&item);
        let old = self.items.replace(&key, (item.retention() == Retention::InMemory).then_some(item));
        let running = match &old {
            Some(old) => self.items.stop_timers(&key, &old.timers()),
            None => Vec::new(),
        };
        self.items.start_timers(&key, &timers, &running, now);
        ItemUndo { key, item: old, running, new_pool: self.pools.len() > pools, counted }
    }

    pub(super) fn undo_item(&mut self, before: ItemUndo) {
        let ItemUndo { key, item, running, new_pool, counted } = before;
        if let Some(counted) = counted {
            self.items.undo_count(counted);
        }
        if new_pool {
            self.undo_pool();
        }
        let timers = item.as_ref().map(Item::timers).unwrap_or_default();
        if let Some(new) = self.items.replace(&key, item) {
            self.items.stop_timers(&key, &new.timers());
        }
        self.items.start_timers(&key, &timers, &running, Mono(0));
    }

    /// Restarts a running timer of an item. Writes no record: after a restart it runs its full duration anyway.
    pub(crate) fn extend_item_deadline(&mut self, key: &ItemKey, part: u64, length_ms: u64, now: Now) {
        let Some(before) = self.items.deadlines.get(&(key.clone(), part)).copied() else { return };
        self.journal.push(Undo::Deadline(Box::new((key.clone(), part, before))));
        self.items.set_deadline(key, part, now.mono.plus_ms(length_ms));
    }

    pub(super) fn undo_deadline(&mut self, key: &ItemKey, part: u64, deadline: Mono) {
        self.items.set_deadline(key, part, deadline);
    }
}
