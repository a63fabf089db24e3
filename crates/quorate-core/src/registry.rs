//! The agents of a space, indexed by id, number and capability.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::str::FromStr;
use std::sync::Arc;

use crate::declaration::DeclarationDigest;
use crate::ids::{AgentId, AgentNo, Epoch};
use crate::presence::Presence;
use crate::refused::{Code, Refused};

/// The role of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum AgentRole {
    /// Coordinates the others; in a supervised space all messages go through it.
    Coordinator,
    /// Performs any work.
    #[default]
    Worker,
    /// Performs one kind of work.
    Specialist,
    /// Only observes.
    Observer,
}

crate::text_serde::serde_names!(AgentRole);

impl AgentRole {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Coordinator, Self::Worker, Self::Specialist, Self::Observer];

    /// The name on the wire.
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

impl FromStr for AgentRole {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            Refused::new(Code::Invalid, format!("unknown role {text:?}"))
                .hint("use coordinator, worker, specialist or observer")
        })
    }
}

/// A registered agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agent {
    /// Id of the agent.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Role of the agent.
    pub role: AgentRole,
    /// Capabilities.
    pub capabilities: Vec<String>,
    /// Actions that it handles.
    pub supported_actions: Vec<String>,
    /// Current epoch.
    pub epoch: Epoch,
    /// Whether it was removed. Its number is never reused, so that the log stays readable; its id can be.
    pub removed: bool,
    /// Heartbeat interval. After three missed heartbeats it is offline; 0 disables the check.
    pub heartbeat_ms: u64,
    /// What it is declared to be, if it runs from a declaration.
    pub declaration: Option<DeclarationDigest>,
    /// Availability, status and health. Reset by each registration.
    pub presence: Presence,
}

/// Agents per copy-on-write chunk. A change copies one chunk, not all agents: a hundred thousand may register one by one
/// while readers hold older versions.
const CHUNK: usize = 128;
/// Shards of each index, for the same reason.
const SHARDS: usize = 128;

type IdShard = HashMap<AgentId, AgentNo, foldhash::fast::RandomState>;
type CapabilityShard = HashMap<String, Arc<Vec<AgentNo>>, foldhash::fast::RandomState>;
type Chunk = Vec<Arc<Agent>>;

/// All agents of a space. Copy-on-write: readers keep a consistent version.
#[derive(Clone, Debug, Default)]
pub struct AgentRegistry {
    /// Empty until the first registration, then [`SHARDS`] shards.
    by_id: Vec<Arc<IdShard>>,
    /// Agent numbers by capability, sharded likewise.
    by_capability: Vec<Arc<CapabilityShard>>,
    by_number: Vec<Arc<Chunk>>,
    count: usize,
}

impl AgentRegistry {
    /// Returns the number of the agent that currently has this id.
    #[must_use]
    pub fn number(&self, id: &AgentId) -> Option<AgentNo> {
        self.by_id.get(shard_of(id.as_str()))?.get(id).copied()
    }

    /// Returns the agent that currently has this id.
    #[must_use]
    pub fn by_id(&self, id: &AgentId) -> Option<&Agent> {
        self.number(id).and_then(|number| self.get(number))
    }

    /// Returns the agent with this number, removed or not.
    #[must_use]
    pub fn get(&self, number: AgentNo) -> Option<&Agent> {
        let index = usize::try_from(number.0).ok()?.checked_sub(1)?;
        self.by_number.get(index / CHUNK)?.get(index % CHUNK).map(|agent| &**agent)
    }

    /// Returns the agents with this capability, in the order of their numbers.
    #[must_use]
    pub fn capable(&self, capability: &str) -> &[AgentNo] {
        let capable = self.by_capability.get(shard_of(capability)).and_then(|shard| shard.get(capability));
        capable.map_or(&[], |capable| capable.as_slice())
    }

    /// All agents in the order of their numbers, including removed ones.
    pub fn iter(&self) -> impl Iterator<Item = (AgentNo, &Agent)> {
        let all = self.by_number.iter().flat_map(|chunk| chunk.iter());
        all.enumerate().map(|(index, agent)| (AgentNo(index as u64 + 1), &**agent))
    }

    /// The number of assigned agent numbers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no agent was ever registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The next free number.
    #[must_use]
    pub fn next_number(&self) -> AgentNo {
        AgentNo(self.count as u64 + 1)
    }

    /// Sets the agent with this number; `None` removes the newest one. Numbers are dense.
    pub(crate) fn set(&mut self, number: AgentNo, agent: Option<Agent>) {
        let old = self.shared(number);
        if let (Some(old), Some(new)) = (&old, &agent)
            && (&old.id, old.removed, &old.capabilities) == (&new.id, new.removed, &new.capabilities)
        {
            return self.put(number.0 as usize - 1, Arc::new(new.clone()));
        }
        if let Some(old) = old.filter(|old| !old.removed) {
            self.index(&old.id, None);
            old.capabilities.iter().for_each(|capability| self.remove_capability(capability, number));
        }
        let index = number.0 as usize - 1;
        match agent {
            Some(agent) => {
                if !agent.removed {
                    self.index(&agent.id, Some(number));
                    agent.capabilities.iter().for_each(|capability| self.add_capability(capability, number));
                }
                self.put(index, Arc::new(agent));
            }
            None => self.truncate(index),
        }
    }

    fn shared(&self, number: AgentNo) -> Option<Arc<Agent>> {
        let index = usize::try_from(number.0).ok()?.checked_sub(1)?;
        self.by_number.get(index / CHUNK)?.get(index % CHUNK).cloned()
    }

    fn add_capability(&mut self, capability: &str, number: AgentNo) {
        if self.by_capability.is_empty() {
            self.by_capability = vec![Arc::default(); SHARDS];
        }
        let shard = Arc::make_mut(&mut self.by_capability[shard_of(capability)]);
        let capable = Arc::make_mut(shard.entry(capability.to_owned()).or_default());
        if let Err(at) = capable.binary_search(&number) {
            capable.insert(at, number);
        }
    }

    fn remove_capability(&mut self, capability: &str, number: AgentNo) {
        let Some(shard) = self.by_capability.get_mut(shard_of(capability)).map(Arc::make_mut) else { return };
        if let Some(capable) = shard.get_mut(capability).map(Arc::make_mut) {
            capable.retain(|other| *other != number);
            if capable.is_empty() {
                shard.remove(capability);
            }
        }
    }

    fn index(&mut self, id: &AgentId, number: Option<AgentNo>) {
        if self.by_id.is_empty() {
            self.by_id = vec![Arc::default(); SHARDS];
        }
        let shard = Arc::make_mut(&mut self.by_id[shard_of(id.as_str())]);
        match number {
            Some(number) => shard.insert(id.clone(), number),
            None => shard.remove(id),
        };
    }

    fn put(&mut self, index: usize, agent: Arc<Agent>) {
        if index / CHUNK == self.by_number.len() {
            self.by_number.push(Arc::default());
        }
        let chunk = Arc::make_mut(&mut self.by_number[index / CHUNK]);
        if index == self.count {
            chunk.push(agent);
            self.count += 1;
        } else {
            chunk[index % CHUNK] = agent;
        }
    }

    /// Removes all agents from this index on.
    fn truncate(&mut self, index: usize) {
        if index >= self.count {
            return;
        }
        self.by_number.truncate(index / CHUNK + 1);
        if let Some(last) = self.by_number.last_mut() {
            Arc::make_mut(last).truncate(index % CHUNK);
        }
        self.count = index;
        if self.by_number.last().is_some_and(|last| last.is_empty()) {
            self.by_number.pop();
        }
    }
}

fn shard_of(text: &str) -> usize {
    let hash = foldhash::fast::FixedState::default().hash_one(text);
    (hash % SHARDS as u64) as usize
}

impl PartialEq for AgentRegistry {
    /// Ignores the indexes, which are derived from the agents.
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl Eq for AgentRegistry {}

impl FromIterator<Agent> for AgentRegistry {
    /// Collects agents in the order of their numbers.
    fn from_iter<I: IntoIterator<Item = Agent>>(agents: I) -> Self {
        let mut registry = Self::default();
        for agent in agents {
            registry.set(registry.next_number(), Some(agent));
        }
        registry
    }
}

#[cfg(test)]
mod tests;
