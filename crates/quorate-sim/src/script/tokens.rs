//! Tokens in scripts: who makes them, what the door says of them.

use std::sync::Arc;

use quorate_core::{
    Bearer, CreateToken, Found, Op, Principal, Secret, TokenDigest, TokenId, TokenRole, TokenState, Tokens,
    limits,
};
use quorate_store::Store as _;

use super::asked::{Words, agent, span};
use super::stage::Stage;
use super::told::since_start;

/// The role of somebody who is called like one.
pub(super) fn role(who: &str) -> Option<TokenRole> {
    TokenRole::ALL.iter().copied().find(|role| role.as_str() == who)
}

/// Somebody of this role.
pub(super) fn holder(role: TokenRole) -> Principal {
    Principal::Holder { role, name: "desk".parse().expect("a plain word") }
}

/// The secret of the token of this name.
fn digest(name: &str) -> TokenDigest {
    let mut bits = [0; 32];
    bits.iter_mut().zip(name.bytes()).for_each(|(bit, byte)| *bit = byte);
    Secret::of_random(bits).digest()
}

impl Stage {
    /// `creates T for A` or `creates T as ROLE`, `[until T]`, `[showing T]`.
    pub(super) fn create_token(&self, words: &mut Words<'_>) -> Op {
        let name = words.must("a name for the token");
        let bearer = match (words.after("for"), words.after("as")) {
            (Some(whose), None) => Bearer::Agent(agent(whose)),
            (None, Some(word)) => Bearer::Holder(role(word).expect("a role")),
            _ => panic!("for whom is {name}?"),
        };
        let expires_at = words.after("until").map(|time| self.now().plus_ms(span(time)));
        let digest = digest(words.after("showing").unwrap_or(name));
        Op::CreateToken(CreateToken { digest, bearer, name: name.parse().expect("a plain word"), expires_at })
    }

    /// `revokes T`, or `revokes tok_0-3-0`.
    pub(super) fn revoke_token(&self, words: &mut Words<'_>) -> Op {
        let name = words.must("a token");
        let known = self.tokens().list().into_iter().find(|token| token.name.as_str() == name);
        let id = known.map(|token| token.id).or_else(|| name.parse::<TokenId>().ok());
        Op::RevokeToken { token: id.unwrap_or_else(|| panic!("{name} is no token")) }
    }

    fn tokens(&self) -> Arc<Tokens> {
        let published = self.store().published(self.space()).expect("the space is there");
        let now = published.borrow();
        Arc::clone(&now.tokens)
    }

    /// `tokens`: all that let somebody in.
    pub(super) fn tell_tokens(&mut self) {
        let tokens = self.tokens().list();
        let lines = tokens.iter().map(|token| {
            assert_eq!(token.state, TokenState::Active, "what is published lets somebody in");
            let until = token.expires_at.map_or(String::new(), |at| format!(" until {}", since_start(at)));
            format!(
                "{} {} of {}{until}, made by {}",
                token.id,
                token.name,
                token.principal(),
                token.created_by
            )
        });
        let lines: Vec<_> = lines.collect();
        assert!(lines.len() <= limits::TOKENS_MAX);
        self.say(if lines.is_empty() { "no tokens".to_owned() } else { lines.join("\n") });
    }

    /// `door T`: what the door says to whoever shows the secret of T.
    pub(super) fn tell_door(&mut self, name: &str) {
        let tokens = self.tokens();
        let line = match tokens.find(&digest(name), self.now()) {
            Found::Active(token) => format!("{name}: {} may come in", token.principal()),
            Found::Expired(_) => format!("{name}: expired"),
            Found::Unknown => format!("{name}: unknown"),
        };
        self.say(line);
    }
}
