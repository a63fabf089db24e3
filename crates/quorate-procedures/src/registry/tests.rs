//! Tests of stored states and their versions.

use quorate_core::{ProcedureId, Timestamp};
use serde_json::json;

use super::*;
use crate::machine::RequestOutput;

/// A machine with a state of version 3, which can upgrade version 2.
struct Counter;

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Count {
    count: u32,
}

impl Machine for Counter {
    const KIND: &'static str = "counter";
    const STATE_VERSION: u32 = 3;
    type State = Count;

    fn parse(spec: &[u8]) -> Result<Self, FieldError> {
        match spec {
            b"null" => Ok(Self),
            _ => Err(FieldError::new("start", "must be omitted")),
        }
    }

    fn upgrade(version: u32, state: Value) -> Option<Count> {
        (version == 2).then(|| Count { count: state["n"].as_u64().unwrap_or(0) as u32 })
    }

    fn step(&self, state: &mut Count, _: ProcedureEvent, _: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        state.count += 1;
        Vec::new()
    }

    fn pending_outputs(&self, state: &Count, _: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        vec![ProcedureOutput::Request(RequestOutput {
            id: state.count.to_string(),
            agent: "ada".into(),
            action: "count".into(),
            payload: "1".into(),
            timeout_ms: 1,
            ..RequestOutput::default()
        })]
    }

    fn phase(&self, state: &Count) -> String {
        format!("count {}", state.count)
    }

    fn waits_for(&self, state: &Count) -> Vec<Wait> {
        vec![Wait::Signal { name: state.count.to_string() }]
    }
}

fn context(id: &ProcedureId) -> ProcedureContext<'_> {
    ProcedureContext { id, started_by: "operator:anna", now: Timestamp(5) }
}

fn open(state: Option<&Value>) -> Result<Box<dyn Instance>, OpenError> {
    let registry = Registry::empty().with::<Counter>();
    let state = state.map(ToString::to_string);
    registry.kind("counter").expect("a known kind").open(b"null", state.as_deref().map(str::as_bytes))
}

// Fails under: a version that is not stored, or is read as a field of the state.
#[test]
fn a_state_is_stored_with_its_version() {
    let mut instance = open(None).expect("it opens");
    instance.step(ProcedureEvent::Started, &context(&"p".parse().expect("an id")));
    let stored: Value = serde_json::from_slice(&instance.state().expect("JSON")).expect("JSON");
    assert_eq!(stored, json!({"count": 1, "stateVersion": 3}));
    assert_eq!(open(Some(&stored)).expect("it opens").phase(), "count 1");
}

// Fails under: a state of another version that is parsed as if it were of this one.
#[test]
fn a_state_of_another_version_is_upgraded_or_refused() {
    let older = open(Some(&json!({"n": 7, "stateVersion": 2}))).expect("it is upgraded");
    assert_eq!(older.phase(), "count 7");
    for unknown in [json!({"count": 7}), json!({"count": 7, "stateVersion": 4})] {
        let error = open(Some(&unknown)).err().expect("it is refused");
        assert!(matches!(error, OpenError::Version { supported: 3, .. }), "{error}");
        assert!(error.to_string().starts_with("needs_upgrade: "), "{error}");
    }
    assert!(matches!(open(Some(&json!({"count": "x", "stateVersion": 3}))), Err(OpenError::State(_))));
}

// Fails under: an older deliberation whose state has no version, and is refused.
#[test]
fn a_deliberation_state_has_no_version_field() {
    let registry = Registry::standard();
    let kind = registry.kind("deliberation").expect("a known kind");
    let spec = json!({"subject": "Shall we?", "agents": [{"id": "ada"}]}).to_string();
    let mut instance = kind.open(spec.as_bytes(), None).expect("it opens");
    instance.step(ProcedureEvent::Started, &context(&"p".parse().expect("an id")));
    let stored = instance.state().expect("JSON");
    assert!(!String::from_utf8_lossy(&stored).contains(VERSION_FIELD));
    let reopened = kind.open(spec.as_bytes(), Some(&stored)).expect("it opens");
    assert_eq!(reopened.waits_for(), [Wait::Answer { request: "analyse:ada".into(), agent: "ada".into() }]);
    assert_eq!(kind.check(b"{}").expect_err("invalid").path, crate::finding::ROOT_PATH);
}
