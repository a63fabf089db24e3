//! Tokens: making them, and the ways in which they end. Who may is decided in `rights.rs`.

use std::sync::Arc;

use crate::commit::OpResult;
use crate::decide::Draft;
use crate::effect::Effect;
use crate::ids::{AgentId, TokenId};
use crate::item::{Item, ItemKey, Verb};
use crate::limits::TOKENS_MAX;
use crate::refused::{Code, Refused};
use crate::token::{AccessToken, Bearer, CreateToken, TokenState};

impl Draft<'_> {
    pub(super) fn create_token(&mut self, new: &CreateToken) -> Result<OpResult, Refused> {
        if let Bearer::Agent(agent) = &new.bearer {
            self.known(agent)?;
        }
        if new.expires_at.is_some_and(|at| at <= self.now.wall) {
            return Err(Refused::new(Code::Invalid, "the token would be expired from the start")
                .hint("give a time to come, or none for a token that does not expire"));
        }
        let tokens = self.working.tokens();
        if tokens.knows(&new.digest) {
            return Err(Refused::new(Code::Duplicate, "there is a token with this secret already")
                .hint("draw a new secret for each token"));
        }
        if tokens.len() >= TOKENS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the space has as many tokens as it may have")
                .limit(TOKENS_MAX as u64)
                .passes()
                .hint("revoke those that nobody uses"));
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
        };
        self.change(Verb::TokenCreated, Item::Token(Arc::new(token)));
        Ok(OpResult::TokenCreated { id, digest: new.digest })
    }

    pub(super) fn revoke_token(&mut self, id: TokenId) -> Result<OpResult, Refused> {
        let token = self.working.items().tokens.get(&id.to_string()).cloned();
        let token = token.ok_or_else(|| {
            Refused::new(Code::NotFound, format!("there is no token {id}"))
                .hint("it may be revoked or expired already; list the tokens")
        })?;
        self.end_token(Verb::TokenRevoked, &token);
        Ok(OpResult::Done)
    }

    /// Nobody comes in as an agent that is gone.
    pub(super) fn revoke_tokens_of(&mut self, agent: &AgentId) {
        for token in self.working.items().tokens.of(agent) {
            self.end_token(Verb::TokenRevoked, &token);
        }
    }

    /// The time of a token is over. The door has refused it since then.
    pub(super) fn expire_token(&mut self, key: &ItemKey) {
        if let Some(token) = self.working.items().tokens.get(&key.id).cloned() {
            self.end_token(Verb::TokenExpired, &token);
        }
    }

    fn end_token(&mut self, verb: Verb, token: &AccessToken) {
        let ended = AccessToken { state: TokenState::Ended, ..token.clone() };
        self.change(verb, Item::Token(Arc::new(ended)));
    }

    fn next_token_id(&self) -> TokenId {
        let made = |effect: &&Effect| matches!(effect, Effect::Changed { verb: Verb::TokenCreated, .. });
        let n = self.effects.iter().filter(made).count() as u32;
        TokenId { generation: self.working.head.generation, seq: self.seq, n }
    }
}
