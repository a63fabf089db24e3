//! Policy of a space. All principals may read it; admins set it.

use quorate_api::policy::{NewPolicy, Policy};
use quorate_core::{Op, Permission};

use crate::api::{Route, get, put};
use crate::body;
use crate::call::{ApiResult, Call, ok_response};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/policy", "policy.get", "Get the policy of the space.")
            .returns::<Policy>(200, "The policy in force.")
            .handled_by(show),
        put("/v1/policy", "policy.set", "Set the policy of the space.")
            .requires(Permission::Administer)
            .request_body::<NewPolicy>()
            .returns::<Policy>(200, "The policy in force.")
            .handled_by(set),
    ]
}

pub(crate) async fn show(call: Call) -> ApiResult {
    ok_response(&Policy::from(&*call.space.policy()))
}

pub(crate) async fn set(call: Call) -> ApiResult {
    let policy = body::parse::<NewPolicy>(&call.body)?.into_core();
    call.commit(vec![Op::SetPolicy(policy)]).await?;
    ok_response(&Policy::from(&*call.space.policy()))
}
