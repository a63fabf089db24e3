//! Golden tests of the encoding of procedures.

use super::*;
use crate::commit::OpResult;
use crate::ids::{ProcedureId, ScopeNo, Version};
use crate::item::{Item, ItemKind, Verb};
use crate::procedure::{Procedure, ProcedureStatus};
use crate::task::PartRef;

fn procedure(status: ProcedureStatus) -> Procedure {
    Procedure {
        id: "review-7".parse().unwrap(),
        kind: "deliberation".into(),
        driver: Some("driver".parse().unwrap()),
        started_by: "operator:anna".into(),
        started_at: Timestamp(1_800_000_000_000),
        spec: Some(PartRef { seq: Seq(17), part: 0 }),
        version: Version(300),
        seq: Seq(21),
        previous_seq: Some(Seq(19)),
        status,
        phase: "discussion".into(),
        since: Timestamp(1_800_000_060_000),
        stepped_at: Timestamp(1_800_000_061_000),
        state: Some(PartRef { seq: Seq(21), part: 1 }),
        result: status.has_ended().then_some(PartRef { seq: Seq(21), part: 2 }),
        reason: String::new(),
        number: None,
        parent: None,
    }
}

/// Effect 15 with each verb of a procedure.
fn effects() -> Vec<Effect> {
    let changed = |verb, status| Effect::Changed { verb, item: Item::Procedure(procedure(status)) };
    let started = Procedure {
        id: ProcedureId::generated(Generation(0), Seq(17), 1),
        driver: None,
        spec: None,
        version: Version(1),
        previous_seq: None,
        phase: String::new(),
        state: None,
        ..procedure(ProcedureStatus::Running)
    };
    vec![
        Effect::Changed { verb: Verb::ProcedureStarted, item: Item::Procedure(started) },
        changed(Verb::ProcedureStepped, ProcedureStatus::Running),
        changed(Verb::ProcedureDone, ProcedureStatus::Done),
        changed(Verb::ProcedureFailed, ProcedureStatus::Failed),
    ]
}

#[test]
fn the_bytes_of_procedures_never_change() {
    expect!["0104f5f2034cf3d210549347a5415012de4215634d758b95bccaecc1782c51d38b7b040f436e0a0a7072635f302d31372d310c64656c696265726174696f6e000d6f70657261746f723a616e6e6180a0f1c2b1340115000000e0f4f4c2b134c8fcf4c2b1340000000f546f0a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514000a64697363757373696f6ee0f4f4c2b134c8fcf4c2b13412001601000f55700a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514010a64697363757373696f6ee0f4f4c2b134c8fcf4c2b1341200160116020f55710a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514020a64697363757373696f6ee0f4f4c2b134c8fcf4c2b134120016011602"].assert_eq(&hex(&write_body(&[payload("\"hi\"")], &effects())));
}

/// The effects of a pause, a resumption, a cancellation and a park, with their reasons.
fn control_effects() -> Vec<Effect> {
    let changed = |verb, status, reason: &str| {
        let item = Procedure { reason: reason.into(), ..procedure(status) };
        Effect::Changed { verb, item: Item::Procedure(item) }
    };
    vec![
        changed(Verb::ProcedurePaused, ProcedureStatus::Paused, "until Monday"),
        changed(Verb::ProcedureResumed, ProcedureStatus::Running, ""),
        changed(Verb::ProcedureCancelled, ProcedureStatus::Cancelled, "not needed"),
        changed(Verb::ProcedureStuck, ProcedureStatus::Stuck, "needs_upgrade"),
    ]
}

#[test]
fn the_bytes_of_paused_and_cancelled_procedures_never_change() {
    expect!["00040f61720a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514040a64697363757373696f6ee0f4f4c2b134c8fcf4c2b13412001601000c756e74696c204d6f6e6461790f54730a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514000a64697363757373696f6ee0f4f4c2b134c8fcf4c2b13412001601000f60740a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514030a64697363757373696f6ee0f4f4c2b134c8fcf4c2b1341200160116020a6e6f74206e65656465640f62750a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514050a64697363757373696f6ee0f4f4c2b134c8fcf4c2b13412001601000d6e656564735f75706772616465"].assert_eq(&hex(&write_body(&[], &control_effects())));
}

/// Effects of a procedure with a number.
fn numbered_effects() -> Vec<Effect> {
    let changed = |verb, status, reason: &str| {
        let item = Procedure {
            reason: reason.into(),
            number: Some(ScopeNo::of_procedure(Seq(17), 1)),
            parent: reason.is_empty().then(|| "research-1".parse().unwrap()),
            ..procedure(status)
        };
        Effect::Changed { verb, item: Item::Procedure(item) }
    };
    vec![
        changed(Verb::ProcedureStepped, ProcedureStatus::Running, ""),
        changed(Verb::ProcedurePaused, ProcedureStatus::Paused, "until Monday"),
    ]
}

#[test]
fn the_bytes_of_numbered_procedures_never_change() {
    expect!["00020f626f0a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514000a64697363757373696f6ee0f4f4c2b134c8fcf4c2b134120016010000fe230a72657365617263682d310f63720a087265766965772d370c64656c696265726174696f6e066472697665720d6f70657261746f723a616e6e6180a0f1c2b134ac021514040a64697363757373696f6ee0f4f4c2b134c8fcf4c2b13412001601000c756e74696c204d6f6e646179fe23"].assert_eq(&hex(&write_body(&[], &numbered_effects())));
    let record = record_of(&[], &numbered_effects());
    assert_eq!(read_body(&record).unwrap().effects, numbered_effects());
}

#[test]
fn controlled_procedures_round_trip() {
    let record = record_of(&[], &control_effects());
    assert_eq!(read_body(&record).unwrap().effects, control_effects());
    let results = vec![OpResult::ProcedureChanged { version: Version(300), remaining: 7 }];
    assert_eq!(read_results(&write_results(&results)).unwrap(), results);
}

#[test]
fn procedures_round_trip() {
    let record = record_of(&[payload("\"hi\"")], &effects());
    assert_eq!(read_body(&record).unwrap().effects, effects());
    let item = Item::Procedure(procedure(ProcedureStatus::Done));
    assert_eq!(read_item(ItemKind::Procedure, &write_item(&item)).unwrap(), item);
    let results = vec![
        OpResult::ProcedureStarted { id: "review-7".parse().unwrap() },
        OpResult::ProcedureStepped { version: Version(300) },
    ];
    assert_eq!(read_results(&write_results(&results)).unwrap(), results);
}

#[test]
fn the_numbers_of_procedures_never_change() {
    let verbs = [
        (Verb::ProcedureStarted, 110),
        (Verb::ProcedureStepped, 111),
        (Verb::ProcedureDone, 112),
        (Verb::ProcedureFailed, 113),
        (Verb::ProcedurePaused, 114),
        (Verb::ProcedureResumed, 115),
        (Verb::ProcedureCancelled, 116),
        (Verb::ProcedureStuck, 117),
    ];
    for (verb, number) in verbs {
        assert_eq!((verb.number(), Verb::from_number(number)), (number, Some(verb)));
    }
    assert_eq!(ItemKind::Procedure.number(), 10);
    assert_eq!(ProcedureStatus::ALL.map(ProcedureStatus::number), [0, 1, 2, 3, 4, 5]);
}

proptest! {
    #[test]
    fn corrupt_procedures_do_not_panic(at in 0usize..600, with: u8, cut in 0usize..600) {
        let mut record = record_of(&[payload("\"hi\"")], &effects());
        if let Some(byte) = record.body.get_mut(at) {
            *byte = with;
        }
        record.body.truncate(cut);
        let _ = read_body(&record);
        let _ = read_item(ItemKind::Procedure, &record.body);
    }
}
