//! Who gets a message: destinations are resolved and the policy is asked here, for durable and ephemeral messages alike.

use std::collections::HashSet;
use std::fmt;

use crate::destination::Destination;
use crate::ids::{AgentId, AgentNo, Capability};
use crate::policy::{Policy, Preset, out_of_reach};
use crate::pool::Takers;
use crate::refused::{Code, Refused};
use crate::registry::{Agent, Agents, Role};
use crate::topic::Topic;
use crate::working::Topics;

/// Unknown recipients that a refusal names.
const UNKNOWN_NAMED: usize = 16;

/// Who gets a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Each of these, once.
    Agents(Vec<AgentNo>),
    /// One who can do it.
    One {
        /// What it must be able to do.
        capability: Capability,
        /// Who may take it.
        takers: Takers,
    },
}

/// What is asked to find out who gets a message.
#[derive(Clone, Copy, Debug)]
pub struct Map<'a> {
    /// The agents of the space.
    pub agents: &'a Agents,
    /// Who subscribes to what.
    pub topics: &'a Topics,
    /// The rules of the space.
    pub policy: &'a Policy,
}

/// Who sends.
#[derive(Clone, Copy)]
struct Sender<'a> {
    /// `None` is the hub.
    id: Option<&'a AgentId>,
    /// `None` for the hub, and for an agent that is gone.
    number: Option<AgentNo>,
    /// What it is; `None` is the hub. An agent that is gone leads nobody.
    role: Option<Role>,
}

impl fmt::Display for Sender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "agent {id}"),
            None => f.write_str("the hub"),
        }
    }
}

impl Map<'_> {
    /// Who gets a message of this sender; `None` is the hub.
    ///
    /// # Errors
    /// `UNKNOWN_RECIPIENT` for agents, roles and capabilities that nobody has; `POLICY_VIOLATION` for whom the sender may
    /// not reach. To a topic of which the sender may not reach every subscriber, it reaches those whom it may.
    pub fn reach(&self, from: Option<&AgentId>, to: &Destination) -> Result<Reach, Refused> {
        let sender = self.sender(from);
        match to {
            Destination::Agent(agent) => self.named(sender, std::slice::from_ref(agent)),
            Destination::Agents(agents) => self.named(sender, agents),
            Destination::Topic(topic) => Ok(Reach::Agents(self.subscribers(sender, topic))),
            Destination::Everybody => self.everybody(sender),
            Destination::Role(role) => self.with_role(sender, *role),
            Destination::Can(capability) => self.able(sender, capability),
        }
    }

    /// Whether a sender may reach an agent now; `None` is the hub. An agent may always reach itself.
    #[must_use]
    pub fn may_reach(&self, from: Option<&AgentId>, to: AgentNo) -> bool {
        self.lets(self.sender(from), to)
    }

    /// Whether a sender may reach nobody but the coordinators now; `None` is the hub.
    #[must_use]
    pub fn is_confined(&self, from: Option<&AgentId>) -> bool {
        self.policy.confines(self.sender(from).role)
    }

    fn sender<'s>(&self, from: Option<&'s AgentId>) -> Sender<'s> {
        let number = from.and_then(|id| self.agents.number(id));
        let role = from.map(|_| self.role(number).unwrap_or_default());
        Sender { id: from, number, role }
    }

    fn lets(&self, sender: Sender<'_>, to: AgentNo) -> bool {
        if self.policy.preset == Preset::Mesh || sender.number == Some(to) {
            return true;
        }
        self.policy.lets_reach(sender.role, self.role(Some(to)).unwrap_or_default())
    }

    fn role(&self, agent: Option<AgentNo>) -> Option<Role> {
        agent.and_then(|number| self.agents.get(number)).map(|agent| agent.role)
    }

    /// Each agent named, once, in the order named. Unknown ones are refused, never swallowed.
    fn named(&self, sender: Sender<'_>, named: &[AgentId]) -> Result<Reach, Refused> {
        let mut recipients = Vec::with_capacity(named.len());
        let mut seen = HashSet::new();
        let mut unknown = Vec::new();
        for id in named {
            match self.agents.number(id) {
                Some(number) if named.len() == 1 || seen.insert(number) => recipients.push(number),
                Some(_) => {}
                None => unknown.push(id.as_str()),
            }
        }
        if !unknown.is_empty() {
            let more = if unknown.len() > UNKNOWN_NAMED { " and others" } else { "" };
            let names = unknown[..unknown.len().min(UNKNOWN_NAMED)].join(", ");
            return Err(Refused::new(Code::UnknownRecipient, format!("there is no agent {names}{more}"))
                .hint("register the recipient first, or check the spelling; nothing was sent to anybody"));
        }
        match recipients.iter().find(|number| !self.lets(sender, **number)) {
            Some(barred) => {
                let to = self.agents.get(*barred).map_or("", |agent| agent.id.as_str());
                Err(out_of_reach(&sender.to_string(), &format!("agent {to}")))
            }
            None => Ok(Reach::Agents(recipients)),
        }
    }

    fn subscribers(&self, sender: Sender<'_>, topic: &Topic) -> Vec<AgentNo> {
        let mut subscribers = self.topics.subscribers(topic);
        subscribers.retain(|number| Some(*number) != sender.number && self.lets(sender, *number));
        subscribers
    }

    fn everybody(&self, sender: Sender<'_>) -> Result<Reach, Refused> {
        if self.policy.confines(sender.role) {
            return Err(Refused::new(
                Code::PolicyViolation,
                format!("{sender} may not send to everybody in this space"),
            )
            .rule("broadcast", "to")
            .hint("send it to role:coordinator; a coordinator may pass it on"));
        }
        Ok(Reach::Agents(self.all_but(sender, |_| true)))
    }

    fn with_role(&self, sender: Sender<'_>, role: Role) -> Result<Reach, Refused> {
        let word = role.as_str();
        if !self.policy.lets_reach(sender.role, role) {
            return Err(out_of_reach(&sender.to_string(), &format!("role:{word}")));
        }
        let found = self.all_but(sender, |agent| agent.role == role);
        if found.is_empty() {
            return Err(Refused::new(
                Code::UnknownRecipient,
                format!("there is no agent with the role {word} but the sender"),
            )
            .hint("register one first; nothing was sent to anybody"));
        }
        Ok(Reach::Agents(found))
    }

    fn all_but(&self, sender: Sender<'_>, wanted: impl Fn(&Agent) -> bool) -> Vec<AgentNo> {
        let all = self.agents.iter().filter(|(_, agent)| !agent.removed && wanted(agent));
        all.map(|(number, _)| number).filter(|number| Some(*number) != sender.number).collect()
    }

    fn able(&self, sender: Sender<'_>, capability: &Capability) -> Result<Reach, Refused> {
        let able = self.agents.capable(capability.as_str());
        if able.is_empty() {
            return Err(Refused::new(
                Code::UnknownRecipient,
                format!("there is no agent that can {capability}"),
            )
            .hint("register an agent with this capability first; nothing was sent to anybody"));
        }
        let leads = |number: &AgentNo| self.role(Some(*number)) == Some(Role::Coordinator);
        let takers = match self.policy.confines(sender.role) {
            false => Takers::Anybody,
            true if able.iter().any(leads) => Takers::Coordinators,
            true => return Err(out_of_reach(&sender.to_string(), &format!("can:{capability}"))),
        };
        Ok(Reach::One { capability: capability.clone(), takers })
    }
}
