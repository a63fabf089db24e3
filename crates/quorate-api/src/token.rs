//! Access tokens and spaces.

use quorate_core::{
    AccessToken, AgentId, Bearer, CreateToken, Refused, Secret, Seq, SpaceName, Timestamp, TokenId, TokenName,
};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// Access token to create.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    /// Role of the bearer. It determines the permissions.
    #[cfg_attr(feature = "schema", schemars(with = "schema::TokenRoleName"))]
    pub role: String,
    /// Agent that the token authenticates. Required for the role `agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Name of the principal in the log; the agent or the role by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<TokenName>,
    /// Space in which the token is valid. Only an admin of the hub can create tokens for another space.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub space: Option<String>,
    /// Expiry time; the token does not expire by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the role is unknown, or inconsistent with the agent.
    pub fn into_core(self, secret: &Secret) -> Result<CreateToken, Refused> {
        let name = match self.name {
            Some(name) => name,
            None => TokenName::new(self.agent.as_ref().map_or(self.role.as_str(), AgentId::as_str))?,
        };
        Ok(CreateToken {
            digest: secret.digest(),
            bearer: Bearer::new(&self.role, self.agent)?,
            name,
            expires_at: self.expires_at,
            parent: None,
        })
    }
}

/// Result of creating an access token.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken {
    /// Unique identifier.
    pub id: TokenId,
    /// Secret of the token. Returned only once: the hub stores only its digest, so an idempotent replay returns
    /// `null`.
    pub token: Option<String>,
}

/// Access token, without its secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Unique identifier.
    pub id: TokenId,
    /// Name of the principal in the log.
    pub name: TokenName,
    /// Role of the bearer.
    #[cfg_attr(feature = "schema", schemars(with = "schema::TokenRoleName"))]
    pub role: String,
    /// Agent that the token authenticates, for the role `agent`.
    pub agent: Option<AgentId>,
    /// Expiry time; `null` if the token does not expire.
    pub expires_at: Option<Timestamp>,
    /// Time at which the token was created.
    pub created_at: Timestamp,
    /// Principal that created the token.
    pub created_by: String,
    /// For a web session, the token that it was created with. It ends with that token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TokenId>,
}

impl From<&AccessToken> for Token {
    fn from(token: &AccessToken) -> Self {
        Self {
            id: token.id,
            name: token.name.clone(),
            role: token.bearer.role().to_owned(),
            agent: token.bearer.agent().cloned(),
            expires_at: token.expires_at,
            created_at: token.created_at,
            created_by: token.created_by.clone(),
            parent: token.parent,
        }
    }
}

/// Result of revoking an access token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevokedToken {
    /// Unique identifier.
    pub id: TokenId,
    /// Sequence number of the record.
    pub seq: Option<Seq>,
}

/// Space to create.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSpace {
    /// Space name.
    pub name: SpaceName,
}

/// A space: an isolated tenant of the hub.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Space {
    /// Space name.
    pub name: SpaceName,
    /// Sequence number of the newest record.
    pub seq: Seq,
}
