//! Golden tests of the encoding of locks.

use super::*;
use crate::commit::{GrantedLocks, OpResult};
use crate::ids::Fence;
use crate::item::{Item, ItemKind, Verb};
use crate::lock::{FenceRef, Grant, Lock};

pub(super) fn granted() -> GrantedLocks {
    let locks = vec![FenceRef { lock: "plan".parse().unwrap(), fence: Fence(300) }];
    GrantedLocks { locks, ttl_ms: 30_000 }
}

fn lock() -> Lock {
    let grant = Grant {
        fence: Fence(300),
        holder: AgentNo(2),
        epoch: Epoch(9),
        ttl_ms: 30_000,
        at: Timestamp(1_800_000_000_000),
        seq: Seq(42),
        within: None,
    };
    let within = Some(DeliveryNo(17));
    let grants = vec![grant.clone(), Grant { fence: Fence(301), within, ..grant }];
    Lock { name: "plan".parse().unwrap(), capacity: 2, last_fence: Fence(301), grants }
}

#[test]
fn the_bytes_of_a_lock_never_change() {
    let verbs = [Verb::LockGranted, Verb::LockReleased, Verb::LockExpired, Verb::LockReturned];
    let effects: Vec<_> =
        verbs.into_iter().map(|verb| Effect::Changed { verb, item: Item::Lock(lock()) }).collect();
    expect!["00040f293c0504706c616e02ad0202ac020209b0ea0180a0f1c2b1342a00ad020209b0ea0180a0f1c2b1342a120f293d0504706c616e02ad0202ac020209b0ea0180a0f1c2b1342a00ad020209b0ea0180a0f1c2b1342a120f293e0504706c616e02ad0202ac020209b0ea0180a0f1c2b1342a00ad020209b0ea0180a0f1c2b1342a120f293f0504706c616e02ad0202ac020209b0ea0180a0f1c2b1342a00ad020209b0ea0180a0f1c2b1342a12"].assert_eq(&hex(&write_body(&[], &effects)));
    assert_eq!(read_body(&record_of(&[], &effects)).unwrap().effects, effects);
    assert_eq!(read_item(ItemKind::Lock, &write_item(&Item::Lock(lock()))).unwrap(), Item::Lock(lock()));
    expect!["16b0ea010104706c616eac02"].assert_eq(&hex(&write_results(&[OpResult::LocksGranted(granted())])));
}
