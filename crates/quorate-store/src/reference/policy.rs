//! Policy of the space, and updates of items.

use quorate_core::{
    AgentId, AgentNo, Code, Created, DeliveryNo, EscalateTo, Home, InForce, Item, ItemKey, ItemKind, Message,
    MessageType, NewTask, Op, OpResult, Policy, Preset, Principal, Refused, Role, Seq, Takers,
};

use crate::reference::space::Space;
use crate::reference::step::Step;

impl Space {
    pub(super) fn policy(&self) -> InForce {
        match self.items.get(&ItemKey::new(ItemKind::Policy, "policy")) {
            Some(Item::Policy(policy)) => policy.clone(),
            _ => InForce::default(),
        }
    }

    /// Returns the role of a sender: `None` for the hub, worker for a removed agent.
    pub(super) fn role_of(&self, from: Option<&AgentId>) -> Option<Role> {
        let id = from?;
        Some(self.agent_number(id).map_or(Role::Worker, |number| self.agent(number).role))
    }
}

impl Step<'_> {
    pub(super) fn set_policy(&mut self, policy: &Policy) -> Result<OpResult, Refused> {
        let InForce { rules, mut supervised_since } = self.space.policy();
        if rules == *policy {
            return Ok(OpResult::Done);
        }
        if rules.preset == Preset::Mesh && policy.preset == Preset::Supervised {
            supervised_since = self.seq;
        }
        self.set_item(Item::Policy(InForce { rules: policy.clone(), supervised_since }));
        Ok(OpResult::Done)
    }

    /// Checks that an agent in a supervised space does not make itself a coordinator.
    pub(super) fn may_lead(&self, known: Option<AgentNo>, role: Role) -> Result<(), Refused> {
        let leads = known.is_some_and(|number| self.space.agent(number).role == Role::Coordinator);
        let supervised = self.space.policy().rules.preset == Preset::Supervised;
        let by_itself = matches!(self.commit.principal, Principal::Agent(_));
        if supervised && by_itself && role == Role::Coordinator && !leads {
            return Err(violation("supervised", "role"));
        }
        Ok(())
    }

    /// Whether the current policy allows messages from this sender to this agent.
    pub(super) fn may_reach(&self, from: Option<&AgentId>, to: AgentNo) -> bool {
        let supervised = self.space.policy().rules.preset == Preset::Supervised;
        let leads = |role: Option<Role>| matches!(role, None | Some(Role::Coordinator));
        let to = self.space.agent(to);
        !supervised || leads(self.space.role_of(from)) || leads(Some(to.role)) || from == Some(&to.id)
    }

    /// Whether a policy change since the send forbids this delivery.
    pub(super) fn is_barred(&self, number: DeliveryNo, agent: AgentNo) -> bool {
        let Some(delivery) = self.space.delivery(number) else { return false };
        let since = self.space.policy().supervised_since;
        let from = self.sender(delivery.seq, delivery.n);
        delivery.seq <= since && !self.may_reach(from.as_ref(), agent)
    }

    pub(super) fn may_be_redriven(&self, number: DeliveryNo) -> Result<(), Refused> {
        let Some(delivery) = self.space.delivery(number) else { return Ok(()) };
        let from = self.sender(delivery.seq, delivery.n);
        let allowed = match delivery.to.home() {
            Home::Agent(agent) => self.may_reach(from.as_ref(), agent),
            Home::Pool(pool) => {
                let pools = self.space.pools();
                let led = pools.iter().any(|one| one.number == pool && one.takers == Takers::Coordinators);
                led || !self.is_confined(from.as_ref())
            }
        };
        if allowed { Ok(()) } else { Err(violation("supervised", "to")) }
    }

    /// Whether a sender may reach coordinators only.
    pub(super) fn is_confined(&self, from: Option<&AgentId>) -> bool {
        let supervised = self.space.policy().rules.preset == Preset::Supervised;
        supervised && !matches!(self.space.role_of(from), None | Some(Role::Coordinator))
    }

    fn sender(&self, seq: Seq, n: u32) -> Option<AgentId> {
        let sent = self.space.messages.iter().find(|sent| sent.seq == seq && sent.n == n);
        sent.and_then(|sent| sent.message.from.clone())
    }

    pub(super) fn not_too_large(&self, op: &Op) -> Result<(), Refused> {
        let max = self.space.policy().rules.payload_bytes_max;
        let lengths: Vec<usize> = match op {
            Op::CreateTasks(create) => create
                .tasks
                .iter()
                .filter_map(|task| create.input_of(task))
                .map(|input| input.len())
                .collect(),
            _ => op.payloads().map(|(_, payload)| payload.bytes.len()).collect(),
        };
        if lengths.iter().all(|length| *length <= max as usize) {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, "the payload exceeds the limit of the policy")
            .limit(u64::from(max))
            .rule("payloadBytesMax", "payload"))
    }

    pub(super) fn well_shaped(&self, message: &Message) -> Result<(), Refused> {
        let rules = self.space.policy().rules;
        let json = message.content_type.as_deref().unwrap_or("application/json");
        if rules.structured && json != "application/json" && !json.ends_with("+json") {
            return Err(violation("structured", "contentType"));
        }
        let rationale = message.rationale.as_deref().unwrap_or("");
        if message.kind == MessageType::Response && message.from.is_some() {
            if rules.structured && message.in_reply_to.is_none() {
                return Err(violation("structured", "inReplyTo"));
            }
            return self.require_reasons(message.confidence.is_some(), rationale);
        }
        self.not_too_long(rationale)
    }

    /// Checks that an agent that ends work gives a confidence and a rationale if the policy requires them.
    pub(super) fn says_why(&self, has_confidence: bool, rationale: &str) -> Result<(), Refused> {
        match self.commit.principal {
            Principal::Agent(_) => self.require_reasons(has_confidence, rationale),
            Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    fn require_reasons(&self, has_confidence: bool, rationale: &str) -> Result<(), Refused> {
        let rules = self.space.policy().rules;
        if rules.confidence && !has_confidence {
            return Err(violation("confidence", "confidence"));
        }
        if rules.rationale && rationale.trim().is_empty() {
            return Err(violation("rationale", "rationale"));
        }
        self.not_too_long(rationale)
    }

    fn not_too_long(&self, rationale: &str) -> Result<(), Refused> {
        let max = self.space.policy().rules.rationale_chars_max;
        if rationale.chars().count() <= max as usize {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, "the rationale exceeds the limit of the policy")
            .limit(u64::from(max))
            .rule("rationaleCharsMax", "rationale"))
    }

    /// Checks that an agent in a supervised space assigns tasks by name and only to agents it may reach.
    pub(super) fn may_give(&self, new: &NewTask) -> Result<(), Refused> {
        let Principal::Agent(creator) = &self.commit.principal else { return Ok(()) };
        if !self.is_confined(Some(creator)) {
            return Ok(());
        }
        let mut named: Vec<_> = new.agent.iter().collect();
        if let EscalateTo::Agent(agent) = &new.escalate_to {
            named.push(agent);
        }
        let mut numbers = named.into_iter().filter_map(|id| self.space.agent_number(id));
        let barred = numbers.any(|number| !self.may_reach(Some(creator), number));
        if barred || new.agent.is_none() { Err(violation("supervised", "to")) } else { Ok(()) }
    }

    /// Stores the new state of an item.
    pub(super) fn set_item(&mut self, item: Item) {
        self.changed = true;
        let key = item.key();
        if item.keep() == quorate_core::Keep::Gone {
            self.space.remove_item(&key);
        } else if self.space.items.insert(key.clone(), item).is_none() {
            let created = match self.space.creations.last() {
                Some((_, last)) if last.seq() == self.seq => Created::from_number(last.number() + 1),
                _ => Created::new(self.seq, 0),
            };
            self.space.creations.push((key, created));
        }
    }
}

pub(super) fn violation(rule: &str, field: &str) -> Refused {
    Refused::new(Code::PolicyViolation, "the policy forbids this").rule(rule, field)
}
