//! Access tokens. A secret is generated here, returned to the caller, and stored nowhere.

use std::sync::Arc;

use quorate_core::{
    AccessTokens, Bearer, Commit, CreateToken, Grants, Op, OpResult, Principal, Secret, Timestamp, TokenId,
    TokenName,
};
use quorate_store::StoreError;

use crate::engine::Engine;
use crate::error::Error;
use crate::space::Space;

impl Engine {
    /// Generates sixteen random bytes, for identifiers that are held in memory only.
    #[must_use]
    pub fn random_16(&self) -> [u8; 16] {
        self.entropy.bytes_16()
    }
}

impl Space {
    /// Generates a secret, for a token that is created together with other operations in one commit.
    #[must_use]
    pub fn generate_secret(&self) -> Secret {
        Secret::from_random(self.engine().entropy.bytes_32())
    }

    /// Creates an access token. `grants` are those of an agent. The secret cannot be retrieved again.
    ///
    /// # Errors
    /// `FORBIDDEN` without permission, another refusal, or a storage failure.
    pub async fn create_token(
        &self,
        principal: &Principal,
        bearer: Bearer,
        name: TokenName,
        expires_at: Option<Timestamp>,
        grants: Grants,
    ) -> Result<(TokenId, Secret), Error> {
        let secret = self.generate_secret();
        let create = CreateToken { digest: secret.digest(), bearer, name, expires_at, parent: None, grants };
        let receipt = self.commit(Commit::new(principal.clone(), vec![Op::CreateToken(create)])).await?;
        match receipt.results.first() {
            Some(OpResult::TokenCreated { id, .. }) => Ok((*id, secret)),
            _ => Err(StoreError::Read("unexpected result of a token operation".into()).into()),
        }
    }

    /// Revokes an access token.
    ///
    /// # Errors
    /// `FORBIDDEN`, `NOT_FOUND`, or a storage failure.
    pub async fn revoke_token(&self, principal: &Principal, token: TokenId) -> Result<(), Error> {
        self.commit(Commit::new(principal.clone(), vec![Op::RevokeToken { token }])).await.map(drop)
    }

    /// Returns the valid access tokens, as of the last durable batch.
    #[must_use]
    pub fn tokens(&self) -> Arc<AccessTokens> {
        Arc::clone(&self.published().tokens)
    }
}
