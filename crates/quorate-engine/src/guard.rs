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
        let Some(rule) = &refused.facts.rule else { return };
        let violation = Violation {
            rule: rule.clone(),
            principal: principal.to_text(),
            place: refused.facts.place.clone().unwrap_or_default(),
            code: refused.code,
            at,
        };
        let mut spaces = self.lock();
        let violations = &mut spaces.entry(space).or_default().violations;
        if violations.len() >= VIOLATIONS_MAX {
            violations.pop_front();
        }
        violations.push_back(violation);
    }

    /// What was refused, oldest first.
    pub(crate) fn violations(&self, space: SpaceNo) -> Vec<Violation> {
        self.lock().get(&space).map(|noted| noted.violations.iter().cloned().collect()).unwrap_or_default()
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
        let noted = guard.violations(SpaceNo(1));
        assert_eq!((noted.len(), noted[0].at, noted[999].at), (1000, Timestamp(7), Timestamp(1006)));
        assert_eq!(guard.violations(SpaceNo(2)), vec![]);
    }
}
