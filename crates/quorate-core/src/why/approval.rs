//! Explanation of an approval: pending since when, its deadline and default, or its outcome.

use super::{Next, WaitsFor, Why, clock};
use crate::approval::{Approval, ApprovalState};
use crate::time::Timestamp;

impl Why {
    /// Explains an approval; `asker` is the display name of the requester.
    #[must_use]
    pub fn of_approval(approval: &Approval, asker: &str, now: Timestamp) -> Self {
        let action = &approval.action;
        let sentence = match &approval.state {
            ApprovalState::Pending => {
                let mut sentence = format!(
                    "{asker} waits for a decision on {action} since {}; expires at {}",
                    clock(approval.asked_at, now),
                    clock(approval.expires_at, now)
                );
                if !approval.default.is_empty() {
                    sentence.push_str(&format!(", then: {}", approval.default));
                }
                sentence
            }
            ApprovalState::Approved(decision)
            | ApprovalState::Rejected(decision)
            | ApprovalState::Modified { decision, .. } => {
                let why =
                    if decision.reason.is_empty() { String::new() } else { format!(": {}", decision.reason) };
                let state = approval.state.as_str();
                format!("{action} was {state} by {} at {}{why}", decision.by, clock(decision.at, now))
            }
            ApprovalState::Expired { at, .. } => {
                format!("{action} expired at {} without a decision", clock(*at, now))
            }
        };
        let pending = approval.is_pending();
        let since = match &approval.state {
            ApprovalState::Pending => approval.asked_at,
            ApprovalState::Expired { at, .. } => *at,
            decided => decided.decision().map_or(approval.asked_at, |decision| decision.at),
        };
        Self {
            state: approval.state.as_str().into(),
            whose: Some(asker.to_owned()),
            since: Some(since),
            waits_for: if pending { WaitsFor::Approval(approval.id.to_string()) } else { WaitsFor::Nothing },
            next: if pending { Next::Expires } else { Next::Nothing },
            next_at: pending.then_some(approval.expires_at),
            sentence,
            ..Self::of(approval.id.to_string())
        }
    }
}
