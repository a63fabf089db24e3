//! Budgets: what a chain of messages may spend.

use axum::extract::Path;
use quorate_core::{Budget, BudgetId, Code, Op, Refused, SetBudget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Page, checked_limit};
use crate::api::{Route, get, put, words};
use crate::body;
use crate::call::{Answer, Call, ok, page};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/budgets", "budgets.list", "The budgets, by id. An agent sees its own.")
            .query::<Page>()
            .lists::<BudgetOut>("budgets")
            .bulk(list),
        get("/v1/budgets/{id}", "budgets.get", "A budget and what is spent of it.")
            .path::<words::Id>("id")
            .answers::<BudgetOut>(200, "The budget, for its owner and those who run the hub.")
            .to(show),
        put("/v1/budgets/{id}", "budgets.set", "Says what a chain may spend.")
            .path::<words::Id>("id")
            .body::<BudgetIn>()
            .answers::<BudgetOut>(200, "The budget.")
            .to(set),
    ]
}

/// What may be spent.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NewBudget")]
pub(crate) struct BudgetIn {
    /// In a commit, also as `id`; in a call of its own it stands in the path.
    #[serde(alias = "id")]
    #[schemars(with = "Option<words::Id>")]
    budget: Option<String>,
    #[schemars(with = "words::Number")]
    messages_max: u64,
    #[schemars(with = "Option<words::Number>")]
    tokens_max: Option<u64>,
    /// In the smallest unit of the currency.
    #[schemars(with = "Option<words::Number>")]
    money_max: Option<u64>,
}

impl BudgetIn {
    pub(crate) fn read(self, path: Option<&str>) -> Result<SetBudget, Refused> {
        let named = path.map(str::to_owned).or(self.budget);
        let missing = || Refused::new(Code::Invalid, "budget is missing").hint("say which budget");
        Ok(SetBudget {
            id: BudgetId::new(named.ok_or_else(missing)?)?,
            messages_max: self.messages_max,
            tokens_max: self.tokens_max,
            money_max: self.money_max,
        })
    }
}

/// A budget.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Budget")]
struct BudgetOut {
    id: String,
    /// `null`: whoever runs the hub.
    owner: Option<String>,
    messages_max: u64,
    messages_used: u64,
    tokens_max: Option<u64>,
    tokens_used: u64,
    money_max: Option<u64>,
    money_used: u64,
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    shown(&call, &BudgetId::new(id)?).await
}

pub(crate) async fn set(Path(id): Path<String>, call: Call) -> Answer {
    let set = body::parse::<BudgetIn>(&call.body)?.read(Some(&id))?;
    let id = set.id.clone();
    call.commit(vec![Op::SetBudget(set)]).await?;
    shown(&call, &id).await
}

async fn shown(call: &Call, id: &BudgetId) -> Answer {
    let agents = &call.space.published().agents;
    let missing = || {
        Refused::new(Code::NotFound, format!("there is no budget {id}"))
            .hint("make it first; the list of budgets shows those that you may see")
    };
    let budget: Budget = call.space.budget(id).await?.ok_or_else(missing)?;
    let owner = budget.owner.and_then(|owner| agents.get(owner)).map(|agent| agent.id.clone());
    // What others may spend is theirs to know.
    if call.by().is_some_and(|by| owner.as_ref() != Some(by)) {
        return Err(missing().into());
    }
    ok(&BudgetOut::new(call, &budget))
}

pub(crate) async fn list(call: Call) -> Answer {
    let wanted: Page = call.query()?;
    let limit = checked_limit(wanted.limit)?;
    let after = wanted.cursor.map(BudgetId::new).transpose()?.map(|id| id.to_string().into());
    let found = call.space.budgets(call.by(), after, limit).await?;
    let items = found.items.iter().map(|one| (one.id.to_string(), BudgetOut::new(&call, one)));
    page("budgets", items, found.cursor.as_deref().map(str::to_owned))
}

impl BudgetOut {
    fn new(call: &Call, budget: &Budget) -> Self {
        let published = call.space.published();
        let owner = budget.owner.and_then(|owner| published.agents.get(owner));
        Self {
            id: budget.id.to_string(),
            owner: owner.map(|owner| owner.id.to_string()),
            messages_max: budget.messages_max,
            messages_used: budget.messages_used,
            tokens_max: budget.tokens_max,
            tokens_used: budget.tokens_used,
            money_max: budget.money_max,
            money_used: budget.money_used,
        }
    }
}
