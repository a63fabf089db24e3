//! An export is complete: every hash can be recomputed from it.

use std::collections::HashMap;

use quorate_core::hash_chain::{RecordHeader, genesis_hash, record_hash};
use quorate_core::{AgentId, AgentNo, Effect, Record, Seq, SpaceName, codec};

use super::{ExportError, checkpoints, export};
use crate::verify::tests::populated_directory;

/// Owned copy of an export line.
#[derive(Clone, PartialEq, Debug)]
struct Line {
    space: String,
    record: Record,
    previous: Option<[u8; 32]>,
    /// Id of agent 2, resolved through the line.
    second_agent: Option<AgentId>,
}

fn lines(space: Option<&str>, from: u64) -> Vec<Line> {
    let dir = populated_directory();
    let space = space.map(|name| SpaceName::new(name).unwrap());
    let mut lines = Vec::new();
    export(dir.path(), space.as_ref(), Seq(from), |line| {
        let second_agent = line.ids.agent(AgentNo(2));
        let space = line.space.to_owned();
        lines.push(Line { space, record: line.record, previous: line.previous, second_agent });
        Ok(())
    })
    .unwrap();
    lines
}

#[test]
fn every_hash_follows_from_the_line_and_the_one_before() {
    let lines = lines(None, 1);
    let mut previous = [0; 32];
    let mut heads = HashMap::new();
    for line in &lines {
        let record = &line.record;
        assert_eq!(line.previous.is_some(), record.seq == Seq(1));
        previous = line.previous.unwrap_or(previous);
        let header = RecordHeader {
            seq: record.seq,
            at: record.at,
            format: record.format,
            kind: record.kind,
            principal: &record.principal,
        };
        let hash = record_hash(&previous, &header, &record.body);
        assert_eq!(hash, record.hash, "{} {}", line.space, record.seq);
        previous = record.hash;
        heads.insert(line.space.clone(), (record.seq, record.hash));
    }
    for checkpoint in checkpoints(populated_directory().path()).unwrap() {
        assert_eq!(heads[&checkpoint.space], (checkpoint.seq, checkpoint.hash));
    }
}

#[test]
fn the_first_line_is_chained_to_the_identity_in_its_effects() {
    let line = lines(Some("default"), 1).remove(0);
    let body = codec::read_body(&line.record).unwrap();
    let Effect::SpaceCreated { id, .. } = &body.effects[0] else { panic!("{:?}", body.effects) };
    assert_eq!(line.previous, Some(genesis_hash(*id)));
}

#[test]
fn an_export_from_the_middle_contains_the_previous_hash() {
    let (all, some) = (lines(Some("default"), 1), lines(Some("default"), 10));
    assert_eq!(some[0].previous, Some(all[8].record.hash));
    assert_eq!(some[0].record.seq, Seq(10));
    assert_eq!(some[1..], all[10..]);
    assert_eq!(lines(Some("default"), 100_000), []);
}

#[test]
fn agent_ids_are_resolved_without_their_registration() {
    for line in lines(Some("default"), 6) {
        assert_eq!(line.second_agent.as_ref().map(AgentId::as_str), Some("bob"));
    }
}

#[test]
fn an_unknown_space_and_a_failed_write_are_reported() {
    let dir = populated_directory();
    let other = SpaceName::new("other").unwrap();
    assert!(matches!(export(dir.path(), Some(&other), Seq(1), |_| Ok(())), Err(ExportError::NoSpace(_))));
    let mut calls = 0;
    let result = export(dir.path(), None, Seq(1), |_| {
        calls += 1;
        Err(std::io::ErrorKind::BrokenPipe.into())
    });
    assert!(matches!(result, Err(ExportError::Write(_))));
    assert_eq!(calls, 1);
}
