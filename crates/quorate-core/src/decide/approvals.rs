//! Approvals: requested by one principal and decided once by another, for exactly the bytes that were reviewed. The
//! permission to decide is checked in `permissions.rs`. The follow-up messages of a decision are part of its commit.

use std::sync::Arc;

use bytes::Bytes;

use crate::approval::{
    ActionDigest, Approval, ApprovalFollowUp, ApprovalState, DecideApproval, Decision, RequestApproval,
    Verdict,
};
use crate::commit::{OpResult, Principal};
use crate::decide::tasks::push_json_string;
use crate::decide::{DecideError, Draft};
use crate::destination::Destination;
use crate::effect::Effect;
use crate::ids::{AgentId, AgentNo, ApprovalId};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{APPROVALS_PENDING_MAX, APPROVALS_PER_AGENT_MAX, DELIVERIES_PER_COMMIT_MAX, INBOX_MAX};
use crate::message::{Message, MessageType, Payload};
use crate::policy::recipient_not_allowed;
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};
use crate::task::EscalationTarget;
use crate::time::Timestamp;
use crate::why::format_time_of_day;

impl Draft<'_> {
    pub(super) fn request_approval(&mut self, request: &RequestApproval) -> Result<OpResult, DecideError> {
        let agent = self.requester(request)?;
        let follow_ups = self.follow_ups(request, agent)?;
        let digest = ActionDigest::of(&request.document.bytes);
        if let Some(id) = &request.id
            && let Some(existing) = self.approval(id)?
        {
            return Ok(self.repeated_request(request, agent, &follow_ups, &existing)?);
        }
        self.check_session(request.session.as_deref())?;
        self.check_justification(request.confidence, request.rationale.as_deref())?;
        if self.working.items().approvals.len() >= APPROVALS_PENDING_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                "the space has reached its maximum number of pending approvals",
            )
            .limit(APPROVALS_PENDING_MAX as u64)
            .retryable()
            .hint("decide pending approvals, or request them with shorter timeouts")
            .into());
        }
        if let Some(actor) = self.actor {
            let own = self.working.items().approvals.count_of(actor);
            let hint = "wait for decisions, or request approvals with shorter timeouts";
            self.check_share("pending approvals", own, APPROVALS_PER_AGENT_MAX, hint)
                .map_err(Refused::retryable)?;
        }
        let generate =
            || ApprovalId::generated(self.working.head.generation, self.seq, self.requested_in_commit());
        let id = request.id.clone().unwrap_or_else(generate);
        let expires_at = self.now.wall.plus_ms(request.timeout_ms);
        let approval = Approval {
            id: id.clone(),
            agent,
            requested_by: self.commit.principal.to_text(),
            requested_at: self.now.wall,
            seq: self.seq,
            action: request.action.clone(),
            document: self.add_part(&request.document),
            digest,
            rationale: request.rationale.clone().unwrap_or_default(),
            confidence: request.confidence,
            priority: request.priority,
            expires_at,
            default: request.default.clone(),
            session: request.session.clone(),
            follow_ups,
            state: ApprovalState::Pending,
        };
        self.change_item(Verb::ApprovalRequested, Item::Approval(Box::new(approval)));
        Ok(OpResult::ApprovalRequested { id, digest, expires_at })
    }

    pub(super) fn decide_approval(&mut self, decide: &DecideApproval) -> Result<OpResult, DecideError> {
        let approval = self.approval(&decide.approval)?.ok_or_else(|| no_approval(&decide.approval))?;
        self.require_another(&approval)?;
        require_pending(&approval, self.now.wall)?;
        if approval.expires_at <= self.now.wall {
            return Err(expired(&approval).into());
        }
        if approval.digest != decide.digest {
            return Err(digest_mismatch(&approval, decide.digest).into());
        }
        let decision = Decision {
            by: self.commit.principal.to_text(),
            at: self.now.wall,
            seq: self.seq,
            reason: decide.reason.clone(),
        };
        let (verb, state) = match &decide.verdict {
            Verdict::Approve => (Verb::ApprovalApproved, ApprovalState::Approved(decision)),
            Verdict::Reject => (Verb::ApprovalRejected, ApprovalState::Rejected(decision)),
            Verdict::Modify { patch, document } => {
                let document = document.as_ref().ok_or_else(no_change)?;
                let digest = ActionDigest::of(&document.bytes);
                if digest == approval.digest {
                    return Err(no_change().into());
                }
                let (patch, action) = (self.add_part(patch), self.add_part(document));
                (Verb::ApprovalModified, ApprovalState::Modified { decision, patch, action, digest })
            }
        };
        let ended = Approval { state, ..approval };
        let digest = ended.approved_action().map_or(ended.digest, |(_, digest)| digest);
        let state = ended.state.as_str();
        self.change_item(verb, Item::Approval(Box::new(ended.clone())));
        self.follow_up(&ended)?;
        Ok(OpResult::ApprovalDecided { seq: self.seq, state, digest })
    }

    /// Expires an approval that was not decided in time.
    pub(super) fn expire_approval(&mut self, key: &ItemKey) -> Result<(), DecideError> {
        let Some(approval) = self.working.items().approvals.get(&key.id).cloned() else { return Ok(()) };
        let state = ApprovalState::Expired { seq: self.seq, at: self.now.wall };
        let ended = Approval { state, ..approval };
        self.change_item(Verb::ApprovalExpired, Item::Approval(Box::new(ended.clone())));
        self.follow_up(&ended)
    }

    fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, DecideError> {
        match self.item(&ItemKey::new(ItemKind::Approval, id.as_str()))? {
            Some(Item::Approval(approval)) => Ok(Some(*approval)),
            _ => Ok(None),
        }
    }

    /// Returns the requesting agent: the actor, or the agent that another principal acts for.
    fn requester(&self, request: &RequestApproval) -> Result<Option<AgentNo>, Refused> {
        let agent = match (&self.commit.principal, &request.agent) {
            (Principal::Agent(actor), None) => Some(actor),
            (_, agent) => agent.as_ref(),
        };
        let Some(agent) = agent else { return Ok(None) };
        self.require_self(agent, "request an approval as")?;
        self.require_agent(agent).map(Some)
    }

    /// Resolves the recipients of the approved action. They must be registered and within the requester's reach.
    fn follow_ups(
        &self,
        request: &RequestApproval,
        requester: Option<AgentNo>,
    ) -> Result<Vec<ApprovalFollowUp>, Refused> {
        let follow_up = |(to, action): &(AgentId, String)| {
            let number = self.require_agent(to)?;
            self.check_follow_up(requester, number)?;
            Ok(ApprovalFollowUp { to: number, action: action.clone() })
        };
        request.follow_ups.iter().map(follow_up).collect()
    }

    fn check_follow_up(&self, requester: Option<AgentNo>, to: AgentNo) -> Result<(), Refused> {
        let routing = self.routing();
        let from = requester.and_then(|agent| routing.agents.get(agent)).map(|agent| &agent.id);
        if routing.can_reach(from, to) {
            return Ok(());
        }
        let name = |agent: Option<AgentNo>| {
            agent.and_then(|agent| routing.agents.get(agent)).map_or("", |agent| agent.id.as_str())
        };
        Err(recipient_not_allowed(
            &format!("agent {}", name(requester)),
            &format!("agent {}", name(Some(to))),
        ))
    }

    /// Refuses a decision by the requester: the same principal, or the same person with another access token.
    fn require_another(&self, approval: &Approval) -> Result<(), Refused> {
        let by = self.commit.principal.to_text();
        let person = |text: &str| text.split_once(':').map(|(_, name)| name.to_owned());
        let same = match &self.commit.principal {
            Principal::Holder { .. } => {
                !approval.requested_by.starts_with("agent:") && person(&approval.requested_by) == person(&by)
            }
            Principal::Agent(_) | Principal::System => approval.requested_by == by,
        };
        if !same {
            return Ok(());
        }
        let detail = format!("approval {} was requested by {}", approval.id, approval.requested_by);
        Err(Refused::new(Code::Forbidden, detail).hint("another principal has to decide it"))
    }

    /// Handles a repeated id: returns the same result if the principal and the content are the same.
    fn repeated_request(
        &self,
        request: &RequestApproval,
        agent: Option<AgentNo>,
        follow_ups: &[ApprovalFollowUp],
        approval: &Approval,
    ) -> Result<OpResult, Refused> {
        let same = approval.requested_by == self.commit.principal.to_text()
            && approval.agent == agent
            && approval.digest == ActionDigest::of(&request.document.bytes)
            && approval.follow_ups == follow_ups
            && approval.rationale == request.rationale.as_deref().unwrap_or_default()
            && (approval.confidence, approval.priority) == (request.confidence, request.priority)
            && approval.expires_at == approval.requested_at.plus_ms(request.timeout_ms)
            && (&approval.default, &approval.session) == (&request.default, &request.session);
        if same {
            let Approval { id, digest, expires_at, .. } = approval;
            return Ok(OpResult::ApprovalRequested {
                id: id.clone(),
                digest: *digest,
                expires_at: *expires_at,
            });
        }
        let detail = format!("the approval id {} was used for another request", approval.id);
        Err(Refused::new(Code::Duplicate, detail)
            .hint("use a new id for each request; retry an id only with identical content"))
    }

    /// Sends the messages that follow from the end of an approval, in the same commit: a notification to the
    /// requester, and the approved action to its recipients. If the action cannot be delivered, the decision is
    /// refused.
    fn follow_up(&mut self, ended: &Approval) -> Result<(), DecideError> {
        let document = match ended.approved_action() {
            Some((part, _)) => Some(self.approved_bytes(ended, part)?),
            None => None,
        };
        let body = ended_json(ended, document.as_deref(), |agent| self.agent_id(agent));
        if document.is_some() {
            for follow_up in &ended.follow_ups {
                self.check_recipient(ended, follow_up.to)?;
                self.send_follow_up(ended, follow_up.to, &follow_up.action, MessageType::Command, &body);
            }
        }
        // A requester that was removed, or whose inbox is full, is not notified. The decision is valid regardless.
        for agent in ended
            .agent
            .map_or(Vec::new(), |agent| self.notification_recipients(EscalationTarget::Agent(agent)))
        {
            if Some(agent) == ended.agent {
                self.send_follow_up(ended, agent, "approval.decided", MessageType::Event, &body);
            }
        }
        Ok(())
    }

    fn approved_bytes(&self, ended: &Approval, part: crate::task::PartRef) -> Result<Bytes, DecideError> {
        let stored = self.stored_part(part)?.filter(|payload| !payload.is_erased());
        let erased = || {
            Refused::new(Code::Conflict, format!("the action of approval {} was erased", ended.id))
                .hint("an erased action cannot be approved: reject it, or request approval again")
        };
        Ok(stored.ok_or_else(erased)?.bytes)
    }

    fn check_recipient(&self, ended: &Approval, to: AgentNo) -> Result<(), Refused> {
        let agent = self.working.agents().get(to).filter(|agent| !agent.removed);
        let Some(agent) = agent else {
            let detail = format!("the action cannot be delivered: agent {} was removed", self.agent_id(to));
            return Err(Refused::new(Code::UnknownRecipient, detail)
                .hint("reject it, and request approval again with another recipient"));
        };
        self.check_follow_up(ended.agent, to)?;
        if self.working.inbox(to).open >= INBOX_MAX {
            return Err(Refused::new(Code::QueueFull, format!("the inbox of agent {} is full", agent.id))
                .limit(INBOX_MAX as u64)
                .hint("retry after the agent has processed some deliveries; nothing was decided"));
        }
        if self.deliveries >= DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the commit creates too many deliveries")
                .limit(DELIVERIES_PER_COMMIT_MAX as u64)
                .hint("decide the approval in a separate commit"));
        }
        Ok(())
    }

    fn send_follow_up(&mut self, ended: &Approval, to: AgentNo, action: &str, kind: MessageType, body: &str) {
        let Some(agent) = self.working.agents().get(to) else { return };
        let payload = Payload::seal(Bytes::from(body.to_owned()), self.salt());
        let mut message = Message::new(Destination::Agent(agent.id.clone()), action, payload);
        message.kind = kind;
        message.priority = ended.priority;
        message.correlation_id = Some(ended.id.to_string());
        message.session_id.clone_from(&ended.session);
        self.deliveries += 1;
        self.emit_message(&Arc::new(message), vec![Recipient::agent(to)]);
    }

    /// Returns the number of approvals that this commit has requested so far.
    fn requested_in_commit(&self) -> u32 {
        let requested =
            |effect: &&Effect| matches!(effect, Effect::Changed { verb: Verb::ApprovalRequested, .. });
        self.effects.iter().filter(requested).count() as u32
    }
}

/// Renders the end of an approval as JSON, with the approved action, if any.
fn ended_json(ended: &Approval, document: Option<&[u8]>, name: impl Fn(AgentNo) -> String) -> String {
    let mut text = String::from("{\"approval\":");
    push_json_string(ended.id.as_str(), &mut text);
    text.push_str(",\"state\":");
    push_json_string(ended.state.as_str(), &mut text);
    let digest = ended.approved_action().map_or(ended.digest, |(_, digest)| digest);
    text.push_str(&format!(",\"digest\":\"{digest}\""));
    if let Some(agent) = ended.agent {
        text.push_str(",\"agent\":");
        push_json_string(&name(agent), &mut text);
    }
    if let Some(Decision { by, reason, .. }) = ended.state.decision() {
        text.push_str(",\"decidedBy\":");
        push_json_string(by, &mut text);
        if !reason.is_empty() {
            text.push_str(",\"reason\":");
            push_json_string(reason, &mut text);
        }
    } else if !ended.default.is_empty() {
        text.push_str(",\"default\":");
        push_json_string(&ended.default, &mut text);
    }
    // Canonical JSON is text.
    if let Some(document) = document.and_then(|bytes| std::str::from_utf8(bytes).ok()) {
        text.push_str(",\"action\":");
        text.push_str(document);
    }
    text.push('}');
    text
}

fn no_approval(id: &ApprovalId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no approval {id}"))
        .hint("check the id; list the pending approvals")
}

fn require_pending(approval: &Approval, now: Timestamp) -> Result<(), Refused> {
    match &approval.state {
        ApprovalState::Pending => Ok(()),
        ApprovalState::Expired { .. } => Err(expired(approval)),
        ApprovalState::Approved(decision)
        | ApprovalState::Rejected(decision)
        | ApprovalState::Modified { decision, .. } => {
            let (state, at) = (approval.state.as_str(), format_time_of_day(decision.at, now));
            let detail = format!("approval {} was {state} by {} at {at}", approval.id, decision.by);
            Err(Refused::new(Code::Conflict, detail).hint("a decision is final; request approval again"))
        }
    }
}

fn expired(approval: &Approval) -> Refused {
    Refused::new(Code::Expired, format!("approval {} has expired: it was not decided in time", approval.id))
        .hint("request approval again; nothing was approved or rejected")
}

fn digest_mismatch(approval: &Approval, given: ActionDigest) -> Refused {
    let Approval { id, digest, .. } = approval;
    Refused::new(Code::Conflict, format!("approval {id} has digest {digest}, not {given}"))
        .hint("read the pending approval, and send the digest that it contains")
}

fn no_change() -> Refused {
    Refused::new(Code::Invalid, "the modification changes nothing")
        .hint("approve it unmodified, or send a modification that changes it")
}
