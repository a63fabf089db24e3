//! Encoding of an agent's presence, identical in the log and in its row.

use crate::codec::{DecodeError, Reader, Writer};
use crate::presence::{AgentStatus, Health, Presence};

/// Encodes a presence for its row.
#[must_use]
pub fn write_presence(presence: &Presence) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(4));
    write(&mut out, presence);
    out.0
}

/// Decodes a presence from its row.
///
/// # Errors
/// If the bytes cannot be decoded by this release.
pub fn read_presence(bytes: &[u8]) -> Result<Presence, DecodeError> {
    let mut input = Reader::new(bytes);
    let presence = read(&mut input)?;
    input.end()?;
    Ok(presence)
}

pub(super) fn write(out: &mut Writer, presence: &Presence) {
    let health = match presence.health {
        Health::Healthy => 0,
        Health::Degraded(_) => 1,
        Health::Error(_) => 2,
    };
    out.numbers(&[status_number(presence.status), health, u64::from(presence.available)]);
    out.text(presence.health.note());
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Presence, DecodeError> {
    let number = input.number()?;
    let status = AgentStatus::ALL.into_iter().find(|status| status_number(*status) == number);
    let Some(status) = status else { return input.expected("a status") };
    let health = input.number()?;
    let available = match input.number()? {
        0 => false,
        1 => true,
        _ => return input.expected("a boolean"),
    };
    let note: String = input.text()?.into();
    let health = match health {
        0 => Health::Healthy,
        1 => Health::Degraded(note),
        2 => Health::Error(note),
        _ => return input.expected("a health"),
    };
    Ok(Presence { status, health, available })
}

fn status_number(status: AgentStatus) -> u64 {
    match status {
        AgentStatus::Idle => 0,
        AgentStatus::Working => 1,
        AgentStatus::Waiting => 2,
        AgentStatus::Offline => 3,
    }
}
