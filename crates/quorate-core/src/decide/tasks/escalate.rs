//! Escalation of failed tasks: a message to a coordinator or another agent, in the commit that fails the task.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::commit::OpResult;
use crate::decide::Draft;
use crate::destination::Destination;
use crate::ids::AgentNo;
use crate::limits::{DELIVERIES_PER_COMMIT_MAX, INBOX_MAX};
use crate::message::{Message, MessageType, Payload};
use crate::recipient::Recipient;
use crate::registry::AgentRole;
use crate::task::{Escalation, EscalationTarget, Task};

impl Draft<'_> {
    /// Notifies the escalation target of a task. `None` if no agent can be notified.
    pub(super) fn escalate(&mut self, task: &Task) -> Option<Escalation> {
        let recipients = self.notification_recipients(task.spec.escalate);
        let ids = recipients.iter().filter_map(|number| self.working.agents().get(*number));
        let ids: Vec<_> = ids.map(|agent| agent.id.clone()).collect();
        let to = match &ids[..] {
            [] => return None,
            [id] => Destination::Agent(id.clone()),
            _ => Destination::Agents(ids),
        };
        let payload = Payload::seal(Bytes::from(escalation_json(task)), self.salt());
        let mut message = Message::new(to, "task.escalated", payload);
        message.kind = MessageType::Event;
        message.priority = task.spec.priority;
        message.correlation_id = Some(task.spec.id.to_string());
        message.session_id.clone_from(&task.spec.session);
        self.deliveries += recipients.len();
        let recipients = recipients.into_iter().map(Recipient::agent).collect();
        match self.emit_message(&Arc::new(message), recipients) {
            OpResult::Sent { id, .. } => Some(Escalation { at: self.now.wall, message: id }),
            _ => None,
        }
    }

    /// Returns the agents that can be notified. Leaves out removed agents and full inboxes, and respects the limit of
    /// deliveries per commit: the change that is notified must not fail because of its notification.
    pub(in crate::decide) fn notification_recipients(&self, escalate: EscalationTarget) -> Vec<AgentNo> {
        let remaining = DELIVERIES_PER_COMMIT_MAX.saturating_sub(self.deliveries);
        let can_receive = |number: AgentNo| {
            let registered = self.working.agents().get(number).is_some_and(|agent| !agent.removed);
            registered && self.working.inbox(number).open < INBOX_MAX
        };
        let coordinators = || {
            let all = self.working.agents().iter().filter(|(_, agent)| agent.role == AgentRole::Coordinator);
            all.map(|(number, _)| number).filter(|number| can_receive(*number)).take(remaining).collect()
        };
        match escalate {
            EscalationTarget::Nobody => Vec::new(),
            EscalationTarget::Agent(agent) if remaining > 0 && can_receive(agent) => vec![agent],
            EscalationTarget::Agent(_) | EscalationTarget::Coordinators => coordinators(),
        }
    }

    /// Derives a salt for a message of the hub. It need not be secret: the body of the record contains the same
    /// information.
    pub(in crate::decide) fn salt(&self) -> [u8; 16] {
        let mut hasher = Sha256::new();
        hasher.update(b"quorate.hub.1\0");
        hasher.update(self.working.head.hash);
        hasher.update(self.seq.0.to_be_bytes());
        hasher.update((self.parts.len() as u64).to_be_bytes());
        let digest: [u8; 32] = hasher.finalize().into();
        let mut salt = [0; 16];
        salt.copy_from_slice(&digest[..16]);
        // An all-zero salt marks an erased payload.
        salt[0] |= 1;
        salt
    }
}

/// Renders the escalation of a task as JSON.
fn escalation_json(task: &Task) -> String {
    let mut text = String::from("{\"task\":");
    push_json_string(task.spec.id.as_str(), &mut text);
    if !task.spec.task_type.is_empty() {
        text.push_str(",\"type\":");
        push_json_string(&task.spec.task_type, &mut text);
    }
    text.push_str(&format!(",\"attempts\":{}", task.attempt));
    if let Some(failure) = &task.last_failure {
        text.push_str(",\"cause\":");
        push_json_string(failure.kind.as_str(), &mut text);
        if let Some(reason) = failure.explanation(&task.spec) {
            text.push_str(",\"reason\":");
            push_json_string(&reason, &mut text);
        }
    }
    text.push('}');
    text
}

/// Appends a text as a JSON string.
pub(in crate::decide) fn push_json_string(text: &str, out: &mut String) {
    out.push('"');
    for ch in text.chars() {
        match ch {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ch if ch < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(ch))),
            ch => out.push(ch),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::push_json_string;

    #[test]
    fn c9_a_reason_cannot_break_out_of_its_quotes() {
        let mut text = String::new();
        push_json_string("say \"no\"\\\n\u{1}é", &mut text);
        assert_eq!(text, "\"say \\\"no\\\"\\\\\\u000a\\u0001é\"");
    }
}
