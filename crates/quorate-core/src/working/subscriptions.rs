//! Topic subscriptions as a trie of words. Nodes are shared (copy-on-write), so that a snapshot for readers costs one
//! pointer, and a change copies only the nodes along its path.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::ids::AgentNo;
use crate::subscription::Subscription;
use crate::topic::{Pattern, Topic};

/// A trie of subscription patterns.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionTree {
    root: Arc<Node>,
    count: usize,
}

/// A node of the trie. The path to it consists of the words before it.
#[derive(Clone, Debug, Default)]
struct Node {
    words: HashMap<Arc<str>, Arc<Node>, foldhash::fast::RandomState>,
    /// Child for the wildcard `*`.
    wildcard: Option<Arc<Node>>,
    /// Agents whose pattern ends here; sorted, without duplicates.
    exact: Vec<AgentNo>,
    /// Agents whose pattern ends here with `>`; sorted, without duplicates.
    rest: Vec<AgentNo>,
}

impl SubscriptionTree {
    /// Returns the number of subscriptions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the subscribers of a topic, sorted. An agent appears once, however many of its patterns match.
    #[must_use]
    pub fn subscribers(&self, topic: &Topic) -> Vec<AgentNo> {
        let mut found = Vec::new();
        let mut lists = 0;
        let mut take = |agents: &[AgentNo]| {
            if !agents.is_empty() {
                found.extend_from_slice(agents);
                lists += 1;
            }
        };
        let words: Vec<&str> = topic.words().collect();
        let mut pending: Vec<(&Node, usize)> = vec![(&self.root, 0)];
        while let Some((node, at)) = pending.pop() {
            let Some(word) = words.get(at) else {
                take(&node.exact);
                continue;
            };
            take(&node.rest);
            pending.extend(node.words.get(*word).map(|next| (&**next, at + 1)));
            pending.extend(node.wildcard.as_deref().map(|next| (next, at + 1)));
        }
        // A single list is already sorted.
        if lists > 1 {
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

impl FromIterator<(AgentNo, Pattern)> for SubscriptionTree {
    fn from_iter<I: IntoIterator<Item = (AgentNo, Pattern)>>(subscriptions: I) -> Self {
        let mut tree = Self::default();
        for (agent, pattern) in subscriptions {
            tree.add(agent, &pattern);
        }
        tree
    }
}

impl Node {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.wildcard.is_none() && self.exact.is_empty() && self.rest.is_empty()
    }

    fn add(&mut self, agent: AgentNo, words: &[&str]) -> bool {
        match words {
            [] => insert(&mut self.exact, agent),
            [">"] => insert(&mut self.rest, agent),
            ["*", rest @ ..] => Arc::make_mut(self.wildcard.get_or_insert_default()).add(agent, rest),
            [word, rest @ ..] => {
                if let Some(next) = self.words.get_mut(*word) {
                    return Arc::make_mut(next).add(agent, rest);
                }
                let mut next = Self::default();
                let added = next.add(agent, rest);
                self.words.insert((*word).into(), Arc::new(next));
                added
            }
        }
    }

    fn remove(&mut self, agent: AgentNo, words: &[&str]) -> bool {
        match words {
            [] => remove_sorted(&mut self.exact, agent),
            [">"] => remove_sorted(&mut self.rest, agent),
            ["*", rest @ ..] => {
                let Some(next) = &mut self.wildcard else { return false };
                let removed = Arc::make_mut(next).remove(agent, rest);
                self.wildcard.take_if(|next| next.is_empty());
                removed
            }
            [word, rest @ ..] => {
                let Some(next) = self.words.get_mut(*word) else { return false };
                let removed = Arc::make_mut(next).remove(agent, rest);
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
        Err(index) => {
            agents.insert(index, agent);
            true
        }
    }
}

fn remove_sorted(agents: &mut Vec<AgentNo>, agent: AgentNo) -> bool {
    match agents.binary_search(&agent) {
        Ok(index) => {
            agents.remove(index);
            true
        }
        Err(_) => false,
    }
}

/// All subscriptions, and the trie over them.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    by_id: BTreeMap<Arc<str>, Subscription>,
    by_agent: BTreeSet<(AgentNo, Arc<str>)>,
    tree: Arc<SubscriptionTree>,
}

impl Subscriptions {
    pub(crate) fn get(&self, id: &str) -> Option<&Subscription> {
        self.by_id.get(id)
    }

    pub(crate) fn tree(&self) -> &Arc<SubscriptionTree> {
        &self.tree
    }

    /// Returns the subscriptions of an agent, sorted by id.
    pub(crate) fn of_agent(&self, agent: AgentNo) -> impl Iterator<Item = &Subscription> {
        let own = self.by_agent.range((agent, "".into())..).take_while(move |(other, _)| *other == agent);
        own.filter_map(|(_, id)| self.by_id.get(id))
    }

    /// Replaces a subscription and returns the previous one.
    pub(super) fn replace(&mut self, id: &Arc<str>, new: Option<Subscription>) -> Option<Subscription> {
        let old = match new.clone() {
            Some(new) => self.by_id.insert(Arc::clone(id), new),
            None => self.by_id.remove(id),
        };
        let subscriber = |subscription: &Option<Subscription>| {
            subscription.as_ref().map(|subscription| subscription.agent_number)
        };
        // The trie does not change if only the state of a subscription changes.
        if subscriber(&old) == subscriber(&new) {
            return old;
        }
        let tree = Arc::make_mut(&mut self.tree);
        if let Some(old) = &old {
            self.by_agent.remove(&(old.agent_number, Arc::clone(id)));
            tree.remove(old.agent_number, &old.pattern);
        }
        if let Some(new) = &new {
            self.by_agent.insert((new.agent_number, Arc::clone(id)));
            tree.add(new.agent_number, &new.pattern);
        }
        old
    }
}

#[cfg(test)]
mod tests;
