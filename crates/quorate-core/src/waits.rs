//! Who waits for whom, and which waits can never end. Pure: what waits there are, others say.
//!
//! A wait needs several things, all of them; each may come from any of several sources. A source is something that an
//! agent has in its hands, another wait that must end first, or an agent that has to take something from its inbox. What an
//! agent has in its hands is held up by the waits that it began since: what came into its hands later, it took while it
//! waited, so it can work on it. Whatever nobody holds up comes free, and lets waits end, and so on; the waits that are
//! left over hold each other up for ever. See `docs/decisions/0011-who-waits-for-whom.md`.

use std::collections::HashMap;

use crate::ids::{AgentNo, DeliveryNo, Seq};

/// The order in which waits began: after which record, and their turn among those.
pub(crate) type Age = (Seq, u64);

/// Rounds in which waits are called off at one look; what is left over is found by the next.
const ROUNDS_MAX: usize = 16;

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Wait<I> {
    /// Which wait it is.
    pub(crate) id: I,
    /// Who waits.
    pub(crate) agent: AgentNo,
    /// The delivery that it works on meanwhile, if it said so.
    pub(crate) within: Option<DeliveryNo>,
    pub(crate) age: Age,
    /// What it needs, all of it.
    pub(crate) needs: Vec<Need>,
}

/// One thing that a wait needs, from any of its sources.
#[derive(Debug)]
pub(crate) struct Need {
    /// Which of the things that it waits for.
    pub(crate) what: usize,
    pub(crate) sources: Vec<Source>,
}

/// Where something may come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Something in an agent's hands.
    Held {
        agent: AgentNo,
        /// The delivery that it belongs to, if its holder said so.
        within: Option<DeliveryNo>,
        /// The record since which the agent has it.
        since: Seq,
    },
    /// Another wait, which must end first.
    Wait(usize),
    /// An agent that has to take something from its inbox.
    Inbox(AgentNo),
}

/// How busy an agent is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hands {
    /// How many deliveries and tasks it works on.
    pub(crate) works: usize,
    /// Whether it takes the next delivery at once.
    pub(crate) takes_more: bool,
}

/// Waits that hold each other up in a circle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Knot {
    /// The youngest comes first, each is followed by the one that it waits for. With the thing that each waits for.
    pub(crate) cycle: Vec<(usize, usize)>,
}

/// The circles that have to be broken so that every wait can end. `waits` are in the order of their ages.
pub(crate) fn knots<I>(waits: &[Wait<I>], hands: impl Fn(AgentNo) -> Hands) -> Vec<Knot> {
    let mut graph = Graph::new(waits, hands);
    graph.ease();
    let mut found = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let round = graph.circles();
        if round.is_empty() {
            break;
        }
        graph.ended.extend(round.iter().map(|knot| knot.cycle[0].0));
        found.extend(round);
        graph.ease();
    }
    found
}

/// Waits of one agent that can hold up the same things.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// How many there are.
    waits: usize,
    /// The last of them in the order of their ages.
    youngest: usize,
    /// The first of its hopes that did not come true yet, and the end of them.
    hopes: (usize, usize),
}

/// A need that something of a group's agent would meet, with the record since which the agent has that thing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Hope {
    group: usize,
    since: Seq,
    need: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Of {
    /// All waits of an agent.
    Agent(AgentNo),
    /// Those that do not say what they belong to.
    Loose(AgentNo),
    /// Those that belong to a delivery.
    Work(AgentNo, DeliveryNo),
}

struct Graph<'a, I> {
    waits: &'a [Wait<I>],
    groups: Vec<Group>,
    group_of: HashMap<Of, usize, foldhash::fast::RandomState>,
    /// The two groups that each wait belongs to.
    groups_of: Vec<[usize; 2]>,
    /// By group, then by the record.
    hopes: Vec<Hope>,
    /// Each need: its wait, and whether it can be met.
    needs: Vec<(usize, bool)>,
    /// The first need of each wait.
    first_need: Vec<usize>,
    /// Needs that are met when a wait ends: the wait and the need, by wait.
    behind: Vec<(usize, usize)>,
    /// How many needs of each wait cannot be met yet.
    open: Vec<usize>,
    /// Waits that can end, and whose consequences were not drawn yet.
    ended: Vec<usize>,
}

impl<'a, I> Graph<'a, I> {
    fn new(waits: &'a [Wait<I>], hands: impl Fn(AgentNo) -> Hands) -> Self {
        let count = waits.len();
        let mut graph = Self {
            waits,
            groups: Vec::with_capacity(2 * count),
            group_of: HashMap::with_capacity_and_hasher(2 * count, foldhash::fast::RandomState::default()),
            groups_of: Vec::with_capacity(count),
            hopes: Vec::with_capacity(count),
            needs: Vec::with_capacity(count),
            first_need: Vec::with_capacity(count),
            behind: Vec::new(),
            open: waits.iter().map(|wait| wait.needs.len()).collect(),
            ended: Vec::with_capacity(count),
        };
        for (index, wait) in waits.iter().enumerate() {
            let groups = of_wait(wait).map(|of| graph.join(of, index));
            graph.groups_of.push(groups);
        }
        for (index, wait) in waits.iter().enumerate() {
            graph.first_need.push(graph.needs.len());
            for need in &wait.needs {
                let number = graph.needs.len();
                graph.needs.push((index, false));
                if need.sources.iter().any(|source| graph.is_free(wait, source, &hands)) {
                    graph.meet(number);
                } else {
                    graph.hope(number, &need.sources);
                }
            }
            if wait.needs.is_empty() {
                graph.ended.push(index);
            }
        }
        graph.in_order();
        graph
    }

    /// Takes a wait into a group. They come in the order of their ages.
    fn join(&mut self, of: Of, wait: usize) -> usize {
        let next = self.groups.len();
        let group = *self.group_of.entry(of).or_insert(next);
        if group == next {
            self.groups.push(Group::default());
        }
        self.groups[group].waits += 1;
        self.groups[group].youngest = wait;
        group
    }

    /// Puts hopes together that come true together.
    fn in_order(&mut self) {
        self.hopes.sort_unstable();
        self.behind.sort_unstable();
        for (index, hope) in self.hopes.iter().enumerate() {
            let hopes = &mut self.groups[hope.group].hopes;
            if hopes.1 == 0 {
                hopes.0 = index;
            }
            hopes.1 = index + 1;
        }
    }

    fn size(&self, of: Of) -> usize {
        self.group_of.get(&of).map_or(0, |group| self.groups[*group].waits)
    }

    /// Whether no wait holds a source up.
    fn is_free(&self, wait: &Wait<I>, source: &Source, hands: impl Fn(AgentNo) -> Hands) -> bool {
        let (agent, since) = match *source {
            Source::Wait(_) => return false,
            Source::Held { agent, since, .. } => (agent, since),
            Source::Inbox(agent) => (agent, Seq(0)),
        };
        // An agent that waits for itself does two things at once, or gives up when its time is over: only it can know.
        if agent == wait.agent {
            return true;
        }
        let of = self.holds_up(source);
        let begun_since = |youngest: usize| self.waits[youngest].age.0 >= since;
        if !self.youngest(of).is_some_and(begun_since) {
            return true;
        }
        let Hands { works, takes_more } = hands(agent);
        match of {
            _ if takes_more && matches!(source, Source::Inbox(_)) => true,
            // More work than waits: some of it goes on, and unless a wait says what it belongs to, nobody knows which.
            Of::Agent(agent) | Of::Loose(agent) => works > self.size(Of::Agent(agent)),
            Of::Work(..) => false,
        }
    }

    /// Which waits hold a source up. A thing that belongs to a delivery is held up by the waits of that delivery; if
    /// there are none, by those that say nothing.
    fn holds_up(&self, source: &Source) -> Of {
        match *source {
            Source::Held { agent, within: Some(work), .. } => {
                let own = Of::Work(agent, work);
                if self.group_of.contains_key(&own) { own } else { Of::Loose(agent) }
            }
            Source::Held { agent, within: None, .. } | Source::Inbox(agent) => Of::Agent(agent),
            Source::Wait(wait) => Of::Agent(self.waits[wait].agent),
        }
    }

    /// The youngest wait of a group.
    fn youngest(&self, of: Of) -> Option<usize> {
        self.group_of.get(&of).map(|group| self.groups[*group].youngest)
    }

    /// The need is met as soon as one of its sources is no longer held up.
    fn hope(&mut self, need: usize, sources: &[Source]) {
        for source in sources {
            let since = match *source {
                Source::Wait(wait) => {
                    self.behind.push((wait, need));
                    continue;
                }
                Source::Held { since, .. } => since,
                Source::Inbox(_) => Seq(0),
            };
            // Somebody holds it up, so there is such a group.
            if let Some(group) = self.group_of.get(&self.holds_up(source)).copied() {
                self.hopes.push(Hope { group, since, need });
            }
        }
    }

    fn meet(&mut self, need: usize) {
        let (wait, met) = &mut self.needs[need];
        // A wait that was called off has no open need left.
        if !std::mem::replace(met, true) && self.open[*wait] > 0 {
            self.open[*wait] -= 1;
            if self.open[*wait] == 0 {
                self.ended.push(*wait);
            }
        }
    }

    /// Lets every wait end that can, and draws the consequences.
    fn ease(&mut self) {
        while let Some(wait) = self.ended.pop() {
            self.open[wait] = 0;
            let mut next = self.behind.partition_point(|(before, _)| *before < wait);
            while let Some((_, need)) = self.behind.get(next).filter(|(before, _)| *before == wait) {
                self.meet(*need);
                next += 1;
            }
            let since = self.waits[wait].age.0;
            for group in self.groups_of[wait] {
                // What the agent had in its hands when this wait began is not held up by it any more.
                while let (next, end) = self.groups[group].hopes
                    && next < end
                    && self.hopes[next].since <= since
                {
                    self.groups[group].hopes.0 += 1;
                    self.meet(self.hopes[next].need);
                }
            }
        }
    }

    /// The wait that a stuck one waits for: at the first thing that it cannot have, the first source.
    fn next(&self, wait: usize) -> Option<(usize, usize)> {
        let first = self.first_need[wait];
        let needs = self.waits[wait].needs.iter().enumerate();
        let mut unmet = needs.filter(|(index, _)| !self.needs[first + index].1).map(|(_, need)| need);
        let need = unmet.next()?;
        let next = match need.sources.first()? {
            Source::Wait(other) => Some(*other),
            held => self.youngest(self.holds_up(held)),
        };
        next.map(|next| (next, need.what))
    }

    /// The circles among the waits that are stuck: each points at one other, so each leads into one circle.
    fn circles(&self) -> Vec<Knot> {
        let mut seen = vec![false; self.waits.len()];
        let mut found = Vec::new();
        for start in (0..self.waits.len()).filter(|wait| self.open[*wait] > 0) {
            let mut path = Vec::new();
            let mut at = start;
            while !seen[at]
                && let Some((next, what)) = self.next(at)
            {
                seen[at] = true;
                path.push((at, what));
                at = next;
            }
            let Some(begin) = path.iter().position(|(wait, _)| *wait == at) else { continue };
            let mut cycle = path.split_off(begin);
            let youngest = (0..cycle.len()).max_by_key(|index| self.waits[cycle[*index].0].age).unwrap_or(0);
            cycle.rotate_left(youngest);
            found.push(Knot { cycle });
        }
        // By the age of whoever is called off, wherever the search began.
        found.sort_unstable_by_key(|knot| knot.cycle[0].0);
        found
    }
}

fn of_wait<I>(wait: &Wait<I>) -> [Of; 2] {
    let own = match wait.within {
        Some(work) => Of::Work(wait.agent, work),
        None => Of::Loose(wait.agent),
    };
    [Of::Agent(wait.agent), own]
}

#[cfg(test)]
mod tests;
