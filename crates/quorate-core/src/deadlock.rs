//! Deadlock detection on the wait-for graph. Pure: callers supply the current waits.
//!
//! A wait has several needs and ends when all of them are met (AND); each need can be met by any of its sources (OR). A
//! source is something that an agent holds, another wait that must end first, or an agent that has to claim from its
//! inbox. Something held by an agent is blocked by the waits that the agent started after acquiring it: the agent can
//! work on anything that it acquired while waiting. Starting from the unblocked sources, the algorithm repeatedly ends
//! the waits whose needs can be met; the remaining waits are deadlocked.
//! See `docs/decisions/0011-deadlock-detection.md`.

use std::collections::HashMap;

use crate::ids::{AgentNo, DeliveryNo, Seq};

/// Start order of waits: the record after which a wait started, and a counter among those.
pub(crate) type WaitAge = (Seq, u64);

/// Maximum rounds of breaking cycles in one run; remaining cycles are found by the next run.
const ROUNDS_MAX: usize = 16;

/// A node of the wait-for graph.
#[derive(Debug)]
pub(crate) struct Wait<I> {
    /// The caller's id of the wait.
    pub(crate) id: I,
    /// The waiting agent.
    pub(crate) agent: AgentNo,
    /// The delivery on whose behalf the agent waits, if stated.
    pub(crate) within: Option<DeliveryNo>,
    pub(crate) age: WaitAge,
    /// Needs, all of which must be met.
    pub(crate) needs: Vec<Need>,
}

/// A need of a wait, met by any of its sources.
#[derive(Debug)]
pub(crate) struct Need {
    /// Index of the resource among those that the wait is for.
    pub(crate) resource: usize,
    pub(crate) sources: Vec<Source>,
}

/// A way in which a need can be met.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Release of something held by an agent.
    Held {
        agent: AgentNo,
        /// The delivery that it is held for, if stated.
        within: Option<DeliveryNo>,
        /// The record in which the agent acquired it.
        since: Seq,
    },
    /// The end of another wait, which is ahead in a queue.
    Wait(usize),
    /// A claim by an agent from its inbox.
    Inbox(AgentNo),
}

/// Current load of an agent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AgentWorkload {
    /// Number of deliveries and tasks that it holds.
    pub(crate) in_progress: usize,
    /// Whether it accepts the next delivery immediately.
    pub(crate) accepts_more: bool,
}

/// A cycle of the wait-for graph.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeadlockCycle {
    /// The waits of the cycle as (wait, resource), youngest first; each waits for the next one.
    pub(crate) waits: Vec<(usize, usize)>,
}

/// Finds the cycles that have to be broken so that every wait can end. `waits` are ordered by age.
pub(crate) fn find_cycles<I>(
    waits: &[Wait<I>],
    workload: impl Fn(AgentNo) -> AgentWorkload,
) -> Vec<DeadlockCycle> {
    let mut graph = Graph::new(waits, workload);
    graph.propagate();
    let mut found = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let cycles = graph.cycles();
        if cycles.is_empty() {
            break;
        }
        graph.ended.extend(cycles.iter().map(|cycle| cycle.waits[0].0));
        found.extend(cycles);
        graph.propagate();
    }
    found
}

/// Waits of one agent that block the same resources.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// Number of waits.
    waits: usize,
    /// The youngest wait.
    youngest: usize,
    /// Range of its blocked needs in [`Graph::blocked`] that are not met yet.
    blocked: (usize, usize),
}

/// A need blocked by a group: it is met when the group's agent releases something that it acquired in record `since`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct BlockedNeed {
    group: usize,
    since: Seq,
    need: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum GroupKey {
    /// All waits of an agent.
    Agent(AgentNo),
    /// Waits without a stated delivery.
    Unscoped(AgentNo),
    /// Waits on behalf of a delivery.
    Delivery(AgentNo, DeliveryNo),
}

struct Graph<'a, I> {
    waits: &'a [Wait<I>],
    groups: Vec<Group>,
    group_of: HashMap<GroupKey, usize, foldhash::fast::RandomState>,
    /// The two groups of each wait.
    groups_of: Vec<[usize; 2]>,
    /// Sorted by group, then by record.
    blocked: Vec<BlockedNeed>,
    /// Each need: its wait, and whether it is met.
    needs: Vec<(usize, bool)>,
    /// Index of the first need of each wait.
    first_need: Vec<usize>,
    /// Needs that are met when a wait ends, as (wait, need), sorted by wait.
    dependents: Vec<(usize, usize)>,
    /// Number of unmet needs of each wait.
    open: Vec<usize>,
    /// Work list: waits that can end and have not been propagated yet.
    ended: Vec<usize>,
}

impl<'a, I> Graph<'a, I> {
    fn new(waits: &'a [Wait<I>], workload: impl Fn(AgentNo) -> AgentWorkload) -> Self {
        let count = waits.len();
        let mut graph = Self {
            waits,
            groups: Vec::with_capacity(2 * count),
            group_of: HashMap::with_capacity_and_hasher(2 * count, foldhash::fast::RandomState::default()),
            groups_of: Vec::with_capacity(count),
            blocked: Vec::with_capacity(count),
            needs: Vec::with_capacity(count),
            first_need: Vec::with_capacity(count),
            dependents: Vec::new(),
            open: waits.iter().map(|wait| wait.needs.len()).collect(),
            ended: Vec::with_capacity(count),
        };
        for (index, wait) in waits.iter().enumerate() {
            let groups = keys_of(wait).map(|key| graph.join(key, index));
            graph.groups_of.push(groups);
        }
        for (index, wait) in waits.iter().enumerate() {
            graph.first_need.push(graph.needs.len());
            for need in &wait.needs {
                let number = graph.needs.len();
                graph.needs.push((index, false));
                if need.sources.iter().any(|source| graph.is_free(wait, source, &workload)) {
                    graph.meet(number);
                } else {
                    graph.block(number, &need.sources);
                }
            }
            if wait.needs.is_empty() {
                graph.ended.push(index);
            }
        }
        graph.index_blocked();
        graph
    }

    /// Adds a wait to a group. Called in order of age.
    fn join(&mut self, key: GroupKey, wait: usize) -> usize {
        let next = self.groups.len();
        let group = *self.group_of.entry(key).or_insert(next);
        if group == next {
            self.groups.push(Group::default());
        }
        self.groups[group].waits += 1;
        self.groups[group].youngest = wait;
        group
    }

    /// Sorts the blocked needs and records the range of each group.
    fn index_blocked(&mut self) {
        self.blocked.sort_unstable();
        self.dependents.sort_unstable();
        for (index, need) in self.blocked.iter().enumerate() {
            let range = &mut self.groups[need.group].blocked;
            if range.1 == 0 {
                range.0 = index;
            }
            range.1 = index + 1;
        }
    }

    fn size(&self, key: GroupKey) -> usize {
        self.group_of.get(&key).map_or(0, |group| self.groups[*group].waits)
    }

    /// Whether no wait blocks a source.
    fn is_free(&self, wait: &Wait<I>, source: &Source, workload: impl Fn(AgentNo) -> AgentWorkload) -> bool {
        let (agent, since) = match *source {
            Source::Wait(_) => return false,
            Source::Held { agent, since, .. } => (agent, since),
            Source::Inbox(agent) => (agent, Seq(0)),
        };
        // An agent that waits for itself may do two things concurrently, or time out: only the agent can know.
        if agent == wait.agent {
            return true;
        }
        let key = self.blocking_group(source);
        let started_since = |youngest: usize| self.waits[youngest].age.0 >= since;
        if !self.youngest(key).is_some_and(started_since) {
            return true;
        }
        let AgentWorkload { in_progress, accepts_more } = workload(agent);
        match key {
            _ if accepts_more && matches!(source, Source::Inbox(_)) => true,
            // More work than waits: some of it progresses. Without a stated delivery it is unknown which.
            GroupKey::Agent(agent) | GroupKey::Unscoped(agent) => {
                in_progress > self.size(GroupKey::Agent(agent))
            }
            GroupKey::Delivery(..) => false,
        }
    }

    /// The group of waits that blocks a source. Something held for a delivery is blocked by the waits of that delivery, or,
    /// if there are none, by the waits without a stated delivery.
    fn blocking_group(&self, source: &Source) -> GroupKey {
        match *source {
            Source::Held { agent, within: Some(delivery), .. } => {
                let own = GroupKey::Delivery(agent, delivery);
                if self.group_of.contains_key(&own) { own } else { GroupKey::Unscoped(agent) }
            }
            Source::Held { agent, within: None, .. } | Source::Inbox(agent) => GroupKey::Agent(agent),
            Source::Wait(wait) => GroupKey::Agent(self.waits[wait].agent),
        }
    }

    /// Returns the youngest wait of a group.
    fn youngest(&self, key: GroupKey) -> Option<usize> {
        self.group_of.get(&key).map(|group| self.groups[*group].youngest)
    }

    /// Registers a need that is met as soon as one of its sources is unblocked.
    fn block(&mut self, need: usize, sources: &[Source]) {
        for source in sources {
            let since = match *source {
                Source::Wait(wait) => {
                    self.dependents.push((wait, need));
                    continue;
                }
                Source::Held { since, .. } => since,
                Source::Inbox(_) => Seq(0),
            };
            // The source is blocked, so the group exists.
            if let Some(group) = self.group_of.get(&self.blocking_group(source)).copied() {
                self.blocked.push(BlockedNeed { group, since, need });
            }
        }
    }

    fn meet(&mut self, need: usize) {
        let (wait, met) = &mut self.needs[need];
        // A wait that was broken has no unmet needs left.
        if !std::mem::replace(met, true) && self.open[*wait] > 0 {
            self.open[*wait] -= 1;
            if self.open[*wait] == 0 {
                self.ended.push(*wait);
            }
        }
    }

    /// Ends every wait that can end, transitively.
    fn propagate(&mut self) {
        while let Some(wait) = self.ended.pop() {
            self.open[wait] = 0;
            let mut next = self.dependents.partition_point(|(awaited, _)| *awaited < wait);
            while let Some((_, need)) = self.dependents.get(next).filter(|(awaited, _)| *awaited == wait) {
                self.meet(*need);
                next += 1;
            }
            let since = self.waits[wait].age.0;
            for group in self.groups_of[wait] {
                // Everything that the agent held when this wait started is no longer blocked by it.
                while let (next, end) = self.groups[group].blocked
                    && next < end
                    && self.blocked[next].since <= since
                {
                    self.groups[group].blocked.0 += 1;
                    self.meet(self.blocked[next].need);
                }
            }
        }
    }

    /// The successor of a deadlocked wait: the first source of its first unmet need.
    fn next(&self, wait: usize) -> Option<(usize, usize)> {
        let first = self.first_need[wait];
        let needs = self.waits[wait].needs.iter().enumerate();
        let mut unmet = needs.filter(|(index, _)| !self.needs[first + index].1).map(|(_, need)| need);
        let need = unmet.next()?;
        let next = match need.sources.first()? {
            Source::Wait(other) => Some(*other),
            held => self.youngest(self.blocking_group(held)),
        };
        next.map(|next| (next, need.resource))
    }

    /// The cycles among the deadlocked waits. Each has one successor, so each leads into exactly one cycle.
    fn cycles(&self) -> Vec<DeadlockCycle> {
        let mut seen = vec![false; self.waits.len()];
        let mut found = Vec::new();
        for start in (0..self.waits.len()).filter(|wait| self.open[*wait] > 0) {
            let mut path = Vec::new();
            let mut at = start;
            while !seen[at]
                && let Some((next, resource)) = self.next(at)
            {
                seen[at] = true;
                path.push((at, resource));
                at = next;
            }
            let Some(cycle_start) = path.iter().position(|(wait, _)| *wait == at) else { continue };
            let mut cycle = path.split_off(cycle_start);
            let youngest = (0..cycle.len()).max_by_key(|index| self.waits[cycle[*index].0].age).unwrap_or(0);
            cycle.rotate_left(youngest);
            found.push(DeadlockCycle { waits: cycle });
        }
        // Order by the age of the wait to break, independently of where the search started.
        found.sort_unstable_by_key(|cycle| cycle.waits[0].0);
        found
    }
}

fn keys_of<I>(wait: &Wait<I>) -> [GroupKey; 2] {
    let own = match wait.within {
        Some(delivery) => GroupKey::Delivery(wait.agent, delivery),
        None => GroupKey::Unscoped(wait.agent),
    };
    [GroupKey::Agent(wait.agent), own]
}

#[cfg(test)]
mod tests;
