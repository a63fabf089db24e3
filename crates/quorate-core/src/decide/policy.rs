//! The rules of the space.

use crate::commit::OpResult;
use crate::decide::Draft;
use crate::item::{Item, Verb};
use crate::policy::Policy;
use crate::refused::Refused;

impl Draft<'_> {
    pub(super) fn set_policy(&mut self, policy: &Policy) -> Result<OpResult, Refused> {
        self.require_system("set the policy")?;
        // Saying again what is known changes nothing and leaves no record.
        if self.working.policy() != policy {
            self.change(Verb::PolicySet, Item::Policy(policy.clone()));
        }
        Ok(OpResult::Done)
    }
}
