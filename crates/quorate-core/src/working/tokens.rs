//! Access tokens, indexed by the digest of their secret for authentication.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::access_token::{AccessToken, TokenDigest};
use crate::ids::{AgentId, Generation, Seq, TokenId};
use crate::time::Timestamp;
use crate::working::Map;

/// The valid access tokens of a space, as published to readers.
///
/// Tokens are looked up in a hash map by the SHA-256 of the secret. The lookup is not constant-time and need not be: a
/// secret has 256 random bits, so an attacker cannot choose a secret with a digest close to another one, and timing
/// information about a digest reveals nothing about the secret.
#[derive(Clone, Debug, Default)]
pub struct AccessTokens {
    by_digest: Map<TokenDigest, Arc<AccessToken>>,
}

/// The result of a token lookup by secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenLookup<'a> {
    /// The token is valid.
    Active(&'a Arc<AccessToken>),
    /// The token has expired.
    Expired(&'a Arc<AccessToken>),
    /// There is no such token, or it was revoked.
    Unknown,
}

impl AccessTokens {
    /// Looks up the token whose secret has this digest.
    #[must_use]
    pub fn find(&self, digest: &TokenDigest, now: Timestamp) -> TokenLookup<'_> {
        match self.by_digest.get(digest) {
            Some(token) if token.is_expired(now) => TokenLookup::Expired(token),
            Some(token) => TokenLookup::Active(token),
            None => TokenLookup::Unknown,
        }
    }

    /// Returns all tokens, oldest first. Sorts them: not for hot paths.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<AccessToken>> {
        let mut all: Vec<_> = self.by_digest.values().cloned().collect();
        all.sort_by_key(|token| token.id);
        all
    }

    /// Returns the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    pub(crate) fn contains(&self, digest: &TokenDigest) -> bool {
        self.by_digest.contains_key(digest)
    }
}

impl FromIterator<Arc<AccessToken>> for AccessTokens {
    fn from_iter<I: IntoIterator<Item = Arc<AccessToken>>>(tokens: I) -> Self {
        Self { by_digest: tokens.into_iter().map(|token| (token.digest, token)).collect() }
    }
}

/// All tokens, with the indexes that decisions use.
#[derive(Debug, Default)]
pub(crate) struct TokenIndex {
    published: Arc<AccessTokens>,
    by_id: BTreeMap<Arc<str>, Arc<AccessToken>>,
    by_agent: BTreeSet<(AgentId, Arc<str>)>,
    /// Each web session under the token that it was created with.
    by_parent: BTreeSet<(TokenId, TokenId)>,
}

impl TokenIndex {
    pub(crate) fn get(&self, id: &str) -> Option<&Arc<AccessToken>> {
        self.by_id.get(id)
    }

    pub(super) fn published(&self) -> &Arc<AccessTokens> {
        &self.published
    }

    /// Returns the tokens of an agent, oldest first.
    pub(crate) fn of_agent(&self, agent: &AgentId) -> Vec<Arc<AccessToken>> {
        let first = (agent.clone(), Arc::from(""));
        let own = self.by_agent.range(first..).take_while(|(other, _)| other == agent);
        let mut tokens: Vec<_> = own.filter_map(|(_, id)| self.by_id.get(id).cloned()).collect();
        tokens.sort_by_key(|token| token.id);
        tokens
    }

    /// Returns the web sessions that were created with a token, oldest first.
    pub(crate) fn web_sessions_of(&self, parent: TokenId) -> Vec<Arc<AccessToken>> {
        let first = TokenId { generation: Generation(0), seq: Seq(0), n: 0 };
        let own = self.by_parent.range((parent, first)..).take_while(|(other, _)| *other == parent);
        own.filter_map(|(_, id)| self.by_id.get(id.to_string().as_str()).cloned()).collect()
    }

    /// Replaces a token and returns the previous one.
    pub(super) fn replace(
        &mut self,
        id: &Arc<str>,
        new: Option<Arc<AccessToken>>,
    ) -> Option<Arc<AccessToken>> {
        let old = self.by_id.remove(id);
        // Copied once per batch that changes tokens, if a reader still holds the published version.
        let published = Arc::make_mut(&mut self.published);
        if let Some(old) = &old {
            published.by_digest.remove(&old.digest);
            old.bearer.agent().map(|agent| self.by_agent.remove(&(agent.clone(), Arc::clone(id))));
            old.parent.map(|parent| self.by_parent.remove(&(parent, old.id)));
        }
        if let Some(new) = new {
            published.by_digest.insert(new.digest, Arc::clone(&new));
            new.bearer.agent().map(|agent| self.by_agent.insert((agent.clone(), Arc::clone(id))));
            new.parent.map(|parent| self.by_parent.insert((parent, new.id)));
            self.by_id.insert(Arc::clone(id), new);
        }
        old
    }
}
