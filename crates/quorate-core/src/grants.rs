//! Grants of an access token: the roles and capabilities that its agent may register. They are recorded when the token
//! is created. `decide/grants.rs` applies them.

use crate::limits::LIST_MAX;
use crate::message::check_label;
use crate::policy::{Policy, Preset};
use crate::refused::{Code, Refused};
use crate::registry::{Agent, AgentRole};

/// The granted values of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Granted<T> {
    /// Not recorded: the preset of the policy decides.
    #[default]
    ByPolicy,
    /// All values.
    All,
    /// Only these values.
    Only(Vec<T>),
}

/// Grants of an access token. Whatever the agent has registered already may be registered again without a grant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Grants {
    /// The granted roles. By policy, a mesh grants all but coordinator, and a supervised space none.
    pub roles: Granted<AgentRole>,
    /// The granted capabilities, which are also the types of tasks that may be claimed. By policy, a mesh grants all, and
    /// a supervised space none.
    pub capabilities: Granted<String>,
}

impl Grants {
    /// Whether the agent may register with this role.
    #[must_use]
    pub fn allow_role(&self, policy: &Policy, role: AgentRole) -> bool {
        match (&self.roles, policy.preset) {
            (Granted::All, _) => true,
            (Granted::Only(roles), _) => roles.contains(&role),
            (Granted::ByPolicy, Preset::Mesh) => role != AgentRole::Coordinator,
            (Granted::ByPolicy, Preset::Supervised) => false,
        }
    }

    /// Whether the agent may register with this capability, and claim tasks of this type.
    #[must_use]
    pub fn allow_capability(&self, policy: &Policy, capability: &str) -> bool {
        match (&self.capabilities, policy.preset) {
            (Granted::All, _) | (Granted::ByPolicy, Preset::Mesh) => true,
            (Granted::Only(capabilities), _) => capabilities.iter().any(|granted| granted == capability),
            (Granted::ByPolicy, Preset::Supervised) => false,
        }
    }

    /// Fills in what the creator of a token left to the policy, from the registration of its agent. In a supervised space
    /// the token grants what is registered now. In a mesh a coordinator keeps the grant of that role.
    pub(crate) fn completed(&self, policy: &Policy, agent: &Agent) -> Self {
        let mut grants = self.clone();
        match policy.preset {
            Preset::Mesh if agent.role == AgentRole::Coordinator => grants.roles.or(Granted::All),
            Preset::Mesh => {}
            Preset::Supervised => {
                grants.roles.or(Granted::Only(vec![agent.role]));
                grants.capabilities.or(Granted::Only(agent.capabilities.clone()));
            }
        }
        grants
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        self.roles.check_length("grants.roles", AgentRole::ALL.len())?;
        self.capabilities.check_length("grants.capabilities", LIST_MAX)?;
        match &self.capabilities {
            Granted::ByPolicy | Granted::All => Ok(()),
            Granted::Only(names) => {
                names.iter().try_for_each(|name| check_label("grants.capabilities", name))
            }
        }
    }
}

impl<T> Granted<T> {
    /// Sets the value, unless one was recorded.
    fn or(&mut self, other: Self) {
        if matches!(self, Self::ByPolicy) {
            *self = other;
        }
    }

    fn check_length(&self, field: &str, max: usize) -> Result<(), Refused> {
        match self {
            Self::Only(list) if list.len() > max => {
                Err(Refused::new(Code::LimitExceeded, format!("{field} has {} items", list.len()))
                    .limit(max as u64)
                    .hint("list each one once, or grant * for all"))
            }
            Self::ByPolicy | Self::All | Self::Only(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
