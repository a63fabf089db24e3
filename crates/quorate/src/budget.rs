//! Budgets: what a chain of messages may spend.

use quorate_api::Error;
use quorate_core::{BudgetId, Commit, Op, Principal, SetBudget};

use crate::agent::Agent;
use crate::hub::Hub;
use crate::view::Budget;

fn set(id: &str, messages: u64) -> Result<Op, Error> {
    let id = BudgetId::new(id)?;
    Ok(Op::SetBudget(SetBudget { id, messages_max: messages, tokens_max: None, money_max: None }))
}

impl Agent {
    /// Makes a budget of so many messages, or changes one of its own. Messages name it with
    /// [`Sending::budget`](crate::Sending::budget); what follows from them names it by itself.
    ///
    /// # Errors
    /// `FORBIDDEN` if it is somebody else's, or a failure of the storage.
    pub async fn set_budget(&self, id: &str, messages: u64) -> Result<(), Error> {
        self.link.commit(self.commit_of(vec![set(id, messages)?])).await.map(drop)
    }
}

impl Hub {
    /// Makes a budget of so many messages, or changes one, whoever made it.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn set_budget(&self, id: &str, messages: u64) -> Result<(), Error> {
        let commit = Commit::new(Principal::System, vec![set(id, messages)?]);
        self.link.commit(commit).await.map(drop)
    }

    /// A budget and what was spent on it; `None` if there is none.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn budget(&self, id: &str) -> Result<Option<Budget>, Error> {
        self.link.budget(BudgetId::new(id)?).await
    }
}
