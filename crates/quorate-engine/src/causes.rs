//! Causes of messages, resolved on the caller's thread before the commit is submitted, so that the writer performs no
//! reads for them. Recently delivered messages are cached; any other cause costs one read of the log.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::limits::OPS_MAX;
use quorate_core::{Cause, ClientId, Commit, Fingerprint, Message, MessageId, Op, SendRequest, SpaceNo};
use quorate_store::{ReadQuery, ReadResult, StoreError, StoredMessage};

use crate::error::Error;
use crate::space::Space;

/// Number of cached messages over all spaces.
const CACHED_MAX: usize = 16_384;
/// Messages to more recipients are not cached, which limits the cache to about 30 MB.
const RECIPIENTS_MAX: usize = 8;

#[derive(Default)]
struct Cache {
    by_id: HashMap<(SpaceNo, MessageId), Cause>,
    by_client_id: HashMap<(SpaceNo, ClientId), MessageId>,
    /// Oldest first.
    order: VecDeque<(SpaceNo, MessageId, Option<ClientId>)>,
}

/// Cache of messages that are likely to cause others.
#[derive(Default)]
pub(crate) struct CauseCache(Mutex<Cache>);

impl CauseCache {
    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message that is being delivered.
    pub(crate) fn insert(&self, space: SpaceNo, id: MessageId, message: &Message) {
        // Messages with many recipients are not cached: they are read from the log when needed.
        if message.to.agents().len() > RECIPIENTS_MAX {
            return;
        }
        let mut cache = self.lock();
        if cache.by_id.contains_key(&(space, id)) {
            return;
        }
        cache.by_id.insert((space, id), Cause::from_message(Some(id), message));
        if let Some(client_id) = &message.client_id {
            cache.by_client_id.insert((space, client_id.clone()), id);
        }
        cache.order.push_back((space, id, message.client_id.clone()));
        if cache.order.len() > CACHED_MAX
            && let Some((space, id, client_id)) = cache.order.pop_front()
        {
            cache.by_id.remove(&(space, id));
            client_id.and_then(|client_id| cache.by_client_id.remove(&(space, client_id)));
        }
    }

    fn find(&self, space: SpaceNo, name: &MessageName) -> Option<Cause> {
        let cache = self.lock();
        let id = match name {
            MessageName::Assigned(id) => *id,
            MessageName::Client(client_id) => *cache.by_client_id.get(&(space, client_id.clone()))?,
        };
        cache.by_id.get(&(space, id)).cloned()
    }
}

/// Reference to a message: the ID of the hub or a client-assigned one.
enum MessageName {
    Assigned(MessageId),
    Client(ClientId),
}

impl MessageName {
    /// Parses a reference; `None` if no message in the log can have this ID.
    fn parse(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(id) => Some(Self::Assigned(id)),
            // Ephemeral messages are not stored.
            Err(_) if text.starts_with("eph_") => None,
            Err(_) => ClientId::new(text).ok().map(Self::Client),
        }
    }
}

impl Space {
    /// Propagates hop count, chain and budget from the causes to the messages of a commit. Unknown causes are
    /// ignored.
    pub(crate) async fn propagate_causes(&self, commit: &mut Commit) -> Result<(), Error> {
        let has_cause = |op: &Op| message_of(op).is_some_and(|message| message.cause_ids().next().is_some());
        // Commits that are too long are rejected by admission anyway.
        if commit.ops.len() > OPS_MAX || !commit.ops.iter().any(has_cause) {
            return Ok(());
        }
        let mut earlier: HashMap<ClientId, Cause> = HashMap::new();
        for op in &mut commit.ops {
            let Some(message) = message_of(op) else { continue };
            if let Some(cause) = self.cause_of(message, &earlier).await?
                && let Some(updated) = cause.propagate_to(message)
            {
                replace(op, updated);
            }
            if let Some(message) = message_of(op)
                && let Some(client_id) = &message.client_id
            {
                earlier.insert(client_id.clone(), Cause::from_message(None, message));
            }
        }
        Ok(())
    }

    /// Loads the cause of a message into the cache. Returns whether a commit with this message can be submitted
    /// without a read; false if its cause does not exist or is not cacheable.
    pub async fn preload_cause(&self, message: &Message) -> bool {
        // An error here occurs again in the commit and is reported there.
        drop(self.cause_of(message, &HashMap::new()).await);
        let first = message.cause_ids().find_map(MessageName::parse);
        first.is_none_or(|name| self.engine().causes.find(self.number(), &name).is_some())
    }

    /// Returns the cause of a message: its causation ID, otherwise the message that it answers.
    async fn cause_of(
        &self,
        message: &Message,
        earlier: &HashMap<ClientId, Cause>,
    ) -> Result<Option<Cause>, Error> {
        for name in message.cause_ids().filter_map(MessageName::parse) {
            // Some clients set the causation ID of a root message to its own ID.
            if matches!((&name, &message.client_id), (MessageName::Client(name), Some(own)) if name == own) {
                continue;
            }
            // Messages of the same commit take precedence over the log, so that a retry resolves the same cause.
            if let MessageName::Client(client_id) = &name
                && let Some(cause) = earlier.get(client_id)
            {
                return Ok(Some(cause.clone()));
            }
            if let Some(cause) = self.find_cause(&name).await? {
                return Ok(Some(cause));
            }
        }
        Ok(None)
    }

    async fn find_cause(&self, name: &MessageName) -> Result<Option<Cause>, Error> {
        let causes = &self.engine().causes;
        if let Some(cause) = causes.find(self.number(), name) {
            return Ok(Some(cause));
        }
        let read = match name {
            // ID of an earlier generation, replaced by a restore.
            MessageName::Assigned(id) if self.published().generations.at_seq(id.seq) != id.generation => {
                return Ok(None);
            }
            MessageName::Assigned(MessageId { seq, n, .. }) => ReadQuery::Message { seq: *seq, n: *n },
            MessageName::Client(client_id) => ReadQuery::MessageByClientId(client_id.clone()),
        };
        let StoredMessage { seq, n, message, .. } = match self.read_one(read).await {
            Ok(ReadResult::Message(Some(stored))) => stored,
            Ok(_) | Err(Error::Store(StoreError::Corrupt(_))) => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = self.published().generations.message_id(seq, n);
        causes.insert(self.number(), id, &message);
        Ok(Some(Cause::from_message(Some(id), &message)))
    }
}

fn message_of(op: &Op) -> Option<&Message> {
    match op {
        Op::Send { message, .. } => Some(message),
        Op::Request(request) => Some(&request.message),
        _ => None,
    }
}

/// Replaces the message of an operation. The fingerprint covers the stored message, so that it can be recomputed from
/// the log; the fingerprint of the original is retained too, because a retry may resolve to a different cause.
fn replace(op: &mut Op, updated: Message) {
    let mut new = match op {
        Op::Send { .. } => Op::send(updated),
        Op::Request(request) => Op::Request(request.with_message(updated)),
        _ => return,
    };
    if let (Some(original), Some(stored)) = (fingerprint_of(op), fingerprint_of(&mut new)) {
        *stored = mem::take(stored).with_original(mem::take(original));
    }
    *op = new;
}

fn fingerprint_of(op: &mut Op) -> Option<&mut Fingerprint> {
    match op {
        Op::Send { fingerprint, .. } | Op::Request(SendRequest { fingerprint, .. }) => Some(fingerprint),
        _ => None,
    }
}
