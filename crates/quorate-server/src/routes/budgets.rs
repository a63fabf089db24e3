//! Budgets: what a chain of messages may spend.

use axum::extract::Path;
use quorate_api::budget::{Budget, NewBudget};
use quorate_core::{BudgetId, Code, Op, Refused};

use super::{Page, checked_limit};
use crate::api::{Route, get, put, words};
use crate::body;
use crate::call::{Answer, Call, ok, page};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/budgets", "budgets.list", "The budgets, by id. An agent sees its own.")
            .query::<Page>()
            .lists::<Budget>("budgets")
            .bulk(list),
        get("/v1/budgets/{id}", "budgets.get", "A budget and what is spent of it.")
            .path::<words::Id>("id")
            .answers::<Budget>(200, "The budget, for its owner and those who run the hub.")
            .to(show),
        put("/v1/budgets/{id}", "budgets.set", "Says what a chain may spend.")
            .path::<words::Id>("id")
            .body::<NewBudget>()
            .answers::<Budget>(200, "The budget.")
            .to(set),
    ]
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    shown(&call, &BudgetId::new(id)?).await
}

pub(crate) async fn set(Path(id): Path<String>, call: Call) -> Answer {
    let id = BudgetId::new(id)?;
    let set = body::parse::<NewBudget>(&call.body)?.read(Some(id.clone()))?;
    call.commit(vec![Op::SetBudget(set)]).await?;
    shown(&call, &id).await
}

async fn shown(call: &Call, id: &BudgetId) -> Answer {
    let agents = &call.space.published().agents;
    let missing = || {
        Refused::new(Code::NotFound, format!("there is no budget {id}"))
            .hint("make it first; the list of budgets shows those that you may see")
    };
    let budget = call.space.budget(id).await?.ok_or_else(missing)?;
    let owner = budget.owner.and_then(|owner| agents.get(owner)).map(|agent| agent.id.clone());
    // What others may spend is theirs to know.
    if call.by().is_some_and(|by| owner.as_ref() != Some(by)) {
        return Err(missing().into());
    }
    ok(&Budget::new(agents, &budget))
}

pub(crate) async fn list(call: Call) -> Answer {
    let wanted: Page = call.query()?;
    let limit = checked_limit(wanted.limit)?;
    let after = wanted.cursor.map(BudgetId::new).transpose()?.map(|id| id.to_string().into());
    let found = call.space.budgets(call.by(), after, limit).await?;
    let agents = &call.space.published().agents;
    let items = found.items.iter().map(|one| (one.id.to_string(), Budget::new(agents, one)));
    page("budgets", items, found.cursor.as_deref().map(str::to_owned))
}
