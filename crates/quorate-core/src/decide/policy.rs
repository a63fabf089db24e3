//! Policy of the space: replacing it, and checking it when deliveries, dead letters and tasks are routed.

use std::sync::Arc;

use crate::codec;
use crate::commit::{OpResult, Principal};
use crate::decide::{DecideError, Draft};
use crate::effect::Effect;
use crate::ids::{AgentId, AgentNo, Seq};
use crate::item::{Item, Verb};
use crate::lookup::{DeadDelivery, LookupError};
use crate::policy::{ActivePolicy, Policy, Preset, recipient_not_allowed};
use crate::pool::PoolAccess;
use crate::recipient::QueueId;
use crate::refused::Refused;
use crate::routing::RoutingContext;
use crate::task::{EscalateTo, NewTask};
use crate::working::OpenDelivery;

impl Draft<'_> {
    pub(super) fn set_policy(&mut self, policy: &Policy) -> Result<OpResult, Refused> {
        let before = Arc::clone(self.working.active_policy());
        // An identical policy changes nothing and writes no record.
        if before.policy == *policy {
            return Ok(OpResult::Done);
        }
        let supervised_since = match (before.policy.preset, policy.preset) {
            (Preset::Mesh, Preset::Supervised) => self.seq,
            (Preset::Supervised, _) | (_, Preset::Mesh) => before.supervised_since,
        };
        let new = ActivePolicy { policy: policy.clone(), supervised_since };
        self.change_item(Verb::PolicySet, Item::Policy(new));
        Ok(OpResult::Done)
    }

    /// Returns the routing data: agents, subscriptions and policy.
    pub(super) fn routing(&self) -> RoutingContext<'_> {
        RoutingContext {
            agents: self.working.agents(),
            topics: self.working.subscription_tree(),
            policy: self.working.policy(),
        }
    }

    /// Whether the policy, as changed since the message was sent, denies a waiting delivery to an agent.
    pub(super) fn is_denied_by_policy(
        &self,
        open: &OpenDelivery,
        agent: AgentNo,
    ) -> Result<bool, DecideError> {
        let ActivePolicy { policy, supervised_since } = &**self.working.active_policy();
        if policy.preset == Preset::Mesh || open.seq > *supervised_since {
            return Ok(false);
        }
        let from = self.sender(open.seq, open.n())?;
        Ok(!self.routing().can_reach(from.as_ref(), agent))
    }

    /// Refuses a redrive if the sender would not be allowed to send the message now.
    pub(super) fn check_redrive(&self, dead: &DeadDelivery) -> Result<(), DecideError> {
        let policy = self.working.policy();
        if policy.preset == Preset::Mesh {
            return Ok(());
        }
        let from = self.sender(dead.seq, dead.n)?;
        let routing = self.routing();
        let (allowed, to) = match dead.to.queue() {
            QueueId::Agent(agent) => {
                let id = routing.agents.get(agent).map_or("", |agent| agent.id.as_str());
                (routing.can_reach(from.as_ref(), agent), format!("agent {id}"))
            }
            QueueId::Pool(pool) => {
                let pool = self.working.pools().get(pool);
                let for_coordinators = pool.is_some_and(|pool| pool.access == PoolAccess::Coordinators);
                let name = pool.map_or_else(String::new, |pool| format!("can:{}", pool.capability));
                (for_coordinators || !routing.is_restricted(from.as_ref()), name)
            }
        };
        if allowed { Ok(()) } else { Err(recipient_not_allowed("the sender of the dead letter", &to).into()) }
    }

    /// Refuses a task whose assignee or escalation target is out of the creator's reach.
    pub(super) fn check_task_routing(&self, new: &NewTask) -> Result<(), Refused> {
        let routing = self.routing();
        let Principal::Agent(creator) = &self.commit.principal else { return Ok(()) };
        if !routing.is_restricted(Some(creator)) {
            return Ok(());
        }
        let refuse = |to: String| Err(recipient_not_allowed(&format!("agent {creator}"), &to));
        let escalation = match &new.escalate_to {
            EscalateTo::Agent(agent) => Some(agent),
            EscalateTo::Nobody | EscalateTo::Coordinators => None,
        };
        for agent in new.agent.iter().chain(escalation) {
            if routing.agents.number(agent).is_some_and(|number| !routing.can_reach(Some(creator), number)) {
                return refuse(format!("agent {agent}"));
            }
        }
        match &new.agent {
            None => refuse(format!("can:{}", new.task_type)),
            Some(_) => Ok(()),
        }
    }

    /// Refuses a result without the confidence or rationale that the policy requires. Applies to agents only.
    pub(super) fn check_justification(
        &self,
        confidence: Option<f64>,
        rationale: Option<&str>,
    ) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(_) => self.working.policy().check_justification(confidence, rationale),
            Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    /// Returns the sender of a message; `None` is the hub.
    fn sender(&self, seq: Seq, n: u32) -> Result<Option<AgentId>, DecideError> {
        let sender_of = |effects: &[Effect]| {
            let sent = effects.iter().filter_map(|effect| match effect {
                Effect::Sent { message, .. } => Some(message),
                _ => None,
            });
            { sent }.nth(n as usize).and_then(|message| message.from.clone())
        };
        if seq == self.seq {
            return Ok(sender_of(&self.effects));
        }
        let missing = codec::DecodeError { at: 0, expected: "the record of the message" };
        let body = self.lookup.record(seq)?.ok_or(missing).and_then(|record| codec::read_body(&record));
        let body = body.map_err(|source| LookupError { subject: "a sender", source: Box::new(source) })?;
        Ok(sender_of(&body.effects))
    }
}
