//! Encoding of locks.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentNo, DeliveryNo, Epoch, Fence, Seq};
use crate::lock::{Grant, Lock};
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, lock: &Lock) {
    out.text(&lock.name);
    out.numbers(&[u64::from(lock.capacity), lock.last_fence.0, lock.grants.len() as u64]);
    for grant in &lock.grants {
        let Grant { fence, holder, epoch, ttl_ms, at, seq, within } = grant;
        out.numbers(&[fence.0, holder.0, epoch.0, *ttl_ms, at.0, seq.0]);
        out.option(within.map(|delivery| delivery.0));
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Lock, DecodeError> {
    let name = input.id()?;
    let capacity = input.narrow()?;
    let last_fence = Fence(input.number()?);
    let count = input.count(7)?;
    let mut grants = Vec::with_capacity(count);
    for _ in 0..count {
        grants.push(Grant {
            fence: Fence(input.number()?),
            holder: AgentNo(input.number()?),
            epoch: Epoch(input.number()?),
            ttl_ms: input.number()?,
            at: Timestamp(input.number()?),
            seq: Seq(input.number()?),
            within: input.option()?.map(DeliveryNo),
        });
    }
    Ok(Lock { name, capacity, last_fence, grants })
}
