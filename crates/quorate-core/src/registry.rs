//! Who is known in a space: agents, by id and by number.

use std::collections::HashMap;
use std::str::FromStr;

use crate::ids::{AgentId, AgentNo, Epoch};
use crate::refused::{Code, Refused};

/// What an agent is in the group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Role {
    /// Leads; in a supervised space everything goes through it.
    Coordinator,
    /// Does what comes.
    #[default]
    Worker,
    /// Does one kind of thing.
    Specialist,
    /// Looks on.
    Observer,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Coordinator, Self::Worker, Self::Specialist, Self::Observer];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Specialist => "specialist",
            Self::Observer => "observer",
        }
    }
}

impl FromStr for Role {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            Refused::new(Code::Invalid, format!("there is no role {text:?}"))
                .hint("the roles are coordinator, worker, specialist and observer")
        })
    }
}

/// An agent as it registered itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// What people call it.
    pub name: String,
    /// What it is in the group.
    pub role: Role,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// Which actions it answers.
    pub supported_actions: Vec<String>,
    /// Its current start.
    pub epoch: Epoch,
    /// Removed agents keep their number, so that the log stays readable; their id is free again.
    pub removed: bool,
}

/// All agents of a space. Cloned when it changes, so that readers keep what they have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agents {
    by_id: HashMap<AgentId, AgentNo, foldhash::fast::RandomState>,
    by_number: Vec<Agent>,
    /// Who can do what, by number.
    by_capability: HashMap<String, Vec<AgentNo>, foldhash::fast::RandomState>,
}

impl Agents {
    /// The number of the agent that bears this id now.
    #[must_use]
    pub fn number(&self, id: &AgentId) -> Option<AgentNo> {
        self.by_id.get(id).copied()
    }

    /// The agent that bears this id now.
    #[must_use]
    pub fn by_id(&self, id: &AgentId) -> Option<&Agent> {
        self.number(id).and_then(|number| self.get(number))
    }

    /// The agent with this number, removed or not.
    #[must_use]
    pub fn get(&self, number: AgentNo) -> Option<&Agent> {
        let index = usize::try_from(number.0).ok()?.checked_sub(1)?;
        self.by_number.get(index)
    }

    /// The agents that can do this now, in the order of their numbers.
    #[must_use]
    pub fn capable(&self, capability: &str) -> &[AgentNo] {
        self.by_capability.get(capability).map_or(&[], Vec::as_slice)
    }

    /// All agents in the order of their numbers, removed ones included.
    pub fn iter(&self) -> impl Iterator<Item = (AgentNo, &Agent)> {
        self.by_number.iter().enumerate().map(|(index, agent)| (AgentNo(index as u64 + 1), agent))
    }

    /// How many numbers were given out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether nobody was ever registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The next free number.
    #[must_use]
    pub fn next_number(&self) -> AgentNo {
        AgentNo(self.by_number.len() as u64 + 1)
    }

    /// Puts an agent at its number; `None` takes back the newest one. Numbers are dense.
    pub(crate) fn set(&mut self, number: AgentNo, agent: Option<Agent>) {
        let index = number.0 as usize - 1;
        if let Some(old) = self.by_number.get(index)
            && !old.removed
        {
            self.by_id.remove(&old.id);
            for capability in &old.capabilities {
                if let Some(able) = self.by_capability.get_mut(capability) {
                    able.retain(|other| *other != number);
                    if able.is_empty() {
                        self.by_capability.remove(capability);
                    }
                }
            }
        }
        match agent {
            Some(agent) => {
                if !agent.removed {
                    self.by_id.insert(agent.id.clone(), number);
                    for capability in &agent.capabilities {
                        let able = self.by_capability.entry(capability.clone()).or_default();
                        if let Err(place) = able.binary_search(&number) {
                            able.insert(place, number);
                        }
                    }
                }
                if index == self.by_number.len() {
                    self.by_number.push(agent);
                } else {
                    self.by_number[index] = agent;
                }
            }
            None => self.by_number.truncate(index),
        }
    }
}

impl FromIterator<Agent> for Agents {
    /// Agents in the order of their numbers.
    fn from_iter<I: IntoIterator<Item = Agent>>(agents: I) -> Self {
        let mut all = Self::default();
        for agent in agents {
            all.set(all.next_number(), Some(agent));
        }
        all
    }
}
