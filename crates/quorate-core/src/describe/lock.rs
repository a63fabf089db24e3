//! A lock, for reading.

use crate::{AgentNo, Grant, Lock};

use super::{Fields, Value, number, text};

pub(super) fn fields(lock: &Lock, agents: &dyn Fn(AgentNo) -> String) -> Fields {
    let grant = |grant: &Grant| {
        let mut fields = vec![
            ("fence", number(grant.fence.0)),
            ("holder", text(agents(grant.holder))),
            ("epoch", number(grant.epoch.0)),
            ("ttlMs", number(grant.ttl_ms)),
            ("atMs", number(grant.at.0)),
            ("seq", number(grant.seq.0)),
        ];
        fields.extend(grant.within.map(|delivery| ("delivery", number(delivery.0))));
        Value::Group(fields)
    };
    vec![
        ("lock", text(&lock.name)),
        ("capacity", number(lock.capacity)),
        ("lastFence", number(lock.last_fence.0)),
        ("grants", Value::List(lock.grants.iter().map(grant).collect())),
    ]
}
