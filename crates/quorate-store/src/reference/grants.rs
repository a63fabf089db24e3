//! Grants of access tokens, restated: what an agent may register and which task types it may claim.

use quorate_core::{
    Agent, AgentId, AgentNo, AgentRole, Code, CreateToken, Granted, Grants, Preset, Principal, Refused,
    RegisterAgent,
};

use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    pub(super) fn check_registration(
        &self,
        existing: Option<AgentNo>,
        new: &RegisterAgent,
    ) -> Result<(), Refused> {
        let Some(acting) = self.agent_with_token() else {
            return self.check_coordinator_role(existing, new.role);
        };
        let existing = existing.map(|number| self.space.agent(number));
        if existing.map(|agent| agent.role) != Some(new.role) {
            let is_coordinator = new.role == AgentRole::Coordinator;
            let granted = match self.token_grants(acting)?.roles {
                Granted::Only(roles) => roles.contains(&new.role),
                Granted::All => true,
                Granted::ByPolicy => self.is_mesh() && !is_coordinator,
            };
            require(granted, "role")?;
        }
        self.check_names(acting, existing, &new.capabilities, "capabilities")
    }

    pub(super) fn check_claimed_types(&self, agent: AgentNo, types: &[String]) -> Result<(), Refused> {
        match self.agent_with_token() {
            Some(acting) => self.check_names(acting, Some(self.space.agent(agent)), types, "types"),
            None => Ok(()),
        }
    }

    /// Checks that each name is a registered capability or a granted one.
    fn check_names(
        &self,
        acting: &AgentId,
        existing: Option<&Agent>,
        names: &[String],
        field: &str,
    ) -> Result<(), Refused> {
        for name in names {
            if existing.is_some_and(|agent| agent.capabilities.contains(name)) {
                continue;
            }
            let granted = match self.token_grants(acting)?.capabilities {
                Granted::Only(capabilities) => capabilities.contains(name),
                Granted::All => true,
                Granted::ByPolicy => self.is_mesh(),
            };
            require(granted, field)?;
        }
        Ok(())
    }

    /// The grants that a new token gets: those that were asked for; the rest follows the registration of its agent.
    pub(super) fn new_grants(&self, new: &CreateToken) -> Grants {
        let Some(number) = new.bearer.agent().and_then(|agent| self.space.agent_number(agent)) else {
            return Grants::default();
        };
        let Agent { role, capabilities, .. } = self.space.agent(number);
        let Grants { roles: asked_roles, capabilities: asked_capabilities } = new.grants.clone();
        let (roles, own) = match (self.is_mesh(), role) {
            (true, AgentRole::Coordinator) => (Granted::All, Granted::ByPolicy),
            (true, _) => (Granted::ByPolicy, Granted::ByPolicy),
            (false, role) => (Granted::Only(vec![*role]), Granted::Only(capabilities.clone())),
        };
        Grants {
            roles: if asked_roles == Granted::ByPolicy { roles } else { asked_roles },
            capabilities: if asked_capabilities == Granted::ByPolicy { own } else { asked_capabilities },
        }
    }

    /// Returns the acting agent, if the commit was made with a token.
    fn agent_with_token(&self) -> Option<&AgentId> {
        match &self.commit.principal {
            Principal::Agent(agent) => self.commit.token.map(|_| agent),
            Principal::System | Principal::Holder { .. } => None,
        }
    }

    fn token_grants(&self, agent: &AgentId) -> Result<Grants, Refused> {
        let is_used = |id| Some(id) == self.commit.token;
        let token =
            self.space.tokens().find(|token| is_used(token.id) && token.bearer.agent() == Some(agent));
        token
            .map(|token| token.grants.clone())
            .ok_or_else(|| Refused::new(Code::Unauthenticated, "the token has ended"))
    }

    fn is_mesh(&self) -> bool {
        self.space.policy().policy.preset == Preset::Mesh
    }
}

fn require(granted: bool, field: &str) -> Result<(), Refused> {
    if granted {
        return Ok(());
    }
    Err(Refused::new(Code::Forbidden, "the token has no such grant").rule("grants", field))
}
