//! What the rules of a space refused of late, and what ephemeral messages cost their senders: in memory only, never in
//! the log, and never any content.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{AgentNo, Broadcasts, Policy, Principal, Refused, SpaceNo, Timestamp, Violation};

/// Violations that a space remembers: the newest ones.
const VIOLATIONS_MAX: usize = 1000;

#[derive(Default)]
struct Noted {
    violations: VecDeque<Violation>,
    /// How many were forgotten: the first that is remembered is the one after these.
    forgotten: u64,
    broadcasts: HashMap<AgentNo, Broadcasts>,
}

/// What is noted, space by space.
#[derive(Default)]
pub(crate) struct Guard(Mutex<HashMap<SpaceNo, Noted>>);

impl Guard {
    fn lock(&self) -> MutexGuard<'_, HashMap<SpaceNo, Noted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a refusal if a rule of the space said no.
    pub(crate) fn note(&self, space: SpaceNo, principal: &Principal, refused: &Refused, at: Timestamp) {
        let Some(rule) = refused.facts.rule.as_ref().filter(|_| !refused.facts.private) else { return };
        let violation = Violation {
            rule: rule.clone(),
            principal: principal.to_text(),
            place: refused.facts.place.clone().unwrap_or_default(),
            code: refused.code,
            at,
        };
        let mut spaces = self.lock();
        let noted = spaces.entry(space).or_default();
        if noted.violations.len() >= VIOLATIONS_MAX {
            noted.violations.pop_front();
            noted.forgotten += 1;
        }
        noted.violations.push_back(violation);
    }

    /// What was refused, oldest first, each with the how many-th it is: those after this one.
    pub(crate) fn violations(&self, space: SpaceNo, after: u64, limit: usize) -> Vec<(u64, Violation)> {
        let spaces = self.lock();
        let Some(noted) = spaces.get(&space) else { return Vec::new() };
        let numbered = (noted.forgotten + 1..).zip(&noted.violations);
        let later = numbered.filter(|(number, _)| *number > after).take(limit);
        later.map(|(number, one)| (number, one.clone())).collect()
    }

    /// Counts an ephemeral message to everybody.
    pub(crate) fn broadcast(
        &self,
        space: SpaceNo,
        sender: AgentNo,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let mut spaces = self.lock();
        let broadcasts = spaces.entry(space).or_default().broadcasts.entry(sender).or_default();
        *broadcasts = broadcasts.one_more(policy, now)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::Code;

    use super::*;

    // Fails under: a list without an end, or one that forgets the newest.
    #[test]
    fn e6_the_newest_1000_violations_are_remembered() {
        let guard = Guard::default();
        let refused = Refused::new(Code::PolicyViolation, "no").rule("supervised", "to");
        for ms in 0..VIOLATIONS_MAX as u64 + 7 {
            guard.note(SpaceNo(1), &Principal::System, &refused, Timestamp(ms));
        }
        guard.note(SpaceNo(1), &Principal::System, &Refused::new(Code::NotFound, "no"), Timestamp(9999));
        let noted = guard.violations(SpaceNo(1), 0, usize::MAX);
        let at = |index: usize| (noted[index].0, noted[index].1.at);
        assert_eq!((noted.len(), at(0), at(999)), (1000, (8, Timestamp(7)), (1007, Timestamp(1006))));
        let later = guard.violations(SpaceNo(1), 1000, 3);
        assert_eq!(later.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1001, 1002, 1003]);
        assert_eq!(guard.violations(SpaceNo(2), 0, 9), vec![]);
    }
}
