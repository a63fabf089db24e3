//! The rules of a space: reading and setting them, and what they refused.

use std::sync::Arc;

use quorate_core::{InForce, Op, Policy, Violation};

use crate::error::Error;
use crate::space::Space;

impl Space {
    /// The policy that is in force.
    #[must_use]
    pub fn policy(&self) -> Arc<InForce> {
        Arc::clone(&self.published().policy)
    }

    /// Sets the rules, for whoever runs the hub. What waits already is looked at by the new rules when it goes out.
    ///
    /// # Errors
    /// `INVALID` for rules beyond what the hub can do, or a failure of the storage.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), Error> {
        self.commit_system(vec![Op::SetPolicy(policy)]).await.map(drop)
    }

    /// What the rules refused since the hub's start, oldest first: the newest 1,000.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.violations_after(0, usize::MAX).into_iter().map(|(_, one)| one).collect()
    }

    /// The same after one of them, each with the how many-th it is since the hub's start.
    #[must_use]
    pub fn violations_after(&self, after: u64, limit: usize) -> Vec<(u64, Violation)> {
        self.engine().guard.violations(self.number(), after, limit)
    }
}
