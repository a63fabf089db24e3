//! Policy of the space, and updates of items.

use quorate_core::{
    ActivePolicy, AgentId, AgentNo, AgentRole, Code, CreationPosition, DeliveryNo, EscalateTo, Item, ItemKey,
    ItemKind, Message, MessageType, NewTask, Op, OpResult, Payload, Policy, PoolAccess, Preset, Principal,
    QueueId, Refused, Seq,
};

use crate::reference::space::Space;
use crate::reference::transaction::Transaction;

impl Space {
    pub(super) fn policy(&self) -> ActivePolicy {
        match self.items.get(&ItemKey::new(ItemKind::Policy, "policy")) {
            Some(Item::Policy(policy)) => policy.clone(),
            _ => ActivePolicy::default(),
        }
    }

    /// Returns the role of a sender: `None` for the hub, worker for a removed agent.
    pub(super) fn role_of(&self, from: Option<&AgentId>) -> Option<AgentRole> {
        let id = from?;
        Some(self.agent_number(id).map_or(AgentRole::Worker, |number| self.agent(number).role))
    }
}

impl Transaction<'_> {
    pub(super) fn set_policy(&mut self, policy: &Policy) -> Result<OpResult, Refused> {
        let ActivePolicy { policy: current, mut supervised_since } = self.space.policy();
        if current == *policy {
            return Ok(OpResult::Done);
        }
        if current.preset == Preset::Mesh && policy.preset == Preset::Supervised {
            supervised_since = self.seq;
        }
        self.set_item(Item::Policy(ActivePolicy { policy: policy.clone(), supervised_since }));
        Ok(OpResult::Done)
    }

    /// Checks that an agent without a token does not make itself a coordinator in a supervised space.
    pub(super) fn check_coordinator_role(
        &self,
        existing: Option<AgentNo>,
        role: AgentRole,
    ) -> Result<(), Refused> {
        let is_coordinator =
            existing.is_some_and(|number| self.space.agent(number).role == AgentRole::Coordinator);
        let supervised = self.space.policy().policy.preset == Preset::Supervised;
        let by_agent = matches!(self.commit.principal, Principal::Agent(_));
        if supervised && by_agent && role == AgentRole::Coordinator && !is_coordinator {
            return Err(violation("supervised", "role"));
        }
        Ok(())
    }

    /// Whether the current policy allows messages from this sender to this agent.
    pub(super) fn is_reachable(&self, from: Option<&AgentId>, to: AgentNo) -> bool {
        let supervised = self.space.policy().policy.preset == Preset::Supervised;
        let is_coordinator = |role: Option<AgentRole>| matches!(role, None | Some(AgentRole::Coordinator));
        let to = self.space.agent(to);
        !supervised
            || is_coordinator(self.space.role_of(from))
            || is_coordinator(Some(to.role))
            || from == Some(&to.id)
    }

    /// Whether a policy change since the send forbids this delivery.
    pub(super) fn is_denied_by_policy(&self, number: DeliveryNo, agent: AgentNo) -> bool {
        let Some(delivery) = self.space.delivery(number) else { return false };
        let since = self.space.policy().supervised_since;
        let from = self.sender(delivery.seq, delivery.n);
        delivery.seq <= since && !self.is_reachable(from.as_ref(), agent)
    }

    pub(super) fn check_redrive(&self, number: DeliveryNo) -> Result<(), Refused> {
        let Some(delivery) = self.space.delivery(number) else { return Ok(()) };
        let from = self.sender(delivery.seq, delivery.n);
        let allowed = match delivery.to.queue() {
            QueueId::Agent(agent) => self.is_reachable(from.as_ref(), agent),
            QueueId::Pool(pool) => {
                let pools = self.space.pools();
                let for_coordinators = pools.iter().any(|candidate| {
                    candidate.number == pool && candidate.access == PoolAccess::Coordinators
                });
                for_coordinators || !self.is_confined(from.as_ref())
            }
        };
        if allowed { Ok(()) } else { Err(violation("supervised", "to")) }
    }

    /// Whether a sender may reach coordinators only.
    pub(super) fn is_confined(&self, from: Option<&AgentId>) -> bool {
        let supervised = self.space.policy().policy.preset == Preset::Supervised;
        supervised && !matches!(self.space.role_of(from), None | Some(AgentRole::Coordinator))
    }

    fn sender(&self, seq: Seq, n: u32) -> Option<AgentId> {
        let sent = self.space.messages.iter().find(|sent| sent.seq == seq && sent.n == n);
        sent.and_then(|sent| sent.message.from.clone())
    }

    pub(super) fn check_payload_size(&self, op: &Op) -> Result<(), Refused> {
        let max = self.space.policy().policy.payload_bytes_max;
        let lengths: Vec<usize> = match op {
            Op::CreateTasks(create) => create
                .tasks
                .iter()
                .filter_map(|task| create.input_of(task))
                .map(|input| input.len())
                .collect(),
            _ => op.payloads().map(|(_, payload)| payload.bytes.len()).collect(),
        };
        if lengths.iter().any(|length| *length > max as usize) {
            return Err(Refused::new(Code::TooLarge, "the payload exceeds the limit of the policy")
                .limit(u64::from(max))
                .rule("payloadBytesMax", "payload"));
        }
        let max = self.space.policy().policy.commit_bytes_max;
        let so_far = self.commit.ops[..=self.op_index].iter().flat_map(Op::payloads);
        if so_far.map(|(_, payload)| payload.bytes.len()).sum::<usize>() > max as usize {
            return Err(Refused::new(Code::TooLarge, "the commit exceeds the limit of the policy")
                .limit(u64::from(max))
                .rule("commitBytesMax", "ops"));
        }
        Ok(())
    }

    /// Checks that a payload is JSON other than one string, if the policy requires structure.
    pub(super) fn check_structure(
        &self,
        place: &str,
        content_type: Option<&str>,
        payload: &Payload,
    ) -> Result<(), Refused> {
        let content_type = content_type.unwrap_or("application/json");
        let text = std::str::from_utf8(&payload.bytes).unwrap_or_default();
        match self.space.policy().policy.structured {
            true if content_type != "application/json" && !content_type.ends_with("+json") => {
                Err(violation("structured", "contentType"))
            }
            true if text.trim_start().starts_with('"') => Err(violation("structured", place)),
            _ => Ok(()),
        }
    }

    pub(super) fn check_message_format(&self, message: &Message) -> Result<(), Refused> {
        let rules = self.space.policy().policy;
        self.check_structure("payload", message.content_type.as_deref(), &message.payload)?;
        let rationale = message.rationale.as_deref().unwrap_or("");
        if message.kind == MessageType::Response && message.from.is_some() {
            if rules.structured && message.in_reply_to.is_none() {
                return Err(violation("structured", "inReplyTo"));
            }
            let has_confidence = message.confidence.is_some() || message.reports_failure;
            return self.require_reasons(has_confidence, rationale);
        }
        self.not_too_long(rationale)
    }

    /// Checks that an agent that ends work gives a confidence and a rationale if the policy requires them.
    pub(super) fn check_reasons(&self, has_confidence: bool, rationale: &str) -> Result<(), Refused> {
        match self.commit.principal {
            Principal::Agent(_) => self.require_reasons(has_confidence, rationale),
            Principal::System | Principal::Holder { .. } => Ok(()),
        }
    }

    fn require_reasons(&self, has_confidence: bool, rationale: &str) -> Result<(), Refused> {
        let rules = self.space.policy().policy;
        if rules.confidence && !has_confidence {
            return Err(violation("confidence", "confidence"));
        }
        if rules.rationale && rationale.trim().is_empty() {
            return Err(violation("rationale", "rationale"));
        }
        self.not_too_long(rationale)
    }

    fn not_too_long(&self, rationale: &str) -> Result<(), Refused> {
        let max = self.space.policy().policy.rationale_chars_max;
        if rationale.chars().count() <= max as usize {
            return Ok(());
        }
        Err(Refused::new(Code::TooLarge, "the rationale exceeds the limit of the policy")
            .limit(u64::from(max))
            .rule("rationaleCharsMax", "rationale"))
    }

    /// Checks that an agent in a supervised space assigns tasks by name and only to agents it may reach.
    pub(super) fn check_task_routing(&self, new: &NewTask) -> Result<(), Refused> {
        let Principal::Agent(creator) = &self.commit.principal else { return Ok(()) };
        if !self.is_confined(Some(creator)) {
            return Ok(());
        }
        let mut assignees: Vec<_> = new.agent.iter().collect();
        if let EscalateTo::Agent(agent) = &new.escalate_to {
            assignees.push(agent);
        }
        let mut numbers = assignees.into_iter().filter_map(|id| self.space.agent_number(id));
        let unreachable = numbers.any(|number| !self.is_reachable(Some(creator), number));
        if unreachable || new.agent.is_none() { Err(violation("supervised", "to")) } else { Ok(()) }
    }

    /// Stores the new state of an item.
    pub(super) fn set_item(&mut self, item: Item) {
        self.changed = true;
        let key = item.key();
        if item.retention() == quorate_core::Retention::LogOnly {
            self.space.remove_item(&key);
        } else if self.space.items.insert(key.clone(), item).is_none() {
            let created = match self.space.creations.last() {
                Some((_, last)) if last.seq() == self.seq => CreationPosition::from_number(last.number() + 1),
                _ => CreationPosition::new(self.seq, 0),
            };
            self.space.creations.push((key, created));
        }
    }
}

pub(super) fn violation(rule: &str, field: &str) -> Refused {
    Refused::new(Code::PolicyViolation, "the policy forbids this").rule(rule, field)
}
