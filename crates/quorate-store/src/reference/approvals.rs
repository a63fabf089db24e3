//! Approvals: somebody proposes, somebody else decides about these very bytes, once; what follows is part of it.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    ActionDigest, AgentNo, Approval, ApprovalId, ApprovalState, Code, DecideApproval, Decision, Destination,
    Home, Item, ItemKey, ItemKind, Message, MessageType, OpResult, PartRef, Payload, Principal, Recipient,
    Refused, RequestApproval, Then, Timestamp, Verdict, limits,
};

use crate::reference::agents::unknown;
use crate::reference::policy::violation;
use crate::reference::space::Space;
use crate::reference::step::Step;

impl Space {
    pub(super) fn pending_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.items.values().filter_map(|item| match item {
            Item::Approval(approval) if approval.state == ApprovalState::Pending => Some(&**approval),
            _ => None,
        })
    }

    /// One for each that was asked for, one more for each that is over.
    pub(super) fn approval_changes(&self) -> u64 {
        let of = |item: &Item| match item {
            Item::Approval(approval) => 1 + u64::from(approval.state != ApprovalState::Pending),
            _ => 0,
        };
        self.items.values().map(of).sum()
    }

    /// When the next approval expires.
    pub(super) fn next_approval_expiry(&self) -> Option<Timestamp> {
        self.pending_approvals().map(|approval| approval.expires_at).min()
    }

    fn approval(&self, id: &ApprovalId) -> Option<&Approval> {
        match self.items.get(&ItemKey::new(ItemKind::Approval, id.as_str())) {
            Some(Item::Approval(approval)) => Some(approval),
            _ => None,
        }
    }
}

impl Step<'_> {
    pub(super) fn request_approval(&mut self, ask: &RequestApproval) -> Result<OpResult, Refused> {
        let agent = match &self.commit.principal {
            Principal::Agent(actor) if ask.agent.as_ref().is_some_and(|named| named != actor) => {
                return Err(Refused::new(Code::Forbidden, "an agent asks for itself"));
            }
            Principal::Agent(actor) => Some(actor.clone()),
            Principal::System | Principal::Holder { .. } => ask.agent.clone(),
        };
        let agent = match agent {
            Some(agent) => Some(self.space.agent_number(&agent).ok_or_else(|| unknown(&agent))?),
            None => None,
        };
        let mut then = Vec::new();
        for (to, action) in &ask.then {
            let number = self.space.agent_number(to).ok_or_else(|| unknown(to))?;
            self.may_follow(agent, number)?;
            then.push(Then { to: number, action: action.clone() });
        }
        let (now, principal) = (self.now.wall, self.commit.principal.to_string());
        let digest = ActionDigest::of(&ask.document.bytes);
        let mut asked = Approval {
            id: ApprovalId::new("-").expect("a good id"),
            agent,
            asked_by: principal,
            asked_at: now,
            seq: self.seq,
            action: ask.action.clone(),
            document: PartRef { seq: self.seq, part: 0 },
            digest,
            rationale: ask.rationale.clone().unwrap_or_default(),
            confidence: ask.confidence,
            priority: ask.priority,
            expires_at: now.plus_ms(ask.timeout_ms),
            default: ask.default.clone(),
            session: ask.session.clone(),
            then,
            state: ApprovalState::Pending,
        };
        if let Some(known) = ask.id.as_ref().and_then(|id| self.space.approval(id)) {
            let id = known.id.clone();
            let (digest, expires_at) = (known.digest, known.expires_at);
            // But for when it was asked and what came of it, it is the same.
            asked.id = id.clone();
            asked.asked_at = known.asked_at;
            asked.seq = known.seq;
            asked.document = known.document;
            asked.expires_at = known.asked_at.plus_ms(ask.timeout_ms);
            asked.state = known.state.clone();
            return if asked == *known {
                Ok(OpResult::ApprovalRequested { id, digest, expires_at })
            } else {
                Err(Refused::new(Code::Duplicate, format!("{id} is about something else")))
            };
        }
        self.check_session(ask.session.as_deref())?;
        self.says_why(ask.confidence.is_some(), ask.rationale.as_deref().unwrap_or(""))?;
        if self.space.pending_approvals().count() >= limits::APPROVALS_PENDING_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many approvals")
                .limit(limits::APPROVALS_PENDING_MAX as u64));
        }
        let made = format!("apr_0-{}-{}", self.seq, self.asked);
        self.asked += 1;
        asked.id = ask.id.clone().unwrap_or_else(|| ApprovalId::new(&made).expect("a good id"));
        asked.document = self.brought(Some(&ask.document)).expect("there is one");
        let (id, expires_at) = (asked.id.clone(), asked.expires_at);
        self.set_item(Item::Approval(Box::new(asked)));
        Ok(OpResult::ApprovalRequested { id, digest, expires_at })
    }

    fn may_follow(&self, from: Option<AgentNo>, to: AgentNo) -> Result<(), Refused> {
        let from = from.map(|from| self.space.agent(from).id.clone());
        if self.may_reach(from.as_ref(), to) { Ok(()) } else { Err(violation("supervised", "to")) }
    }

    pub(super) fn decide_approval(&mut self, asked: &DecideApproval) -> Result<OpResult, Refused> {
        let Some(approval) = self.space.approval(&asked.approval).cloned() else {
            return Err(Refused::new(Code::NotFound, format!("no approval {}", asked.approval)));
        };
        let by = self.commit.principal.to_string();
        let name = |who: &str| who.split(':').nth(1).map(str::to_owned);
        let is_agent = approval.asked_by.starts_with("agent:");
        if approval.asked_by == by
            || (!is_agent && name(&by).is_some() && name(&approval.asked_by) == name(&by))
        {
            return Err(Refused::new(Code::Forbidden, "it is its own"));
        }
        match &approval.state {
            ApprovalState::Expired { .. } => return Err(Refused::new(Code::Expired, "nobody decided")),
            ApprovalState::Pending if approval.expires_at <= self.now.wall => {
                return Err(Refused::new(Code::Expired, "nobody decided"));
            }
            ApprovalState::Pending => {}
            _ => return Err(Refused::new(Code::Conflict, "it is decided")),
        }
        if approval.digest != asked.digest {
            return Err(Refused::new(Code::Conflict, "it is about something else"));
        }
        let decision = Decision { by, at: self.now.wall, seq: self.seq, reason: asked.reason.clone() };
        let state = match &asked.verdict {
            Verdict::Approve => ApprovalState::Approved(decision),
            Verdict::Reject => ApprovalState::Rejected(decision),
            Verdict::Modify { patch, document } => {
                let changed = document.as_ref().map(|document| ActionDigest::of(&document.bytes));
                let Some(digest) = changed.filter(|digest| *digest != approval.digest) else {
                    return Err(Refused::new(Code::Invalid, "nothing is changed"));
                };
                let patch = self.brought(Some(patch)).expect("there is one");
                let action = self.brought(document.as_ref()).expect("there is one");
                ApprovalState::Modified { decision, patch, action, digest }
            }
        };
        let over = Approval { state, ..approval };
        let (state, seq) = (over.state.as_str(), self.seq);
        let digest = match &over.state {
            ApprovalState::Modified { digest, .. } => *digest,
            _ => over.digest,
        };
        self.set_item(Item::Approval(Box::new(over.clone())));
        self.say_so(&over)?;
        Ok(OpResult::ApprovalDecided { seq, state, digest })
    }

    /// What nobody decided in time, the one that expired first before the others.
    pub(super) fn expire_approvals(&mut self) {
        let now = self.now.wall;
        let due = self.space.pending_approvals().filter(|approval| approval.expires_at <= now);
        let mut due: Vec<Approval> = due.cloned().collect();
        due.sort_by_key(|approval| (approval.expires_at, approval.id.clone()));
        for approval in due {
            let over = Approval { state: ApprovalState::Expired { seq: self.seq, at: now }, ..approval };
            self.set_item(Item::Approval(Box::new(over.clone())));
            self.say_so(&over).expect("nothing is approved");
        }
    }

    /// Sends the approved action on, and tells whoever asked.
    fn say_so(&mut self, over: &Approval) -> Result<(), Refused> {
        let approved = match &over.state {
            ApprovalState::Approved(_) => Some((over.document, over.digest)),
            ApprovalState::Modified { action, digest, .. } => Some((*action, *digest)),
            _ => None,
        };
        let mut document = String::new();
        if let Some((part, _)) = approved {
            let bytes = self.bytes_of(part).ok_or_else(|| Refused::new(Code::Conflict, "it was erased"))?;
            document = format!(",\"action\":{}", String::from_utf8_lossy(&bytes));
        }
        // Plans and cases have plain words only.
        let quoted = |text: &str| format!("\"{text}\"");
        let mut words = format!(
            "{{\"approval\":{},\"state\":{},\"digest\":\"{}\"",
            quoted(over.id.as_str()),
            quoted(over.state.as_str()),
            approved.map_or(over.digest, |(_, digest)| digest)
        );
        if let Some(agent) = over.agent {
            words.push_str(&format!(",\"agent\":{}", quoted(self.space.agent(agent).id.as_str())));
        }
        match over.state.decision() {
            Some(decision) => {
                words.push_str(&format!(",\"decidedBy\":{}", quoted(&decision.by)));
                if !decision.reason.is_empty() {
                    words.push_str(&format!(",\"reason\":{}", quoted(&decision.reason)));
                }
            }
            None if !over.default.is_empty() => {
                words.push_str(&format!(",\"default\":{}", quoted(&over.default)));
            }
            None => {}
        }
        words.push_str(&document);
        words.push('}');
        if approved.is_some() {
            for then in &over.then {
                if self.space.agent(then.to).removed {
                    return Err(Refused::new(Code::UnknownRecipient, "it is gone"));
                }
                self.may_follow(over.agent, then.to)?;
                if self.space.open_count(Home::Agent(then.to)) >= limits::INBOX_MAX {
                    return Err(Refused::new(Code::QueueFull, "it is full").limit(limits::INBOX_MAX as u64));
                }
                if self.deliveries >= limits::DELIVERIES_PER_COMMIT_MAX {
                    return Err(Refused::new(Code::LimitExceeded, "too many deliveries")
                        .limit(limits::DELIVERIES_PER_COMMIT_MAX as u64));
                }
                self.pass_on(over, then.to, &then.action, MessageType::Command, &words);
            }
        }
        if let Some(agent) = over.agent {
            let there = !self.space.agent(agent).removed;
            let room = self.space.open_count(Home::Agent(agent)) < limits::INBOX_MAX;
            if there && room && self.deliveries < limits::DELIVERIES_PER_COMMIT_MAX {
                self.pass_on(over, agent, "approval.decided", MessageType::Event, &words);
            }
        }
        Ok(())
    }

    fn pass_on(&mut self, over: &Approval, to: AgentNo, action: &str, kind: MessageType, words: &str) {
        // Which salt the hub takes is its own business.
        let payload = Payload::seal(Bytes::from(words.to_owned()), [1; 16]);
        let destination = Destination::Agent(self.space.agent(to).id.clone());
        let mut message = Message::new(destination, action, payload);
        message.kind = kind;
        message.priority = over.priority;
        message.correlation_id = Some(over.id.to_string());
        message.session_id = over.session.clone();
        self.deliveries += 1;
        self.post(&Arc::new(message), [0; 32], vec![Recipient::agent(to)]);
    }
}
