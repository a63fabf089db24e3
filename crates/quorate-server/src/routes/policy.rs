//! Policy of a space. All principals may read it; admins set it.

use quorate_api::policy::{NewPolicy, Policy};
use quorate_core::{Deed, Op};

use crate::api::{Route, get, put};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/policy", "policy.get", "Get the policy of the space.")
            .answers::<Policy>(200, "The policy in force.")
            .to(show),
        put("/v1/policy", "policy.set", "Set the policy of the space.")
            .is(Deed::Rule)
            .body::<NewPolicy>()
            .answers::<Policy>(200, "The policy in force.")
            .to(set),
    ]
}

pub(crate) async fn show(call: Call) -> Answer {
    ok(&Policy::from(&*call.space.policy()))
}

pub(crate) async fn set(call: Call) -> Answer {
    let policy = body::parse::<NewPolicy>(&call.body)?.read();
    call.commit(vec![Op::SetPolicy(policy)]).await?;
    ok(&Policy::from(&*call.space.policy()))
}
