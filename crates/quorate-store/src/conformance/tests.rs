//! Runs the conformance suite on the reference model and checks that every case is listed in the macro.

use std::fs;
use std::path::Path;
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
    crate::conformance_tests!(crate::conformance::tests::reference);
}

#[test]
fn every_case_is_listed_in_the_macro() {
    let list = include_str!("../conformance.rs");
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    let mut cases = 0;
    for module in fs::read_dir(modules).expect("the directory exists") {
        let text =
            fs::read_to_string(module.expect("the entry is readable").path()).expect("the file is readable");
        for line in text.lines() {
            if let Some(case) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split('(').next()) {
                assert!(list.contains(&format!(" {case},\n")), "{case} is not listed in conformance_tests!");
                cases += 1;
            }
        }
    }
    assert!(cases > 100, "only {cases} cases were found");
}
