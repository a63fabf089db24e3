//! Budgets: limits on the number of messages in a causation chain.

use quorate_api::Error;
use quorate_core::{BudgetId, Commit, Op, Principal, SetBudget};

use crate::agent::Agent;
use crate::hub::Hub;
use crate::read_models::Budget;

fn set_budget_op(id: &str, messages: u64) -> Result<Op, Error> {
    let id = BudgetId::new(id)?;
    Ok(Op::SetBudget(SetBudget { id, messages_max: messages, tokens_max: None, money_max: None }))
}

impl Agent {
    /// Creates a budget of `messages` messages, or changes a budget of this agent.
    ///
    /// Charge messages to it with [`SendBuilder::budget`](crate::SendBuilder::budget). Messages caused by those
    /// messages inherit the budget.
    ///
    /// # Errors
    /// Returns `INVALID` if the id is invalid, `FORBIDDEN` if another principal owns the budget, or a storage error.
    pub async fn set_budget(&self, id: &str, messages: u64) -> Result<(), Error> {
        self.backend.commit(self.new_commit(vec![set_budget_op(id, messages)?])).await.map(drop)
    }
}

impl Hub {
    /// Creates a budget of `messages` messages, or changes any existing one.
    ///
    /// # Errors
    /// Returns `INVALID` if the id is invalid, or a storage error.
    pub async fn set_budget(&self, id: &str, messages: u64) -> Result<(), Error> {
        let commit = Commit::new(Principal::System, vec![set_budget_op(id, messages)?]);
        self.backend.commit(commit).await.map(drop)
    }

    /// Returns a budget and its consumption; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns `INVALID` if the id is invalid, or a storage error.
    pub async fn budget(&self, id: &str) -> Result<Option<Budget>, Error> {
        self.backend.budget(BudgetId::new(id)?).await
    }
}
