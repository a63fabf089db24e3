//! Who waits for whom, looked at again and again until nothing changes any more.

use quorate_core::{AgentNo, Code, DeliveryNo, Item, Refused, Seq, TaskState, Told, Waits, limits};

use crate::reference::locks::LockWaiter;
use crate::reference::space::Space;
use crate::reference::step::Step;

/// Rounds in which waits are called off at one look.
const ROUNDS: usize = 16;

/// What keeps somebody waiting.
enum Source {
    /// Something that an agent holds since a record.
    Held { agent: AgentNo, within: Option<DeliveryNo>, since: Seq },
    /// Somebody who is before it in line.
    Ahead(usize),
}

/// Somebody who waits, the oldest first.
struct Wait {
    waiter: LockWaiter,
    /// What it lacks: each from any of its sources.
    needs: Vec<(String, Vec<Source>)>,
    /// Whether it can end.
    ends: bool,
}

struct Look<'a> {
    space: &'a Space,
    waits: Vec<Wait>,
}

impl Step<'_> {
    /// Looks who waits for whom, if it is time, and calls off what can never end.
    pub(super) fn look_at_waits(&mut self) {
        let due = self.space.look_at.is_some_and(|at| at <= self.now.mono);
        if !due || self.space.lock_waiters.is_empty() {
            return;
        }
        self.space.look_at = Some(self.now.mono.plus_ms(limits::WAITS_LOOK_MS));
        let mut look = Look { space: self.space, waits: waits_of(self.space) };
        look.spread();
        let mut refusals = Vec::new();
        for _ in 0..ROUNDS {
            let circles = look.circles();
            if circles.is_empty() {
                break;
            }
            for circle in &circles {
                let mut refused = Refused::new(Code::Deadlock, "they wait for each other");
                refused.facts.cycle = circle.iter().map(|wait| look.words(*wait)).collect();
                refusals.push((look.waits[circle[0]].waiter.id, refused));
            }
            for circle in circles {
                look.waits[circle[0]].ends = true;
            }
            look.spread();
        }
        for (id, refused) in refusals {
            self.leave_line(id);
            self.told.push((id, Told::Refused(refused)));
            self.changed = true;
        }
    }
}

impl Space {
    /// How many deliveries and tasks an agent works on.
    fn works_of(&self, agent: AgentNo) -> usize {
        let held = |item: &&Item| match item {
            Item::Task(task) => matches!(&task.state, TaskState::Leased(lease) if lease.by == agent),
            _ => false,
        };
        self.leased_count(agent) + self.items.values().filter(held).count()
    }
}

fn waits_of(space: &Space) -> Vec<Wait> {
    let line = space.lock_line();
    let mut waiters = space.lock_waiters.clone();
    waiters.sort_by_key(|waiter| waiter.since);
    let index = |waiter: &LockWaiter| waiters.iter().position(|other| other.id == waiter.id).unwrap_or(0);
    let needs = |waiter: &LockWaiter| {
        let before = line.iter().position(|other| other.id == waiter.id).unwrap_or(0);
        let mut needs = Vec::new();
        for name in &waiter.names {
            let ahead = line[..before].iter().rev().find(|other| other.names.contains(name));
            let lock = space.lock(name);
            if let Some(ahead) = ahead {
                needs.push((format!("lock {name}"), vec![Source::Ahead(index(ahead))]));
            } else if let Some(lock) = lock
                && lock.grants.len() >= lock.capacity as usize
            {
                let held = lock.grants.iter().map(|grant| Source::Held {
                    agent: grant.holder,
                    within: grant.within,
                    since: grant.seq,
                });
                needs.push((format!("lock {name}"), held.collect()));
            }
        }
        needs
    };
    waiters.iter().map(|waiter| Wait { waiter: waiter.clone(), needs: needs(waiter), ends: false }).collect()
}

impl Look<'_> {
    /// The waits that hold up what an agent holds, and whether they say so themselves.
    fn holding_up(&self, agent: AgentNo, within: Option<DeliveryNo>) -> (Vec<usize>, bool) {
        let of_agent = |wait: &&usize| self.waits[**wait].waiter.agent == agent;
        let all: Vec<usize> = (0..self.waits.len()).collect();
        let mine: Vec<usize> = all.iter().filter(of_agent).copied().collect();
        let that = |within: Option<DeliveryNo>| {
            let same = |wait: &&usize| self.waits[**wait].waiter.within == within;
            mine.iter().filter(same).copied().collect::<Vec<_>>()
        };
        match within {
            Some(_) if !that(within).is_empty() => (that(within), true),
            Some(_) => (that(None), false),
            None => (mine, false),
        }
    }

    fn is_free(&self, wait: usize, source: &Source) -> bool {
        match *source {
            Source::Ahead(other) => self.waits[other].ends,
            Source::Held { agent, .. } if agent == self.waits[wait].waiter.agent => true,
            Source::Held { agent, within, since } => {
                let (holding_up, certain) = self.holding_up(agent, within);
                let all = self.waits.iter().filter(|other| other.waiter.agent == agent).count();
                if !certain && self.space.works_of(agent) > all {
                    return true;
                }
                let mut begun_since =
                    holding_up.iter().filter(|other| self.waits[**other].waiter.since >= since);
                let none = begun_since.clone().next().is_none();
                none || begun_since.any(|other| self.waits[*other].ends)
            }
        }
    }

    fn is_met(&self, wait: usize, need: usize) -> bool {
        self.waits[wait].needs[need].1.iter().any(|source| self.is_free(wait, source))
    }

    /// The first thing that a wait lacks.
    fn lacks(&self, wait: usize) -> Option<usize> {
        (0..self.waits[wait].needs.len()).find(|need| !self.is_met(wait, *need))
    }

    /// Everything ends that can.
    fn spread(&mut self) {
        loop {
            let can = |wait: &usize| !self.waits[*wait].ends && self.lacks(*wait).is_none();
            let Some(next) = (0..self.waits.len()).find(can) else { return };
            self.waits[next].ends = true;
        }
    }

    /// Whom a wait that cannot end waits for.
    fn next(&self, wait: usize) -> usize {
        let need = self.lacks(wait).expect("a wait that cannot end lacks something");
        match self.waits[wait].needs[need].1[0] {
            Source::Ahead(other) => other,
            Source::Held { agent, within, .. } => {
                *self.holding_up(agent, within).0.last().expect("something holds it up")
            }
        }
    }

    /// Each circle once, the youngest first.
    fn circles(&self) -> Vec<Vec<usize>> {
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for start in (0..self.waits.len()).filter(|wait| !self.waits[*wait].ends) {
            // After as many steps as there are waits, it goes round in the circle that it leads to.
            let inside = self.waits.iter().fold(start, |at, _| self.next(at));
            let mut circle = vec![inside];
            while self.next(circle[circle.len() - 1]) != inside {
                circle.push(self.next(circle[circle.len() - 1]));
            }
            let youngest = circle.iter().max().copied().unwrap_or(inside);
            let at = circle.iter().position(|wait| *wait == youngest).unwrap_or(0);
            circle.rotate_left(at);
            if !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }

    fn words(&self, wait: usize) -> Waits {
        let Wait { waiter, needs, .. } = &self.waits[wait];
        let agent = self.space.agent(waiter.agent).id.to_string();
        let need = self.lacks(wait).expect("a wait that cannot end lacks something");
        Waits { agent, waits_for: needs[need].0.clone() }
    }
}
