//! Chains of messages: how long they get, whether they go round in a circle, and what they may spend.

use crate::budget::{Budget, SetBudget};
use crate::commit::{OpResult, Principal};
use crate::decide::{Draft, No};
use crate::ids::{AgentId, BudgetId};
use crate::item::{Item, ItemKey, ItemKind, Verb};
use crate::limits::SAME_MAX;
use crate::message::Message;
use crate::refused::{Code, Refused};

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

    /// Takes one message from the budget that a message names.
    pub(super) fn spend(&mut self, message: &Message) -> Result<(), No> {
        let Some(named) = &message.budget else { return Ok(()) };
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
        self.change(if warns { Verb::BudgetWarned } else { Verb::BudgetSpent }, Item::Budget(budget));
        Ok(())
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
