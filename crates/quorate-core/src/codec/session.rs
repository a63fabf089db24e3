//! Encoding of contributions to a session, and fingerprints of the operations on sessions.

use crate::codec::{DecodeError, Reader, Writer};
use crate::effect::Effect;
use crate::ids::AgentId;
use crate::session::{AddToSession, ChangeSession, ContributionKind, OpenSession, SessionChange};

/// Encodes the fields of `session.added`.
pub(super) fn write_added(out: &mut Writer, effect: &Effect) {
    let Effect::ContributionAdded { session, kind, n, part, content_type, rationale } = effect else {
        return;
    };
    out.text(session);
    out.numbers(&[u64::from(kind.number()), *n, u64::from(*part)]);
    out.text(content_type.as_deref().unwrap_or(""));
    out.text(rationale);
}

pub(super) fn read_added(input: &mut Reader<'_>) -> Result<Effect, DecodeError> {
    Ok(Effect::ContributionAdded {
        session: input.id()?,
        kind: match ContributionKind::from_number(input.narrow()?) {
            Some(kind) => kind,
            None => return input.expected("a kind of contribution"),
        },
        n: input.number()?,
        part: input.narrow()?,
        content_type: Some(input.text()?).filter(|content_type| !content_type.is_empty()).map(Into::into),
        rationale: input.text()?.into(),
    })
}

pub(super) fn write_open(out: &mut Writer, open: &OpenSession) {
    out.number(45);
    out.text(open.id.as_ref().map_or("", |id| id.as_str()));
    out.text(open.coordinator.as_ref().map_or("", AgentId::as_str));
    out.number(open.participants.len() as u64);
    open.participants.iter().for_each(|agent| out.text(agent));
    out.text(&open.title);
    out.option(open.task.as_ref().map(|task| task.bytes.len() as u64));
    out.bytes(open.task.as_ref().map_or(&[], |task| &task.bytes));
}

pub(super) fn write_change(out: &mut Writer, change: &ChangeSession) {
    out.number(46);
    out.text(&change.session);
    let (verb, agent) = match &change.change {
        SessionChange::Join(agent) => ("join", agent.as_str()),
        SessionChange::Leave(agent) => ("leave", agent.as_str()),
        SessionChange::Pause => ("pause", ""),
        SessionChange::Resume => ("resume", ""),
        SessionChange::Complete => ("complete", ""),
        SessionChange::Fail => ("fail", ""),
    };
    out.text(verb);
    out.text(agent);
    out.text(&change.reason);
}

pub(super) fn write_add(out: &mut Writer, add: &AddToSession) {
    out.number(47);
    out.text(&add.session);
    out.number(u64::from(add.kind.number()));
    out.text(add.content_type.as_deref().unwrap_or(""));
    out.text(&add.rationale);
    out.bytes(&add.body.bytes);
}
