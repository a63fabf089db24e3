//! Access tokens, which authenticate principals. The hub stores the SHA-256 of a secret, never the secret itself.
//!
//! Not to be confused with lease tokens ([`crate::LeaseToken`]), which are numbers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::commit::Principal;
use crate::grants::Grants;
use crate::ids::{AgentId, TokenId};
use crate::item::ItemTimer;
use crate::limits::{NUMBER_MAX, TOKEN_NAME_CHARS_MAX};
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// Role of an access token that does not belong to an agent. Its permissions are in `permissions.rs`. The numbers never
/// change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TokenRole {
    /// Manages agents, messages, tasks, sessions, locks and memory.
    Operator,
    /// Decides approvals.
    Approver,
    /// Reads and resolves conduct flags.
    Moderator,
    /// Read-only access.
    Viewer,
    /// All permissions except moderation and internal operations of the hub.
    Admin,
}

impl TokenRole {
    /// All roles.
    pub const ALL: &[Self] = &[Self::Operator, Self::Approver, Self::Moderator, Self::Viewer, Self::Admin];

    /// The stored number. Never changes. 1 is reserved for agents.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Operator => 2,
            Self::Approver => 3,
            Self::Moderator => 4,
            Self::Viewer => 5,
            Self::Admin => 6,
        }
    }

    /// The role with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|role| role.number() == number)
    }

    /// The name on the wire and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Moderator => "moderator",
            Self::Viewer => "viewer",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for TokenRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The principal that a token authenticates.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Bearer {
    /// This agent.
    Agent(AgentId),
    /// A person or tool with this role.
    Holder(TokenRole),
}

impl Bearer {
    /// Creates a bearer from the name of a role. Only the role `agent` takes an agent.
    ///
    /// # Errors
    /// `INVALID` for an unknown role, for role `agent` without an agent, and for another role with one.
    pub fn new(role: &str, agent: Option<AgentId>) -> Result<Self, Refused> {
        let token_role = TokenRole::ALL.iter().copied().find(|token_role| token_role.as_str() == role);
        match (role, token_role, agent) {
            ("agent", _, Some(agent)) => Ok(Self::Agent(agent)),
            ("agent", _, None) => {
                Err(Refused::new(Code::Invalid, "missing agent: a token with role agent needs an agent id")
                    .hint("set agent to the id of the agent"))
            }
            (_, Some(role), None) => Ok(Self::Holder(role)),
            (_, Some(role), Some(agent)) => {
                let detail =
                    format!("unexpected agent {agent}: a token with role {role} does not belong to an agent");
                Err(Refused::new(Code::Invalid, detail).hint("omit the agent, or use role agent"))
            }
            (_, None, _) => Err(Refused::new(Code::Invalid, "unknown token role")
                .hint("use agent, operator, approver, moderator, viewer or admin")),
        }
    }

    /// The name of the role.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Holder(role) => role.as_str(),
        }
    }

    /// The agent, for role `agent`.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Holder(_) => None,
        }
    }
}

/// Display name of a token. Part of the principal in the log, so its characters are restricted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenName(Arc<str>);

impl TokenName {
    /// Validates a name.
    ///
    /// # Errors
    /// `INVALID` if it is empty, too long, or contains characters other than ASCII letters, digits and `._+@-`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Refused> {
        let text = text.as_ref();
        let chars = text.chars().count();
        if chars > TOKEN_NAME_CHARS_MAX {
            return Err(Refused::new(
                Code::Invalid,
                format!("the token name is too long: {chars} characters"),
            )
            .limit(TOKEN_NAME_CHARS_MAX as u64)
            .hint(format!("use at most {TOKEN_NAME_CHARS_MAX} characters")));
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._+@-".contains(c);
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_allowed) {
            return Ok(Self(text.into()));
        }
        Err(Refused::new(Code::Invalid, "invalid token name")
            .hint("use ASCII letters, digits and . _ + @ -, starting with a letter or digit"))
    }

    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::text_serde::serde_text!(TokenName, { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}$" });

impl FromStr for TokenName {
    type Err = Refused;
    fn from_str(text: &str) -> Result<Self, Refused> {
        Self::new(text)
    }
}

impl AsRef<str> for TokenName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The SHA-256 of a secret, see [`crate::Secret::digest`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenDigest(pub [u8; 32]);

// The first bytes are enough to distinguish digests in a log.
impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, ..] = self.0;
        write!(f, "TokenDigest({a:02x}{b:02x}{c:02x}…)")
    }
}

/// An access token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessToken {
    /// Id of the token.
    pub id: TokenId,
    /// Digest of the secret.
    pub digest: TokenDigest,
    /// The principal it authenticates.
    pub bearer: Bearer,
    /// Display name. Not unique: an old and a new token of one tool may share it.
    pub name: TokenName,
    /// Expiry, if any.
    pub expires_at: Option<Timestamp>,
    /// The principal that created it, as in the log.
    pub created_by: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Whether it is still valid.
    pub state: TokenState,
    /// For a web session, the token that it was created with. It ends with that token.
    pub parent: Option<TokenId>,
    /// What the agent that it authenticates may register.
    pub grants: Grants,
}

/// Lifecycle state of an access token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenState {
    /// Valid until it expires.
    Active,
    /// Revoked or expired; only the log still contains it.
    Ended,
}

impl AccessToken {
    /// The principal that acts with this token.
    #[must_use]
    pub fn principal(&self) -> Principal {
        match &self.bearer {
            Bearer::Agent(agent) => Principal::Agent(agent.clone()),
            Bearer::Holder(role) => Principal::Holder { role: *role, name: self.name.clone() },
        }
    }

    /// Whether it has expired.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    pub(crate) fn timers(&self) -> Vec<ItemTimer> {
        match (self.state, self.expires_at) {
            (TokenState::Active, Some(time)) => vec![ItemTimer::At { part: 0, time }],
            (TokenState::Active, None) | (TokenState::Ended, _) => Vec::new(),
        }
    }
}

/// Creates an access token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateToken {
    /// Digest of the secret. Not part of the commit's fingerprint: a retry generates a new secret, and
    /// [`crate::OpResult::TokenCreated`] returns the digest of the valid one.
    pub digest: TokenDigest,
    /// The principal it authenticates.
    pub bearer: Bearer,
    /// Display name.
    pub name: TokenName,
    /// Expiry, if any.
    pub expires_at: Option<Timestamp>,
    /// For a web session, the token that it is created with.
    pub parent: Option<TokenId>,
    /// What the agent may register. What is left to the policy is recorded from the registration of the agent, see
    /// [`Grants`].
    pub grants: Grants,
}

impl CreateToken {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.bearer.agent().is_none() && self.grants != Grants::default() {
            let detail =
                format!("unexpected grants: a token with role {} registers no agent", self.bearer.role());
            return Err(Refused::new(Code::Invalid, detail).hint("omit the grants, or use role agent"));
        }
        self.grants.check()?;
        if self.expires_at.is_none_or(|at| at.0 <= NUMBER_MAX) {
            return Ok(());
        }
        Err(Refused::new(Code::Invalid, "invalid expiresAt: too far in the future")
            .limit(NUMBER_MAX)
            .hint("omit expiresAt for a token that does not expire"))
    }
}

#[cfg(test)]
mod tests;
