//! Statements about access tokens, and their rendering.

use std::sync::Arc;

use quorate_core::{
    AccessTokens, Bearer, CreateToken, Op, Principal, Secret, TokenDigest, TokenId, TokenLookup, TokenRole,
    TokenState, limits,
};
use quorate_store::Store as _;

use super::parse::{Words, agent_id, duration_ms};
use super::render::since_start;
use super::runner::ScriptRunner;

/// Returns the role if the principal is named after one, such as `admin`.
pub(super) fn token_role(name: &str) -> Option<TokenRole> {
    TokenRole::ALL.iter().copied().find(|role| role.as_str() == name)
}

/// Returns the holder of a token with this role.
pub(super) fn holder(role: TokenRole) -> Principal {
    Principal::Holder { role, name: "desk".parse().expect("valid token name") }
}

/// Returns the digest of the secret that belongs to a token name.
fn digest(name: &str) -> TokenDigest {
    let mut bits = [0; 32];
    bits.iter_mut().zip(name.bytes()).for_each(|(bit, byte)| *bit = byte);
    Secret::from_random(bits).digest()
}

impl ScriptRunner {
    /// Parses `creates T for A` or `creates T as ROLE`, then `[until T] [secret T]`.
    pub(super) fn parse_create_token(&self, words: &mut Words<'_>) -> Op {
        let name = words.require("a name for the token");
        let bearer = match (words.option("for"), words.option("as")) {
            (Some(name), None) => Bearer::Agent(agent_id(name)),
            (None, Some(word)) => Bearer::Holder(token_role(word).expect("a role")),
            _ => panic!("{name}: expected either `for AGENT` or `as ROLE`"),
        };
        let expires_at = words.option("until").map(|time| self.now().plus_ms(duration_ms(time)));
        let digest = digest(words.option("secret").unwrap_or(name));
        Op::CreateToken(CreateToken {
            digest,
            bearer,
            name: name.parse().expect("valid token name"),
            expires_at,
            parent: None,
        })
    }

    /// Parses `revokes T` or `revokes tok_0-3-0`.
    pub(super) fn parse_revoke_token(&self, words: &mut Words<'_>) -> Op {
        let name = words.require("a token");
        let found = self.tokens().list().into_iter().find(|token| token.name.as_str() == name);
        let id = found.map(|token| token.id).or_else(|| name.parse::<TokenId>().ok());
        Op::RevokeToken { token: id.unwrap_or_else(|| panic!("unknown token: {name}")) }
    }

    fn tokens(&self) -> Arc<AccessTokens> {
        let published = self.store().published(self.space()).expect("space exists");
        let state = published.borrow();
        Arc::clone(&state.tokens)
    }

    /// Renders all active tokens (`tokens`).
    pub(super) fn render_tokens(&mut self) {
        let tokens = self.tokens().list();
        let lines = tokens.iter().map(|token| {
            assert_eq!(token.state, TokenState::Active, "published tokens are active");
            let until = token.expires_at.map_or(String::new(), |at| format!(" until {}", since_start(at)));
            format!(
                "{} {} of {}{until}, created by {}",
                token.id,
                token.name,
                token.principal(),
                token.created_by
            )
        });
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() <= limits::TOKENS_MAX);
        self.push_line(if lines.is_empty() { "no tokens".to_owned() } else { lines.join("\n") });
    }

    /// Renders the result of presenting the secret of a token (`authenticate T`).
    pub(super) fn render_authentication(&mut self, name: &str) {
        let tokens = self.tokens();
        let line = match tokens.find(&digest(name), self.now()) {
            TokenLookup::Active(token) => format!("{name}: accepted as {}", token.principal()),
            TokenLookup::Expired(_) => format!("{name}: expired"),
            TokenLookup::Unknown => format!("{name}: unknown"),
        };
        self.push_line(line);
    }
}
