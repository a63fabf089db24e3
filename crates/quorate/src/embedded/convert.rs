//! Conversions from engine views to the types of the library.

use quorate_api::approval::ApprovalWithAction;
use quorate_core::Approval;
use quorate_engine::{ApprovalView, Error, Space, TaskView, views};

use crate::approval::ApprovalInfo;
use crate::task::TaskWithPayloads;

pub(super) fn task(space: &Space, view: &TaskView) -> TaskWithPayloads {
    views::task_with_payloads(&space.published().agents, view)
}

pub(super) async fn approval(space: &Space, approval: Approval) -> Result<ApprovalInfo, Error> {
    let ApprovalView { approval, action, modification, modified } = space.approval_view(approval).await?;
    let [action, modification, modified] = [&action, &modification, &modified].map(Option::as_ref);
    let agents = &space.published().agents;
    Ok(ApprovalWithAction::new(agents, &approval, action, modification, modified).into())
}
