//! Who subscribes to what: a tree of words. Nodes are shared, so that a copy for readers costs one pointer and a change
//! copies only the nodes on its way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::ids::AgentNo;
use crate::subscription::Subscription;
use crate::topic::{Pattern, Topic};

/// Who subscribes to what.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    root: Arc<Node>,
    count: usize,
}

/// One place in the tree: the words before it are the way to it.
#[derive(Clone, Debug, Default)]
struct Node {
    words: HashMap<Arc<str>, Arc<Node>, foldhash::fast::RandomState>,
    /// Where `*` leads.
    any: Option<Arc<Node>>,
    /// Whose pattern ends here; in order, each once.
    here: Vec<AgentNo>,
    /// Whose pattern ends here with `>`; in order, each once.
    rest: Vec<AgentNo>,
}

impl Topics {
    /// How many subscriptions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nobody subscribes to anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Who subscribes to a topic, in order, each once however many of its patterns match.
    #[must_use]
    pub fn subscribers(&self, topic: &Topic) -> Vec<AgentNo> {
        let mut found = Vec::new();
        let mut sources = 0;
        let mut take = |agents: &[AgentNo]| {
            if !agents.is_empty() {
                found.extend_from_slice(agents);
                sources += 1;
            }
        };
        let words: Vec<&str> = topic.words().collect();
        let mut places: Vec<(&Node, usize)> = vec![(&self.root, 0)];
        while let Some((node, at)) = places.pop() {
            let Some(word) = words.get(at) else {
                take(&node.here);
                continue;
            };
            take(&node.rest);
            places.extend(node.words.get(*word).map(|next| (&**next, at + 1)));
            places.extend(node.any.as_deref().map(|next| (next, at + 1)));
        }
        // One list is in order already.
        if sources > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    pub(super) fn add(&mut self, agent: AgentNo, pattern: &Pattern) {
        let words: Vec<&str> = pattern.words().collect();
        self.count += usize::from(Arc::make_mut(&mut self.root).add(agent, &words));
    }

    pub(super) fn remove(&mut self, agent: AgentNo, pattern: &Pattern) {
        let words: Vec<&str> = pattern.words().collect();
        self.count -= usize::from(Arc::make_mut(&mut self.root).remove(agent, &words));
    }
}

impl FromIterator<(AgentNo, Pattern)> for Topics {
    fn from_iter<I: IntoIterator<Item = (AgentNo, Pattern)>>(subscriptions: I) -> Self {
        let mut all = Self::default();
        for (agent, pattern) in subscriptions {
            all.add(agent, &pattern);
        }
        all
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.any.is_none() && self.here.is_empty() && self.rest.is_empty()
    }

    fn add(&mut self, agent: AgentNo, words: &[&str]) -> bool {
        match words {
            [] => insert(&mut self.here, agent),
            [">"] => insert(&mut self.rest, agent),
            ["*", others @ ..] => Arc::make_mut(self.any.get_or_insert_default()).add(agent, others),
            [word, others @ ..] => {
                if let Some(next) = self.words.get_mut(*word) {
                    return Arc::make_mut(next).add(agent, others);
                }
                let mut next = Self::default();
                let added = next.add(agent, others);
                self.words.insert((*word).into(), Arc::new(next));
                added
            }
        }
    }

    fn remove(&mut self, agent: AgentNo, words: &[&str]) -> bool {
        match words {
            [] => take_out(&mut self.here, agent),
            [">"] => take_out(&mut self.rest, agent),
            ["*", others @ ..] => {
                let Some(next) = &mut self.any else { return false };
                let removed = Arc::make_mut(next).remove(agent, others);
                self.any.take_if(|next| next.is_empty());
                removed
            }
            [word, others @ ..] => {
                let Some(next) = self.words.get_mut(*word) else { return false };
                let removed = Arc::make_mut(next).remove(agent, others);
                if next.is_empty() {
                    self.words.remove(*word);
                }
                removed
            }
        }
    }
}

fn insert(agents: &mut Vec<AgentNo>, agent: AgentNo) -> bool {
    match agents.binary_search(&agent) {
        Ok(_) => false,
        Err(place) => {
            agents.insert(place, agent);
            true
        }
    }
}

fn take_out(agents: &mut Vec<AgentNo>, agent: AgentNo) -> bool {
    match agents.binary_search(&agent) {
        Ok(place) => {
            agents.remove(place);
            true
        }
        Err(_) => false,
    }
}

/// The subscriptions at hand, and the tree over them.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_id: BTreeMap<Arc<str>, Subscription>,
    by_agent: BTreeSet<(AgentNo, Arc<str>)>,
    topics: Arc<Topics>,
}

impl Subscriptions {
    pub(crate) fn get(&self, id: &str) -> Option<&Subscription> {
        self.by_id.get(id)
    }

    pub(crate) fn topics(&self) -> &Arc<Topics> {
        &self.topics
    }

    /// The subscriptions of one agent, by id.
    pub(crate) fn of(&self, agent: AgentNo) -> impl Iterator<Item = &Subscription> {
        let own = self.by_agent.range((agent, "".into())..).take_while(move |(other, _)| *other == agent);
        own.filter_map(|(_, id)| self.by_id.get(id))
    }

    /// Puts a subscription in its place and returns what was there.
    pub(super) fn place(&mut self, id: &Arc<str>, new: Option<Subscription>) -> Option<Subscription> {
        let old = match new.clone() {
            Some(new) => self.by_id.insert(Arc::clone(id), new),
            None => self.by_id.remove(id),
        };
        let whose = |one: &Option<Subscription>| one.as_ref().map(|one| one.number);
        // Who wants what is the same while the state alone changes.
        if whose(&old) == whose(&new) {
            return old;
        }
        let topics = Arc::make_mut(&mut self.topics);
        if let Some(old) = &old {
            self.by_agent.remove(&(old.number, Arc::clone(id)));
            topics.remove(old.number, &old.pattern);
        }
        if let Some(new) = &new {
            self.by_agent.insert((new.number, Arc::clone(id)));
            topics.add(new.number, &new.pattern);
        }
        old
    }
}

#[cfg(test)]
mod tests;
