//! Approvals: a proposed action is decided once, by its digest, by another principal. The follow-up messages are part
//! of the commit.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    ActionDigest, AgentNo, Approval, ApprovalFollowUp, ApprovalId, ApprovalState, Code, DecideApproval,
    Decision, Destination, Item, ItemKey, ItemKind, Message, MessageType, OpResult, PartRef, Payload,
    Principal, QueueId, Recipient, Refused, RequestApproval, Timestamp, Verdict, limits,
};

use crate::reference::agents::unknown_agent;
use crate::reference::policy::violation;
use crate::reference::space::Space;
use crate::reference::transaction::Transaction;

impl Space {
    pub(super) fn pending_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.items.values().filter_map(|item| match item {
            Item::Approval(approval) if approval.state == ApprovalState::Pending => Some(&**approval),
            _ => None,
        })
    }

    /// Counts one change per requested approval and one more per ended approval.
    pub(super) fn approval_changes(&self) -> u64 {
        let changes = |item: &Item| match item {
            Item::Approval(approval) => 1 + u64::from(approval.state != ApprovalState::Pending),
            _ => 0,
        };
        self.items.values().map(changes).sum()
    }

    /// Returns the earliest expiry of a pending approval.
    pub(super) fn earliest_approval_expiry(&self) -> Option<Timestamp> {
        self.pending_approvals().map(|approval| approval.expires_at).min()
    }

    fn approval(&self, id: &ApprovalId) -> Option<&Approval> {
        match self.items.get(&ItemKey::new(ItemKind::Approval, id.as_str())) {
            Some(Item::Approval(approval)) => Some(approval),
            _ => None,
        }
    }
}

impl Transaction<'_> {
    fn check_approval_share(&self) -> Result<(), Refused> {
        let own = self.space.pending_approvals().filter(|approval| approval.agent == self.actor).count();
        if self.actor.is_none() || own < limits::APPROVALS_PER_AGENT_MAX {
            return Ok(());
        }
        Err(Refused::new(Code::LimitExceeded, "too many approvals of the agent")
            .limit(limits::APPROVALS_PER_AGENT_MAX as u64))
    }

    pub(super) fn request_approval(&mut self, request: &RequestApproval) -> Result<OpResult, Refused> {
        let agent = match &self.commit.principal {
            Principal::Agent(actor) if request.agent.as_ref().is_some_and(|named| named != actor) => {
                return Err(Refused::new(Code::Forbidden, "an agent may only request approvals for itself"));
            }
            Principal::Agent(actor) => Some(actor.clone()),
            Principal::System | Principal::Holder { .. } => request.agent.clone(),
        };
        let agent = match agent {
            Some(agent) => Some(self.space.agent_number(&agent).ok_or_else(|| unknown_agent(&agent))?),
            None => None,
        };
        let mut follow_ups = Vec::new();
        for (to, action) in &request.follow_ups {
            let number = self.space.agent_number(to).ok_or_else(|| unknown_agent(to))?;
            self.may_follow(agent, number)?;
            follow_ups.push(ApprovalFollowUp { to: number, action: action.clone() });
        }
        let (now, principal) = (self.now.wall, self.commit.principal.to_string());
        let digest = ActionDigest::of(&request.document.bytes);
        let mut new = Approval {
            id: ApprovalId::new("-").expect("valid id"),
            agent,
            requested_by: principal,
            requested_at: now,
            seq: self.seq,
            action: request.action.clone(),
            document: PartRef { seq: self.seq, part: 0 },
            digest,
            rationale: request.rationale.clone().unwrap_or_default(),
            confidence: request.confidence,
            priority: request.priority,
            expires_at: now.plus_ms(request.timeout_ms),
            default: request.default.clone(),
            session: request.session.clone(),
            follow_ups,
            state: ApprovalState::Pending,
        };
        if let Some(existing) = request.id.as_ref().and_then(|id| self.space.approval(id)) {
            let id = existing.id.clone();
            let (digest, expires_at) = (existing.digest, existing.expires_at);
            // The requests are the same if they differ only in time and state.
            new.id = id.clone();
            new.requested_at = existing.requested_at;
            new.seq = existing.seq;
            new.document = existing.document;
            new.expires_at = existing.requested_at.plus_ms(request.timeout_ms);
            new.state = existing.state.clone();
            return if new == *existing {
                Ok(OpResult::ApprovalRequested { id, digest, expires_at })
            } else {
                Err(Refused::new(Code::Duplicate, format!("approval {id} exists with different content")))
            };
        }
        self.check_session(request.session.as_deref())?;
        self.check_reasons(request.confidence.is_some(), request.rationale.as_deref().unwrap_or(""))?;
        if self.space.pending_approvals().count() >= limits::APPROVALS_PENDING_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many approvals")
                .limit(limits::APPROVALS_PENDING_MAX as u64));
        }
        self.check_approval_share()?;
        let generated = format!("apr_0-{}-{}", self.seq, self.approvals_requested);
        self.approvals_requested += 1;
        new.id = request.id.clone().unwrap_or_else(|| ApprovalId::new(&generated).expect("valid id"));
        new.document = self.add_optional_part(Some(&request.document)).expect("a payload");
        let (id, expires_at) = (new.id.clone(), new.expires_at);
        self.set_item(Item::Approval(Box::new(new)));
        Ok(OpResult::ApprovalRequested { id, digest, expires_at })
    }

    fn may_follow(&self, from: Option<AgentNo>, to: AgentNo) -> Result<(), Refused> {
        let from = from.map(|from| self.space.agent(from).id.clone());
        if self.is_reachable(from.as_ref(), to) { Ok(()) } else { Err(violation("supervised", "to")) }
    }

    pub(super) fn decide_approval(&mut self, decide: &DecideApproval) -> Result<OpResult, Refused> {
        let Some(approval) = self.space.approval(&decide.approval).cloned() else {
            return Err(Refused::new(Code::NotFound, format!("no approval {}", decide.approval)));
        };
        let by = self.commit.principal.to_string();
        let name = |principal: &str| principal.split(':').nth(1).map(str::to_owned);
        let is_agent = approval.requested_by.starts_with("agent:");
        if approval.requested_by == by
            || (!is_agent && name(&by).is_some() && name(&approval.requested_by) == name(&by))
        {
            return Err(Refused::new(Code::Forbidden, "a principal may not decide its own request"));
        }
        match &approval.state {
            ApprovalState::Expired { .. } => {
                return Err(Refused::new(Code::Expired, "the approval has expired"));
            }
            ApprovalState::Pending if approval.expires_at <= self.now.wall => {
                return Err(Refused::new(Code::Expired, "the approval has expired"));
            }
            ApprovalState::Pending => {}
            _ => return Err(Refused::new(Code::Conflict, "the approval is already decided")),
        }
        if approval.digest != decide.digest {
            return Err(Refused::new(Code::Conflict, "the digest does not match the pending action"));
        }
        let decision = Decision { by, at: self.now.wall, seq: self.seq, reason: decide.reason.clone() };
        let state = match &decide.verdict {
            Verdict::Approve => ApprovalState::Approved(decision),
            Verdict::Reject => ApprovalState::Rejected(decision),
            Verdict::Modify { patch, document } => {
                let changed = document.as_ref().map(|document| ActionDigest::of(&document.bytes));
                let Some(digest) = changed.filter(|digest| *digest != approval.digest) else {
                    return Err(Refused::new(Code::Invalid, "the modification changes nothing"));
                };
                let patch = self.add_optional_part(Some(patch)).expect("a payload");
                let action = self.add_optional_part(document.as_ref()).expect("a payload");
                ApprovalState::Modified { decision, patch, action, digest }
            }
        };
        let ended = Approval { state, ..approval };
        let (state, seq) = (ended.state.as_str(), self.seq);
        let digest = match &ended.state {
            ApprovalState::Modified { digest, .. } => *digest,
            _ => ended.digest,
        };
        self.set_item(Item::Approval(Box::new(ended.clone())));
        self.send_decision(&ended)?;
        Ok(OpResult::ApprovalDecided { seq, state, digest })
    }

    /// Expires the pending approvals that are due, earliest first.
    pub(super) fn expire_approvals(&mut self) {
        let now = self.now.wall;
        let due = self.space.pending_approvals().filter(|approval| approval.expires_at <= now);
        let mut due: Vec<Approval> = due.cloned().collect();
        due.sort_by_key(|approval| (approval.expires_at, approval.id.clone()));
        for approval in due {
            let ended = Approval { state: ApprovalState::Expired { seq: self.seq, at: now }, ..approval };
            self.set_item(Item::Approval(Box::new(ended.clone())));
            self.send_decision(&ended).expect("nothing is approved");
        }
    }

    /// Sends the approved action to its recipients and notifies the requesting agent.
    fn send_decision(&mut self, ended: &Approval) -> Result<(), Refused> {
        let approved = match &ended.state {
            ApprovalState::Approved(_) => Some((ended.document, ended.digest)),
            ApprovalState::Modified { action, digest, .. } => Some((*action, *digest)),
            _ => None,
        };
        let mut document = String::new();
        if let Some((part, _)) = approved {
            let bytes =
                self.bytes_of(part).ok_or_else(|| Refused::new(Code::Conflict, "the action was erased"))?;
            document = format!(",\"action\":{}", String::from_utf8_lossy(&bytes));
        }
        // Tests use plain words only, so nothing needs escaping.
        let quoted = |text: &str| format!("\"{text}\"");
        let mut text = format!(
            "{{\"approval\":{},\"state\":{},\"digest\":\"{}\"",
            quoted(ended.id.as_str()),
            quoted(ended.state.as_str()),
            approved.map_or(ended.digest, |(_, digest)| digest)
        );
        if let Some(agent) = ended.agent {
            text.push_str(&format!(",\"agent\":{}", quoted(self.space.agent(agent).id.as_str())));
        }
        match ended.state.decision() {
            Some(decision) => {
                text.push_str(&format!(",\"decidedBy\":{}", quoted(&decision.by)));
                if !decision.reason.is_empty() {
                    text.push_str(&format!(",\"reason\":{}", quoted(&decision.reason)));
                }
            }
            None if !ended.default.is_empty() => {
                text.push_str(&format!(",\"default\":{}", quoted(&ended.default)));
            }
            None => {}
        }
        text.push_str(&document);
        text.push('}');
        if approved.is_some() {
            for follow_up in &ended.follow_ups {
                if self.space.agent(follow_up.to).removed {
                    return Err(Refused::new(Code::UnknownRecipient, "the recipient was removed"));
                }
                self.may_follow(ended.agent, follow_up.to)?;
                if self.space.open_count(QueueId::Agent(follow_up.to)) >= limits::INBOX_MAX {
                    return Err(
                        Refused::new(Code::QueueFull, "the inbox is full").limit(limits::INBOX_MAX as u64)
                    );
                }
                if self.deliveries >= limits::DELIVERIES_PER_COMMIT_MAX {
                    return Err(Refused::new(Code::LimitExceeded, "too many deliveries")
                        .limit(limits::DELIVERIES_PER_COMMIT_MAX as u64));
                }
                self.send_to(ended, follow_up.to, &follow_up.action, MessageType::Command, &text);
            }
        }
        if let Some(agent) = ended.agent {
            let is_registered = !self.space.agent(agent).removed;
            let has_room = self.space.open_count(QueueId::Agent(agent)) < limits::INBOX_MAX;
            if is_registered && has_room && self.deliveries < limits::DELIVERIES_PER_COMMIT_MAX {
                self.send_to(ended, agent, "approval.decided", MessageType::Event, &text);
            }
        }
        Ok(())
    }

    fn send_to(&mut self, ended: &Approval, to: AgentNo, action: &str, kind: MessageType, text: &str) {
        // Stores are not compared by their salts, so any value will do.
        let payload = Payload::seal(Bytes::from(text.to_owned()), [1; 16]);
        let destination = Destination::Agent(self.space.agent(to).id.clone());
        let mut message = Message::new(destination, action, payload);
        message.kind = kind;
        message.priority = ended.priority;
        message.correlation_id = Some(ended.id.to_string());
        message.session_id = ended.session.clone();
        self.deliveries += 1;
        self.store_message(&Arc::new(message), [0; 32], vec![Recipient::agent(to)]);
    }
}
