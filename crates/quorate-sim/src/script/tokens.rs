//! Statements about access tokens, and their rendering.

use std::sync::Arc;

use quorate_core::{
    AccessTokens, Bearer, CreateToken, Granted, Grants, Op, Principal, Secret, TokenDigest, TokenId,
    TokenLookup, TokenRole, TokenState, limits,
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

/// Parses a list of granted values.
fn granted<T>(list: Option<&str>, parse: impl Fn(&str) -> T) -> Granted<T> {
    match list {
        None => Granted::ByPolicy,
        Some("all") => Granted::All,
        Some(list) => Granted::Only(list.split(',').map(parse).collect()),
    }
}

/// Renders grants that were recorded.
fn grants_text(grants: &Grants) -> String {
    fn list<T>(granted: &Granted<T>, text: impl Fn(&T) -> String) -> String {
        match granted {
            Granted::ByPolicy => "by policy".to_owned(),
            Granted::All => "all".to_owned(),
            Granted::Only(list) => format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(",")),
        }
    }
    if *grants == Grants::default() {
        return String::new();
    }
    let roles = list(&grants.roles, |role| role.as_str().to_owned());
    format!(", grants roles {roles}, capabilities {}", list(&grants.capabilities, String::clone))
}

/// Returns the digest of the secret that belongs to a token name.
fn digest(name: &str) -> TokenDigest {
    let mut bits = [0; 32];
    bits.iter_mut().zip(name.bytes()).for_each(|(bit, byte)| *bit = byte);
    Secret::from_random(bits).digest()
}

impl ScriptRunner {
    /// Parses `creates T for A` or `creates T as ROLE`, then `[until T] [secret T] [granting ROLE,ROLE] [able C,C]`; `all`
    /// grants everything.
    pub(super) fn parse_create_token(&self, words: &mut Words<'_>) -> Op {
        let name = words.require("a name for the token");
        let bearer = match (words.option("for"), words.option("as")) {
            (Some(name), None) => Bearer::Agent(agent_id(name)),
            (None, Some(word)) => Bearer::Holder(token_role(word).expect("a role")),
            _ => panic!("{name}: expected either `for AGENT` or `as ROLE`"),
        };
        let expires_at = words.option("until").map(|time| self.now().plus_ms(duration_ms(time)));
        let digest = digest(words.option("secret").unwrap_or(name));
        let roles = granted(words.option("granting"), |role| role.parse().expect("a role"));
        let capabilities = granted(words.option("able"), str::to_owned);
        Op::CreateToken(CreateToken {
            digest,
            bearer,
            name: name.parse().expect("valid token name"),
            expires_at,
            parent: None,
            grants: Grants { roles, capabilities },
        })
    }

    /// Returns the id of an active token.
    pub(super) fn token_id(&self, name: &str) -> Option<TokenId> {
        self.tokens().list().into_iter().find(|token| token.name.as_str() == name).map(|token| token.id)
    }

    /// Parses `revokes T` or `revokes tok_0-3-0`.
    pub(super) fn parse_revoke_token(&self, words: &mut Words<'_>) -> Op {
        let name = words.require("a token");
        let id = self.token_id(name).or_else(|| name.parse::<TokenId>().ok());
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
                "{} {} of {}{until}, created by {}{}",
                token.id,
                token.name,
                token.principal(),
                token.created_by,
                grants_text(&token.grants)
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
