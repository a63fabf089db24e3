//! Budgets of message chains.

use quorate_core::{AgentId, Budget as CoreBudget, BudgetId, Refused, SetBudget};
use serde::{Deserialize, Serialize};

use crate::names::AgentNames;
use crate::reading::named;
#[cfg(feature = "schema")]
use crate::schema;

/// What a chain of messages may spend.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewBudget {
    /// In a commit, also as `id`. In a call of its own the id is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetId>,
    /// Messages.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Number"))]
    pub messages_max: u64,
    /// Tokens of language models.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Number>"))]
    pub tokens_max: Option<u64>,
    /// Money, in the smallest unit of the currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Number>"))]
    pub money_max: Option<u64>,
}

impl NewBudget {
    /// The operation.
    ///
    /// # Errors
    /// `INVALID` if no budget is named.
    pub fn read(self, path: Option<BudgetId>) -> Result<SetBudget, Refused> {
        Ok(SetBudget {
            id: named("budget", path, self.budget)?,
            messages_max: self.messages_max,
            tokens_max: self.tokens_max,
            money_max: self.money_max,
        })
    }
}

impl From<&SetBudget> for NewBudget {
    fn from(set: &SetBudget) -> Self {
        Self {
            budget: Some(set.id.clone()),
            messages_max: set.messages_max,
            tokens_max: set.tokens_max,
            money_max: set.money_max,
        }
    }
}

/// A budget and what was spent of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Its id.
    pub id: BudgetId,
    /// The agent that set it; `null` for an operator.
    pub owner: Option<AgentId>,
    /// Messages that it allows.
    pub messages_max: u64,
    /// Messages that were sent.
    pub messages_used: u64,
    /// Tokens that it allows; `null` for no limit.
    pub tokens_max: Option<u64>,
    /// Tokens that were spent.
    pub tokens_used: u64,
    /// Money that it allows; `null` for no limit.
    pub money_max: Option<u64>,
    /// Money that was spent.
    pub money_used: u64,
}

impl Budget {
    /// A budget as it is shown.
    #[must_use]
    pub fn new(agents: &dyn AgentNames, budget: &CoreBudget) -> Self {
        Self {
            id: budget.id.clone(),
            owner: budget.owner.and_then(|owner| agents.agent_id(owner)),
            messages_max: budget.messages_max,
            messages_used: budget.messages_used,
            tokens_max: budget.tokens_max,
            tokens_used: budget.tokens_used,
            money_max: budget.money_max,
            money_used: budget.money_used,
        }
    }
}
