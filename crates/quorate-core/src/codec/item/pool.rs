//! Encoding of pools.

use crate::codec::{Reader, Unreadable, Writer};
use crate::ids::PoolNo;
use crate::pool::{Pool, Takers};

pub(super) fn write(out: &mut Writer, pool: &Pool) {
    out.number(pool.number.0);
    out.text(&pool.capability);
    out.number(match pool.takers {
        Takers::Anybody => 0,
        Takers::Coordinators => 1,
    });
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Pool, Unreadable> {
    let number = PoolNo(u64::from(input.narrow::<u32>()?));
    let capability = input.id()?;
    let takers = match input.number()? {
        0 => Takers::Anybody,
        1 => Takers::Coordinators,
        _ => return input.wrong("the agents that may claim from a pool"),
    };
    Ok(Pool { number, capability, takers })
}
