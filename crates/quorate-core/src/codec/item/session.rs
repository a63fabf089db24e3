//! Encoding of sessions.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentId, ScopeNo};
use crate::session::{ContributionKind, Participant, Session, SessionStatus};
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, session: &Session) {
    out.text(&session.id);
    out.number(session.number.0);
    out.text(session.coordinator.as_ref().map_or("", AgentId::as_str));
    out.text(&session.title);
    out.option(session.task.map(u64::from));
    out.numbers(&[status_number(session.status), session.since.0]);
    out.text(&session.reason);
    out.number(session.opened_at.0);
    out.numbers(&session.contributions);
    out.number(session.participants.len() as u64);
    for participant in &session.participants {
        out.text(&participant.agent);
        out.number(participant.joined_at.0);
        out.option(participant.left_at.map(|at| at.0));
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Session, DecodeError> {
    let id = input.id()?;
    let number = ScopeNo(input.number()?);
    let coordinator = match input.text()? {
        "" => None,
        text => Some(text.parse().or_else(|_| input.expected("an id"))?),
    };
    let title = input.text()?.into();
    let task = match input.option()? {
        Some(part) => Some(u32::try_from(part).or_else(|_| input.expected("the index of a payload part"))?),
        None => None,
    };
    let status = read_status(input)?;
    let since = Timestamp(input.number()?);
    let reason = input.text()?.into();
    let opened_at = Timestamp(input.number()?);
    let mut contributions = [0; ContributionKind::ALL.len()];
    for count in &mut contributions {
        *count = input.number()?;
    }
    let count = input.count(3)?;
    let mut participants = Vec::with_capacity(count);
    for _ in 0..count {
        participants.push(Participant {
            agent: input.id()?,
            joined_at: Timestamp(input.number()?),
            left_at: input.option()?.map(Timestamp),
        });
    }
    Ok(Session {
        id,
        number,
        coordinator,
        participants,
        title,
        task,
        status,
        since,
        reason,
        opened_at,
        contributions,
    })
}

fn status_number(status: SessionStatus) -> u64 {
    match status {
        SessionStatus::Active => 0,
        SessionStatus::Paused => 1,
        SessionStatus::Completed => 2,
        SessionStatus::Failed => 3,
    }
}

fn read_status(input: &mut Reader<'_>) -> Result<SessionStatus, DecodeError> {
    Ok(match input.number()? {
        0 => SessionStatus::Active,
        1 => SessionStatus::Paused,
        2 => SessionStatus::Completed,
        3 => SessionStatus::Failed,
        _ => return input.expected("the status of a session"),
    })
}
