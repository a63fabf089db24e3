//! What was sent lately in chains of messages, so that a chain that goes round in a circle is noticed.
//!
//! Kept are digests of the newest messages that another message led to, over all chains: a space where much happens looks
//! back less far. A restart forgets them, so a circle may go round twice more; the limit of hops ends it in any case.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;

use crate::limits::CHAIN_WINDOW;
use crate::message::Message;
use crate::working::{Map, Undo, Working};

/// The newest messages of chains.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// Digests, the oldest first.
    recent: VecDeque<u64>,
    /// How often each digest is in there.
    counts: Map<u64, u32>,
    /// A key of its own, so that nobody can make up messages that look the same.
    seed: foldhash::quality::RandomState,
}

impl Chains {
    /// A digest of what makes messages of a chain the same; `None` if it is in no chain.
    fn digest(&self, message: &Message) -> Option<u64> {
        let chain = message.chain()?;
        let Message { from, to, action, payload, .. } = message;
        Some(self.seed.hash_one((chain, from, to, action, &payload.bytes[..])))
    }

    fn forget(&mut self, digest: u64) {
        if let Some(count) = self.counts.get_mut(&digest) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&digest);
            }
        }
    }

    /// Takes note of a message, and says which one is forgotten for it.
    fn push(&mut self, digest: u64) -> Option<u64> {
        self.recent.push_back(digest);
        *self.counts.entry(digest).or_default() += 1;
        let oldest = (self.recent.len() > CHAIN_WINDOW).then(|| self.recent.pop_front()).flatten();
        if let Some(oldest) = oldest {
            self.forget(oldest);
        }
        oldest
    }

    /// Takes the newest one back, and puts the one in its place that was forgotten for it.
    pub(super) fn pop(&mut self, oldest: Option<u64>) {
        if let Some(newest) = self.recent.pop_back() {
            self.forget(newest);
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

impl Working {
    /// How often the same message was sent lately in its chain.
    pub(crate) fn sent_in_chain(&self, message: &Message) -> u32 {
        let digest = self.chains.digest(message);
        digest.and_then(|digest| self.chains.counts.get(&digest)).copied().unwrap_or(0)
    }

    /// Takes note of a message that was sent.
    pub(super) fn note_chain(&mut self, message: &Message) {
        if let Some(digest) = self.chains.digest(message) {
            let oldest = self.chains.push(digest);
            self.journal.push(Undo::Chain(oldest));
        }
    }
}
