//! Access tokens and spaces.

use quorate_core::{
    AccessToken, AgentId, Bearer, CreateToken, Refused, Secret, Seq, SpaceName, Timestamp, TokenId, TokenName,
};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// A token to create.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    /// What its bearer may do.
    #[cfg_attr(feature = "schema", schemars(with = "schema::TokenRoleWord"))]
    pub role: String,
    /// For the role `agent`: the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The name in the log; by default the agent or the role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<TokenName>,
    /// The space that it is valid in. An admin of the hub may name another one than its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub space: Option<String>,
    /// When it expires; never by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if the role does not exist, or does not fit the agent.
    pub fn read(self, secret: &Secret) -> Result<CreateToken, Refused> {
        let name = match self.name {
            Some(name) => name,
            None => TokenName::new(self.agent.as_ref().map_or(self.role.as_str(), AgentId::as_str))?,
        };
        Ok(CreateToken {
            digest: secret.digest(),
            bearer: Bearer::new(&self.role, self.agent)?,
            name,
            expires_at: self.expires_at,
        })
    }
}

/// A token that was created.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedToken {
    /// Its id.
    pub id: TokenId,
    /// The secret. Shown once: the hub keeps only its digest, so a repeated call returns `null`.
    pub token: Option<String>,
}

/// A token, without its secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// The name in the log.
    pub name: TokenName,
    /// What its bearer may do.
    #[cfg_attr(feature = "schema", schemars(with = "schema::TokenRoleWord"))]
    pub role: String,
    /// The agent, for the role `agent`.
    pub agent: Option<AgentId>,
    /// When it expires; `null` for never.
    pub expires_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The principal that created it.
    pub created_by: String,
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
        }
    }
}

/// A token that was revoked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RevokedToken {
    /// Its id.
    pub id: TokenId,
    /// The record.
    pub seq: Option<Seq>,
}

/// A space to create, or one that was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSpace {
    /// Its name.
    pub name: SpaceName,
}

/// A space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Space {
    /// Its name.
    pub name: SpaceName,
    /// Its newest record.
    pub seq: Seq,
}
