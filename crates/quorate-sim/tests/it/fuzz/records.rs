//! Records and items as they lie on disk, or come with a backup that somebody else made.

use quorate_core::codec;
use quorate_core::{Effect, ItemKind, Record};
use quorate_sim::data_directory;
use quorate_sim::fuzz::{Extent, Mutator, seed_of_run};
use tokio::runtime::Runtime;

use super::hub;

/// The records of a space in which a little of everything happened.
fn records() -> Vec<Record> {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let hub = hub::Hub::new(data_directory()).await;
        hub.prepare().await;
        for request in hub::REQUESTS {
            hub.ask(&hub.admin, request.as_bytes()).await;
        }
        hub.records().await
    })
}

#[test]
fn i21_records_from_disk() {
    let seed = seed_of_run();
    println!("again: QUORATE_SEED={seed} cargo test -p quorate-sim --test it fuzz::records::i21_records");
    let records = records();
    assert!(records.len() > 20, "too little happened: {} records", records.len());
    let bodies: Vec<_> = records.iter().map(|record| record.body.clone()).collect();
    let mut cases = Mutator::new("records", seed, Extent::of_run(200_000), bodies);
    let mut read = 0;
    while let Some((from, body)) = cases.next_case() {
        let record = Record { body, ..records[from].clone() };
        let _ = codec::parts_of(&record.body);
        let _ = codec::place_of_part(&record.body, 0);
        if let Ok(body) = codec::read_body(&record) {
            read += 1;
            // What can be read can be told.
            let told: Vec<_> = body.effects.iter().map(|effect| format!("{effect:?}")).collect();
            assert_eq!(told.len(), body.effects.len());
        }
    }
    println!("{} cases, {read} could be read", cases.done());
}

#[test]
fn i21_items_from_disk() {
    let seed = seed_of_run();
    println!("again: QUORATE_SEED={seed} cargo test -p quorate-sim --test it fuzz::records::i21_items");
    let mut corpus = Vec::new();
    for record in records() {
        let body = codec::read_body(&record).unwrap();
        corpus.extend(body.effects.iter().filter_map(|effect| match effect {
            Effect::Changed { item, .. } => Some(codec::write_item(item)),
            _ => None,
        }));
    }
    let mut cases = Mutator::new("items", seed, Extent::of_run(200_000), corpus);
    while let Some((_, bytes)) = cases.next_case() {
        for kind in ItemKind::ALL {
            if let Ok(item) = codec::read_item(*kind, &bytes) {
                let written = codec::write_item(&item);
                assert_eq!(codec::read_item(*kind, &written).ok().as_ref(), Some(&item));
            }
        }
    }
}
