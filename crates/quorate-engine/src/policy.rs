//! The policy of a space and its violations.

use std::sync::Arc;

use quorate_core::{ActivePolicy, Op, Policy, Violation};

use crate::error::Error;
use crate::space::Space;

impl Space {
    /// Returns the policy in force.
    #[must_use]
    pub fn policy(&self) -> Arc<ActivePolicy> {
        Arc::clone(&self.published().policy)
    }

    /// Sets the policy as the system principal. Messages that are already queued are checked against the new policy
    /// when they are delivered.
    ///
    /// # Errors
    /// `INVALID` for values beyond the limits of the hub, or a storage failure.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), Error> {
        self.commit_system(vec![Op::SetPolicy(policy)]).await.map(drop)
    }

    /// Returns the newest 1,000 violations, oldest first.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.violations_after(0, usize::MAX).into_iter().map(|(_, violation)| violation).collect()
    }

    /// Returns the violations after a given number, each with its number.
    #[must_use]
    pub fn violations_after(&self, after: u64, limit: usize) -> Vec<(u64, Violation)> {
        self.engine().violations.after(self.number(), after, limit)
    }
}
