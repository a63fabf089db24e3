//! Routing: resolves destinations to recipients and applies the policy, for durable and ephemeral messages alike.

use std::collections::HashSet;
use std::fmt;

use crate::destination::Destination;
use crate::ids::{AgentId, AgentNo, Capability};
use crate::limits::REFUSAL_NAMES_MAX;
use crate::policy::{Policy, Preset, recipient_not_allowed};
use crate::pool::PoolAccess;
use crate::refused::{Code, Refused};
use crate::registry::{Agent, AgentRegistry, AgentRole};
use crate::topic::Topic;
use crate::working::SubscriptionTree;

/// The recipients of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoutedTo {
    /// Each of these agents, once.
    Agents(Vec<AgentNo>),
    /// Exactly one agent with a capability.
    AnyCapable {
        /// The required capability.
        capability: Capability,
        /// The agents that may claim it.
        access: PoolAccess,
    },
}

/// The state that routing decisions are based on.
#[derive(Clone, Copy, Debug)]
pub struct RoutingContext<'a> {
    /// The agents of the space.
    pub agents: &'a AgentRegistry,
    /// Subscriptions by topic.
    pub topics: &'a SubscriptionTree,
    /// Policy of the space.
    pub policy: &'a Policy,
}

/// The sender of a message.
#[derive(Clone, Copy)]
struct Sender<'a> {
    /// `None` is the hub.
    id: Option<&'a AgentId>,
    /// `None` for the hub and for a removed agent.
    number: Option<AgentNo>,
    /// `None` is the hub. A removed agent has the default role, not coordinator.
    role: Option<AgentRole>,
}

impl fmt::Display for Sender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "agent {id}"),
            None => f.write_str("the hub"),
        }
    }
}

impl RoutingContext<'_> {
    /// Returns the recipients of a message from this sender; `None` is the hub.
    ///
    /// # Errors
    /// `UNKNOWN_RECIPIENT` for unregistered agents and for roles and capabilities without an agent; `POLICY_VIOLATION` for
    /// recipients that the sender may not reach. Subscribers of a topic that the sender may not reach are skipped.
    pub fn route(&self, from: Option<&AgentId>, to: &Destination) -> Result<RoutedTo, Refused> {
        let sender = self.sender(from);
        match to {
            Destination::Agent(agent) => self.agents_by_id(sender, std::slice::from_ref(agent)),
            Destination::Agents(agents) => self.agents_by_id(sender, agents),
            Destination::Topic(topic) => Ok(RoutedTo::Agents(self.subscribers(sender, topic))),
            Destination::Broadcast => self.broadcast(sender),
            Destination::Role(role) => self.with_role(sender, *role),
            Destination::Can(capability) => self.with_capability(sender, capability),
        }
    }

    /// Whether the policy allows a sender to reach an agent; `None` is the hub. An agent may always reach itself.
    #[must_use]
    pub fn can_reach(&self, from: Option<&AgentId>, to: AgentNo) -> bool {
        self.is_allowed(self.sender(from), to)
    }

    /// Whether the policy restricts a sender to the coordinators; `None` is the hub.
    #[must_use]
    pub fn is_restricted(&self, from: Option<&AgentId>) -> bool {
        self.policy.restricts_to_coordinators(self.sender(from).role)
    }

    fn sender<'s>(&self, from: Option<&'s AgentId>) -> Sender<'s> {
        let number = from.and_then(|id| self.agents.number(id));
        let role = from.map(|_| self.role(number).unwrap_or_default());
        Sender { id: from, number, role }
    }

    fn is_allowed(&self, sender: Sender<'_>, to: AgentNo) -> bool {
        if self.policy.preset == Preset::Mesh || sender.number == Some(to) {
            return true;
        }
        self.policy.allows(sender.role, self.role(Some(to)).unwrap_or_default())
    }

    fn role(&self, agent: Option<AgentNo>) -> Option<AgentRole> {
        agent.and_then(|number| self.agents.get(number)).map(|agent| agent.role)
    }

    /// Resolves named agents without duplicates, in the given order. Unknown agents are refused, never ignored.
    fn agents_by_id(&self, sender: Sender<'_>, ids: &[AgentId]) -> Result<RoutedTo, Refused> {
        let mut recipients = Vec::with_capacity(ids.len());
        let mut seen = HashSet::new();
        let mut unknown = Vec::new();
        for id in ids {
            match self.agents.number(id) {
                Some(number) if ids.len() == 1 || seen.insert(number) => recipients.push(number),
                Some(_) => {}
                None => unknown.push(id.as_str()),
            }
        }
        if !unknown.is_empty() {
            let more = if unknown.len() > REFUSAL_NAMES_MAX { " and others" } else { "" };
            let names = unknown[..unknown.len().min(REFUSAL_NAMES_MAX)].join(", ");
            return Err(Refused::new(Code::UnknownRecipient, format!("there is no agent {names}{more}"))
                .hint("register the agent first, or check the spelling; no recipient got the message"));
        }
        match recipients.iter().find(|number| !self.is_allowed(sender, **number)) {
            Some(forbidden) => {
                let to = self.agents.get(*forbidden).map_or("", |agent| agent.id.as_str());
                Err(recipient_not_allowed(&sender.to_string(), &format!("agent {to}")))
            }
            None => Ok(RoutedTo::Agents(recipients)),
        }
    }

    fn subscribers(&self, sender: Sender<'_>, topic: &Topic) -> Vec<AgentNo> {
        let mut subscribers = self.topics.subscribers(topic);
        subscribers.retain(|number| Some(*number) != sender.number && self.is_allowed(sender, *number));
        subscribers
    }

    fn broadcast(&self, sender: Sender<'_>) -> Result<RoutedTo, Refused> {
        if self.policy.restricts_to_coordinators(sender.role) {
            return Err(Refused::new(
                Code::PolicyViolation,
                format!("{sender} may not broadcast in this space"),
            )
            .rule("broadcast", "to")
            .hint("send it to role:coordinator; a coordinator may forward it"));
        }
        Ok(RoutedTo::Agents(self.others(sender, |_| true)))
    }

    fn with_role(&self, sender: Sender<'_>, role: AgentRole) -> Result<RoutedTo, Refused> {
        let name = role.as_str();
        if !self.policy.allows(sender.role, role) {
            return Err(recipient_not_allowed(&sender.to_string(), &format!("role:{name}")));
        }
        let found = self.others(sender, |agent| agent.role == role);
        if found.is_empty() {
            return Err(Refused::new(
                Code::UnknownRecipient,
                format!("no agent other than the sender has role {name}"),
            )
            .hint("register an agent with this role first; the message was not sent"));
        }
        Ok(RoutedTo::Agents(found))
    }

    fn others(&self, sender: Sender<'_>, filter: impl Fn(&Agent) -> bool) -> Vec<AgentNo> {
        let all = self.agents.iter().filter(|(_, agent)| !agent.removed && filter(agent));
        all.map(|(number, _)| number).filter(|number| Some(*number) != sender.number).collect()
    }

    fn with_capability(&self, sender: Sender<'_>, capability: &Capability) -> Result<RoutedTo, Refused> {
        let capable = self.agents.capable(capability.as_str());
        if capable.is_empty() {
            return Err(Refused::new(
                Code::UnknownRecipient,
                format!("no agent has capability {capability}"),
            )
            .hint("register an agent with this capability first; the message was not sent"));
        }
        let is_coordinator = |number: &AgentNo| self.role(Some(*number)) == Some(AgentRole::Coordinator);
        let access = match self.policy.restricts_to_coordinators(sender.role) {
            false => PoolAccess::AnyCapable,
            true if capable.iter().any(is_coordinator) => PoolAccess::Coordinators,
            true => return Err(recipient_not_allowed(&sender.to_string(), &format!("can:{capability}"))),
        };
        Ok(RoutedTo::AnyCapable { capability: capability.clone(), access })
    }
}
