//! Procedure steps: repeated starts, and steps by the wrong driver, from the wrong version, or after the end.

use std::collections::BTreeMap;
use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use proptest::sample::select;
use quorate_core::{
    ControlProcedure, Op, OpResult, ProcedureControl, ProcedureId, ProcedureStatus, SignalProcedure,
    StartProcedure, StepProcedure, Version,
};

use super::plan::{AGENTS, VersionChoice};
use super::resolve::{agent_id, expected_version, payload};

pub(super) const NAMES: [&str; 2] = ["p1", "p2"];

/// Operation on a procedure.
#[derive(Clone, Debug)]
pub(super) enum ProcedureOp {
    Start { name: Option<usize>, driver: Option<usize>, spec: Option<u8>, parent: Option<usize> },
    Step { name: usize, expect: VersionChoice, phase: u8, state: Option<u8>, status: u8 },
    Control { name: usize, control: ProcedureControl },
    Signal { name: usize, payload: Option<u8> },
}

pub(super) fn procedure_ops(expect: BoxedStrategy<VersionChoice>) -> BoxedStrategy<ProcedureOp> {
    let parent = weighted(0.2, 0..NAMES.len());
    let start =
        (weighted(0.9, 0..NAMES.len()), weighted(0.3, 0..AGENTS.len()), weighted(0.7, 0..2u8), parent);
    let status = prop_oneof![12 => Just(0u8), 1 => Just(1), 1 => Just(2), 1 => Just(5)];
    let control = select(ProcedureControl::ALL.to_vec());
    prop_oneof![
        1 => start.prop_map(|(name, driver, spec, parent)| ProcedureOp::Start { name, driver, spec, parent }),
        3 => (0..NAMES.len(), expect, 0..2u8, weighted(0.8, 0..3u8), status).prop_map(
            |(name, expect, phase, state, status)| ProcedureOp::Step { name, expect, phase, state, status }
        ),
        1 => (0..NAMES.len(), control).prop_map(|(name, control)| ProcedureOp::Control { name, control }),
        1 => (0..NAMES.len(), weighted(0.5, 0..2u8))
            .prop_map(|(name, payload)| ProcedureOp::Signal { name, payload }),
    ]
    .boxed()
}

/// Versions of the procedures, from responses.
#[derive(Default)]
pub(super) struct ProcedureVersions(BTreeMap<String, u64>);

impl ProcedureVersions {
    pub(super) fn record(&mut self, op: &Op, result: &OpResult) {
        match (op, result) {
            (_, OpResult::ProcedureStarted { id }) => drop(self.0.entry(id.to_string()).or_insert(1)),
            (Op::StepProcedure(step), OpResult::ProcedureStepped { version }) => {
                self.0.insert(step.procedure.to_string(), version.0);
            }
            (Op::ControlProcedure(control), OpResult::ProcedureChanged { version, .. }) => {
                self.0.insert(control.procedure.to_string(), version.0);
            }
            _ => {}
        }
    }
}

pub(super) fn procedure_id(name: usize) -> ProcedureId {
    ProcedureId::new(NAMES[name]).expect("valid procedure id")
}

impl ProcedureOp {
    pub(super) fn op(&self, versions: &ProcedureVersions) -> Op {
        match self {
            Self::Start { name, driver, spec, parent } => Op::StartProcedure(StartProcedure {
                id: name.map(procedure_id),
                kind: "deliberation".into(),
                driver: driver.map(agent_id),
                spec: spec.map(|spec| payload(&format!("{{\"spec\":{spec}}}"))),
                parent: parent.map(procedure_id),
            }),
            Self::Control { name, control } => Op::ControlProcedure(ControlProcedure {
                procedure: procedure_id(*name),
                control: *control,
                reason: "late".into(),
            }),
            Self::Signal { name, payload: number } => Op::SignalProcedure(SignalProcedure {
                procedure: procedure_id(*name),
                name: "go".into(),
                payload: number.map(|number| payload(&format!("{{\"n\":{number}}}"))),
            }),
            Self::Step { name, expect, phase, state, status } => {
                let current = versions.0.get(NAMES[*name]).copied().unwrap_or(1);
                let status = ProcedureStatus::from_number(*status).expect("valid status number");
                Op::StepProcedure(StepProcedure {
                    procedure: procedure_id(*name),
                    expect: expected_version(*expect, current).unwrap_or(Version(current)),
                    phase: format!("phase {phase}"),
                    status,
                    state: state.map(|state| payload(&format!("{{\"state\":{state}}}"))),
                    result: status.has_ended().then(|| payload("\"so\"")),
                    reason: if status == ProcedureStatus::Stuck {
                        "no analyst".into()
                    } else {
                        String::new()
                    },
                })
            }
        }
    }
}

impl fmt::Display for ProcedureOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { name, driver, spec, parent } => {
                let name = name.map_or("-", |name| NAMES[name]);
                write!(
                    f,
                    "starts procedure {name} for driver {driver:?} with {spec:?} as child of {parent:?}"
                )
            }
            Self::Control { name, control } => write!(f, "{}s {}", control.as_str(), NAMES[*name]),
            Self::Signal { name, payload } => write!(f, "signals {} with {payload:?}", NAMES[*name]),
            Self::Step { name, expect, phase, state, status } => {
                write!(
                    f,
                    "steps {} {expect:?} to phase {phase} state {state:?} status {status}",
                    NAMES[*name]
                )
            }
        }
    }
}
