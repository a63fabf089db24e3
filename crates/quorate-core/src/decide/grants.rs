//! Grants: limits what an agent registers and which tasks it claims to the grants of its access token.
//!
//! The hub, people and agents of an embedding program are not limited: their commits name no token of an agent.

use std::sync::Arc;

use crate::access_token::AccessToken;
use crate::commit::{Principal, RegisterAgent};
use crate::decide::Draft;
use crate::ids::{AgentId, AgentNo, TokenId};
use crate::limits::REFUSAL_NAMES_MAX;
use crate::refused::{Code, Refused};
use crate::registry::{Agent, AgentRole};

impl Draft<'_> {
    /// Refuses a role or capabilities that the agent may not give itself. `current` is its registration, which it may
    /// always repeat.
    pub(super) fn check_registration(
        &self,
        current: Option<&Agent>,
        new: &RegisterAgent,
    ) -> Result<(), Refused> {
        let Principal::Agent(agent) = &self.commit.principal else { return Ok(()) };
        let Some(token) = self.commit.token else {
            return self.working.policy().check_role(current, new.role);
        };
        let has_role = current.is_some_and(|current| current.role == new.role);
        let added = unregistered(current, &new.capabilities);
        if has_role && added.is_empty() {
            return Ok(());
        }
        let token = self.require_token_of(agent, token)?;
        if !has_role && !token.grants.allow_role(self.working.policy(), new.role) {
            return Err(role_not_granted(agent, new.role));
        }
        self.require_capabilities(&token, &added)
            .map_err(|missing| capabilities_not_granted(agent, "register", "capabilities", &missing))
    }

    /// Refuses a claim of task types that are neither capabilities of the agent nor granted to it.
    pub(super) fn check_claimed_types(&self, claimer: AgentNo, types: &[String]) -> Result<(), Refused> {
        let (Principal::Agent(agent), Some(token)) = (&self.commit.principal, self.commit.token) else {
            return Ok(());
        };
        let added = unregistered(self.working.agents().get(claimer), types);
        if added.is_empty() {
            return Ok(());
        }
        let token = self.require_token_of(agent, token)?;
        self.require_capabilities(&token, &added)
            .map_err(|missing| capabilities_not_granted(agent, "claim tasks of type", "types", &missing))
    }

    /// Returns those names that the token does not grant as an error.
    fn require_capabilities<'a>(&self, token: &AccessToken, names: &[&'a str]) -> Result<(), Vec<&'a str>> {
        let policy = self.working.policy();
        let is_missing = |name: &&str| !token.grants.allow_capability(policy, name);
        let missing: Vec<_> = names.iter().copied().filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Returns the token that an agent acts with. It may have ended after the call was authenticated.
    fn require_token_of(&self, agent: &AgentId, token: TokenId) -> Result<Arc<AccessToken>, Refused> {
        let found = self.working.items().tokens.get(&token.to_string());
        found.filter(|found| found.bearer.agent() == Some(agent)).cloned().ok_or_else(|| {
            Refused::new(Code::Unauthenticated, "the access token was revoked or has expired")
                .hint("use a valid access token of this agent")
        })
    }
}

/// Returns the names that are not capabilities of the agent.
fn unregistered<'a>(current: Option<&Agent>, names: &'a [String]) -> Vec<&'a str> {
    let registered = current.map_or(&[][..], |current| &current.capabilities);
    names.iter().filter(|name| !registered.contains(name)).map(String::as_str).collect()
}

fn role_not_granted(agent: &AgentId, role: AgentRole) -> Refused {
    let role = role.as_str();
    let detail = format!(
        "agent {agent} may not register as {role}: its access token has no grant for the role {role}"
    );
    Refused::new(Code::Forbidden, detail)
        .rule("grants", "role")
        .hint(token_hint(agent, &format!("--grant-role {role}")))
}

fn capabilities_not_granted(agent: &AgentId, action: &str, field: &str, missing: &[&str]) -> Refused {
    let named = &missing[..missing.len().min(REFUSAL_NAMES_MAX)];
    let more = if missing.len() > named.len() { " and others" } else { "" };
    let names = named.join(", ");
    let detail = format!(
        "agent {agent} may not {action} {names}{more}: its access token has no grant for the capability"
    );
    let flags: Vec<_> = named.iter().map(|name| format!("--grant-capability {}", shell_word(name))).collect();
    Refused::new(Code::Forbidden, detail).rule("grants", field).hint(token_hint(agent, &flags.join(" ")))
}

/// The command that creates a token with the missing grants.
fn token_hint(agent: &AgentId, flags: &str) -> String {
    let agent = shell_word(agent.as_str());
    format!(
        "an admin can create a token with the grant: \
         `quorate token create --role agent --agent {agent} --name NAME {flags}`"
    )
}

/// Quotes a text for a POSIX shell, if necessary.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a name that is inserted into the command of a hint without quotes.
    #[test]
    fn i19_a_refusal_names_the_grant_and_the_command() {
        let agent: AgentId = "bob".parse().unwrap();
        let refused = role_not_granted(&agent, AgentRole::Coordinator);
        assert!(refused.detail.contains("no grant for the role coordinator"), "{}", refused.detail);
        assert!(
            refused.hint.contains("--agent bob --name NAME --grant-role coordinator`"),
            "{}",
            refused.hint
        );
        let refused = capabilities_not_granted(&agent, "register", "capabilities", &["sum", "a'; rm b"]);
        assert!(refused.detail.contains("may not register sum, a'; rm b:"), "{}", refused.detail);
        let command = r"--grant-capability sum --grant-capability 'a'\''; rm b'`";
        assert!(refused.hint.ends_with(command), "{}", refused.hint);
        let many = vec!["x"; REFUSAL_NAMES_MAX + 1];
        let refused = capabilities_not_granted(&agent, "register", "capabilities", &many);
        assert!(refused.detail.contains("x and others:"), "{}", refused.detail);
    }
}
