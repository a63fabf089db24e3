//! Refusals that operators should know of: policy violations, refused loops, exceeded budgets and broken deadlocks; and the
//! broadcast rate of ephemeral messages.
//!
//! A refused attempt changes nothing, so it is not in the log, and there is never any message content. Refusals of the
//! same kind by the same principal within a minute are one entry with a count. Entries are written to the private store
//! in the background, at most once per [`FLUSH_INTERVAL`] and space, so that refusals cannot amplify writes: a crash loses
//! those that were not written yet. Coordinators are notified of violations, once per agent and rule in
//! [`NOTIFY_INTERVAL_MS`].

mod notify;
mod stored;

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::{
    AgentNo, BroadcastQuota, Code, Policy, Principal, Refused, SpaceNo, Timestamp, Violation,
};

/// Number of violations retained per space.
const VIOLATIONS_MAX: usize = 1000;
/// Refusals of the same kind by the same principal are counted together if they follow each other within this time.
const COUNTED_TOGETHER_MS: u64 = 60_000;
/// Minimum interval between notifications about one principal and rule.
const NOTIFY_INTERVAL_MS: u64 = 10 * 60_000;
/// Delay from the first refusal until it is written and reported.
const FLUSH_DELAY: Duration = Duration::from_secs(1);
/// Minimum interval between writes of one space.
const FLUSH_INTERVAL: Duration = Duration::from_secs(10);

/// A violation with its number.
#[derive(Clone)]
struct Recorded {
    number: u64,
    violation: Violation,
    /// Whether it changed since it was written.
    is_dirty: bool,
}

/// What is counted together: rule, principal, field and code.
type Kind = (String, String, String, Code);

#[derive(Default)]
struct SpaceRecord {
    violations: VecDeque<Recorded>,
    /// Number of the newest violation.
    last: u64,
    /// Newest violation of each kind, by number.
    newest: HashMap<Kind, u64>,
    /// Whether a background task writes the violations.
    is_flushing: bool,
    /// Time of the last notification about a principal and rule.
    notified: HashMap<(String, String), Timestamp>,
    broadcasts: HashMap<AgentNo, BroadcastQuota>,
}

/// Violations and broadcast rates by space.
#[derive(Default)]
pub(crate) struct Violations(Mutex<HashMap<SpaceNo, SpaceRecord>>);

impl Violations {
    fn lock(&self) -> MutexGuard<'_, HashMap<SpaceNo, SpaceRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a refusal if operators should know of it. Returns whether a background task must be started to write it.
    pub(crate) fn record(
        &self,
        space: SpaceNo,
        principal: &Principal,
        refused: &Refused,
        at: Timestamp,
    ) -> bool {
        let Some(rule) = rule_of(refused) else { return false };
        let violation = Violation {
            rule,
            principal: principal.to_text(),
            field: refused.facts.field.clone().unwrap_or_default(),
            code: refused.code,
            at,
            count: 1,
        };
        let mut spaces = self.lock();
        let record = spaces.entry(space).or_default();
        record.add(violation);
        !std::mem::replace(&mut record.is_flushing, true)
    }

    /// Whether there are no violations of a space, or they were not read yet.
    pub(crate) fn is_empty(&self, space: SpaceNo) -> bool {
        self.lock().get(&space).is_none_or(|record| record.violations.is_empty())
    }

    /// Returns the violations after this number, oldest first, each with its number.
    pub(crate) fn after(&self, space: SpaceNo, after: u64, limit: usize) -> Vec<(u64, Violation)> {
        let spaces = self.lock();
        let Some(record) = spaces.get(&space) else { return Vec::new() };
        let later = record.violations.iter().filter(|recorded| recorded.number > after).take(limit);
        later.map(|recorded| (recorded.number, recorded.violation.clone())).collect()
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

impl SpaceRecord {
    fn add(&mut self, violation: Violation) {
        let Violation { rule, principal, field, code, .. } = &violation;
        let kind = (rule.clone(), principal.clone(), field.clone(), *code);
        let index_of =
            |number: &u64| self.violations.binary_search_by_key(number, |recorded| recorded.number).ok();
        let newest = self.newest.get(&kind).and_then(index_of);
        if let Some(recorded) = newest.and_then(|index| self.violations.get_mut(index))
            && violation.at < recorded.violation.at.plus_ms(COUNTED_TOGETHER_MS)
        {
            let count = recorded.violation.count.saturating_add(1);
            recorded.violation = Violation { count, ..violation };
            recorded.is_dirty = true;
            return;
        }
        self.last += 1;
        self.newest.insert(kind, self.last);
        self.push(Recorded { number: self.last, violation, is_dirty: true });
    }

    fn push(&mut self, recorded: Recorded) {
        if self.violations.len() >= VIOLATIONS_MAX
            && let Some(dropped) = self.violations.pop_front()
        {
            let Violation { rule, principal, field, code, .. } = dropped.violation;
            let kind = (rule, principal, field, code);
            if self.newest.get(&kind) == Some(&dropped.number) {
                self.newest.remove(&kind);
            }
        }
        self.violations.push_back(recorded);
    }
}

/// Returns the rule that a refusal names, or the kernel's own rule; `None` if operators need not know of it.
fn rule_of(refused: &Refused) -> Option<String> {
    if refused.facts.private {
        return None;
    }
    let own = match refused.code {
        Code::LoopRefused => Some("loop"),
        Code::BudgetExceeded => Some("budget"),
        Code::Deadlock => Some("deadlock"),
        _ => None,
    };
    refused.facts.rule.clone().or_else(|| own.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use quorate_core::AgentId;

    use super::*;

    fn refuse(violations: &Violations, name: &str, rule: &str, ms: u64) -> bool {
        let refused = Refused::new(Code::PolicyViolation, "no").rule(rule, "to");
        let principal = Principal::Agent(AgentId::new(name).expect("an id"));
        violations.record(SpaceNo(1), &principal, &refused, Timestamp(ms))
    }

    fn counts(violations: &Violations) -> Vec<(u64, String, u64)> {
        let all = violations.after(SpaceNo(1), 0, usize::MAX).into_iter();
        all.map(|(number, found)| (number, format!("{} {}", found.principal, found.rule), found.count))
            .collect()
    }

    // Fails under: an unbounded list, or one that drops the newest.
    #[test]
    fn e6_the_newest_1000_violations_are_retained() {
        let violations = Violations::default();
        for n in 0..VIOLATIONS_MAX as u64 + 7 {
            refuse(&violations, &format!("agent-{n}"), "supervised", n);
        }
        let unknown = Refused::new(Code::NotFound, "no");
        violations.record(SpaceNo(1), &Principal::System, &unknown, Timestamp(9999));
        let recorded = violations.after(SpaceNo(1), 0, usize::MAX);
        let at = |index: usize| (recorded[index].0, recorded[index].1.at);
        assert_eq!((recorded.len(), at(0), at(999)), (1000, (8, Timestamp(7)), (1007, Timestamp(1006))));
        let later = violations.after(SpaceNo(1), 1000, 3);
        assert_eq!(later.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1001, 1002, 1003]);
        assert_eq!(violations.after(SpaceNo(2), 0, 9), vec![]);
    }

    // Fails under: a storm that fills the list, kinds counted together, or an entry that never ends.
    #[test]
    fn m9_refusals_of_the_same_kind_are_counted() {
        let violations = Violations::default();
        assert!(refuse(&violations, "a", "supervised", 0), "the first one starts a writer");
        for ms in 1..100_000 {
            assert!(!refuse(&violations, "a", "supervised", ms));
        }
        refuse(&violations, "b", "supervised", 100_000);
        refuse(&violations, "a", "structured", 100_000);
        refuse(&violations, "a", "supervised", 99_999 + COUNTED_TOGETHER_MS);
        let expected = [
            (1, "agent:a supervised", 100_000),
            (2, "agent:b supervised", 1),
            (3, "agent:a structured", 1),
            (4, "agent:a supervised", 1),
        ];
        assert_eq!(counts(&violations), expected.map(|(n, kind, count)| (n, kind.to_owned(), count)));
    }

    #[test]
    fn n15_loops_budgets_and_deadlocks_are_recorded() {
        let violations = Violations::default();
        for code in [Code::LoopRefused, Code::BudgetExceeded, Code::Deadlock, Code::Conflict] {
            violations.record(SpaceNo(1), &Principal::System, &Refused::new(code, "no"), Timestamp(0));
        }
        let flag = Refused::new(Code::PolicyViolation, "no").rule("supervised", "to").private();
        violations.record(SpaceNo(1), &Principal::System, &flag, Timestamp(0));
        let rules: Vec<_> =
            violations.after(SpaceNo(1), 0, 9).into_iter().map(|(_, found)| found.rule).collect();
        assert_eq!(rules, ["loop", "budget", "deadlock"]);
    }
}
