//! Access-token steps, and principals that hold a token.

use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{
    Bearer, CreateToken, Generation, Op, Principal, Seq, Timestamp, TokenDigest, TokenId, TokenRole,
};

use super::plan::AGENTS;
use super::resolve::{SpaceView, agent_id};

/// Operation on access tokens.
#[derive(Clone, Debug)]
pub(super) enum TokenOp {
    /// Create a token. `bearer` is the index of an agent, or of a role after the agents. `parent` counts back from the
    /// newest token.
    Create { bearer: usize, secret: u8, expires_ms: Option<i64>, parent: Option<usize> },
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
        3 => (bearer, 0..6u8, expires, weighted(0.3, 0..3usize)).prop_map(
            |(bearer, secret, expires_ms, parent)| TokenOp::Create { bearer, secret, expires_ms, parent }
        ),
        1 => (0..4usize).prop_map(|back| TokenOp::Revoke { back }),
    ]
    .boxed()
}

impl TokenOp {
    pub(super) fn op(&self, created: &[TokenId], view: &SpaceView) -> Op {
        let missing = TokenId { generation: Generation(0), seq: Seq(1), n: 7 };
        let counted_back = |back: usize| created.iter().rev().nth(back).copied().unwrap_or(missing);
        match self {
            Self::Create { bearer, secret, expires_ms, parent } => Op::CreateToken(CreateToken {
                digest: TokenDigest([*secret; 32]),
                bearer: match bearer.checked_sub(AGENTS.len()) {
                    None => Bearer::Agent(agent_id(*bearer)),
                    Some(role) => Bearer::Holder(TokenRole::ALL[role]),
                },
                name: "laptop".parse().expect("valid token name"),
                expires_at: expires_ms.map(|ms| Timestamp(view.now.0.saturating_add_signed(ms))),
                parent: parent.map(counted_back),
            }),
            Self::Revoke { back } => Op::RevokeToken { token: counted_back(*back) },
        }
    }
}

impl fmt::Display for TokenOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { bearer, secret, expires_ms, parent } => write!(
                f,
                "creates a token of secret {secret} for bearer {bearer} expiring {expires_ms:?} under {parent:?}"
            ),
            Self::Revoke { back } => write!(f, "revokes token -{back}"),
        }
    }
}
