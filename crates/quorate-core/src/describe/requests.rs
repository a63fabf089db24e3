//! Requests and presence in words and numbers.

use crate::{Presence, Reply, Request, RequestState};

use super::{Fields, Names, Value, number, recipient, text};

pub(super) fn request(request: &Request, names: &Names<'_>) -> Fields {
    let asked = request.asked.iter().map(|one| {
        let mut fields = recipient(one.to, names);
        match one.reply {
            Reply::Open => {}
            Reply::Answered { seq, n } => fields.push(("messageId", names.message(seq, n))),
            Reply::Lost => fields.push(("lost", text("no answer can come"))),
        }
        Value::Group(fields)
    });
    let mut fields = vec![
        ("request", text(request.id)),
        ("from", names.agent(request.from)),
        ("correlationId", text(&request.correlation)),
        ("timeoutMs", number(request.length_ms)),
        ("asked", Value::List(asked.collect())),
        ("state", text(request.state.as_str())),
    ];
    if let RequestState::Failed { code, reason } = &request.state {
        fields.extend([("code", text(code)), ("reason", text(reason))]);
    }
    fields
}

pub(super) fn status(agent: Value, presence: &Presence) -> Fields {
    let mut fields = vec![
        ("agent", agent),
        ("status", text(presence.status.as_str())),
        ("health", text(presence.health.as_str())),
        ("available", text(if presence.available { "yes" } else { "no" })),
    ];
    if !presence.health.note().is_empty() {
        fields.push(("note", text(presence.health.note())));
    }
    fields
}
