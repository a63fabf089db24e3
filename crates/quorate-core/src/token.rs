//! Tokens: who may come in, and as whom. The hub keeps the SHA-256 of a secret, never the secret itself.
//!
//! A lease has a token as well ([`crate::Token`], a number); what is meant here is what a caller shows at the door.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::commit::Principal;
use crate::ids::{AgentId, TokenId};
use crate::item::Alarm;
use crate::limits::{NUMBER_MAX, TOKEN_NAME_CHARS_MAX};
use crate::refused::{Code, Refused};
use crate::time::Timestamp;

/// What people and tools may do who hold a token. What each role may do is in `rights.rs`. The numbers are frozen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TokenRole {
    /// Runs the hub's work: agents, messages, tasks, sessions, locks, memory.
    Operator,
    /// Decides about proposed actions.
    Approver,
    /// Reads and resolves conduct flags.
    Moderator,
    /// Looks.
    Viewer,
    /// Rules: whatever the hub may do, but for what the hub does by itself.
    Admin,
}

impl TokenRole {
    /// All roles.
    pub const ALL: &[Self] = &[Self::Operator, Self::Approver, Self::Moderator, Self::Viewer, Self::Admin];

    /// The frozen number. 1 is an agent's.
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

    /// The word on the wire and in the log.
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

/// Whom a token lets in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Bearer {
    /// An agent, and as nobody but itself.
    Agent(AgentId),
    /// Somebody or something else that has this role.
    Holder(TokenRole),
}

impl Bearer {
    /// The bearer of the role that a word means. Only the role `agent` names an agent.
    ///
    /// # Errors
    /// `INVALID` for an unknown word, for an agent without a name, and for a name without an agent.
    pub fn new(role: &str, agent: Option<AgentId>) -> Result<Self, Refused> {
        let known = TokenRole::ALL.iter().copied().find(|known| known.as_str() == role);
        match (role, known, agent) {
            ("agent", _, Some(agent)) => Ok(Self::Agent(agent)),
            ("agent", _, None) => Err(Refused::new(Code::Invalid, "a token of role agent names no agent")
                .hint("say for which agent it is")),
            (_, Some(role), None) => Ok(Self::Holder(role)),
            (_, Some(role), Some(agent)) => {
                let detail = format!("a token of role {role} is not for an agent, but names {agent}");
                Err(Refused::new(Code::Invalid, detail).hint("leave the agent out, or use the role agent"))
            }
            (_, None, _) => Err(Refused::new(Code::Invalid, "there is no such role of a token")
                .hint("the roles are agent, operator, approver, moderator, viewer and admin")),
        }
    }

    /// The word for the role.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::Agent(_) => "agent",
            Self::Holder(role) => role.as_str(),
        }
    }

    /// The agent, if it is one.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Holder(_) => None,
        }
    }
}

/// What people call a token. It stands in the log as part of who acted, so it is a plain word.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenName(Arc<str>);

impl TokenName {
    /// Checks the text and makes a name of it.
    ///
    /// # Errors
    /// `INVALID` for what is empty, too long, or has other characters than letters, digits and `._+@-` in it.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Refused> {
        let text = text.as_ref();
        let chars = text.chars().count();
        if chars > TOKEN_NAME_CHARS_MAX {
            return Err(Refused::new(Code::Invalid, format!("the name of the token has {chars} characters"))
                .limit(TOKEN_NAME_CHARS_MAX as u64)
                .hint(format!("give at most {TOKEN_NAME_CHARS_MAX} characters")));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+@-".contains(c);
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain) {
            return Ok(Self(text.into()));
        }
        Err(Refused::new(Code::Invalid, "the name of the token is not a plain word")
            .hint("use letters of ASCII, digits and . _ + @ -, and begin with a letter or a digit"))
    }

    /// The text itself.
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

// The first bytes tell digests apart; the whole of it is nobody's business in a log of the hub.
impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, ..] = self.0;
        write!(f, "TokenDigest({a:02x}{b:02x}{c:02x}…)")
    }
}

/// A token that lets somebody in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessToken {
    /// Its id.
    pub id: TokenId,
    /// What the secret is known by.
    pub digest: TokenDigest,
    /// Whom it lets in.
    pub bearer: Bearer,
    /// What people call it. Several tokens may have one name: the old and the new one of the same tool.
    pub name: TokenName,
    /// From when on it lets nobody in, if ever.
    pub expires_at: Option<Timestamp>,
    /// Who made it, as in the log.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// Whether it is one.
    pub state: TokenState,
}

/// Whether a token is still one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenState {
    /// It lets its bearer in until it expires.
    Active,
    /// It was revoked, or its time is over: the log alone remembers it.
    Ended,
}

impl AccessToken {
    /// Who acts when this token is shown.
    #[must_use]
    pub fn principal(&self) -> Principal {
        match &self.bearer {
            Bearer::Agent(agent) => Principal::Agent(agent.clone()),
            Bearer::Holder(role) => Principal::Holder { role: *role, name: self.name.clone() },
        }
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    pub(crate) fn alarms(&self) -> Vec<Alarm> {
        match (self.state, self.expires_at) {
            (TokenState::Active, Some(time)) => vec![Alarm::At { part: 0, time }],
            (TokenState::Active, None) | (TokenState::Ended, _) => Vec::new(),
        }
    }
}

/// Makes a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateToken {
    /// What the secret is known by. Not part of what a commit with a key asks for: whoever repeats it has drawn a new
    /// secret, and is told by [`crate::OpResult::TokenCreated`] which one is good.
    pub digest: TokenDigest,
    /// Whom it lets in.
    pub bearer: Bearer,
    /// What people call it.
    pub name: TokenName,
    /// From when on it lets nobody in, if ever.
    pub expires_at: Option<Timestamp>,
}

impl CreateToken {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.expires_at.is_none_or(|at| at.0 <= NUMBER_MAX) {
            return Ok(());
        }
        Err(Refused::new(Code::Invalid, "the token expires later than any clock can say")
            .limit(NUMBER_MAX)
            .hint("give no time for a token that does not expire"))
    }
}

#[cfg(test)]
mod tests;
