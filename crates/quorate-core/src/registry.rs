//! Who is known in a space: agents, by id and by number.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::str::FromStr;
use std::sync::Arc;

use crate::ids::{AgentId, AgentNo, Epoch};
use crate::presence::Presence;
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

crate::text_serde::serde_words!(Role);

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
    /// How often it gives a sign of life; three missed, and it is offline. 0 = nobody looks.
    pub heartbeat_ms: u64,
    /// Whether it can be reached, and what it says of itself. A new start begins afresh.
    pub presence: Presence,
}

/// Agents that lie together. A change copies one such group and not all agents: a hundred thousand may register one by
/// one while readers hold the state before.
const GROUP: usize = 128;
/// Parts of the index by id, for the same reason.
const PARTS: usize = 128;

type Part = HashMap<AgentId, AgentNo, foldhash::fast::RandomState>;
type Able = HashMap<String, Arc<Vec<AgentNo>>, foldhash::fast::RandomState>;
type Group = Vec<Arc<Agent>>;

/// All agents of a space. What changes is copied, so that readers keep what they have.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// Empty until the first agent comes, then [`PARTS`] of them.
    by_id: Vec<Arc<Part>>,
    /// Who can do what, by number. Split likewise.
    by_capability: Vec<Arc<Able>>,
    by_number: Vec<Arc<Group>>,
    count: usize,
}

impl Agents {
    /// The number of the agent that bears this id now.
    #[must_use]
    pub fn number(&self, id: &AgentId) -> Option<AgentNo> {
        self.by_id.get(part_of(id.as_str()))?.get(id).copied()
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
        self.by_number.get(index / GROUP)?.get(index % GROUP).map(|agent| &**agent)
    }

    /// The agents that can do this now, in the order of their numbers.
    #[must_use]
    pub fn capable(&self, capability: &str) -> &[AgentNo] {
        let able = self.by_capability.get(part_of(capability)).and_then(|part| part.get(capability));
        able.map_or(&[], |able| able.as_slice())
    }

    /// All agents in the order of their numbers, removed ones included.
    pub fn iter(&self) -> impl Iterator<Item = (AgentNo, &Agent)> {
        let all = self.by_number.iter().flat_map(|group| group.iter());
        all.enumerate().map(|(index, agent)| (AgentNo(index as u64 + 1), &**agent))
    }

    /// How many numbers were given out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nobody was ever registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The next free number.
    #[must_use]
    pub fn next_number(&self) -> AgentNo {
        AgentNo(self.count as u64 + 1)
    }

    /// Puts an agent at its number; `None` takes back the newest one. Numbers are dense.
    pub(crate) fn set(&mut self, number: AgentNo, agent: Option<Agent>) {
        let old = self.shared(number);
        if let (Some(old), Some(new)) = (&old, &agent)
            && (&old.id, old.removed, &old.capabilities) == (&new.id, new.removed, &new.capabilities)
        {
            return self.place(number.0 as usize - 1, Arc::new(new.clone()));
        }
        if let Some(old) = old.filter(|old| !old.removed) {
            self.index(&old.id, None);
            old.capabilities.iter().for_each(|capability| self.unable(capability, number));
        }
        let index = number.0 as usize - 1;
        match agent {
            Some(agent) => {
                if !agent.removed {
                    self.index(&agent.id, Some(number));
                    agent.capabilities.iter().for_each(|capability| self.able(capability, number));
                }
                self.place(index, Arc::new(agent));
            }
            None => self.cut(index),
        }
    }

    fn shared(&self, number: AgentNo) -> Option<Arc<Agent>> {
        let index = usize::try_from(number.0).ok()?.checked_sub(1)?;
        self.by_number.get(index / GROUP)?.get(index % GROUP).cloned()
    }

    fn able(&mut self, capability: &str, number: AgentNo) {
        if self.by_capability.is_empty() {
            self.by_capability = vec![Arc::default(); PARTS];
        }
        let part = Arc::make_mut(&mut self.by_capability[part_of(capability)]);
        let able = Arc::make_mut(part.entry(capability.to_owned()).or_default());
        if let Err(place) = able.binary_search(&number) {
            able.insert(place, number);
        }
    }

    fn unable(&mut self, capability: &str, number: AgentNo) {
        let Some(part) = self.by_capability.get_mut(part_of(capability)).map(Arc::make_mut) else { return };
        if let Some(able) = part.get_mut(capability).map(Arc::make_mut) {
            able.retain(|other| *other != number);
            if able.is_empty() {
                part.remove(capability);
            }
        }
    }

    fn index(&mut self, id: &AgentId, number: Option<AgentNo>) {
        if self.by_id.is_empty() {
            self.by_id = vec![Arc::default(); PARTS];
        }
        let part = Arc::make_mut(&mut self.by_id[part_of(id.as_str())]);
        match number {
            Some(number) => part.insert(id.clone(), number),
            None => part.remove(id),
        };
    }

    fn place(&mut self, index: usize, agent: Arc<Agent>) {
        if index / GROUP == self.by_number.len() {
            self.by_number.push(Arc::default());
        }
        let group = Arc::make_mut(&mut self.by_number[index / GROUP]);
        if index == self.count {
            group.push(agent);
            self.count += 1;
        } else {
            group[index % GROUP] = agent;
        }
    }

    /// Takes back everything from this index on.
    fn cut(&mut self, index: usize) {
        if index >= self.count {
            return;
        }
        self.by_number.truncate(index / GROUP + 1);
        if let Some(last) = self.by_number.last_mut() {
            Arc::make_mut(last).truncate(index % GROUP);
        }
        self.count = index;
        if self.by_number.last().is_some_and(|last| last.is_empty()) {
            self.by_number.pop();
        }
    }
}

fn part_of(word: &str) -> usize {
    let hash = foldhash::fast::FixedState::default().hash_one(word);
    (hash % PARTS as u64) as usize
}

impl PartialEq for Agents {
    /// The indexes follow from the agents.
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl Eq for Agents {}

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

#[cfg(test)]
mod tests;
