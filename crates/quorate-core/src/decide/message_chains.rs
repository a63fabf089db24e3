//! Message chains: hop limit, loop detection and budgets.

use std::sync::Arc;

use bytes::Bytes;

use crate::budget::{Budget, SetBudget};
use crate::commit::{OpResult, Principal};
use crate::decide::tasks::push_json_string;
use crate::decide::{DecideError, Draft};
use crate::destination::Destination;
use crate::ids::{AgentId, BudgetId, BudgetNo};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::{BUDGETS_MAX, BUDGETS_PER_AGENT_MAX, CHAIN_REPEATS_MAX};
use crate::message::{Message, MessageType, Payload};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};
use crate::task::EscalationTarget;

impl Draft<'_> {
    /// Refuses a message that exceeds the hop limit, or that was sent too often in its chain.
    pub(super) fn check_chain(&self, message: &Message) -> Result<(), Refused> {
        message.check_hops()?;
        let Some(chain) = message.chain() else { return Ok(()) };
        if self.working.repeats_in_chain(message) < CHAIN_REPEATS_MAX {
            return Ok(());
        }
        let from = message.from.as_ref().map_or("the hub", AgentId::as_str);
        let detail = format!(
            "{from} has already sent this {:?} to the same recipient {CHAIN_REPEATS_MAX} times in chain {chain}",
            message.action
        );
        Err(Refused::new(Code::LoopRefused, detail)
            .limit(u64::from(CHAIN_REPEATS_MAX))
            .hint("the chain is a loop: stop it, ask a person, or send different content"))
    }

    /// Charges one message to the budget that the message names. Returns the budget if a warning is due.
    pub(super) fn charge_budget(&mut self, message: &Message) -> Result<Option<Budget>, DecideError> {
        let Some(name) = &message.budget else { return Ok(None) };
        let id = BudgetId::new(name)?;
        let Some(mut budget) = self.budget(&id)? else { return Err(no_budget(&id).into()) };
        if budget.is_exhausted() {
            let max = budget.messages_max;
            return Err(Refused::new(
                Code::BudgetExceeded,
                format!("budget {id} is exhausted: all {max} messages are spent"),
            )
            .limit(max)
            .hint("finish with the results so far, or have the owner raise the budget")
            .into());
        }
        budget.messages_used += 1;
        let warns = budget.is_low() && !budget.warned;
        budget.warned |= warns;
        let verb = if warns { Verb::BudgetWarned } else { Verb::BudgetSpent };
        self.change_item(verb, Item::Budget(budget.clone()));
        Ok(warns.then_some(budget))
    }

    /// Warns the owner of a budget that it is low. Warns the coordinators if the owner is the hub or was removed.
    pub(super) fn send_budget_warning(&mut self, budget: &Budget, message: &Message) {
        let recipients = self.notification_recipients(
            budget.owner.map_or(EscalationTarget::Coordinators, EscalationTarget::Agent),
        );
        let ids = recipients.iter().filter_map(|number| self.working.agents().get(*number));
        let ids: Vec<_> = ids.map(|agent| agent.id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let mut text = String::from("{\"budget\":");
        push_json_string(budget.id.as_str(), &mut text);
        let Budget { messages_used, messages_max, .. } = budget;
        text.push_str(&format!(",\"messagesUsed\":{messages_used},\"messagesMax\":{messages_max}}}"));
        let payload = Payload::seal(Bytes::from(text), self.salt());
        let mut warning = Message::new(Destination::Agents(ids), Verb::BudgetWarned.as_str(), payload);
        warning.kind = MessageType::Event;
        warning.correlation_id.clone_from(&message.correlation_id);
        self.deliveries += recipients.len();
        let recipients = recipients.into_iter().map(Recipient::agent).collect();
        self.emit_message(&Arc::new(warning), recipients);
    }

    pub(super) fn set_budget(&mut self, set: &SetBudget) -> Result<OpResult, DecideError> {
        let existing = self.budget(&set.id)?;
        let mut budget = existing.clone().unwrap_or_else(|| Budget {
            id: set.id.clone(),
            number: BudgetNo(self.working.items().budgets.total() as u64 + 1),
            owner: self.actor,
            messages_max: 0,
            messages_used: 0,
            tokens_max: None,
            tokens_used: 0,
            money_max: None,
            money_used: 0,
            warned: false,
        });
        if let Principal::Agent(actor) = &self.commit.principal
            && budget.owner != self.actor
        {
            let detail = format!("agent {actor} may not change budget {}", set.id);
            return Err(Refused::new(Code::Forbidden, detail)
                .hint("only the owner of a budget, or the hub, may change it")
                .into());
        }
        if existing.is_none() {
            self.check_budget_count()?;
        }
        let SetBudget { messages_max, tokens_max, money_max, .. } = *set;
        let same = (budget.messages_max, budget.tokens_max, budget.money_max)
            == (messages_max, tokens_max, money_max);
        // An identical budget changes nothing and writes no record.
        if existing.is_none() || !same {
            // A changed budget warns again.
            budget = Budget { messages_max, tokens_max, money_max, warned: false, ..budget };
            self.change_item(Verb::BudgetSet, Item::Budget(budget));
        }
        Ok(OpResult::Done)
    }

    /// Refuses a further budget if the space, or the agent, has as many as it may have.
    fn check_budget_count(&self) -> Result<(), Refused> {
        let hint = "budgets are permanent: raise the limits of an existing one instead";
        let budgets = &self.working.items().budgets;
        if budgets.total() >= BUDGETS_MAX {
            let detail = "the space has reached its maximum number of budgets";
            return Err(Refused::new(Code::LimitExceeded, detail).limit(BUDGETS_MAX as u64).hint(hint));
        }
        self.actor.map_or(Ok(()), |actor| {
            self.check_share("budgets", budgets.of(&actor), BUDGETS_PER_AGENT_MAX, hint)
        })
    }

    fn budget(&self, id: &BudgetId) -> Result<Option<Budget>, DecideError> {
        match self.item(&ItemKey::new(ItemKind::Budget, id.as_str()))? {
            Some(Item::Budget(budget)) => Ok(Some(budget)),
            _ => Ok(None),
        }
    }
}

fn no_budget(id: &BudgetId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no budget {id}"))
        .hint("create it with `budget.set`, or omit the budget")
}
