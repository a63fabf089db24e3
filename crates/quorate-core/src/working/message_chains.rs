//! Recent messages of message chains, for loop detection.
//!
//! A fixed-size window holds digests of the newest messages that were caused by another message, across all chains. A
//! busy space therefore looks back less far. A restart clears the window, so a loop may run a few more rounds; the hop
//! limit ends it in any case.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;

use crate::limits::CHAIN_WINDOW;
use crate::message::Message;
use crate::working::{Map, Undo, WorkingState};

/// A sliding window of recent messages.
#[derive(Debug, Default)]
pub(super) struct RecentMessages {
    /// Digests, oldest first.
    recent: VecDeque<u64>,
    /// Number of occurrences of each digest in the window.
    counts: Map<u64, u32>,
    /// Random hash key, so that a client cannot construct collisions.
    seed: foldhash::quality::RandomState,
}

impl RecentMessages {
    /// Returns a digest of the fields that make two messages of a chain equal; `None` if the message is in no chain.
    fn digest(&self, message: &Message) -> Option<u64> {
        let chain = message.chain()?;
        let Message { from, to, action, payload, .. } = message;
        Some(self.seed.hash_one((chain, from, to, action, &payload.bytes[..])))
    }

    fn decrement(&mut self, digest: u64) {
        if let Some(count) = self.counts.get_mut(&digest) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&digest);
            }
        }
    }

    /// Adds a message and returns the one that was evicted for it.
    fn push(&mut self, digest: u64) -> Option<u64> {
        self.recent.push_back(digest);
        *self.counts.entry(digest).or_default() += 1;
        let oldest = (self.recent.len() > CHAIN_WINDOW).then(|| self.recent.pop_front()).flatten();
        if let Some(oldest) = oldest {
            self.decrement(oldest);
        }
        oldest
    }

    /// Undoes a push: removes the newest message and restores the evicted one.
    pub(super) fn undo_push(&mut self, oldest: Option<u64>) {
        if let Some(newest) = self.recent.pop_back() {
            self.decrement(newest);
        }
        if let Some(oldest) = oldest {
            self.recent.push_front(oldest);
            *self.counts.entry(oldest).or_default() += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.recent.clear();
        self.counts.clear();
    }
}

impl WorkingState {
    /// Returns how often the same message was recently sent in its chain.
    pub(crate) fn repeats_in_chain(&self, message: &Message) -> u32 {
        let digest = self.chains.digest(message);
        digest.and_then(|digest| self.chains.counts.get(&digest)).copied().unwrap_or(0)
    }

    /// Adds a sent message to the window.
    pub(super) fn record_chain_message(&mut self, message: &Message) {
        if let Some(digest) = self.chains.digest(message) {
            let oldest = self.chains.push(digest);
            self.journal.push(Undo::Chain(oldest));
        }
    }
}
