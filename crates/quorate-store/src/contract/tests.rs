//! The reference model keeps the contract, and no case is forgotten.

use std::sync::{Arc, OnceLock};

use super::{From, Open};
use crate::{Reference, Store};

/// Opened again, the model is restarted: it has nowhere else to keep anything.
fn reference() -> Open {
    let made: OnceLock<Arc<Reference>> = OnceLock::new();
    Box::new(move |wiring, from| -> Arc<dyn Store> {
        if let Some(reference) = made.get() {
            match from {
                From::Itself => reference.restart(),
                From::Backup => reference.restore(),
            }
        }
        made.get_or_init(|| Reference::new(wiring)).clone()
    })
}

mod on_the_reference {
    crate::contract_tests!(crate::contract::tests::reference);
}

#[test]
fn every_case_is_in_the_list() {
    let list = include_str!("../contract.rs");
    let rooms = [
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
    for line in rooms.iter().flat_map(|room| room.lines()) {
        if let Some(case) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next()) {
            assert!(list.contains(&format!(" {case},\n")), "{case} is not in the list");
        }
    }
}
