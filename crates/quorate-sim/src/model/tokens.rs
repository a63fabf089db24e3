//! Access-token steps, and principals that hold a token.

use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{
    AgentId, AgentRole, Bearer, CreateToken, Generation, Granted, Grants, Op, Principal, Seq, Timestamp,
    TokenDigest, TokenId, TokenRole,
};

use super::plan::AGENTS;
use super::resolve::{SpaceView, agent_id};

/// Operation on access tokens.
#[derive(Clone, Debug)]
pub(super) enum TokenOp {
    /// Create a token. `bearer` is the index of an agent, or of a role after the agents. `parent` counts back from the
    /// newest token. `grants` is one of several choices.
    Create { bearer: usize, secret: u8, expires_ms: Option<i64>, parent: Option<usize>, grants: usize },
    /// Revoke a token, counted back from the newest; an unknown one if there are fewer.
    Revoke { back: usize },
}

/// Returns the holder of a token with this role.
pub(super) fn holder(role: usize) -> Principal {
    let name = if role.is_multiple_of(2) { "anna" } else { "ci" };
    Principal::Holder { role: TokenRole::ALL[role], name: name.parse().expect("valid token name") }
}

pub(super) fn token_ops() -> BoxedStrategy<TokenOp> {
    let bearer = prop_oneof![3 => 0..AGENTS.len(), 1 => AGENTS.len()..AGENTS.len() + TokenRole::ALL.len()];
    let expires =
        weighted(0.5, prop_oneof![Just(-1i64), Just(0), Just(1), Just(1_000), Just(30_000), Just(61_000)]);
    prop_oneof![
        3 => (bearer, 0..6u8, expires, weighted(0.3, 0..3usize), 0..5usize).prop_map(
            |(bearer, secret, expires_ms, parent, grants)| {
                TokenOp::Create { bearer, secret, expires_ms, parent, grants }
            }
        ),
        1 => (0..4usize).prop_map(|back| TokenOp::Revoke { back }),
    ]
    .boxed()
}

/// Returns grants in one of several variants.
fn grants(kind: usize) -> Grants {
    let names = |names: &[&str]| Granted::Only(names.iter().map(|name| (*name).to_owned()).collect());
    match kind {
        0 => Grants::default(),
        1 => Grants { roles: Granted::All, capabilities: names(&["cook", "x"]) },
        2 => Grants { roles: Granted::Only(vec![AgentRole::Coordinator]), capabilities: Granted::ByPolicy },
        3 => Grants { roles: Granted::ByPolicy, capabilities: names(&["review"]) },
        _ => Grants { roles: Granted::Only(Vec::new()), capabilities: Granted::All },
    }
}

/// All tokens that were created, with their agents.
#[derive(Default)]
pub(super) struct CreatedTokens(Vec<(TokenId, Option<AgentId>)>);

impl CreatedTokens {
    pub(super) fn record(&mut self, op: &Op, id: TokenId) {
        let bearer = match op {
            Op::CreateToken(new) => new.bearer.agent().cloned(),
            _ => None,
        };
        self.0.push((id, bearer));
    }

    /// Returns a token, counted back from the newest; an unknown one if there are fewer.
    fn counted_back(&self, back: usize) -> TokenId {
        let missing = TokenId { generation: Generation(0), seq: Seq(1), n: 7 };
        self.0.iter().rev().nth(back).map_or(missing, |(id, _)| *id)
    }

    /// Returns a token for a commit of an agent, counted back from the newest: one of its own if it has one, which may
    /// have ended, or that of another.
    pub(super) fn acting(&self, agent: usize, back: usize) -> TokenId {
        let agent = agent_id(agent);
        let mut own = self.0.iter().rev().filter(|(_, bearer)| bearer.as_ref() == Some(&agent));
        own.nth(back).map_or_else(|| self.counted_back(back), |(id, _)| *id)
    }
}

impl TokenOp {
    pub(super) fn op(&self, created: &CreatedTokens, view: &SpaceView) -> Op {
        match self {
            Self::Create { bearer, secret, expires_ms, parent, grants: kind } => {
                Op::CreateToken(CreateToken {
                    digest: TokenDigest([*secret; 32]),
                    bearer: match bearer.checked_sub(AGENTS.len()) {
                        None => Bearer::Agent(agent_id(*bearer)),
                        Some(role) => Bearer::Holder(TokenRole::ALL[role]),
                    },
                    name: "laptop".parse().expect("valid token name"),
                    expires_at: expires_ms.map(|ms| Timestamp(view.now.0.saturating_add_signed(ms))),
                    parent: parent.map(|back| created.counted_back(back)),
                    grants: grants(*kind),
                })
            }
            Self::Revoke { back } => Op::RevokeToken { token: created.counted_back(*back) },
        }
    }
}

impl fmt::Display for TokenOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { bearer, secret, expires_ms, parent, grants } => write!(
                f,
                "creates a token of secret {secret} for bearer {bearer} expiring {expires_ms:?} under {parent:?} with grants {grants}"
            ),
            Self::Revoke { back } => write!(f, "revokes token -{back}"),
        }
    }
}
