//! Explanation of an approval: pending since when, its deadline and default, or its outcome.

use super::{NextTransition, WaitsFor, Why, format_time_of_day};
use crate::approval::{Approval, ApprovalState};
use crate::time::Timestamp;

impl Why {
    /// Explains an approval; `requester` is the display name of the requesting agent or principal.
    #[must_use]
    pub fn of_approval(approval: &Approval, requester: &str, now: Timestamp) -> Self {
        let action = &approval.action;
        let summary = match &approval.state {
            ApprovalState::Pending => {
                let mut summary = format!(
                    "{requester} waits for a decision on {action} since {}; expires at {}",
                    format_time_of_day(approval.requested_at, now),
                    format_time_of_day(approval.expires_at, now)
                );
                if !approval.default.is_empty() {
                    summary.push_str(&format!(", then: {}", approval.default));
                }
                summary
            }
            ApprovalState::Approved(decision)
            | ApprovalState::Rejected(decision)
            | ApprovalState::Modified { decision, .. } => {
                let reason =
                    if decision.reason.is_empty() { String::new() } else { format!(": {}", decision.reason) };
                let state = approval.state.as_str();
                format!(
                    "{action} was {state} by {} at {}{reason}",
                    decision.by,
                    format_time_of_day(decision.at, now)
                )
            }
            ApprovalState::Expired { at, .. } => {
                format!("{action} expired at {} without a decision", format_time_of_day(*at, now))
            }
        };
        let is_pending = approval.is_pending();
        let since = match &approval.state {
            ApprovalState::Pending => approval.requested_at,
            ApprovalState::Expired { at, .. } => *at,
            decided => decided.decision().map_or(approval.requested_at, |decision| decision.at),
        };
        Self {
            state: approval.state.as_str().into(),
            assignee: Some(requester.to_owned()),
            since: Some(since),
            waits_for: if is_pending {
                WaitsFor::Approval(approval.id.to_string())
            } else {
                WaitsFor::Nothing
            },
            next: if is_pending { NextTransition::Expires } else { NextTransition::Nothing },
            next_at: is_pending.then_some(approval.expires_at),
            summary,
            ..Self::of(approval.id.to_string())
        }
    }
}
