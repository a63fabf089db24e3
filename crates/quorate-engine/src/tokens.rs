//! Tokens as callers see them. A secret is drawn here, handed to whoever asked, and kept nowhere.

use std::sync::Arc;

use quorate_core::{
    Bearer, Commit, CreateToken, Op, OpResult, Principal, Secret, Timestamp, TokenId, TokenName, Tokens,
};
use quorate_store::StoreError;

use crate::engine::Engine;
use crate::error::Error;
use crate::space::Space;

impl Engine {
    /// Sixteen random bytes: for what a door gives out and keeps in memory only.
    #[must_use]
    pub fn draw_sixteen(&self) -> [u8; 16] {
        self.chance.sixteen()
    }
}

impl Space {
    /// A secret that nobody has: for a token that is made together with something else, in one commit.
    #[must_use]
    pub fn draw_secret(&self) -> Secret {
        Secret::of_random(self.engine().chance.thirty_two())
    }

    /// Makes a token. The secret cannot be had a second time.
    ///
    /// # Errors
    /// `FORBIDDEN` for whoever may not, another refusal, or a failure of the storage.
    pub async fn create_token(
        &self,
        principal: &Principal,
        bearer: Bearer,
        name: TokenName,
        expires_at: Option<Timestamp>,
    ) -> Result<(TokenId, Secret), Error> {
        let secret = self.draw_secret();
        let new = CreateToken { digest: secret.digest(), bearer, name, expires_at };
        let receipt = self.commit(Commit::new(principal.clone(), vec![Op::CreateToken(new)])).await?;
        match receipt.results.first() {
            Some(OpResult::TokenCreated { id, .. }) => Ok((*id, secret)),
            _ => Err(StoreError::Read("the store gave another answer than asked for".into()).into()),
        }
    }

    /// Revokes a token: from now on it lets nobody in.
    ///
    /// # Errors
    /// `FORBIDDEN`, `NOT_FOUND`, or a failure of the storage.
    pub async fn revoke_token(&self, principal: &Principal, token: TokenId) -> Result<(), Error> {
        self.commit(Commit::new(principal.clone(), vec![Op::RevokeToken { token }])).await.map(drop)
    }

    /// Who is let in, after the last sync.
    #[must_use]
    pub fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.published().tokens)
    }
}
