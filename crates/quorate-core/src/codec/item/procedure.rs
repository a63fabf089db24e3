//! Encoding of procedures.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentId, ScopeNo, Seq, Version};
use crate::procedure::{Procedure, ProcedureStatus};
use crate::task::PartRef;
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, procedure: &Procedure) {
    out.text(&procedure.id);
    out.text(&procedure.kind);
    out.text(procedure.driver.as_ref().map_or("", AgentId::as_str));
    out.text(&procedure.started_by);
    out.numbers(&[procedure.started_at.0, procedure.version.0, procedure.seq.0]);
    out.option(procedure.previous_seq.map(|seq| seq.0));
    out.number(u64::from(procedure.status.number()));
    out.text(&procedure.phase);
    out.numbers(&[procedure.since.0, procedure.stepped_at.0]);
    for part in [procedure.spec, procedure.state, procedure.result] {
        write_part(out, part);
    }
    if let Some(number) = procedure.number {
        out.text(&procedure.reason);
        out.number(number.0);
        if let Some(parent) = &procedure.parent {
            out.text(parent);
        }
    } else if !procedure.reason.is_empty() {
        out.text(&procedure.reason);
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Procedure, DecodeError> {
    let id = input.id()?;
    let kind = input.text()?.into();
    let driver = match input.text()? {
        "" => None,
        text => Some(text.parse().or_else(|_| input.expected("an id"))?),
    };
    let started_by = input.text()?.into();
    let started_at = Timestamp(input.number()?);
    let version = Version(input.number()?);
    let seq = Seq(input.number()?);
    let previous_seq = input.option()?.map(Seq);
    let status = match ProcedureStatus::from_number(input.narrow()?) {
        Some(status) => status,
        None => return input.expected("the status of a procedure"),
    };
    Ok(Procedure {
        id,
        kind,
        driver,
        started_by,
        started_at,
        version,
        seq,
        previous_seq,
        status,
        phase: input.text()?.into(),
        since: Timestamp(input.number()?),
        stepped_at: Timestamp(input.number()?),
        spec: read_part(input)?,
        state: read_part(input)?,
        result: read_part(input)?,
        // Records of earlier releases end here, or after the reason.
        reason: if input.is_done() { String::new() } else { input.text()?.into() },
        number: if input.is_done() { None } else { Some(ScopeNo(input.number()?)) },
        parent: if input.is_done() { None } else { Some(input.id()?) },
    })
}

/// Writes the location of a payload, if there is one.
fn write_part(out: &mut Writer, part: Option<PartRef>) {
    out.option(part.map(|part| part.seq.0));
    if let Some(part) = part {
        out.number(u64::from(part.part));
    }
}

fn read_part(input: &mut Reader<'_>) -> Result<Option<PartRef>, DecodeError> {
    Ok(match input.option()? {
        Some(seq) => Some(PartRef { seq: Seq(seq), part: input.narrow()? }),
        None => None,
    })
}
