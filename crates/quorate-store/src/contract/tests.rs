//! Runs the contract suite on the reference model and checks that every case is listed in the macro.

use std::sync::{Arc, OnceLock};

use super::{OpenFrom, OpenStore};
use crate::{ReferenceStore, Store};

/// Reopening restarts or restores the existing model, because it persists nothing.
fn reference() -> OpenStore {
    let opened: OnceLock<Arc<ReferenceStore>> = OnceLock::new();
    Box::new(move |context, from| -> Arc<dyn Store> {
        if let Some(reference) = opened.get() {
            match from {
                OpenFrom::OwnData => reference.restart(),
                OpenFrom::Backup => reference.restore(),
            }
        }
        opened.get_or_init(|| ReferenceStore::new(context)).clone()
    })
}

mod on_the_reference {
    crate::contract_tests!(crate::contract::tests::reference);
}

#[test]
fn every_case_is_listed_in_the_macro() {
    let list = include_str!("../contract.rs");
    let modules = [
        include_str!("agents.rs"),
        include_str!("requests.rs"),
        include_str!("sending.rs"),
        include_str!("idempotency.rs"),
        include_str!("delivery_order.rs"),
        include_str!("leases.rs"),
        include_str!("timers.rs"),
        include_str!("consumers.rs"),
        include_str!("memory.rs"),
        include_str!("spaces.rs"),
        include_str!("log.rs"),
        include_str!("restart.rs"),
        include_str!("restore.rs"),
        include_str!("limits.rs"),
        include_str!("locks.rs"),
        include_str!("tasks.rs"),
        include_str!("message_chains.rs"),
        include_str!("routing.rs"),
        include_str!("isolation.rs"),
        include_str!("lists.rs"),
    ];
    for line in modules.iter().flat_map(|module| module.lines()) {
        if let Some(case) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next()) {
            assert!(list.contains(&format!(" {case},\n")), "{case} is not listed in contract_tests!");
        }
    }
}
