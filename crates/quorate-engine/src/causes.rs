//! Causes of messages, resolved on the caller's thread before the commit is submitted, so that the writer performs no
//! reads for them: the messages that they name, and those that their commit acks. Recently delivered messages are cached;
//! any other cause costs one read of the log.

mod cache;

use std::collections::HashMap;
use std::sync::Arc;

use quorate_core::limits::OPS_MAX;
use quorate_core::{Cause, Causes, ClientId, Commit, DeliveryId, Message, MessageId, Op};
use quorate_store::{ReadQuery, ReadResult, StoreError, StoredMessage};

use crate::error::Error;
use crate::space::Space;
pub(crate) use cache::CauseCache;

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
        // Commits that are too long are rejected by admission anyway.
        if commit.ops.len() > OPS_MAX || !commit.ops.iter().any(|op| message_of(op).is_some()) {
            return Ok(());
        }
        let acked = self.acked_messages(&commit.ops).await?;
        let names_cause =
            |op: &Op| message_of(op).is_some_and(|message| message.cause_ids().next().is_some());
        if acked.is_empty() && !commit.ops.iter().any(names_cause) {
            return Ok(());
        }
        let now = self.engine().clock().now().wall;
        let mut earlier: HashMap<ClientId, Arc<Cause>> = HashMap::new();
        for op in &mut commit.ops {
            let Some(message) = message_of(op) else { continue };
            if !message.starts_chain(now) {
                let named = self.cause_of(message, &earlier).await?;
                let causes = Causes { named: named.as_deref(), acked: &acked };
                op.add_to_message(|message| causes.propagate_to(message));
            }
            if let Some(message) = message_of(op)
                && let Some(client_id) = &message.client_id
            {
                earlier.insert(client_id.clone(), Arc::new(Cause::from_message(None, message)));
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
        first.is_none_or(|name| self.cached_cause(&name).is_some())
    }

    /// Returns the messages whose deliveries the operations ack. Whether the acks are valid is decided with the commit.
    async fn acked_messages(&self, ops: &[Op]) -> Result<Vec<Arc<Cause>>, Error> {
        let acks = ops.iter().filter(|op| matches!(op, Op::Ack(_) | Op::AckMany(_)));
        let mut deliveries: Vec<_> = acks.flat_map(Op::ended_leases).map(|lease| lease.delivery).collect();
        deliveries.sort_unstable();
        deliveries.dedup();
        let mut acked = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let cached = self.engine().causes.of_delivery(self.number(), delivery);
            acked.extend(match cached {
                Some(cause) => Some(cause),
                None => self.read_message_of(delivery).await?,
            });
        }
        Ok(acked)
    }

    async fn read_message_of(&self, delivery: DeliveryId) -> Result<Option<Arc<Cause>>, Error> {
        let number = self.published().generations.resolve(delivery);
        // An unknown delivery is refused with the commit.
        let Ok(number) = number else { return Ok(None) };
        let Some((id, message)) = self.read_cause(ReadQuery::MessageOfDelivery(number)).await? else {
            return Ok(None);
        };
        Ok(Some(self.engine().causes.insert(self.number(), id, Some(delivery), &message)))
    }

    /// Returns the cause that a message names: its causation ID, otherwise the message that it answers.
    async fn cause_of(
        &self,
        message: &Message,
        earlier: &HashMap<ClientId, Arc<Cause>>,
    ) -> Result<Option<Arc<Cause>>, Error> {
        for name in message.cause_ids().filter_map(MessageName::parse) {
            // Some clients set the causation ID of a root message to its own ID.
            if matches!((&name, &message.client_id), (MessageName::Client(name), Some(own)) if name == own) {
                continue;
            }
            // Messages of the same commit take precedence over the log, so that a retry resolves the same cause.
            if let MessageName::Client(client_id) = &name
                && let Some(cause) = earlier.get(client_id)
            {
                return Ok(Some(Arc::clone(cause)));
            }
            if let Some(cause) = self.find_cause(&name).await? {
                return Ok(Some(cause));
            }
        }
        Ok(None)
    }

    fn cached_cause(&self, name: &MessageName) -> Option<Arc<Cause>> {
        let (causes, space) = (&self.engine().causes, self.number());
        match name {
            MessageName::Assigned(id) => causes.of_message(space, *id),
            MessageName::Client(client_id) => causes.of_client_id(space, client_id),
        }
    }

    async fn find_cause(&self, name: &MessageName) -> Result<Option<Arc<Cause>>, Error> {
        if let Some(cause) = self.cached_cause(name) {
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
        let Some((id, message)) = self.read_cause(read).await? else { return Ok(None) };
        self.engine().causes.insert(self.number(), id, None, &message);
        Ok(Some(Arc::new(Cause::from_message(Some(id), &message))))
    }

    /// Reads a message of the log; `None` if there is none, or it is damaged.
    async fn read_cause(&self, read: ReadQuery) -> Result<Option<(MessageId, Arc<Message>)>, Error> {
        match self.read_one(read).await {
            Ok(ReadResult::Message(Some(StoredMessage { seq, n, message, .. }))) => {
                Ok(Some((self.published().generations.message_id(seq, n), message)))
            }
            Ok(_) | Err(Error::Store(StoreError::Corrupt(_))) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn message_of(op: &Op) -> Option<&Message> {
    match op {
        Op::Send { message, .. } => Some(message),
        Op::Request(request) => Some(&request.message),
        _ => None,
    }
}
