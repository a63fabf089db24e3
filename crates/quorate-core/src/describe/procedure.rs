//! Procedures in words and numbers. Never what they are to do, know or came to: those are payloads.

use super::{Fields, number, text};
use crate::Procedure;

pub(super) fn fields(procedure: &Procedure) -> Fields {
    let mut fields = vec![
        ("procedure", text(&procedure.id)),
        ("kind", text(&procedure.kind)),
        ("driver", text(procedure.driver.as_ref().map_or("system", |agent| agent.as_str()))),
        ("startedBy", text(&procedure.started_by)),
        ("startedAtMs", number(procedure.started_at.0)),
        ("version", number(procedure.version.0)),
        ("status", text(procedure.status.as_str())),
        ("phase", text(&procedure.phase)),
        ("sinceMs", number(procedure.since.0)),
    ];
    let places = [
        ("specSeq", "specPart", procedure.spec),
        ("stateSeq", "statePart", procedure.state),
        ("resultSeq", "resultPart", procedure.result),
    ];
    for (seq, part, place) in places {
        fields.extend(
            place.into_iter().flat_map(|place| [(seq, number(place.seq.0)), (part, number(place.part))]),
        );
    }
    fields
}
