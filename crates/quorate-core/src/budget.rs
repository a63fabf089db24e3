//! Budgets: how much a chain of messages may spend. A message names its chain's budget, and spends one of its messages.

use crate::ids::{AgentNo, BudgetId};
use crate::limits::NUMBER_MAX;
use crate::refused::{Code, Refused};

/// A budget. It stays, so that its chain can be asked about later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Its id.
    pub id: BudgetId,
    /// The agent that made it and may change it; `None` is the hub.
    pub owner: Option<AgentNo>,
    /// How many messages may be sent on it.
    pub messages_max: u64,
    /// How many were.
    pub messages_used: u64,
    /// How many tokens of language models may be spent. Kept, and not yet counted.
    pub tokens_max: Option<u64>,
    /// How many were.
    pub tokens_used: u64,
    /// How much money may be spent, in millionths. Kept, and not yet counted.
    pub money_max: Option<u64>,
    /// How much was.
    pub money_used: u64,
    /// Whether the log says that four fifths of the messages are spent.
    pub warned: bool,
}

impl Budget {
    /// Whether four fifths of the messages are spent.
    #[must_use]
    pub fn is_low(&self) -> bool {
        u128::from(self.messages_used) * 5 >= u128::from(self.messages_max) * 4
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.messages_used >= self.messages_max
    }
}

/// Makes a budget, or changes what may be spent on it. What was spent stays spent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetBudget {
    /// Which one.
    pub id: BudgetId,
    /// How many messages may be sent on it.
    pub messages_max: u64,
    /// How many tokens may be spent.
    pub tokens_max: Option<u64>,
    /// How much money may be spent, in millionths.
    pub money_max: Option<u64>,
}

impl SetBudget {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let most = [Some(self.messages_max), self.tokens_max, self.money_max].into_iter().flatten().max();
        match most {
            Some(most) if most > NUMBER_MAX => {
                Err(Refused::new(Code::LimitExceeded, format!("a budget of {most}")).limit(NUMBER_MAX))
            }
            _ => Ok(()),
        }
    }
}
