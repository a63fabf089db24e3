//! Access tokens and spaces.

use quorate_core::{
    AccessToken, AgentId, Bearer, CreateToken, Granted, Grants, Refused, Secret, Seq, SpaceName, Timestamp,
    TokenId, TokenName,
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
    /// What the agent may register with this token, for the role `agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<TokenGrants>,
}

impl NewToken {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the role or a granted role is unknown, or the role is inconsistent with the agent.
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
            grants: self.grants.map(TokenGrants::into_core).transpose()?.unwrap_or_default(),
        })
    }
}

/// Roles and capabilities that an agent may register with its access token. What it has registered already may be
/// registered again without a grant.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenGrants {
    /// Agent roles; `*` is all. By default all but `coordinator` in a `mesh`, and the role that the agent has when the
    /// token is created in a `supervised` space. A token created for a coordinator grants that role, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<schema::GrantedRoleName>>", length(max = 4)))]
    pub roles: Option<Vec<String>>,
    /// Capabilities, which are also the types of tasks that the agent may claim; `*` is all. By default all in a `mesh`,
    /// and the capabilities that the agent has when the token is created in a `supervised` space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 256), inner(length(max = 128))))]
    pub capabilities: Option<Vec<String>>,
}

/// Name that grants all values.
const ALL: &str = "*";

impl TokenGrants {
    /// Parses the grants.
    ///
    /// # Errors
    /// `INVALID` for an unknown role.
    pub fn into_core(self) -> Result<Grants, Refused> {
        Ok(Grants {
            roles: parse_granted(self.roles, |role| role.parse())?,
            capabilities: parse_granted(self.capabilities, Ok)?,
        })
    }

    /// Returns the recorded grants; `None` if the policy decides everything.
    #[must_use]
    pub fn of(grants: &Grants) -> Option<Self> {
        let roles = granted_names(&grants.roles, |role| role.as_str().to_owned());
        let capabilities = granted_names(&grants.capabilities, String::clone);
        (roles.is_some() || capabilities.is_some()).then_some(Self { roles, capabilities })
    }
}

fn parse_granted<T>(
    names: Option<Vec<String>>,
    parse: impl Fn(String) -> Result<T, Refused>,
) -> Result<Granted<T>, Refused> {
    Ok(match names {
        None => Granted::ByPolicy,
        Some(names) if names.iter().any(|name| name == ALL) => Granted::All,
        Some(names) => Granted::Only(names.into_iter().map(parse).collect::<Result<_, _>>()?),
    })
}

fn granted_names<T>(granted: &Granted<T>, name: impl Fn(&T) -> String) -> Option<Vec<String>> {
    match granted {
        Granted::ByPolicy => None,
        Granted::All => Some(vec![ALL.to_owned()]),
        Granted::Only(values) => Some(values.iter().map(name).collect()),
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
    /// Recorded grants of an agent. Omitted if there are none: the policy of the space decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<TokenGrants>,
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
            grants: TokenGrants::of(&token.grants),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use quorate_core::AgentRole;

    use super::*;

    // Fails under: `*` among other names that grants only these; an empty list that means the default.
    #[test]
    fn i19_grants_are_lists_in_which_an_asterisk_is_all() {
        let parse = |json: &str| serde_json::from_str::<TokenGrants>(json).unwrap().into_core();
        let sum = || Granted::Only(vec!["sum".to_owned()]);
        for (json, roles, capabilities) in [
            ("{}", Granted::ByPolicy, Granted::ByPolicy),
            (r#"{"roles":["*"]}"#, Granted::All, Granted::ByPolicy),
            (r#"{"roles":["worker","*"],"capabilities":[]}"#, Granted::All, Granted::Only(vec![])),
            (
                r#"{"roles":["coordinator"],"capabilities":["sum"]}"#,
                Granted::Only(vec![AgentRole::Coordinator]),
                sum(),
            ),
        ] {
            let grants = parse(json).unwrap();
            assert_eq!(grants, Grants { roles, capabilities }, "{json}");
            let shown = TokenGrants::of(&grants);
            assert_eq!(shown.is_none(), json == "{}");
            assert_eq!(shown.unwrap_or_default().into_core(), Ok(grants));
        }
        assert!(parse(r#"{"roles":["boss"]}"#).unwrap_err().detail.contains("boss"));
        assert!(serde_json::from_str::<TokenGrants>(r#"{"role":["worker"]}"#).is_err());
    }
}
