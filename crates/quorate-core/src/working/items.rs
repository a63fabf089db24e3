//! Items at hand, with the alarms that time alone sets off. One function changes an item and keeps every index in step.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::TaskId;
use crate::item::{Alarm, Item, ItemKey, ItemKind, Keep};
use crate::policy::{InForce, Policy};
use crate::procedure::Procedure;
use crate::time::{Mono, Now, Timestamp};
use crate::working::approvals::Approvals;
use crate::working::locks::Locks;
use crate::working::requests::Requests;
use crate::working::sessions::Sessions;
use crate::working::tasks::Tasks;
use crate::working::tokens::TokensAtHand;
use crate::working::topics::Subscriptions;
use crate::working::{Map, Tokens, Topics, Undo, Working};

/// One part of an item.
type Part = (ItemKey, u64);

/// What the working state holds of items.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) policy: Arc<InForce>,
    pub(super) locks: Locks,
    pub(crate) sessions: Sessions,
    pub(super) tasks: Tasks,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) requests: Requests,
    pub(crate) tokens: TokensAtHand,
    pub(crate) approvals: Approvals,
    /// Procedures that are running.
    pub(crate) procedures: Map<Arc<str>, Procedure>,
    /// When each running part ends by the monotonic clock.
    deadlines: Map<Part, Mono>,
    by_deadline: BTreeSet<(Mono, Part)>,
    by_time: BTreeSet<(Timestamp, Part)>,
}

impl Items {
    /// Puts an item in its place and returns what was there.
    fn place(&mut self, key: &ItemKey, new: Option<Item>) -> Option<Item> {
        match key.kind {
            ItemKind::Policy => {
                let new = match new {
                    Some(Item::Policy(policy)) => policy,
                    _ => InForce::default(),
                };
                Some(Item::Policy((*std::mem::replace(&mut self.policy, Arc::new(new))).clone()))
            }
            ItemKind::Lock => {
                let new = match new {
                    Some(Item::Lock(lock)) => Some(lock),
                    _ => None,
                };
                self.locks.place(&key.id, new).map(Item::Lock)
            }
            ItemKind::Session => {
                let new = match new {
                    Some(Item::Session(session)) => Some(session),
                    _ => None,
                };
                self.sessions.place(&key.id, new).map(Item::Session)
            }
            ItemKind::Task => {
                let new = match new {
                    Some(Item::Task(task)) => Some(task),
                    _ => None,
                };
                self.tasks.place(&TaskId::of_key(key), new).map(Item::Task)
            }
            // No decision needs one at hand.
            ItemKind::Snapshot => None,
            // Never at hand: looked up when a message names it.
            ItemKind::Budget => None,
            ItemKind::Subscription => {
                let new = match new {
                    Some(Item::Subscription(subscription)) => Some(*subscription),
                    _ => None,
                };
                self.subscriptions.place(&key.id, new).map(|old| Item::Subscription(Box::new(old)))
            }
            // Pools are kept with what waits in them.
            ItemKind::Pool => None,
            ItemKind::Request => {
                let new = match new {
                    Some(Item::Request(request)) => Some(request),
                    _ => None,
                };
                self.requests.place(&key.id, new).map(Item::Request)
            }
            ItemKind::Token => {
                let new = match new {
                    Some(Item::Token(token)) => Some(token),
                    _ => None,
                };
                self.tokens.place(&key.id, new).map(Item::Token)
            }
            ItemKind::Approval => {
                let new = match new {
                    Some(Item::Approval(approval)) => Some(*approval),
                    _ => None,
                };
                self.approvals.place(&key.id, new).map(|old| Item::Approval(Box::new(old)))
            }
            ItemKind::Procedure => {
                let old = match new {
                    Some(Item::Procedure(new)) => self.procedures.insert(Arc::clone(&key.id), new),
                    _ => self.procedures.remove(&key.id),
                };
                old.map(Item::Procedure)
            }
        }
    }

    /// An item at hand.
    pub(crate) fn get(&self, key: &ItemKey) -> Option<Item> {
        match key.kind {
            ItemKind::Policy => Some(Item::Policy((*self.policy).clone())),
            ItemKind::Lock => self.locks.by_id(&key.id).cloned().map(Item::Lock),
            ItemKind::Session => self.sessions.get(&key.id).cloned().map(Item::Session),
            ItemKind::Task => self.tasks.get(&TaskId::of_key(key)).cloned().map(Item::Task),
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

    /// When a running part of an item ends.
    pub(crate) fn deadline(&self, key: &ItemKey, part: u64) -> Option<Mono> {
        self.deadlines.get(&(key.clone(), part)).copied()
    }

    /// The soonest alarms, by clock.
    pub(crate) fn wake(&self) -> (Option<Timestamp>, Option<Mono>) {
        let stirred = self.tasks.is_stirred().then_some(Timestamp(0));
        let by_time = stirred.or_else(|| self.by_time.first().map(|(at, _)| *at));
        (by_time, self.by_deadline.first().map(|(at, _)| *at))
    }

    /// The first alarms that went off, soonest first.
    pub(crate) fn went_off(&self, now: Now, max: usize) -> Vec<Part> {
        let by_deadline = self.by_deadline.iter().take_while(|(at, _)| *at <= now.mono);
        let by_time = self.by_time.iter().take_while(|(at, _)| *at <= now.wall);
        by_deadline.map(|(_, part)| part).chain(by_time.map(|(_, part)| part)).take(max).cloned().collect()
    }

    fn stop(&mut self, key: &ItemKey, alarms: &[Alarm]) -> Vec<(u64, Mono)> {
        let mut stopped = Vec::new();
        for alarm in alarms {
            match alarm {
                Alarm::At { part, time } => {
                    self.by_time.remove(&(*time, (key.clone(), *part)));
                }
                Alarm::After { part, .. } => {
                    let running = (key.clone(), *part);
                    if let Some(deadline) = self.deadlines.remove(&running) {
                        self.by_deadline.remove(&(deadline, running));
                        stopped.push((*part, deadline));
                    }
                }
            }
        }
        stopped
    }

    fn start(&mut self, key: &ItemKey, alarms: &[Alarm], running: &[(u64, Mono)], now: Mono) {
        for alarm in alarms {
            match alarm {
                Alarm::At { part, time } => {
                    self.by_time.insert((*time, (key.clone(), *part)));
                }
                Alarm::After { part, length_ms } => {
                    let before = running.iter().find(|(other, _)| other == part);
                    let deadline = before.map_or(now.plus_ms(*length_ms), |(_, deadline)| *deadline);
                    self.run(key, *part, deadline);
                }
            }
        }
    }

    fn run(&mut self, key: &ItemKey, part: u64, deadline: Mono) {
        let running = (key.clone(), part);
        if let Some(old) = self.deadlines.insert(running.clone(), deadline) {
            self.by_deadline.remove(&(old, running.clone()));
        }
        self.by_deadline.insert((deadline, running));
    }
}

/// What an item was, with the deadlines of its running parts.
#[derive(Debug)]
pub(super) struct ItemBefore {
    key: ItemKey,
    item: Option<Item>,
    running: Vec<(u64, Mono)>,
    /// Whether it is a pool that was not there.
    new_pool: bool,
}

impl Working {
    /// The items at hand.
    pub(crate) fn items(&self) -> &Items {
        &self.items
    }

    /// The rules of the space.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.items.policy.rules
    }

    /// The policy that is in force.
    #[must_use]
    pub fn in_force(&self) -> &Arc<InForce> {
        &self.items.policy
    }

    /// Who subscribes to what.
    #[must_use]
    pub fn topics(&self) -> &Arc<Topics> {
        self.items.subscriptions.topics()
    }

    /// Who is let in.
    #[must_use]
    pub fn tokens(&self) -> &Arc<Tokens> {
        self.items.tokens.published()
    }

    /// Takes up an item as it was stored. What runs by the monotonic clock runs its full length again from now.
    pub fn load_item(&mut self, item: Item, now: Now) {
        match &item {
            _ if item.keep() == Keep::AtHand => drop(self.put_item(item, now.mono)),
            Item::Task(task) => self.load_over(task),
            _ => {}
        }
    }

    /// Puts the new state of an item in its place. A part that runs already keeps its deadline.
    pub(super) fn set_item(&mut self, item: &Item, now: Now) {
        let before = self.put_item(item.clone(), now.mono);
        self.journal.push(Undo::Item(Box::new(before)));
        if let Item::Session(session) = item {
            self.hold_or_release(session.number);
        }
        if let Item::Task(task) = item {
            self.note_task(task);
        }
        if let Item::Pool(pool) = item {
            self.requeue_takers(pool);
        }
    }

    /// An item at hand.
    #[must_use]
    pub fn item(&self, key: &ItemKey) -> Option<Item> {
        self.items.get(key)
    }

    fn put_item(&mut self, item: Item, now: Mono) -> ItemBefore {
        let key = item.key();
        let alarms = item.alarms();
        let pools = self.pools.len();
        if let Item::Pool(pool) = &item {
            self.put_pool(pool);
        }
        let old = self.items.place(&key, (item.keep() == Keep::AtHand).then_some(item));
        let running = match &old {
            Some(old) => self.items.stop(&key, &old.alarms()),
            None => Vec::new(),
        };
        self.items.start(&key, &alarms, &running, now);
        ItemBefore { key, item: old, running, new_pool: self.pools.len() > pools }
    }

    pub(super) fn put_back(&mut self, before: ItemBefore) {
        let ItemBefore { key, item, running, new_pool } = before;
        if new_pool {
            self.take_pool_back();
        }
        let alarms = item.as_ref().map(Item::alarms).unwrap_or_default();
        if let Some(new) = self.items.place(&key, item) {
            self.items.stop(&key, &new.alarms());
        }
        self.items.start(&key, &alarms, &running, Mono(0));
    }

    /// Starts a running part of an item anew. Leaves no record: after a restart it runs its full length anyway.
    pub(crate) fn prolong_item(&mut self, key: &ItemKey, part: u64, length_ms: u64, now: Now) {
        let Some(before) = self.items.deadlines.get(&(key.clone(), part)).copied() else { return };
        self.journal.push(Undo::Deadline(Box::new((key.clone(), part, before))));
        self.items.run(key, part, now.mono.plus_ms(length_ms));
    }

    pub(super) fn put_deadline_back(&mut self, key: &ItemKey, part: u64, deadline: Mono) {
        self.items.run(key, part, deadline);
    }
}
