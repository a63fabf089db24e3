//! Chains of messages: how long they get, whether they go round in a circle, and what they may spend.

use std::sync::Arc;

use bytes::Bytes;

use crate::budget::{Budget, SetBudget};
use crate::commit::{OpResult, Principal};
use crate::decide::tasks::quote;
use crate::decide::{Draft, No};
use crate::destination::Destination;
use crate::ids::{AgentId, BudgetId};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::SAME_MAX;
use crate::message::{Message, MessageType, Payload};
use crate::recipient::Recipient;
use crate::refused::{Code, Refused};
use crate::task::Escalate;

impl Draft<'_> {
    /// Refuses a message that comes too late in its chain, or that its chain has seen too often.
    pub(super) fn check_chain(&self, message: &Message) -> Result<(), Refused> {
        message.check_hops()?;
        let Some(chain) = message.chain() else { return Ok(()) };
        if self.working.sent_in_chain(message) < SAME_MAX {
            return Ok(());
        }
        let from = message.from.as_ref().map_or("the hub", AgentId::as_str);
        let detail = format!(
            "{from} sent this {:?} to the same recipient {SAME_MAX} times already in the chain {chain}",
            message.action
        );
        Err(Refused::new(Code::LoopRefused, detail)
            .limit(u64::from(SAME_MAX))
            .hint("the chain goes round in a circle: stop it, ask a person, or say something new"))
    }

    /// Takes one message from the budget that a message names. If that leaves little of it, says so.
    pub(super) fn spend(&mut self, message: &Message) -> Result<Option<Budget>, No> {
        let Some(named) = &message.budget else { return Ok(None) };
        let id = BudgetId::new(named)?;
        let Some(mut budget) = self.budget(&id)? else { return Err(no_budget(&id).into()) };
        if budget.is_spent() {
            let max = budget.messages_max;
            return Err(Refused::new(
                Code::BudgetExceeded,
                format!("budget {id} has spent its {max} messages"),
            )
            .limit(max)
            .hint("finish with what is there, or let the owner of the budget raise it")
            .into());
        }
        budget.messages_used += 1;
        let warns = budget.is_low() && !budget.warned;
        budget.warned |= warns;
        let verb = if warns { Verb::BudgetWarned } else { Verb::BudgetSpent };
        self.change(verb, Item::Budget(budget.clone()));
        Ok(warns.then_some(budget))
    }

    /// Tells whoever made a budget that little is left of it; if that was the hub, or is gone, the coordinators.
    pub(super) fn warn(&mut self, budget: &Budget, message: &Message) {
        let recipients = self.to_be_told(budget.owner.map_or(Escalate::Coordinators, Escalate::To));
        let ids = recipients.iter().filter_map(|number| self.working.agents().get(*number));
        let ids: Vec<_> = ids.map(|agent| agent.id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        let mut text = String::from("{\"budget\":");
        quote(budget.id.as_str(), &mut text);
        let Budget { messages_used, messages_max, .. } = budget;
        text.push_str(&format!(",\"messagesUsed\":{messages_used},\"messagesMax\":{messages_max}}}"));
        let payload = Payload::seal(Bytes::from(text), self.salt());
        let mut warning = Message::new(Destination::Agents(ids), Verb::BudgetWarned.as_str(), payload);
        warning.kind = MessageType::Event;
        warning.correlation_id.clone_from(&message.correlation_id);
        self.deliveries += recipients.len();
        let recipients = recipients.into_iter().map(Recipient::agent).collect();
        self.post(&Arc::new(warning), recipients);
    }

    pub(super) fn set_budget(&mut self, set: &SetBudget) -> Result<OpResult, No> {
        let before = self.budget(&set.id)?;
        let mut budget = before.clone().unwrap_or_else(|| Budget {
            id: set.id.clone(),
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
                .hint("only whoever made a budget, or the hub, may change it")
                .into());
        }
        let SetBudget { messages_max, tokens_max, money_max, .. } = *set;
        let same = (budget.messages_max, budget.tokens_max, budget.money_max)
            == (messages_max, tokens_max, money_max);
        // Saying again what is known changes nothing and leaves no record.
        if before.is_none() || !same {
            // A budget that was raised warns again.
            budget = Budget { messages_max, tokens_max, money_max, warned: false, ..budget };
            self.change(Verb::BudgetSet, Item::Budget(budget));
        }
        Ok(OpResult::Done)
    }

    fn budget(&self, id: &BudgetId) -> Result<Option<Budget>, No> {
        match self.item(&ItemKey::new(ItemKind::Budget, id.as_str()))? {
            Some(Item::Budget(budget)) => Ok(Some(budget)),
            _ => Ok(None),
        }
    }
}

fn no_budget(id: &BudgetId) -> Refused {
    Refused::new(Code::NotFound, format!("there is no budget {id}"))
        .hint("make it with budget.set first, or leave it out")
}
