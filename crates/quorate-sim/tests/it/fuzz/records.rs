//! Records and items read from disk or from an untrusted backup.

use quorate_core::codec;
use quorate_core::{Effect, ItemKind, Record};
use quorate_sim::data_directory;
use quorate_sim::fuzz::{FuzzLimit, Mutator, fuzz_seed};
use tokio::runtime::Runtime;

use super::hub;

/// Returns the records of a space with many kinds of operations.
fn records() -> Vec<Record> {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let hub = hub::TestHub::new(data_directory()).await;
        hub.register_agents().await;
        for request in hub::REQUESTS {
            hub.request(&hub.admin, request.as_bytes()).await;
        }
        hub.records().await
    })
}

#[test]
fn i21_record_decoder_survives_malformed_records() {
    let seed = fuzz_seed();
    println!("rerun: QUORATE_SEED={seed} cargo test -p quorate-sim --test it i21_record");
    let records = records();
    assert!(records.len() > 20, "too few records: {}", records.len());
    let bodies: Vec<_> = records.iter().map(|record| record.body.clone()).collect();
    let mut cases = Mutator::new("records", seed, FuzzLimit::from_env(200_000), bodies);
    let mut decoded = 0;
    while let Some((from, body)) = cases.next_case() {
        let record = Record { body, ..records[from].clone() };
        let _ = codec::part_table(&record.body);
        let _ = codec::locate_part(&record.body, 0);
        if let Ok(body) = codec::read_body(&record) {
            decoded += 1;
            // Decoded effects can be rendered.
            let rendered: Vec<_> = body.effects.iter().map(|effect| format!("{effect:?}")).collect();
            assert_eq!(rendered.len(), body.effects.len());
        }
    }
    println!("{} cases, {decoded} decoded", cases.cases_generated());
}

#[test]
fn i21_item_decoder_survives_malformed_items() {
    let seed = fuzz_seed();
    println!("rerun: QUORATE_SEED={seed} cargo test -p quorate-sim --test it i21_item");
    let mut corpus = Vec::new();
    for record in records() {
        let body = codec::read_body(&record).unwrap();
        corpus.extend(body.effects.iter().filter_map(|effect| match effect {
            Effect::Changed { item, .. } => Some(codec::write_item(item)),
            _ => None,
        }));
    }
    let mut cases = Mutator::new("items", seed, FuzzLimit::from_env(200_000), corpus);
    while let Some((_, bytes)) = cases.next_case() {
        for kind in ItemKind::ALL {
            if let Ok(item) = codec::read_item(*kind, &bytes) {
                let written = codec::write_item(&item);
                assert_eq!(codec::read_item(*kind, &written).ok().as_ref(), Some(&item));
            }
        }
    }
}
