//! Approvals: asked for by whoever works, decided by somebody else, once, for the very bytes that were looked at. Who may
//! decide at all is in `rights.rs`. What follows from a decision is part of its commit.

use std::sync::Arc;

use bytes::Bytes;

use crate::approval::{
    ActionDigest, Approval, ApprovalState, DecideApproval, Decision, RequestApproval, Then, Verdict,
};
use crate::commit::{OpResult, Principal};
use crate::decide::tasks::quote;
use crate::decide::{Draft, No};
use crate::destination::Destination;
use crate::effect::Effect;
use crate::ids::{AgentId, AgentNo, ApprovalId};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{APPROVALS_PENDING_MAX, DELIVERIES_PER_COMMIT_MAX, INBOX_MAX};
use crate::message::{Message, MessageType, Payload};
use crate::policy::out_of_reach;
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};
use crate::task::Escalate;
use crate::time::Timestamp;
use crate::why::clock;

impl Draft<'_> {
    pub(super) fn request_approval(&mut self, ask: &RequestApproval) -> Result<OpResult, No> {
        let agent = self.asker(ask)?;
        let then = self.follow_ups(ask, agent)?;
        let digest = ActionDigest::of(&ask.document.bytes);
        if let Some(id) = &ask.id
            && let Some(known) = self.approval(id)?
        {
            return Ok(self.requested_again(ask, agent, &then, &known)?);
        }
        self.check_session(ask.session.as_deref())?;
        self.check_reasons(ask.confidence, ask.rationale.as_deref())?;
        if self.working.items().approvals.len() >= APPROVALS_PENDING_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                "the space has as many pending approvals as it may have",
            )
            .limit(APPROVALS_PENDING_MAX as u64)
            .passes()
            .hint("decide those that wait, or ask with shorter timeouts")
            .into());
        }
        let made = || ApprovalId::made_by_hub(self.working.head.generation, self.seq, self.requested_here());
        let id = ask.id.clone().unwrap_or_else(made);
        let expires_at = self.now.wall.plus_ms(ask.timeout_ms);
        let approval = Approval {
            id: id.clone(),
            agent,
            asked_by: self.commit.principal.to_text(),
            asked_at: self.now.wall,
            seq: self.seq,
            action: ask.action.clone(),
            document: self.add_part(&ask.document),
            digest,
            rationale: ask.rationale.clone().unwrap_or_default(),
            confidence: ask.confidence,
            priority: ask.priority,
            expires_at,
            default: ask.default.clone(),
            session: ask.session.clone(),
            then,
            state: ApprovalState::Pending,
        };
        self.change(Verb::ApprovalRequested, Item::Approval(Box::new(approval)));
        Ok(OpResult::ApprovalRequested { id, digest, expires_at })
    }

    pub(super) fn decide_approval(&mut self, asked: &DecideApproval) -> Result<OpResult, No> {
        let approval = self.approval(&asked.approval)?.ok_or_else(|| no_approval(&asked.approval))?;
        self.require_another(&approval)?;
        still_pending(&approval, self.now.wall)?;
        if approval.expires_at <= self.now.wall {
            return Err(expired(&approval).into());
        }
        if approval.digest != asked.digest {
            return Err(other_bytes(&approval, asked.digest).into());
        }
        let decision = Decision {
            by: self.commit.principal.to_text(),
            at: self.now.wall,
            seq: self.seq,
            reason: asked.reason.clone(),
        };
        let (verb, state) = match &asked.verdict {
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
        let over = Approval { state, ..approval };
        let digest = over.approved().map_or(over.digest, |(_, digest)| digest);
        let state = over.state.as_str();
        self.change(verb, Item::Approval(Box::new(over.clone())));
        self.follow_up(&over)?;
        Ok(OpResult::ApprovalDecided { seq: self.seq, state, digest })
    }

    /// Nobody decided in time.
    pub(super) fn expire_approval(&mut self, key: &ItemKey) -> Result<(), No> {
        let Some(approval) = self.working.items().approvals.get(&key.id).cloned() else { return Ok(()) };
        let state = ApprovalState::Expired { seq: self.seq, at: self.now.wall };
        let over = Approval { state, ..approval };
        self.change(Verb::ApprovalExpired, Item::Approval(Box::new(over.clone())));
        self.follow_up(&over)
    }

    fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, No> {
        match self.item(&ItemKey::new(ItemKind::Approval, id.as_str()))? {
            Some(Item::Approval(approval)) => Ok(Some(*approval)),
            _ => Ok(None),
        }
    }

    /// The agent that asks: the one that acts, or the one for which somebody else does.
    fn asker(&self, ask: &RequestApproval) -> Result<Option<AgentNo>, Refused> {
        let agent = match (&self.commit.principal, &ask.agent) {
            (Principal::Agent(actor), None) => Some(actor),
            (_, named) => named.as_ref(),
        };
        let Some(agent) = agent else { return Ok(None) };
        self.require_own(agent, "ask for an approval as")?;
        self.known(agent).map(Some)
    }

    /// Who gets the approved action: agents that are known and that the asker may reach itself.
    fn follow_ups(&self, ask: &RequestApproval, asker: Option<AgentNo>) -> Result<Vec<Then>, Refused> {
        let follow_up = |(to, action): &(AgentId, String)| {
            let number = self.known(to)?;
            self.check_follow_up(asker, number)?;
            Ok(Then { to: number, action: action.clone() })
        };
        ask.then.iter().map(follow_up).collect()
    }

    fn check_follow_up(&self, asker: Option<AgentNo>, to: AgentNo) -> Result<(), Refused> {
        let map = self.map();
        let from = asker.and_then(|agent| map.agents.get(agent)).map(|agent| &agent.id);
        if map.may_reach(from, to) {
            return Ok(());
        }
        let name = |agent: Option<AgentNo>| {
            agent.and_then(|agent| map.agents.get(agent)).map_or("", |agent| agent.id.as_str())
        };
        Err(out_of_reach(&format!("agent {}", name(asker)), &format!("agent {}", name(Some(to)))))
    }

    /// Never whoever asked: not the same principal, nor the same person with another token.
    fn require_another(&self, approval: &Approval) -> Result<(), Refused> {
        let by = self.commit.principal.to_text();
        let person = |text: &str| text.split_once(':').map(|(_, name)| name.to_owned());
        let same = match &self.commit.principal {
            Principal::Holder { .. } => {
                !approval.asked_by.starts_with("agent:") && person(&approval.asked_by) == person(&by)
            }
            Principal::Agent(_) | Principal::System => approval.asked_by == by,
        };
        if !same {
            return Ok(());
        }
        let detail = format!("{} asked for approval {}", approval.asked_by, approval.id);
        Err(Refused::new(Code::Forbidden, detail).hint("somebody else has to decide it"))
    }

    /// The same id again: the same answer if the same was asked for by the same principal.
    fn requested_again(
        &self,
        ask: &RequestApproval,
        agent: Option<AgentNo>,
        then: &[Then],
        known: &Approval,
    ) -> Result<OpResult, Refused> {
        let same = known.asked_by == self.commit.principal.to_text()
            && known.agent == agent
            && known.digest == ActionDigest::of(&ask.document.bytes)
            && known.then == then
            && known.rationale == ask.rationale.as_deref().unwrap_or_default()
            && (known.confidence, known.priority) == (ask.confidence, ask.priority)
            && known.expires_at == known.asked_at.plus_ms(ask.timeout_ms)
            && (&known.default, &known.session) == (&ask.default, &ask.session);
        if same {
            let Approval { id, digest, expires_at, .. } = known;
            return Ok(OpResult::ApprovalRequested {
                id: id.clone(),
                digest: *digest,
                expires_at: *expires_at,
            });
        }
        let detail = format!("the approval id {} was used for another request", known.id);
        Err(Refused::new(Code::Duplicate, detail)
            .hint("give each request an id of its own; repeat an id only with the very same content"))
    }

    /// What follows from the end of an approval, in the same commit: whoever asked is told, and an approved action goes
    /// to whom it shall go. If it cannot go there, it is not approved.
    fn follow_up(&mut self, over: &Approval) -> Result<(), No> {
        let document = match over.approved() {
            Some((part, _)) => Some(self.approved_bytes(over, part)?),
            None => None,
        };
        let words = in_words(over, document.as_deref(), |agent| self.agent_id(agent));
        if document.is_some() {
            for then in &over.then {
                self.check_recipient(over, then.to)?;
                self.tell(over, then.to, &then.action, MessageType::Command, &words);
            }
        }
        // Somebody who was removed or whose inbox is full is not told: the decision stands in any case.
        for agent in over.agent.map_or(Vec::new(), |agent| self.to_be_told(Escalate::To(agent))) {
            if Some(agent) == over.agent {
                self.tell(over, agent, "approval.decided", MessageType::Event, &words);
            }
        }
        Ok(())
    }

    fn approved_bytes(&self, over: &Approval, part: crate::task::PartRef) -> Result<Bytes, No> {
        let stored = self.stored_part(part)?.filter(|payload| !payload.is_erased());
        let erased = || {
            Refused::new(Code::Conflict, format!("the action of approval {} was erased", over.id))
                .hint("what nobody can read any more cannot be approved: reject it, or ask again")
        };
        Ok(stored.ok_or_else(erased)?.bytes)
    }

    fn agent_id(&self, agent: AgentNo) -> String {
        self.working.agents().get(agent).map_or(String::new(), |agent| agent.id.to_string())
    }

    fn check_recipient(&self, over: &Approval, to: AgentNo) -> Result<(), Refused> {
        let agent = self.working.agents().get(to).filter(|agent| !agent.removed);
        let Some(agent) = agent else {
            let detail = format!("agent {} was removed, so the action could not go there", self.agent_id(to));
            return Err(Refused::new(Code::UnknownRecipient, detail)
                .hint("reject it, and let it be asked for again with another recipient"));
        };
        self.check_follow_up(over.agent, to)?;
        if self.working.inbox(to).open >= INBOX_MAX {
            return Err(Refused::new(Code::QueueFull, format!("the inbox of agent {} is full", agent.id))
                .limit(INBOX_MAX as u64)
                .hint("wait until some of it is worked off; nothing was decided"));
        }
        if self.deliveries >= DELIVERIES_PER_COMMIT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the commit makes too many deliveries")
                .limit(DELIVERIES_PER_COMMIT_MAX as u64)
                .hint("decide in a commit of its own"));
        }
        Ok(())
    }

    fn tell(&mut self, over: &Approval, to: AgentNo, action: &str, kind: MessageType, words: &str) {
        let Some(agent) = self.working.agents().get(to) else { return };
        let payload = Payload::seal(Bytes::from(words.to_owned()), self.salt());
        let mut message = Message::new(Destination::Agent(agent.id.clone()), action, payload);
        message.kind = kind;
        message.priority = over.priority;
        message.correlation_id = Some(over.id.to_string());
        message.session_id.clone_from(&over.session);
        self.deliveries += 1;
        self.post(&Arc::new(message), vec![Recipient::agent(to)]);
    }

    /// How many approvals this commit asked for so far.
    fn requested_here(&self) -> u32 {
        let asked =
            |effect: &&Effect| matches!(effect, Effect::Changed { verb: Verb::ApprovalRequested, .. });
        self.effects.iter().filter(asked).count() as u32
    }
}

/// What is said of the end of an approval, as JSON: with the approved bytes, if there are any.
fn in_words(over: &Approval, document: Option<&[u8]>, name: impl Fn(AgentNo) -> String) -> String {
    let mut text = String::from("{\"approval\":");
    quote(over.id.as_str(), &mut text);
    text.push_str(",\"state\":");
    quote(over.state.as_str(), &mut text);
    let digest = over.approved().map_or(over.digest, |(_, digest)| digest);
    text.push_str(&format!(",\"digest\":\"{digest}\""));
    if let Some(agent) = over.agent {
        text.push_str(",\"agent\":");
        quote(&name(agent), &mut text);
    }
    if let Some(Decision { by, reason, .. }) = over.state.decision() {
        text.push_str(",\"decidedBy\":");
        quote(by, &mut text);
        if !reason.is_empty() {
            text.push_str(",\"reason\":");
            quote(reason, &mut text);
        }
    } else if !over.default.is_empty() {
        text.push_str(",\"default\":");
        quote(&over.default, &mut text);
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
        .hint("check the id; list what is pending")
}

fn still_pending(approval: &Approval, now: Timestamp) -> Result<(), Refused> {
    match &approval.state {
        ApprovalState::Pending => Ok(()),
        ApprovalState::Expired { .. } => Err(expired(approval)),
        ApprovalState::Approved(decision)
        | ApprovalState::Rejected(decision)
        | ApprovalState::Modified { decision, .. } => {
            let (state, at) = (approval.state.as_str(), clock(decision.at, now));
            let detail = format!("approval {} was {state} by {} at {at}", approval.id, decision.by);
            Err(Refused::new(Code::Conflict, detail)
                .hint("what is decided never changes; let it be asked for again if it should"))
        }
    }
}

fn expired(approval: &Approval) -> Refused {
    Refused::new(Code::Expired, format!("approval {} has expired: nobody decided in time", approval.id))
        .hint("let it be asked for again; nothing was approved and nothing rejected")
}

fn other_bytes(approval: &Approval, named: ActionDigest) -> Refused {
    let Approval { id, digest, .. } = approval;
    Refused::new(Code::Conflict, format!("approval {id} is about {digest}, not about {named}"))
        .hint("look at what is pending, and name the digest of what you saw")
}

fn no_change() -> Refused {
    Refused::new(Code::Invalid, "the modification changes nothing")
        .hint("approve it as it is, or change something")
}
