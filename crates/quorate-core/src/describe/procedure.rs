//! Procedures in words and numbers. Never what they are to do, know or came to: those are payloads.

use super::{Fields, Value, number, text, time};
use crate::Procedure;

pub(super) fn fields(procedure: &Procedure) -> Fields {
    let mut fields = vec![
        ("procedure", text(&procedure.id)),
        ("kind", text(&procedure.kind)),
        ("driver", procedure.driver.as_ref().map_or(Value::Nothing, text)),
        ("startedBy", text(&procedure.started_by)),
        ("startedAt", time(procedure.started_at)),
        ("version", number(procedure.version.0)),
        ("status", text(procedure.status.as_str())),
        ("phase", text(&procedure.phase)),
        ("since", time(procedure.since)),
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
