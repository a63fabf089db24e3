//! Access tokens: creation, revocation and expiry. Permissions are checked in `permissions.rs`.

use std::sync::Arc;

use crate::access_token::{AccessToken, Bearer, CreateToken, TokenState};
use crate::commit::OpResult;
use crate::decide::Draft;
use crate::effect::Effect;
use crate::grants::Grants;
use crate::ids::{AgentId, TokenId};
use crate::item::{Item, ItemKey, Verb};
use crate::limits::{TOKENS_MAX, WEB_SESSIONS_PER_TOKEN_MAX};
use crate::refused::{Code, Refused};

impl Draft<'_> {
    pub(super) fn create_token(&mut self, new: &CreateToken) -> Result<OpResult, Refused> {
        if let Bearer::Agent(agent) = &new.bearer {
            self.require_agent(agent)?;
        }
        if new.expires_at.is_some_and(|at| at <= self.now.wall) {
            return Err(Refused::new(Code::Invalid, "the expiry time of the token is in the past")
                .hint("send a time in the future, or omit it for a token that does not expire"));
        }
        let tokens = self.working.tokens();
        if tokens.contains(&new.digest) {
            return Err(Refused::new(Code::Duplicate, "a token with this secret already exists")
                .hint("generate a new secret for each token"));
        }
        if tokens.len() >= TOKENS_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                "the space has reached its maximum number of access tokens",
            )
            .limit(TOKENS_MAX as u64)
            .retryable()
            .hint("revoke unused tokens"));
        }
        if let Some(parent) = new.parent {
            if self.require_token(parent)?.parent.is_some() {
                return Err(Refused::new(Code::Forbidden, "a web session cannot create another one")
                    .hint("use the access token that you signed in with"));
            }
            let sessions = self.working.items().tokens.web_sessions_of(parent);
            let excess = (sessions.len() + 1).saturating_sub(WEB_SESSIONS_PER_TOKEN_MAX);
            sessions.iter().take(excess).for_each(|oldest| self.end_token(Verb::TokenRevoked, oldest));
        }
        let id = self.next_token_id();
        let token = AccessToken {
            id,
            digest: new.digest,
            bearer: new.bearer.clone(),
            name: new.name.clone(),
            expires_at: new.expires_at,
            created_by: self.commit.principal.to_text(),
            created_at: self.now.wall,
            state: TokenState::Active,
            parent: new.parent,
            grants: self.recorded_grants(new),
        };
        self.change_item(Verb::TokenCreated, Item::Token(Arc::new(token)));
        Ok(OpResult::TokenCreated { id, digest: new.digest })
    }

    /// Returns the grants to record: those that were requested, completed from the registration of the agent.
    fn recorded_grants(&self, new: &CreateToken) -> Grants {
        match new.bearer.agent().and_then(|agent| self.working.agents().by_id(agent)) {
            Some(agent) => new.grants.completed(self.working.policy(), agent),
            None => Grants::default(),
        }
    }

    pub(super) fn revoke_token(&mut self, id: TokenId) -> Result<OpResult, Refused> {
        let token = self.require_token(id)?;
        self.end_token(Verb::TokenRevoked, &token);
        Ok(OpResult::Done)
    }

    fn require_token(&self, id: TokenId) -> Result<Arc<AccessToken>, Refused> {
        self.working.items().tokens.get(&id.to_string()).cloned().ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no token {id}"))
                .hint("it may have been revoked or have expired; list the tokens")
        })
    }

    /// Revokes all tokens of an agent that is being removed.
    pub(super) fn revoke_tokens_of(&mut self, agent: &AgentId) {
        for token in self.working.items().tokens.of_agent(agent) {
            self.end_token(Verb::TokenRevoked, &token);
        }
    }

    /// Expires a token. Authentication has refused it since its expiry time.
    pub(super) fn expire_token(&mut self, key: &ItemKey) {
        if let Some(token) = self.working.items().tokens.get(&key.id).cloned() {
            self.end_token(Verb::TokenExpired, &token);
        }
    }

    /// Ends a token and the web sessions that were created with it.
    fn end_token(&mut self, verb: Verb, token: &AccessToken) {
        let ended = AccessToken { state: TokenState::Ended, ..token.clone() };
        self.change_item(verb, Item::Token(Arc::new(ended)));
        for session in self.working.items().tokens.web_sessions_of(token.id) {
            self.end_token(verb, &session);
        }
    }

    fn next_token_id(&self) -> TokenId {
        let created = |effect: &&Effect| matches!(effect, Effect::Changed { verb: Verb::TokenCreated, .. });
        let n = self.effects.iter().filter(created).count() as u32;
        TokenId { generation: self.working.head.generation, seq: self.seq, n }
    }
}
