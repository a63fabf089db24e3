//! Cache of the messages that are likely to cause others: those that were delivered last.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorate_core::{Cause, ClientId, DeliveryId, Message, MessageId, SpaceNo};

/// Number of cached messages, and of cached deliveries, over all spaces.
const CACHED_MAX: usize = 16_384;
/// Messages to more recipients are not cached, which limits the cache to about 30 MB.
const RECIPIENTS_MAX: usize = 8;

/// A map that drops its oldest entry when it is full.
struct BoundedMap<K> {
    entries: HashMap<K, Arc<Cause>>,
    /// Oldest first.
    order: VecDeque<K>,
}

impl<K> Default for BoundedMap<K> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> BoundedMap<K> {
    /// Inserts an entry, unless there is one. Returns the cause that was dropped for it.
    fn insert(&mut self, key: K, cause: &Arc<Cause>) -> Option<Arc<Cause>> {
        if self.entries.contains_key(&key) {
            return None;
        }
        self.entries.insert(key, Arc::clone(cause));
        self.order.push_back(key);
        let oldest = (self.order.len() > CACHED_MAX).then(|| self.order.pop_front()).flatten();
        oldest.and_then(|oldest| self.entries.remove(&oldest))
    }
}

#[derive(Default)]
struct Cache {
    by_id: BoundedMap<(SpaceNo, MessageId)>,
    by_delivery: BoundedMap<(SpaceNo, DeliveryId)>,
    by_client_id: HashMap<(SpaceNo, ClientId), MessageId>,
}

#[derive(Default)]
pub(crate) struct CauseCache(Mutex<Cache>);

impl CauseCache {
    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message that is being delivered, and returns it as the cause of what acks the delivery.
    pub(crate) fn insert(
        &self,
        space: SpaceNo,
        id: MessageId,
        delivery: Option<DeliveryId>,
        message: &Message,
    ) -> Arc<Cause> {
        // Messages with many recipients are read from the log when another message names them as its cause.
        let has_many_recipients = message.to.agents().len() > RECIPIENTS_MAX;
        let mut cache = self.lock();
        let known = cache.by_id.entries.get(&(space, id)).cloned();
        let cause = match &known {
            Some(cause) => Arc::clone(cause),
            None if has_many_recipients => Arc::new(Cause::without_recipients(Some(id), message)),
            None => Arc::new(Cause::from_message(Some(id), message)),
        };
        if let Some(delivery) = delivery {
            cache.by_delivery.insert((space, delivery), &cause);
        }
        if known.is_none() && !has_many_recipients {
            if let Some(client_id) = &message.client_id {
                cache.by_client_id.insert((space, client_id.clone()), id);
            }
            let dropped = cache.by_id.insert((space, id), &cause);
            if let Some(client_id) = dropped.as_ref().and_then(|dropped| dropped.client_id()) {
                cache.by_client_id.remove(&(space, client_id.clone()));
            }
        }
        cause
    }

    pub(crate) fn of_message(&self, space: SpaceNo, id: MessageId) -> Option<Arc<Cause>> {
        self.lock().by_id.entries.get(&(space, id)).cloned()
    }

    pub(crate) fn of_client_id(&self, space: SpaceNo, client_id: &ClientId) -> Option<Arc<Cause>> {
        let cache = self.lock();
        let id = *cache.by_client_id.get(&(space, client_id.clone()))?;
        cache.by_id.entries.get(&(space, id)).cloned()
    }

    /// Returns the message of a delivery. Its recipients may be missing.
    pub(crate) fn of_delivery(&self, space: SpaceNo, delivery: DeliveryId) -> Option<Arc<Cause>> {
        self.lock().by_delivery.entries.get(&(space, delivery)).cloned()
    }
}
