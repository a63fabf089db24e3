//! Repeated ends of a lease: an operation ends a lease that an earlier record ended under the same token.
//!
//! A caller that lost the answer to its commit may retry it. Without an idempotency key, only a commit that does
//! nothing but end leases is recognised as a retry: it gets the same answer and has no second effect. Any other commit
//! would apply its remaining operations a second time for one lease, so it is refused, and the refusal names the
//! record that ended it.

use crate::decide::{DecideError, Draft};
use crate::ids::{LeaseToken, Seq};
use crate::message::Payload;
use crate::refused::{Code, Refused, StaleReference};
use crate::task::PartRef;

impl Draft<'_> {
    /// Accepts the repeated end of a lease that the record `ended_by` ended, if the commit only ends leases.
    pub(super) fn accept_repeated_end(
        &mut self,
        item: impl ToString,
        token: LeaseToken,
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
        self.repeated_ends.push(StaleReference {
            op,
            item,
            code,
            token: Some(token),
            ended_by: Some(ended_by),
            ended_request: None,
        });
        Ok(ended_by)
    }

    /// Returns the refusal of a commit that ends an active task lease together with a lease that has already ended. The
    /// result of the task would be a second effect of the ended lease.
    pub(super) fn reject_mixed_ends(&mut self) -> Option<Refused> {
        let stale = std::mem::take(&mut self.repeated_ends);
        let first = stale.first().filter(|_| self.ends_task_lease)?;
        let (token, seq) = (first.token.unwrap_or_default(), first.ended_by.unwrap_or_default());
        let mut refused = already_ended(&first.item, token, seq).at_op(first.op);
        refused.facts.stale = stale;
        Some(refused)
    }

    /// Whether a payload is identical to the stored one. An erased payload is identical to none.
    pub(super) fn is_same_part(
        &self,
        stored: Option<PartRef>,
        given: Option<&Payload>,
    ) -> Result<bool, DecideError> {
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

/// Returns the refusal for a lease that already ended successfully, in a commit that is not a retry.
pub(super) fn already_ended(item: &str, token: LeaseToken, ended_by: Seq) -> Refused {
    Refused::new(Code::StaleLease, format!("lease {token} of {item} ended in record {ended_by}"))
        .hint(
            "if that record is your own commit, it was applied and only its answer was lost: do not apply it again; \
             retry commits only with an idempotency key",
        )
        .ended_by(ended_by)
}
