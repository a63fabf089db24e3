//! Fingerprints of the operations on procedures.

use crate::codec::Writer;
use crate::ids::AgentId;
use crate::message::Payload;
use crate::procedure::{ControlProcedure, ProcedureControl, SignalProcedure, StartProcedure, StepProcedure};

pub(super) fn write_start(out: &mut Writer, start: &StartProcedure) {
    out.number(71);
    out.text(start.id.as_ref().map_or("", |id| id.as_str()));
    out.text(&start.kind);
    out.text(start.driver.as_ref().map_or("", AgentId::as_str));
    write_payload(out, start.spec.as_ref());
    if let Some(parent) = &start.parent {
        out.text(parent);
    }
}

pub(super) fn write_step(out: &mut Writer, step: &StepProcedure) {
    out.number(72);
    out.text(&step.procedure);
    out.numbers(&[step.expect.0, u64::from(step.status.number())]);
    out.text(&step.phase);
    write_payload(out, step.state.as_ref());
    write_payload(out, step.result.as_ref());
    if !step.reason.is_empty() {
        out.text(&step.reason);
    }
}

pub(super) fn write_control(out: &mut Writer, control: &ControlProcedure) {
    out.number(match control.control {
        ProcedureControl::Pause => 85,
        ProcedureControl::Resume => 86,
        ProcedureControl::Cancel => 87,
    });
    out.text(&control.procedure);
    out.text(&control.reason);
}

pub(super) fn write_signal(out: &mut Writer, signal: &SignalProcedure) {
    out.number(88);
    out.text(&signal.procedure);
    out.text(&signal.name);
    write_payload(out, signal.payload.as_ref());
}

fn write_payload(out: &mut Writer, payload: Option<&Payload>) {
    out.option(payload.map(|payload| payload.bytes.len() as u64));
    out.bytes(payload.map_or(&[], |payload| &payload.bytes));
}
