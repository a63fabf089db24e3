//! Budgets: spending limits of a chain of messages.

use axum::extract::Path;
use quorate_api::budget::{Budget, NewBudget};
use quorate_core::{Budget as CoreBudget, BudgetId, Op};
use quorate_engine::Noun as _;

use super::Listing;
use crate::api::{Route, get, put, schema};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/budgets", "budgets.list", "List budgets, newest first. Agents see only their own.")
            .query::<Listing>()
            .lists::<Budget>("budgets")
            .bulk(list),
        get("/v1/budgets/{id}", "budgets.get", "Get a budget and its current spending.")
            .path::<schema::Id>("id")
            .answers::<Budget>(200, "The budget. Visible to its owner and to operators.")
            .to(show),
        put("/v1/budgets/{id}", "budgets.set", "Set the spending limits of a chain of messages.")
            .path::<schema::Id>("id")
            .body::<NewBudget>()
            .answers::<Budget>(200, "The budget.")
            .to(set),
    ]
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    respond(&call, &BudgetId::new(id)?).await
}

pub(crate) async fn set(Path(id): Path<String>, call: Call) -> Answer {
    let id = BudgetId::new(id)?;
    let set = body::parse::<NewBudget>(&call.body)?.read(Some(id.clone()))?;
    call.commit(vec![Op::SetBudget(set)]).await?;
    respond(&call, &id).await
}

async fn respond(call: &Call, id: &BudgetId) -> Answer {
    let agents = &call.space.published().agents;
    let budget: CoreBudget = call.space.item(id).await?;
    // Budgets of other agents are reported as not found.
    if !call.sees(budget.owner) {
        return Err(CoreBudget::not_found(id).into());
    }
    ok(&Budget::new(agents, &budget))
}

pub(crate) async fn list(call: Call) -> Answer {
    let matches = |budget: &CoreBudget| call.sees(budget.owner);
    let agents = &call.space.published().agents;
    super::list(&call, "budgets", call.query()?, matches, |one| Budget::new(agents, one)).await
}
