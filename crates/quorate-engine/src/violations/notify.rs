//! Notification of coordinators: one message about all violations since the last one, bounded in rate and size.

use std::sync::Arc;

use quorate_api::policy::{Violation as ViolationJson, ViolationNotice};
use quorate_core::{
    AgentRole, Code, Commit, Destination, Message, MessageType, Op, Principal, SpaceNo, Violation,
};

use crate::engine::Engine;
use crate::violations::{NOTIFY_INTERVAL_MS, Violations};

/// Violations listed in one notification; further ones are counted.
const LISTED_MAX: usize = 50;
/// Principals and rules whose last notification is remembered.
const REMEMBERED_MAX: usize = 10_000;

impl Violations {
    /// Returns the unwritten violations of a space about which nothing was sent recently, and marks them as sent.
    fn take_unreported(&self, space: SpaceNo) -> Vec<Violation> {
        let mut spaces = self.lock();
        let Some(record) = spaces.get_mut(&space) else { return Vec::new() };
        let mut unreported = Vec::new();
        for recorded in record.violations.iter().filter(|recorded| recorded.is_dirty) {
            let violation = &recorded.violation;
            let key = (violation.principal.clone(), violation.rule.clone());
            let is_recent = |sent: &quorate_core::Timestamp| violation.at < sent.plus_ms(NOTIFY_INTERVAL_MS);
            if record.notified.get(&key).is_some_and(is_recent) {
                continue;
            }
            if record.notified.len() >= REMEMBERED_MAX {
                record.notified.retain(|_, sent| violation.at < sent.plus_ms(NOTIFY_INTERVAL_MS));
                if record.notified.len() >= REMEMBERED_MAX {
                    break;
                }
            }
            record.notified.insert(key, violation.at);
            unreported.push(violation.clone());
        }
        unreported
    }
}

impl Engine {
    /// Sends a message about new violations to the coordinators of a space. Best effort: without coordinators, or if
    /// their inboxes are full, the violations are only listed.
    pub(super) async fn notify_of_violations(self: &Arc<Self>, number: SpaceNo) {
        let unreported = self.violations.take_unreported(number);
        if unreported.is_empty() {
            return;
        }
        let name = self.store.spaces().into_iter().find(|info| info.number == number).map(|info| info.name);
        let Some(name) = name else { return };
        let Ok(space) = self.space(name).await else { return };
        let notice = ViolationNotice {
            violations: unreported.iter().take(LISTED_MAX).map(ViolationJson::from).collect(),
            more: unreported.len().saturating_sub(LISTED_MAX),
        };
        let Ok(payload) = serde_json::to_vec(&notice) else { return };
        let to = Destination::Role(AgentRole::Coordinator);
        let mut message = Message::new(to, "policy.violated", space.seal(payload));
        message.kind = MessageType::Event;
        let commit = Commit::new(Principal::System, vec![Op::send(message)]);
        if let Err(error) = space.commit(commit).await
            && error.code() != Code::UnknownRecipient
        {
            tracing::warn!(space = number.0, code = error.code().as_str(), "failed to report violations");
        }
    }
}
