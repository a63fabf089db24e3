//! Sessions in words and numbers.

use crate::{AddKind, Effect, Session};

use super::{Fields, Value, number, text, time};

/// The state of a session.
pub(super) fn session(session: &Session) -> Fields {
    let mut fields = vec![
        ("session", text(&session.id)),
        ("coordinator", session.coordinator.as_ref().map_or(Value::Nothing, text)),
        ("title", text(&session.title)),
        ("status", text(session.status.as_str())),
        ("since", time(session.since)),
    ];
    if !session.reason.is_empty() {
        fields.push(("reason", text(&session.reason)));
    }
    fields.extend(session.task.map(|part| ("taskPart", number(part))));
    let participants = session.participants.iter().map(|one| {
        let mut fields = vec![("agent", text(&one.agent)), ("joinedAt", time(one.joined_at))];
        fields.extend(one.left_at.map(|at| ("leftAt", time(at))));
        Value::Group(fields)
    });
    fields.push(("participants", Value::List(participants.collect())));
    let counts = AddKind::ALL.map(|kind| (kind.as_str(), number(session.count(kind))));
    fields.extend([("openedAt", time(session.opened_at)), ("added", Value::Group(counts.to_vec()))]);
    fields
}

/// What was added; never the thing itself, which is a payload.
pub(super) fn added(effect: &Effect) -> Fields {
    let Effect::SessionAdded { session, kind, n, part, content_type, rationale } = effect else {
        return Fields::new();
    };
    let mut fields = vec![
        ("session", text(session)),
        ("kind", text(kind.as_str())),
        ("n", number(*n)),
        ("part", number(*part)),
    ];
    fields.extend(content_type.as_ref().map(|content_type| ("contentType", text(content_type))));
    if !rationale.is_empty() {
        fields.push(("rationale", text(rationale)));
    }
    fields
}
