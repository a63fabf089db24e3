//! The rules of the space: setting them, and asking them where something goes out again.

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
        // Saying again what is known changes nothing and leaves no record.
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

    /// What is asked to find out who gets a message.
    pub(super) fn map(&self) -> Map<'_> {
        Map { agents: self.working.agents(), topics: self.working.topics(), policy: self.working.policy() }
    }

    /// Whether the policy has barred a waiting delivery from an agent since its message was sent.
    pub(super) fn is_barred(&self, open: &Open, agent: AgentNo) -> Result<bool, No> {
        let InForce { rules, supervised_since } = &**self.working.in_force();
        if rules.preset == Preset::Mesh || open.seq > *supervised_since {
            return Ok(false);
        }
        let from = self.sender(open.seq, open.n())?;
        Ok(!self.map().may_reach(from.as_ref(), agent))
    }

    /// Refuses to give out a dead letter again that its sender could not send now.
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

    /// Refuses a task by which an agent would give work to one whom it may not reach.
    pub(super) fn check_task_reach(&self, new: &NewTask) -> Result<(), Refused> {
        let map = self.map();
        let Principal::Agent(maker) = &self.commit.principal else { return Ok(()) };
        if !map.is_confined(Some(maker)) {
            return Ok(());
        }
        let out_of = |to: String| Err(out_of_reach(&format!("agent {maker}"), &to));
        let told = match &new.escalate_to {
            EscalateTo::Agent(agent) => Some(agent),
            EscalateTo::Nobody | EscalateTo::Coordinators => None,
        };
        for named in new.agent.iter().chain(told) {
            if map.agents.number(named).is_some_and(|number| !map.may_reach(Some(maker), number)) {
                return out_of(format!("agent {named}"));
            }
        }
        match &new.agent {
            None => out_of(format!("can:{}", new.task_type)),
            Some(_) => Ok(()),
        }
    }

    /// Refuses the end of a piece of work that does not say what the policy asks for. The hub need not say why.
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

    /// Who sent a message; `None` is the hub.
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
