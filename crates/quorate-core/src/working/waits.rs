//! What waits there are, from every room that has some, and when to look at them next.

use crate::ids::{AgentNo, ConsumerId};
use crate::limits::WAITS_LOOK_MS;
use crate::time::Mono;
use crate::waits::{Hands, Need, Source, Wait};
use crate::working::{Map, Working};

/// Which wait it is, to call it off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WaitId {
    /// For locks.
    Locks(ConsumerId),
}

impl Working {
    /// Whether anybody waits for something that others have.
    fn has_waits(&self) -> bool {
        self.locks().has_waiters()
    }

    /// Somebody begins to wait: from now on there is something to look at.
    pub(super) fn wait_begins(&mut self, now: Mono) {
        if !self.has_waits() {
            self.look_at = Some(now.plus_ms(WAITS_LOOK_MS));
        }
    }

    /// When to look who waits for whom.
    pub(super) fn next_look(&self) -> Option<Mono> {
        self.look_at.filter(|_| self.has_waits())
    }

    /// Whether it is time to look; if so, the next time is set.
    pub(crate) fn look_due(&mut self, now: Mono) -> bool {
        let due = self.next_look().is_some_and(|at| at <= now);
        if due {
            self.look_at = Some(now.plus_ms(WAITS_LOOK_MS));
        }
        due
    }

    /// All waits, in the order of their ages.
    pub(crate) fn waits(&self) -> Vec<Wait<WaitId>> {
        let mut waits = Vec::new();
        self.lock_waits(&mut waits);
        waits.sort_unstable_by_key(|wait| wait.age);
        waits
    }

    /// How busy an agent is.
    pub(crate) fn hands(&self, agent: AgentNo) -> Hands {
        let inbox = self.inbox(agent);
        let works = inbox.leased.len() + self.items.tasks.count_held_by(agent);
        Hands { works, takes_more: inbox.is_awaited() }
    }

    /// A wait for locks needs each of them: from whoever is before it in line, or from any who holds it.
    fn lock_waits(&self, waits: &mut Vec<Wait<WaitId>>) {
        let locks = self.locks();
        let mut all: Vec<_> = locks.waiters().collect();
        all.sort_unstable_by_key(|(_, waiter)| (waiter.since, waiter.turn));
        let begin = waits.len();
        let index: Map<_, _> = all.iter().enumerate().map(|(at, (id, _))| (*id, begin + at)).collect();
        let mut before: Map<(ConsumerId, &str), usize> = Map::default();
        for name in locks.awaited() {
            let queue: Vec<_> = locks.queue(name).collect();
            for pair in queue.windows(2) {
                before.insert((pair[1], name.as_str()), index[&pair[0]]);
            }
        }
        for (id, waiter) in all {
            let mut needs = Vec::new();
            for (what, name) in waiter.names.iter().enumerate() {
                let sources = match before.get(&(id, name.as_str())) {
                    Some(other) => vec![Source::Wait(*other)],
                    None => locks.get(name).filter(|lock| !lock.has_room()).map_or(Vec::new(), |lock| {
                        let held = |grant: &crate::lock::Grant| Source::Held {
                            agent: grant.holder,
                            within: grant.within,
                            since: grant.seq,
                        };
                        lock.grants.iter().map(held).collect()
                    }),
                };
                if !sources.is_empty() {
                    needs.push(Need { what, sources });
                }
            }
            waits.push(Wait {
                id: WaitId::Locks(id),
                agent: waiter.agent,
                within: waiter.within,
                age: (waiter.since, waiter.turn),
                needs,
            });
        }
    }
}
