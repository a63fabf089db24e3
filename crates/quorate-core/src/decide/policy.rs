//! Policy of the space: replacing it, and checking it when deliveries, dead letters and tasks are routed.

use std::sync::Arc;

use crate::codec;
use crate::commit::{OpResult, Principal};
use crate::decide::{Draft, No};
use crate::effect::Effect;
use crate::ids::{AgentId, AgentNo, Seq};
use crate::item::{Item, Verb};
use crate::policy::{InForce, Policy, Preset, out_of_reach};
use crate::pool::Takers;
use crate::reach::Map;
use crate::recipient::Home;
use crate::refused::Refused;
use crate::rows::{Dead, LookupFailed};
use crate::task::{EscalateTo, NewTask};
use crate::working::Open;

impl Draft<'_> {
    pub(super) fn set_policy(&mut self, policy: &Policy) -> Result<OpResult, Refused> {
        let before = Arc::clone(self.working.in_force());
        // An identical policy changes nothing and writes no record.
        if before.rules == *policy {
            return Ok(OpResult::Done);
        }
        let supervised_since = match (before.rules.preset, policy.preset) {
            (Preset::Mesh, Preset::Supervised) => self.seq,
            (Preset::Supervised, _) | (_, Preset::Mesh) => before.supervised_since,
        };
        let new = InForce { rules: policy.clone(), supervised_since };
        self.change(Verb::PolicySet, Item::Policy(new));
        Ok(OpResult::Done)
    }

    /// Returns the routing data: agents, subscriptions and policy.
    pub(super) fn map(&self) -> Map<'_> {
        Map { agents: self.working.agents(), topics: self.working.topics(), policy: self.working.policy() }
    }

    /// Whether the policy, as changed since the message was sent, denies a waiting delivery to an agent.
    pub(super) fn is_barred(&self, open: &Open, agent: AgentNo) -> Result<bool, No> {
        let InForce { rules, supervised_since } = &**self.working.in_force();
        if rules.preset == Preset::Mesh || open.seq > *supervised_since {
            return Ok(false);
        }
        let from = self.sender(open.seq, open.n())?;
        Ok(!self.map().may_reach(from.as_ref(), agent))
    }

    /// Refuses a redrive if the sender would not be allowed to send the message now.
    pub(super) fn check_redrive(&self, dead: &Dead) -> Result<(), No> {
        let rules = self.working.policy();
        if rules.preset == Preset::Mesh {
            return Ok(());
        }
        let from = self.sender(dead.seq, dead.n)?;
        let map = self.map();
        let (allowed, to) = match dead.to.home() {
            Home::Agent(agent) => {
                let id = map.agents.get(agent).map_or("", |agent| agent.id.as_str());
                (map.may_reach(from.as_ref(), agent), format!("agent {id}"))
            }
            Home::Pool(pool) => {
                let pool = self.working.pools().get(pool);
                let led = pool.is_some_and(|pool| pool.takers == Takers::Coordinators);
                let name = pool.map_or_else(String::new, |pool| format!("can:{}", pool.capability));
                (led || !map.is_confined(from.as_ref()), name)
            }
        };
        if allowed { Ok(()) } else { Err(out_of_reach("the sender of the dead letter", &to).into()) }
    }

    /// Refuses a task whose assignee or escalation target is out of the creator's reach.
    pub(super) fn check_task_reach(&self, new: &NewTask) -> Result<(), Refused> {
        let map = self.map();
        let Principal::Agent(creator) = &self.commit.principal else { return Ok(()) };
        if !map.is_confined(Some(creator)) {
            return Ok(());
        }
        let out_of = |to: String| Err(out_of_reach(&format!("agent {creator}"), &to));
        let escalation = match &new.escalate_to {
            EscalateTo::Agent(agent) => Some(agent),
            EscalateTo::Nobody | EscalateTo::Coordinators => None,
        };
        for named in new.agent.iter().chain(escalation) {
            if map.agents.number(named).is_some_and(|number| !map.may_reach(Some(creator), number)) {
                return out_of(format!("agent {named}"));
            }
        }
        match &new.agent {
            None => out_of(format!("can:{}", new.task_type)),
            Some(_) => Ok(()),
        }
    }

    /// Refuses a result without the confidence or rationale that the policy requires. Applies to agents only.
    pub(super) fn check_reasons(
        &self,
        confidence: Option<f64>,
        rationale: Option<&str>,
    ) -> Result<(), Refused> {
        match &self.commit.principal {
            Principal::Agent(_) => self.working.policy().check_reasons(confidence, rationale),
            Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    /// Returns the sender of a message; `None` is the hub.
    fn sender(&self, seq: Seq, n: u32) -> Result<Option<AgentId>, No> {
        let of = |effects: &[Effect]| {
            let sent = effects.iter().filter_map(|effect| match effect {
                Effect::Sent { message, .. } => Some(message),
                _ => None,
            });
            { sent }.nth(n as usize).and_then(|message| message.from.clone())
        };
        if seq == self.seq {
            return Ok(of(&self.effects));
        }
        let missing = codec::Unreadable { at: 0, what: "the record of the message" };
        let body = self.rows.record(seq)?.ok_or(missing).and_then(|record| codec::read_body(&record));
        let body = body.map_err(|source| LookupFailed { what: "a sender", source: Box::new(source) })?;
        Ok(of(&body.effects))
    }
}
