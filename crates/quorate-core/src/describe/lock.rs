//! A lock, for reading.

use crate::{Grant, Lock};

use super::{Fields, Names, Value, number, text, time};

pub(super) fn fields(lock: &Lock, names: &Names<'_>) -> Fields {
    let grant = |grant: &Grant| {
        let mut fields = vec![
            ("fence", number(grant.fence.0)),
            ("holder", names.agent(grant.holder)),
            ("epoch", number(grant.epoch.0)),
            ("ttlMs", number(grant.ttl_ms)),
            ("at", time(grant.at)),
            ("seq", number(grant.seq.0)),
        ];
        fields.extend(grant.within.map(|delivery| ("deliveryId", names.delivery(delivery))));
        Value::Group(fields)
    };
    vec![
        ("lock", text(&lock.name)),
        ("capacity", number(lock.capacity)),
        ("lastFence", number(lock.last_fence.0)),
        ("grants", Value::List(lock.grants.iter().map(grant).collect())),
    ]
}
