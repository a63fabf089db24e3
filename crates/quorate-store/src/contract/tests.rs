//! Runs the contract suite on the reference model and checks that every case is listed in the macro.

use std::sync::{Arc, OnceLock};

use super::{From, Open};
use crate::{Reference, Store};

/// Reopening restarts or restores the existing model, because it persists nothing.
fn reference() -> Open {
    let opened: OnceLock<Arc<Reference>> = OnceLock::new();
    Box::new(move |context, from| -> Arc<dyn Store> {
        if let Some(reference) = opened.get() {
            match from {
                From::Itself => reference.restart(),
                From::Backup => reference.restore(),
            }
        }
        opened.get_or_init(|| Reference::new(context)).clone()
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
        include_str!("keys.rs"),
        include_str!("order.rs"),
        include_str!("leases.rs"),
        include_str!("time.rs"),
        include_str!("waiting.rs"),
        include_str!("memory.rs"),
        include_str!("spaces.rs"),
        include_str!("log.rs"),
        include_str!("restart.rs"),
        include_str!("restore.rs"),
        include_str!("limits.rs"),
        include_str!("locks.rs"),
        include_str!("tasks.rs"),
        include_str!("chains.rs"),
        include_str!("topics.rs"),
        include_str!("apart.rs"),
        include_str!("lists.rs"),
    ];
    for line in modules.iter().flat_map(|module| module.lines()) {
        if let Some(case) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next()) {
            assert!(list.contains(&format!(" {case},\n")), "{case} is not listed in contract_tests!");
        }
    }
}
