//! The policy: the rules of a space. Everybody may read them, admins set them.

use quorate_api::policy::{NewPolicy, Policy};
use quorate_core::{Deed, Op};

use crate::api::{Route, get, put};
use crate::body;
use crate::call::{Answer, Call, ok};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/policy", "policy.get", "The rules of the space.")
            .answers::<Policy>(200, "The rules that are in force.")
            .to(show),
        put("/v1/policy", "policy.set", "Lays down the rules of the space.")
            .is(Deed::Rule)
            .body::<NewPolicy>()
            .answers::<Policy>(200, "The rules that are in force.")
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
