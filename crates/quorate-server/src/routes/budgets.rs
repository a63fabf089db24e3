//! Budgets: spending limits of a chain of messages.

use axum::extract::Path;
use quorate_api::budget::{Budget, NewBudget};
use quorate_api::page::ListQuery;
use quorate_core::{Budget as CoreBudget, BudgetId, Op};
use quorate_engine::StoredItem as _;

use crate::api::{Route, get, put, schema};
use crate::body;
use crate::call::{ApiResult, Call, ok_response};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/budgets", "budgets.list", "List budgets, newest first. Agents see only their own.")
            .query_parameters::<ListQuery>()
            .returns_page::<Budget>("budgets")
            .handled_in_bulk_by(list),
        get("/v1/budgets/{id}", "budgets.get", "Get a budget and its current spending.")
            .path_parameter::<schema::Id>("id", "Budget ID.")
            .returns::<Budget>(200, "The budget. Visible to its owner and to operators.")
            .handled_by(show),
        put("/v1/budgets/{id}", "budgets.set", "Set the spending limits of a chain of messages.")
            .path_parameter::<schema::Id>("id", "Budget ID.")
            .request_body::<NewBudget>()
            .returns::<Budget>(200, "The budget.")
            .handled_by(set),
    ]
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> ApiResult {
    respond(&call, &BudgetId::new(id)?).await
}

pub(crate) async fn set(Path(id): Path<String>, call: Call) -> ApiResult {
    let id = BudgetId::new(id)?;
    let set = body::parse::<NewBudget>(&call.body)?.into_core(Some(id.clone()))?;
    call.commit(vec![Op::SetBudget(set)]).await?;
    respond(&call, &id).await
}

async fn respond(call: &Call, id: &BudgetId) -> ApiResult {
    let agents = &call.space.published().agents;
    let budget: CoreBudget = call.space.item(id).await?;
    // Budgets of other agents are reported as not found.
    if !call.can_see(budget.owner) {
        return Err(CoreBudget::not_found(id).into());
    }
    ok_response(&Budget::new(agents, &budget))
}

pub(crate) async fn list(call: Call) -> ApiResult {
    let matches = |budget: &CoreBudget| call.can_see(budget.owner);
    let agents = &call.space.published().agents;
    super::list(&call, "budgets", call.query()?, matches, |budget| Budget::new(agents, budget)).await
}
