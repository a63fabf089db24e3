//! Error counters by code and agent. The number of agent labels is bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{Code, Principal, SpaceNo};

/// Maximum number of agent labels of a metric per space. Further agents are counted as `other`.
pub(super) const AGENTS_MAX: usize = 100;
/// Label of all further agents.
const OTHER: &str = "other";

#[derive(Default)]
struct SpaceErrors {
    agents: HashMap<String, ()>,
    /// By code and agent; empty for callers that are not agents.
    counts: BTreeMap<(&'static str, String), u64>,
}

/// Error counters by space; `None` for unauthenticated callers.
#[derive(Default)]
pub(crate) struct ErrorCounters(Mutex<HashMap<Option<SpaceNo>, SpaceErrors>>);

impl ErrorCounters {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<SpaceNo>, SpaceErrors>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, caller: Option<(SpaceNo, &Principal)>, code: Code) {
        let mut spaces = self.lock();
        let errors = spaces.entry(caller.map(|(space, _)| space)).or_default();
        let agent = match caller {
            Some((_, Principal::Agent(agent))) => agent.as_str(),
            _ => "",
        };
        let agent = match agent {
            "" => "",
            labelled if errors.agents.contains_key(labelled) => labelled,
            new if errors.agents.len() < AGENTS_MAX => {
                errors.agents.insert(new.to_owned(), ());
                new
            }
            _ => OTHER,
        };
        *errors.counts.entry((code.as_str(), agent.to_owned())).or_default() += 1;
    }

    /// Returns each code and agent with its count.
    pub(super) fn list(&self, space: Option<SpaceNo>) -> Vec<(&'static str, String, u64)> {
        let spaces = self.lock();
        let errors = spaces.get(&space).into_iter().flat_map(|errors| &errors.counts);
        errors.map(|((code, agent), count)| (*code, agent.clone(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{AgentId, Code, Principal, SpaceNo};

    use super::{AGENTS_MAX, ErrorCounters};

    // Fails under: a label for every agent.
    #[test]
    fn d11_agent_labels_are_bounded() {
        let errors = ErrorCounters::default();
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
