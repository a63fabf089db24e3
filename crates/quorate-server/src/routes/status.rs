//! Status of a space: what is stuck, what is running, and what operators should know of.

use quorate_api::budget::Budget;
use quorate_api::status::{SpaceStatus, StuckWork};
use quorate_core::{Budget as CoreBudget, ItemRange, Permission, Procedure, ProcedureStatus};

use crate::api::{Route, get};
use crate::call::{ApiResult, Call, ok_response};

/// Maximum number of items in each list of the status.
const LISTED_MAX: usize = 100;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/status",
            "status.get",
            "Get what is stuck, what is running, inconsistencies, and recent violations of a space.",
        )
        .returns::<SpaceStatus>(200, "The status. Each list has at most 100 items.")
        .handled_in_bulk_by(show),
    ]
}

pub(crate) async fn show(call: Call) -> ApiResult {
    let space = &call.space;
    let stuck = space.stuck_work(LISTED_MAX).await?;
    let is_running = |procedure: &Procedure| procedure.status == ProcedureStatus::Running;
    let running = space.list(ItemRange::Newest(None), LISTED_MAX, is_running).await?;
    let is_low = |budget: &CoreBudget| budget.is_low() && call.can_see(budget.owner);
    let budgets = space.list(ItemRange::Newest(None), LISTED_MAX, is_low).await?;
    let may_review = call.principal.check_permission(Permission::Review, "read violations").is_ok();
    let violations = may_review.then(|| {
        let all = space.violations();
        all.iter().rev().take(LISTED_MAX).map(Into::into).collect()
    });
    let published = space.published();
    let now = call.app.engine().clock().now().wall;
    ok_response(&SpaceStatus {
        seq: published.head.seq,
        at: published.head.at,
        stuck: stuck.iter().map(|work| StuckWork::new(work, now)).collect(),
        running_procedures: running.items.iter().map(|(_, procedure)| procedure.into()).collect(),
        low_budgets: budgets.items.iter().map(|(_, budget)| Budget::new(&published.agents, budget)).collect(),
        consistency: space.last_check().map(|report| (*report).clone()),
        violations,
    })
}
