//! Chains of messages: how long, how often the same, and what they spend.

use quorate_core::{
    Budget, BudgetId, Code, Item, ItemKey, ItemKind, Message, OpResult, Principal, Refused, SetBudget, limits,
};

use crate::reference::step::Step;

impl Step<'_> {
    /// Too many messages led to it, or it was said twice already in its chain.
    pub(super) fn check_chain(&self, message: &Message) -> Result<(), Refused> {
        if message.hops > limits::HOPS_MAX {
            return Err(Refused::new(Code::LoopRefused, "too long").limit(u64::from(limits::HOPS_MAX)));
        }
        let same = |said: &&Message| {
            chain(said) == chain(message)
                && (&said.from, &said.to, &said.action) == (&message.from, &message.to, &message.action)
                && said.payload.bytes == message.payload.bytes
        };
        let said = self.space.said.iter().rev().take(limits::CHAIN_WINDOW).filter(same).count();
        if chain(message).is_some() && said >= limits::SAME_MAX as usize {
            return Err(Refused::new(Code::LoopRefused, "in a circle").limit(u64::from(limits::SAME_MAX)));
        }
        Ok(())
    }

    /// Takes note of a message that was sent.
    pub(super) fn say(&mut self, message: &Message) {
        if chain(message).is_some() {
            self.space.said.push(message.clone());
        }
    }

    pub(super) fn pay(&mut self, message: &Message) -> Result<(), Refused> {
        let Some(id) = &message.budget else { return Ok(()) };
        let Some(mut budget) = self.budget(&BudgetId::new(id)?) else {
            return Err(Refused::new(Code::NotFound, "no such budget"));
        };
        if budget.messages_used >= budget.messages_max {
            return Err(Refused::new(Code::BudgetExceeded, "all spent").limit(budget.messages_max));
        }
        budget.messages_used += 1;
        budget.warned = budget.warned || budget.messages_used * 100 >= budget.messages_max * 80;
        self.set_item(Item::Budget(budget));
        Ok(())
    }

    pub(super) fn set_budget(&mut self, set: &SetBudget) -> Result<OpResult, Refused> {
        let before = self.budget(&set.id);
        let owner = before.as_ref().map_or(self.actor, |budget| budget.owner);
        if let Principal::Agent(_) = self.commit.principal
            && owner != self.actor
        {
            return Err(Refused::new(Code::Forbidden, "somebody else's budget"));
        }
        let spent = before.as_ref().map_or(0, |budget| budget.messages_used);
        let SetBudget { id, messages_max, tokens_max, money_max } = set.clone();
        let same = |budget: &Budget| {
            (budget.messages_max, budget.tokens_max, budget.money_max)
                == (messages_max, tokens_max, money_max)
        };
        if !before.as_ref().is_some_and(same) {
            self.set_item(Item::Budget(Budget {
                id,
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

/// What says that messages belong together, if another message led to this one and it is no answer.
fn chain(message: &Message) -> Option<String> {
    let begins = message.hops == 0 && message.causation_id.is_none();
    if begins || message.kind == quorate_core::MessageType::Response {
        return None;
    }
    message.correlation_id.clone().or(message.causation_id.clone())
}
