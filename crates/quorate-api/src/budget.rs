//! Budgets of message chains.

use quorate_core::{AgentId, Budget as CoreBudget, BudgetId, Refused, SetBudget};
use serde::{Deserialize, Serialize};

use crate::id_resolver::AgentIds;
use crate::parse_context::path_or_body;
#[cfg(feature = "schema")]
use crate::schema;

/// Limits for a chain of messages.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewBudget {
    /// Budget ID. Required in a commit, where `id` is accepted as an alias. In other calls it is part of the path.
    #[serde(alias = "id", skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetId>,
    /// Maximum number of messages.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Number"))]
    pub messages_max: u64,
    /// Maximum number of language model tokens. Recorded, but not enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Number>"))]
    pub tokens_max: Option<u64>,
    /// Maximum cost, in millionths of a currency unit. Recorded, but not enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Number>"))]
    pub money_max: Option<u64>,
}

impl NewBudget {
    /// Converts the request into an operation.
    ///
    /// # Errors
    /// `INVALID` if the budget is missing.
    pub fn into_core(self, path: Option<BudgetId>) -> Result<SetBudget, Refused> {
        Ok(SetBudget {
            id: path_or_body("budget", path, self.budget)?,
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

/// A budget and its usage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Unique identifier.
    pub id: BudgetId,
    /// Agent that set the budget; `null` for an operator.
    pub owner: Option<AgentId>,
    /// Maximum number of messages.
    pub messages_max: u64,
    /// Number of messages sent.
    pub messages_used: u64,
    /// Maximum number of language model tokens; `null` if not set. Not enforced.
    pub tokens_max: Option<u64>,
    /// Number of tokens used. Not counted yet: always 0.
    pub tokens_used: u64,
    /// Maximum cost, in millionths of a currency unit; `null` if not set. Not enforced.
    pub money_max: Option<u64>,
    /// Cost so far, in millionths of a currency unit. Not counted yet: always 0.
    pub money_used: u64,
}

impl Budget {
    /// Creates the API representation of a budget.
    #[must_use]
    pub fn new(agents: &dyn AgentIds, budget: &CoreBudget) -> Self {
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
