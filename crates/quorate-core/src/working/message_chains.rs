//! Recent messages of message chains, for loop detection.
//!
//! A fixed-size window holds digests of the newest messages that were caused by another message, across all chains. A
//! busy space therefore looks back less far. A restart clears the window, so a loop may run a few more rounds; the hop
//! limit ends it in any case.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::iter;

use crate::limits::CHAIN_WINDOW;
use crate::message::Message;
use crate::working::{Map, Undo, WorkingState};

/// Digests of a message in the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digests {
    /// Of the fields that make two messages of a chain equal.
    content: u64,
    /// Also of the hop count, if the message names no cause. Such messages are counted once per hop count: the same
    /// message after several inputs of one chain, such as the jobs of a batch, is not a loop.
    hop: Option<u64>,
}

/// A sliding window of recent messages.
#[derive(Debug, Default)]
pub(super) struct RecentMessages {
    /// Digests, oldest first.
    recent: VecDeque<Digests>,
    /// Number of occurrences of each digest in the window.
    counts: Map<u64, u32>,
    /// Random hash key, so that a client cannot construct collisions.
    seed: foldhash::quality::RandomState,
}

impl RecentMessages {
    /// Returns the digests of a message that counts; `None` if it is in no chain, or was counted at this hop count.
    fn digests(&self, message: &Message) -> Option<Digests> {
        let chain = message.chain()?;
        let Message { from, to, action, payload, hops, .. } = message;
        let content = self.seed.hash_one((chain, from, to, action, &payload.bytes[..]));
        let names_cause = message.cause_ids().next().is_some();
        let hop = (!names_cause).then(|| self.seed.hash_one((content, hops)));
        let is_counted = hop.is_some_and(|hop| self.counts.contains_key(&hop));
        (!is_counted).then_some(Digests { content, hop })
    }

    fn decrement(&mut self, digests: Digests) {
        for digest in iter::once(digests.content).chain(digests.hop) {
            if let Some(count) = self.counts.get_mut(&digest) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&digest);
                }
            }
        }
    }

    fn increment(&mut self, digests: Digests) {
        for digest in iter::once(digests.content).chain(digests.hop) {
            *self.counts.entry(digest).or_default() += 1;
        }
    }

    /// Adds a message and returns the one that was evicted for it.
    fn push(&mut self, digests: Digests) -> Option<Digests> {
        self.recent.push_back(digests);
        self.increment(digests);
        let oldest = (self.recent.len() > CHAIN_WINDOW).then(|| self.recent.pop_front()).flatten();
        if let Some(oldest) = oldest {
            self.decrement(oldest);
        }
        oldest
    }

    /// Undoes a push: removes the newest message and restores the evicted one.
    pub(super) fn undo_push(&mut self, oldest: Option<Digests>) {
        if let Some(newest) = self.recent.pop_back() {
            self.decrement(newest);
        }
        if let Some(oldest) = oldest {
            self.recent.push_front(oldest);
            self.increment(oldest);
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
        let digests = self.chains.digests(message);
        digests.and_then(|digests| self.chains.counts.get(&digests.content)).copied().unwrap_or(0)
    }

    /// Adds a sent message to the window.
    pub(super) fn record_chain_message(&mut self, message: &Message) {
        if let Some(digests) = self.chains.digests(message) {
            let oldest = self.chains.push(digests);
            self.journal.push(Undo::Chain(oldest));
        }
    }
}
