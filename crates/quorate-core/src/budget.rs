//! Budgets of message chains. Each message that names a budget is charged one message.

use crate::ids::{AgentNo, BudgetId, BudgetNo};
use crate::limits::NUMBER_MAX;
use crate::refused::{Code, Refused};

/// A budget. Retained permanently, so that its chain can be inspected later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Id of the budget.
    pub id: BudgetId,
    /// Number of the budget.
    pub number: BudgetNo,
    /// The agent that created it and may change it; `None` is the hub.
    pub owner: Option<AgentNo>,
    /// Maximum number of messages.
    pub messages_max: u64,
    /// Messages charged so far.
    pub messages_used: u64,
    /// Maximum number of LLM tokens. Stored, but not enforced yet.
    pub tokens_max: Option<u64>,
    /// LLM tokens used so far.
    pub tokens_used: u64,
    /// Maximum cost, in millionths of a currency unit. Stored, but not enforced yet.
    pub money_max: Option<u64>,
    /// Cost so far, in millionths.
    pub money_used: u64,
    /// Whether the 80 % warning has been recorded.
    pub warned: bool,
}

impl Budget {
    /// Whether at least 80 % of the messages are used.
    #[must_use]
    pub fn is_low(&self) -> bool {
        u128::from(self.messages_used) * 5 >= u128::from(self.messages_max) * 4
    }

    /// Whether no messages are left.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.messages_used >= self.messages_max
    }
}

/// Creates a budget, or changes its limits. Usage is not reset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetBudget {
    /// Id of the budget.
    pub id: BudgetId,
    /// Maximum number of messages.
    pub messages_max: u64,
    /// Maximum number of LLM tokens.
    pub tokens_max: Option<u64>,
    /// Maximum cost, in millionths of a currency unit.
    pub money_max: Option<u64>,
}

impl SetBudget {
    pub(crate) fn check(&self) -> Result<(), Refused> {
        let largest = [Some(self.messages_max), self.tokens_max, self.money_max].into_iter().flatten().max();
        match largest {
            Some(largest) if largest > NUMBER_MAX => {
                Err(Refused::new(Code::LimitExceeded, format!("invalid budget: {largest}")).limit(NUMBER_MAX))
            }
            _ => Ok(()),
        }
    }
}
