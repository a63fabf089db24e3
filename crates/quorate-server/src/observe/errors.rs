//! Refusals and failures, by code and by agent. The number of agents that are told apart is bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{Code, Principal, SpaceNo};

/// Agents of a space that are told apart; the others are `other`.
pub(super) const AGENTS_MAX: usize = 100;
/// The name of all the others.
const OTHER: &str = "other";

#[derive(Default)]
struct OfSpace {
    agents: HashMap<String, ()>,
    /// By code and agent; no agent is the empty text.
    counts: BTreeMap<(&'static str, String), u64>,
}

/// What was refused, space by space. Who is not known belongs to none.
#[derive(Default)]
pub(crate) struct Errors(Mutex<HashMap<Option<SpaceNo>, OfSpace>>);

impl Errors {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<SpaceNo>, OfSpace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, by: Option<(SpaceNo, &Principal)>, code: Code) {
        let mut spaces = self.lock();
        let of = spaces.entry(by.map(|(space, _)| space)).or_default();
        let agent = match by {
            Some((_, Principal::Agent(agent))) => agent.as_str(),
            _ => "",
        };
        let agent = match agent {
            "" => "",
            known if of.agents.contains_key(known) => known,
            new if of.agents.len() < AGENTS_MAX => {
                of.agents.insert(new.to_owned(), ());
                new
            }
            _ => OTHER,
        };
        *of.counts.entry((code.as_str(), agent.to_owned())).or_default() += 1;
    }

    /// Each code and agent with its count.
    pub(super) fn list(&self, space: Option<SpaceNo>) -> Vec<(&'static str, String, u64)> {
        let spaces = self.lock();
        let of = spaces.get(&space).into_iter().flat_map(|of| &of.counts);
        of.map(|((code, agent), count)| (*code, agent.clone(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{AgentId, Code, Principal, SpaceNo};

    use super::{AGENTS_MAX, Errors};

    // Fails under: a label for every agent that there is.
    #[test]
    fn d11_ten_thousand_agents_have_a_hundred_labels() {
        let errors = Errors::default();
        for n in 0..10_000 {
            let agent = Principal::Agent(AgentId::new(format!("agent-{n}")).expect("an id"));
            errors.count(Some((SpaceNo(1), &agent)), Code::Invalid);
        }
        errors.count(None, Code::Unauthenticated);
        let list = errors.list(Some(SpaceNo(1)));
        assert_eq!(list.len(), AGENTS_MAX + 1);
        assert_eq!(list.iter().map(|(_, _, count)| count).sum::<u64>(), 10_000);
        let other = list.iter().find(|(_, agent, _)| agent == "other").expect("the others");
        assert_eq!(other.2, (10_000 - AGENTS_MAX) as u64);
        assert_eq!(errors.list(None), [("UNAUTHENTICATED", String::new(), 1)]);
        assert_eq!(errors.list(Some(SpaceNo(2))), []);
    }
}
