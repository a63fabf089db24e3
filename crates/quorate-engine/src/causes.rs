//! What led to a message: found on the caller's thread, before the commit goes in, so that the writer reads nothing for it.
//! What was handed out of late is known by heart; anything else is one read of the log.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::limits::OPS_MAX;
use quorate_core::{Ask, Cause, ClientId, Commit, Fingerprint, Message, MessageId, Op, SpaceNo};
use quorate_store::{Read, Rows, StoreError, StoredMessage};

use crate::error::Error;
use crate::space::Space;

/// Messages that are known by heart, over all spaces.
const KNOWN_MAX: usize = 16_384;
/// Recipients of each that are named: what is known by heart takes some 30 MB at the most.
const RECIPIENTS_MAX: usize = 8;

#[derive(Default)]
struct Known {
    by_id: HashMap<(SpaceNo, MessageId), Cause>,
    by_client_id: HashMap<(SpaceNo, ClientId), MessageId>,
    /// The oldest first.
    order: VecDeque<(SpaceNo, MessageId, Option<ClientId>)>,
}

/// Messages that are likely to lead to others.
#[derive(Default)]
pub(crate) struct Causes(Mutex<Known>);

impl Causes {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message is on its way to somebody who may act upon it.
    pub(crate) fn note(&self, space: SpaceNo, id: MessageId, message: &Message) {
        // A long list of recipients is not learnt by heart: it is looked up if anybody needs it.
        if message.to.agents().len() > RECIPIENTS_MAX {
            return;
        }
        let mut known = self.lock();
        if known.by_id.contains_key(&(space, id)) {
            return;
        }
        known.by_id.insert((space, id), Cause::of(Some(id), message));
        if let Some(client_id) = &message.client_id {
            known.by_client_id.insert((space, client_id.clone()), id);
        }
        known.order.push_back((space, id, message.client_id.clone()));
        if known.order.len() > KNOWN_MAX
            && let Some((space, id, client_id)) = known.order.pop_front()
        {
            known.by_id.remove(&(space, id));
            client_id.and_then(|client_id| known.by_client_id.remove(&(space, client_id)));
        }
    }

    fn find(&self, space: SpaceNo, name: &Name) -> Option<Cause> {
        let known = self.lock();
        let id = match name {
            Name::Ours(id) => *id,
            Name::Theirs(client_id) => *known.by_client_id.get(&(space, client_id.clone()))?,
        };
        known.by_id.get(&(space, id)).cloned()
    }
}

/// What a message may be called: the hub's id or its client's.
enum Name {
    Ours(MessageId),
    Theirs(ClientId),
}

impl Name {
    /// `None` for what no message of the log is called.
    fn read(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(id) => Some(Self::Ours(id)),
            // Of what lives in memory only nothing is kept.
            Err(_) if text.starts_with("eph_") => None,
            Err(_) => ClientId::new(text).ok().map(Self::Theirs),
        }
    }
}

impl Space {
    /// Lets the messages of a commit go on with the chains of what they say led to them: hops, chain and budget. A cause
    /// that is not there is the sender's affair.
    pub(crate) async fn continue_chains(&self, commit: &mut Commit) -> Result<(), Error> {
        let names_one = |op: &Op| message_of(op).is_some_and(|message| message.causes().next().is_some());
        // What is too long is refused at the door, and not worth a look.
        if commit.ops.len() > OPS_MAX || !commit.ops.iter().any(names_one) {
            return Ok(());
        }
        let mut here: HashMap<ClientId, Cause> = HashMap::new();
        for op in &mut commit.ops {
            let Some(message) = message_of(op) else { continue };
            if let Some(cause) = self.cause_of(message, &here).await?
                && let Some(led) = cause.led_to(message)
            {
                replace(op, led);
            }
            if let Some(message) = message_of(op)
                && let Some(client_id) = &message.client_id
            {
                here.insert(client_id.clone(), Cause::of(None, message));
            }
        }
        Ok(())
    }

    /// Brings to mind what led to a message. Says whether a commit with it goes to the head without a wait: not if it names
    /// what is not there or is not kept in mind, which is looked for again.
    pub async fn recall_cause(&self, message: &Message) -> bool {
        // What fails here fails again in the commit, and is told there.
        drop(self.cause_of(message, &HashMap::new()).await);
        let first = message.causes().find_map(Name::read);
        first.is_none_or(|name| self.engine().causes.find(self.number(), &name).is_some())
    }

    /// What led to a message: what it says caused it, else what it answers.
    async fn cause_of(
        &self,
        message: &Message,
        here: &HashMap<ClientId, Cause>,
    ) -> Result<Option<Cause>, Error> {
        for name in message.causes().filter_map(Name::read) {
            // Some call what nothing led to its own cause.
            if matches!((&name, &message.client_id), (Name::Theirs(name), Some(own)) if name == own) {
                continue;
            }
            // Before what is in the log: said again, the same commit takes over the same.
            if let Name::Theirs(client_id) = &name
                && let Some(cause) = here.get(client_id)
            {
                return Ok(Some(cause.clone()));
            }
            if let Some(cause) = self.find_cause(&name).await? {
                return Ok(Some(cause));
            }
        }
        Ok(None)
    }

    async fn find_cause(&self, name: &Name) -> Result<Option<Cause>, Error> {
        let causes = &self.engine().causes;
        if let Some(cause) = causes.find(self.number(), name) {
            return Ok(Some(cause));
        }
        let what = match name {
            // An id of a history that a restore replaced.
            Name::Ours(id) if self.published().eras.of_seq(id.seq) != id.generation => return Ok(None),
            Name::Ours(MessageId { seq, n, .. }) => Read::Message { seq: *seq, n: *n },
            Name::Theirs(client_id) => Read::MessageByClientId(client_id.clone()),
        };
        let StoredMessage { seq, n, message, .. } = match self.read_one(what).await {
            Ok(Rows::Message(Some(stored))) => stored,
            Ok(_) | Err(Error::Store(StoreError::Damaged(_))) => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = self.published().eras.message_id(seq, n);
        causes.note(self.number(), id, &message);
        Ok(Some(Cause::of(Some(id), &message)))
    }
}

fn message_of(op: &Op) -> Option<&Message> {
    match op {
        Op::Send { message, .. } => Some(message),
        Op::Request(ask) => Some(&ask.message),
        _ => None,
    }
}

/// The fingerprint is one of what is written, so that it can be made again from the log; sent again, a message is known
/// by what its sender said, too, since its cause may have come in between.
fn replace(op: &mut Op, led: Message) {
    let mut new = match op {
        Op::Send { .. } => Op::send(led),
        Op::Request(Ask { timeout_ms, waiting, again, .. }) => {
            Op::Request(Ask { again: *again, ..Ask::new(led, *timeout_ms, *waiting) })
        }
        _ => return,
    };
    if let (Some(said), Some(written)) = (fingerprint_of(op), fingerprint_of(&mut new)) {
        *written = mem::take(written).of_what_was_said(mem::take(said));
    }
    *op = new;
}

fn fingerprint_of(op: &mut Op) -> Option<&mut Fingerprint> {
    match op {
        Op::Send { fingerprint, .. } | Op::Request(Ask { fingerprint, .. }) => Some(fingerprint),
        _ => None,
    }
}
