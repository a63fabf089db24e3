//! Budgets: what a chain of messages may spend.

use axum::extract::Path;
use quorate_api::budget::{Budget, NewBudget};
use quorate_core::{Budget as CoreBudget, BudgetId, Op};
use quorate_engine::Noun as _;

use super::Listing;
use crate::api::{Route, get, put, words};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/budgets", "budgets.list", "List budgets, newest first; an agent sees its own.")
            .query::<Listing>()
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
    let budget: CoreBudget = call.space.item(id).await?;
    // What others may spend is theirs to know.
    if !call.sees(budget.owner) {
        return Err(CoreBudget::not_found(id).into());
    }
    ok(&Budget::new(agents, &budget))
}

pub(crate) async fn list(call: Call) -> Answer {
    let wanted = |budget: &CoreBudget| call.sees(budget.owner);
    let agents = &call.space.published().agents;
    super::list(&call, "budgets", call.query()?, wanted, |one| Budget::new(agents, one)).await
}
