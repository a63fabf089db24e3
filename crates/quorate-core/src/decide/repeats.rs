//! Ending a lease that an earlier record ended under the same token.
//!
//! A caller that lost the answer to its commit may send it again. Without an idempotency key the hub recognises only a
//! commit that does nothing but end leases: it gets the same answer and has no second effect. Any other commit would
//! apply its remaining operations a second time for one lease, so it is refused and told which record ended the lease.

use crate::decide::{Draft, No};
use crate::ids::{Seq, Token};
use crate::message::Payload;
use crate::refused::{Code, Refused, Stale};
use crate::task::PartRef;

impl Draft<'_> {
    /// Accepts the end of a lease that `ended_by` ended before, if the commit only ends leases.
    pub(super) fn repeat_end(
        &mut self,
        item: impl ToString,
        token: Token,
        ended_by: Seq,
    ) -> Result<Seq, Refused> {
        if ended_by == self.seq {
            return Ok(ended_by);
        }
        let item = item.to_string();
        if !self.commit.only_ends_leases() {
            return Err(already_ended(&item, token, ended_by));
        }
        let (op, code) = (self.op, Code::StaleLease);
        self.repeated.push(Stale { op, item, code, token: Some(token), ended_by: Some(ended_by) });
        Ok(ended_by)
    }

    /// The refusal of a commit that ends the lease of a task for the first time and another lease again: the result of
    /// the task would be a second effect of that other lease.
    pub(super) fn mixed_repeats(&mut self) -> Option<Refused> {
        let stale = std::mem::take(&mut self.repeated);
        let first = stale.first().filter(|_| self.ends_task)?;
        let (token, seq) = (first.token.unwrap_or_default(), first.ended_by.unwrap_or_default());
        let mut refused = already_ended(&first.item, token, seq).at_op(first.op);
        refused.facts.stale = stale;
        Some(refused)
    }

    /// Whether a payload is byte for byte the one that was stored. One that was erased since is not.
    pub(super) fn is_same_part(&self, stored: Option<PartRef>, given: Option<&Payload>) -> Result<bool, No> {
        match (stored, given) {
            (None, None) => Ok(true),
            (Some(stored), Some(given)) => {
                let stored = self.stored_part(stored)?.filter(|part| !part.is_erased());
                Ok(stored.is_some_and(|part| part.bytes == given.bytes))
            }
            (Some(_), None) | (None, Some(_)) => Ok(false),
        }
    }
}

/// The lease ended with success before, and this commit is not a repetition of the one that ended it.
pub(super) fn already_ended(item: &str, token: Token, ended_by: Seq) -> Refused {
    Refused::new(Code::StaleLease, format!("lease {token} of {item} ended in record {ended_by}"))
        .hint(
            "if that record is your own commit, it was applied and its answer was lost: do not apply it again; \
             repeat a commit only under its idempotency key",
        )
        .ended_by(ended_by)
}
