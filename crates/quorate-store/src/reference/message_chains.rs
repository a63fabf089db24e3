//! Message chains: hop limit, loop detection and budgets.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::{
    AgentNo, AgentRole, Budget, BudgetId, BudgetNo, Code, Destination, Item, ItemKey, ItemKind, Message,
    MessageType, OpResult, Payload, Principal, QueueId, Recipient, Refused, SetBudget, limits,
};

use crate::reference::transaction::Transaction;

impl Transaction<'_> {
    /// Refuses a message with too many hops, or one that was already sent twice in its chain. A request at the hop
    /// limit may still be answered.
    pub(super) fn check_chain(&self, message: &Message) -> Result<(), Refused> {
        let limit = message.max_hops.unwrap_or(100);
        let max = match message.kind {
            MessageType::Response => limit + 1,
            _ => limit,
        };
        if message.hops > max {
            return Err(Refused::new(Code::LoopRefused, "too many hops").limit(u64::from(limit)));
        }
        if self.is_counted(message)
            && self.earlier_in_chain(message).count() >= limits::CHAIN_REPEATS_MAX as usize
        {
            return Err(Refused::new(Code::LoopRefused, "repeated too often in its chain")
                .limit(u64::from(limits::CHAIN_REPEATS_MAX)));
        }
        Ok(())
    }

    /// Records a sent message for loop detection.
    pub(super) fn record_chain_message(&mut self, message: &Message) {
        if self.is_counted(message) {
            self.space.chain_messages.push(message.clone());
        }
    }

    /// Returns the counted messages of the same chain with the same content.
    fn earlier_in_chain<'a>(&'a self, message: &'a Message) -> impl Iterator<Item = &'a Message> {
        let same = move |sent: &&Message| {
            chain(sent) == chain(message)
                && (&sent.from, &sent.to, &sent.action) == (&message.from, &message.to, &message.action)
                && sent.payload.bytes == message.payload.bytes
        };
        self.space.chain_messages.iter().rev().take(limits::CHAIN_WINDOW).filter(same)
    }

    /// Whether loop detection counts a message. One that names no cause counts once per hop count.
    fn is_counted(&self, message: &Message) -> bool {
        let names_cause = |message: &Message| message.causation_id.is_some() || message.in_reply_to.is_some();
        let mut earlier = self.earlier_in_chain(message);
        chain(message).is_some()
            && (names_cause(message) || !earlier.any(|sent| !names_cause(sent) && sent.hops == message.hops))
    }

    /// Spends one message of a budget. Returns the budget if this message crosses the warning threshold.
    pub(super) fn charge_budget(&mut self, message: &Message) -> Result<Option<Budget>, Refused> {
        let Some(id) = &message.budget else { return Ok(None) };
        let Some(mut budget) = self.budget(&BudgetId::new(id)?) else {
            return Err(Refused::new(Code::NotFound, "unknown budget"));
        };
        if budget.messages_used >= budget.messages_max {
            return Err(
                Refused::new(Code::BudgetExceeded, "the budget is exhausted").limit(budget.messages_max)
            );
        }
        budget.messages_used += 1;
        let low = budget.messages_used * 100 >= budget.messages_max * 80;
        let first = low && !budget.warned;
        budget.warned = budget.warned || low;
        self.set_item(Item::Budget(budget.clone()));
        Ok(first.then_some(budget))
    }

    /// Notifies the owner of a low budget, or the coordinators if the owner cannot be reached.
    pub(super) fn send_budget_warning(&mut self, budget: &Budget, message: &Message) {
        let can_receive = |number: &AgentNo| {
            let agent = self.space.agent(*number);
            !agent.removed && self.space.open_count(QueueId::Agent(*number)) < limits::INBOX_MAX
        };
        let remaining = limits::DELIVERIES_PER_COMMIT_MAX.saturating_sub(self.deliveries);
        let mut to: Vec<AgentNo> = budget.owner.into_iter().filter(can_receive).collect();
        if to.is_empty() {
            let all = (1..=self.space.agents.len() as u64).map(AgentNo);
            to = all
                .filter(|number| {
                    self.space.agent(*number).role == AgentRole::Coordinator && can_receive(number)
                })
                .collect();
        }
        to.truncate(remaining);
        if to.is_empty() {
            return;
        }
        let names = to.iter().map(|number| self.space.agent(*number).id.clone()).collect();
        let text = format!(
            "{{\"budget\":\"{}\",\"messagesUsed\":{},\"messagesMax\":{}}}",
            budget.id, budget.messages_used, budget.messages_max
        );
        // Stores are not compared by their salts, so any value will do.
        let payload = Payload::seal(Bytes::from(text), [1; 16]);
        let warning = Message {
            kind: MessageType::Event,
            correlation_id: message.correlation_id.clone(),
            ..Message::new(Destination::Agents(names), "budget.warned", payload)
        };
        self.deliveries += to.len();
        let to = to.into_iter().map(Recipient::agent).collect();
        self.store_message(&Arc::new(warning), [0; 32], to);
    }

    pub(super) fn set_budget(&mut self, set: &SetBudget) -> Result<OpResult, Refused> {
        let before = self.budget(&set.id);
        let owner = before.as_ref().map_or(self.actor, |budget| budget.owner);
        if let Principal::Agent(_) = self.commit.principal
            && owner != self.actor
        {
            return Err(Refused::new(Code::Forbidden, "the budget belongs to another agent"));
        }
        let spent = before.as_ref().map_or(0, |budget| budget.messages_used);
        let SetBudget { id, messages_max, tokens_max, money_max } = set.clone();
        let same = |budget: &Budget| {
            (budget.messages_max, budget.tokens_max, budget.money_max)
                == (messages_max, tokens_max, money_max)
        };
        let budgets = || self.space.items.values().filter(|item| matches!(item, Item::Budget(_)));
        let is_own = |item: &&Item| matches!(item, Item::Budget(budget) if budget.owner == self.actor);
        let too_many = |max: usize| Refused::new(Code::LimitExceeded, "too many budgets").limit(max as u64);
        if before.is_none() && budgets().count() >= limits::BUDGETS_MAX {
            return Err(too_many(limits::BUDGETS_MAX));
        }
        if before.is_none()
            && self.actor.is_some()
            && budgets().filter(is_own).count() >= limits::BUDGETS_PER_AGENT_MAX
        {
            return Err(too_many(limits::BUDGETS_PER_AGENT_MAX));
        }
        let number = match &before {
            Some(budget) => budget.number,
            None => BudgetNo(budgets().count() as u64 + 1),
        };
        if !before.as_ref().is_some_and(same) {
            self.set_item(Item::Budget(Budget {
                id,
                number,
                owner,
                messages_max,
                messages_used: spent,
                tokens_max,
                tokens_used: 0,
                money_max,
                money_used: 0,
                warned: false,
            }));
        }
        Ok(OpResult::Done)
    }

    fn budget(&self, id: &BudgetId) -> Option<Budget> {
        match self.space.items.get(&ItemKey::new(ItemKind::Budget, id.as_str())) {
            Some(Item::Budget(budget)) => Some(budget.clone()),
            _ => None,
        }
    }
}

/// Returns the id of the chain of a message, or `None` if it starts a chain or is a response.
pub(super) fn chain(message: &Message) -> Option<String> {
    let timer = message.is_delayed_to_self();
    let begins = message.hops == 0 && (message.causation_id.is_none() || timer);
    if begins || message.kind == MessageType::Response {
        return None;
    }
    message.correlation_id.clone().or(message.causation_id.clone())
}
