//! Recent policy violations and the broadcast rate of ephemeral messages. Held in memory only, never in the log, and
//! without any message content.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorate_core::{AgentNo, BroadcastQuota, Policy, Principal, Refused, SpaceNo, Timestamp, Violation};

/// Number of policy violations retained per space.
const VIOLATIONS_MAX: usize = 1000;

#[derive(Default)]
struct SpaceRecord {
    violations: VecDeque<Violation>,
    /// Number of violations that were dropped from the front.
    dropped: u64,
    broadcasts: HashMap<AgentNo, BroadcastQuota>,
}

/// Violations and broadcast rates by space.
#[derive(Default)]
pub(crate) struct Violations(Mutex<HashMap<SpaceNo, SpaceRecord>>);

impl Violations {
    fn lock(&self) -> MutexGuard<'_, HashMap<SpaceNo, SpaceRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a violation if the refusal was caused by a rule of the space.
    pub(crate) fn record(&self, space: SpaceNo, principal: &Principal, refused: &Refused, at: Timestamp) {
        let Some(rule) = refused.facts.rule.as_ref().filter(|_| !refused.facts.private) else { return };
        let violation = Violation {
            rule: rule.clone(),
            principal: principal.to_text(),
            field: refused.facts.field.clone().unwrap_or_default(),
            code: refused.code,
            at,
        };
        let mut spaces = self.lock();
        let record = spaces.entry(space).or_default();
        if record.violations.len() >= VIOLATIONS_MAX {
            record.violations.pop_front();
            record.dropped += 1;
        }
        record.violations.push_back(violation);
    }

    /// Returns the violations after this number, oldest first, each with its number.
    pub(crate) fn after(&self, space: SpaceNo, after: u64, limit: usize) -> Vec<(u64, Violation)> {
        let spaces = self.lock();
        let Some(record) = spaces.get(&space) else { return Vec::new() };
        let numbered = (record.dropped + 1..).zip(&record.violations);
        let later = numbered.filter(|(number, _)| *number > after).take(limit);
        later.map(|(number, violation)| (number, violation.clone())).collect()
    }

    /// Counts an ephemeral broadcast against the rate limit.
    pub(crate) fn count_broadcast(
        &self,
        space: SpaceNo,
        sender: AgentNo,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let mut spaces = self.lock();
        let broadcasts = spaces.entry(space).or_default().broadcasts.entry(sender).or_default();
        *broadcasts = broadcasts.consume(policy, now)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::Code;

    use super::*;

    // Fails under: an unbounded list, or one that drops the newest.
    #[test]
    fn e6_the_newest_1000_violations_are_retained() {
        let violations = Violations::default();
        let refused = Refused::new(Code::PolicyViolation, "no").rule("supervised", "to");
        for ms in 0..VIOLATIONS_MAX as u64 + 7 {
            violations.record(SpaceNo(1), &Principal::System, &refused, Timestamp(ms));
        }
        violations.record(
            SpaceNo(1),
            &Principal::System,
            &Refused::new(Code::NotFound, "no"),
            Timestamp(9999),
        );
        let recorded = violations.after(SpaceNo(1), 0, usize::MAX);
        let at = |index: usize| (recorded[index].0, recorded[index].1.at);
        assert_eq!((recorded.len(), at(0), at(999)), (1000, (8, Timestamp(7)), (1007, Timestamp(1006))));
        let later = violations.after(SpaceNo(1), 1000, 3);
        assert_eq!(later.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1001, 1002, 1003]);
        assert_eq!(violations.after(SpaceNo(2), 0, 9), vec![]);
    }
}
