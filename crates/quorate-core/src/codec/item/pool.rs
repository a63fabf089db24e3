//! Encoding of pools.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentNo, PoolNo};
use crate::pool::{Pool, PoolAccess};

pub(super) fn write(out: &mut Writer, pool: &Pool) {
    out.number(pool.number.0);
    out.text(&pool.capability);
    out.number(match pool.access {
        PoolAccess::AnyCapable => 0,
        PoolAccess::Coordinators => 1,
    });
    out.option(pool.opened_by.map(|agent| agent.0));
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Pool, DecodeError> {
    let number = PoolNo(u64::from(input.narrow::<u32>()?));
    let capability = input.id()?;
    let access = match input.number()? {
        0 => PoolAccess::AnyCapable,
        1 => PoolAccess::Coordinators,
        _ => return input.expected("the access of a pool: 0 or 1"),
    };
    let opened_by = input.option()?.map(AgentNo);
    Ok(Pool { number, capability, access, opened_by })
}
