//! Encoding of effects. Their tags never change.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer, item, message, presence, session};
use crate::declaration::DeclarationDigest;
use crate::effect::{
    DeliveryOrigin, Effect, LoggedLease, NewDelivery, RestoredVersion, ReturnCause, ReturnOutcome,
};
use crate::ids::{AgentNo, DeliveryNo, Epoch, Generation, Key, LeaseToken, ScopeNo, Seq, SpaceId, Version};
use crate::item::{ItemKind, Verb};
use crate::message::{Payload, Priority};
use crate::presence::Presence;
use crate::recipient::Recipient;
use crate::registry::{Agent, AgentRole};
use crate::subscription::RecordedMessage;
use crate::time::Timestamp;

/// Encodes the fields of an effect and returns its tag.
pub(super) fn write(out: &mut Writer, effect: &Effect) -> u64 {
    match effect {
        Effect::SpaceCreated { name, id, generation } => {
            out.text(name);
            out.0.extend_from_slice(&id.0);
            out.number(generation.0);
        }
        Effect::SpaceRestored { generation } => out.number(generation.0),
        Effect::AgentRegistered { number, agent } => write_agent(out, *number, agent),
        Effect::AgentRemoved { number } => out.number(number.0),
        Effect::Sent { message, part, first, deliveries } => {
            out.numbers(&[u64::from(*part), first.0]);
            write_deliveries(out, deliveries);
            message::write(out, message);
        }
        Effect::Leased { lease_ms, deliveries } => {
            out.number(*lease_ms);
            write_leases(out, deliveries);
        }
        Effect::Acked { delivery, token, origin } => {
            out.numbers(&[delivery.0, token.0]);
            write_origin(out, *origin);
        }
        Effect::Returned { delivery, token, cause, reason, next, origin } => {
            out.numbers(&[delivery.0, token.0, cause_number(*cause)]);
            out.text(reason);
            write_next(out, *next);
            write_origin(out, *origin);
        }
        Effect::Redriven { delivery, to, seq, n, priority, attempts_max, expires_at, scope } => {
            out.numbers(&[delivery.0, to.number(), seq.0, u64::from(*n)]);
            out.0.extend_from_slice(&[priority.level, priority.rank]);
            out.number(u64::from(*attempts_max));
            out.option(expires_at.map(|at| at.0));
            // Last and optional: most have none.
            scope.iter().for_each(|scope| out.number(scope.0));
        }
        Effect::Expired { delivery, origin }
        | Effect::Purged { delivery, origin }
        | Effect::DeniedByPolicy { delivery, origin } => {
            out.number(delivery.0);
            write_origin(out, *origin);
        }
        Effect::Written { key, version, entry_type, content_type, part, depends_on, restores } => {
            write_version(out, key, *version);
            out.text(entry_type);
            out.text(content_type.as_deref().unwrap_or(""));
            out.numbers(&[u64::from(*part), depends_on.len() as u64]);
            depends_on.iter().for_each(|(key, version)| write_version(out, key, *version));
            // Last and optional: only rollbacks have it.
            restores.iter().for_each(|restored| out.numbers(&[restored.seq.0, restored.version.0]));
        }
        Effect::Deleted { key, version } => write_version(out, key, *version),
        Effect::Erased { seq, part } => out.numbers(&[seq.0, u64::from(*part)]),
        Effect::Changed { verb, item } => {
            out.numbers(&[verb.number(), u64::from(item.key().kind.number())]);
            item::write(out, item);
        }
        Effect::WaitAborted { cycle } => {
            out.number(cycle.len() as u64);
            for (agent, waits_for) in cycle {
                out.number(agent.0);
                out.text(waits_for);
            }
        }
        Effect::ContributionAdded { .. } => session::write_added(out, effect),
        Effect::AckedMany { deliveries } => write_leases(out, deliveries),
        Effect::LeasedFromPool { agent, lease_ms, deliveries } => {
            out.numbers(&[agent.0, *lease_ms]);
            write_leases(out, deliveries);
        }
        Effect::Backfilled { agent, first, messages } => {
            out.numbers(&[agent.0, first.0, messages.len() as u64]);
            messages.iter().for_each(|message| write_recorded_message(out, message));
        }
        Effect::PresenceChanged { number, presence } => {
            out.number(number.0);
            presence::write(out, presence);
        }
    }
    tag_of(effect)
}

/// The stored tag of an effect. Never changes.
fn tag_of(effect: &Effect) -> u64 {
    match effect {
        Effect::SpaceCreated { .. } => 1,
        Effect::SpaceRestored { .. } => 2,
        Effect::AgentRegistered { .. } => 3,
        Effect::AgentRemoved { .. } => 4,
        Effect::Sent { .. } => 5,
        Effect::Leased { .. } => 6,
        Effect::Acked { .. } => 7,
        Effect::Returned { .. } => 8,
        Effect::Expired { .. } => 9,
        Effect::Redriven { .. } => 10,
        Effect::Purged { .. } => 11,
        Effect::Written { .. } => 12,
        Effect::Deleted { .. } => 13,
        Effect::Erased { .. } => 14,
        Effect::Changed { .. } => 15,
        Effect::WaitAborted { .. } => 18,
        Effect::ContributionAdded { .. } => 16,
        Effect::AckedMany { .. } => 25,
        Effect::LeasedFromPool { .. } => 26,
        Effect::Backfilled { .. } => 27,
        Effect::DeniedByPolicy { .. } => 28,
        Effect::PresenceChanged { .. } => 17,
    }
}

/// Whether effects with this tag end deliveries.
pub(super) fn is_end(tag: u64) -> bool {
    matches!(tag, 7 | 8 | 9 | 11 | 25 | 28)
}

fn write_version(out: &mut Writer, key: &Key, version: Version) {
    out.text(key);
    out.number(version.0);
}

pub(super) fn read(tag: u64, input: &mut Reader<'_>, payloads: &[Payload]) -> Result<Effect, DecodeError> {
    Ok(match tag {
        1 => Effect::SpaceCreated {
            name: input.id()?,
            id: SpaceId(input.array()?),
            generation: Generation(input.number()?),
        },
        2 => Effect::SpaceRestored { generation: Generation(input.number()?) },
        3 => read_agent(input)?,
        4 => Effect::AgentRemoved { number: AgentNo(input.number()?) },
        5 => {
            let part: u32 = input.narrow()?;
            let first = DeliveryNo(input.number()?);
            let deliveries = read_deliveries(input)?;
            let Some(payload) = payloads.get(part as usize) else {
                return input.expected("a payload part of this record");
            };
            let message = Arc::new(message::read(input, payload.clone())?);
            Effect::Sent { message, part, first, deliveries }
        }
        6 => Effect::Leased { lease_ms: input.number()?, deliveries: read_leases(input)? },
        7 => Effect::Acked {
            delivery: DeliveryNo(input.number()?),
            token: LeaseToken(input.number()?),
            origin: read_origin(input)?,
        },
        8 => Effect::Returned {
            delivery: DeliveryNo(input.number()?),
            token: LeaseToken(input.number()?),
            cause: read_cause(input)?,
            reason: input.text()?.into(),
            next: read_next(input)?,
            origin: read_origin(input)?,
        },
        9 => Effect::Expired { delivery: DeliveryNo(input.number()?), origin: read_origin(input)? },
        10 => Effect::Redriven {
            delivery: DeliveryNo(input.number()?),
            to: read_recipient(input)?,
            seq: Seq(input.number()?),
            n: input.narrow()?,
            priority: input.array().map(|[level, rank]| Priority { level, rank })?,
            attempts_max: input.narrow()?,
            expires_at: input.option()?.map(Timestamp),
            scope: if input.is_done() { None } else { Some(ScopeNo(input.number()?)) },
        },
        11 => Effect::Purged { delivery: DeliveryNo(input.number()?), origin: read_origin(input)? },
        12 => read_written(input)?,
        13 => Effect::Deleted { key: input.id()?, version: Version(input.number()?) },
        14 => Effect::Erased { seq: Seq(input.number()?), part: input.narrow()? },
        15 => read_changed(input)?,
        18 => {
            let count = input.count(2)?;
            let mut cycle = Vec::with_capacity(count);
            for _ in 0..count {
                cycle.push((AgentNo(input.number()?), input.text()?.to_owned()));
            }
            Effect::WaitAborted { cycle }
        }
        16 => session::read_added(input)?,
        25 => Effect::AckedMany { deliveries: read_leases(input)? },
        26 => Effect::LeasedFromPool {
            agent: AgentNo(input.number()?),
            lease_ms: input.number()?,
            deliveries: read_leases(input)?,
        },
        27 => read_backfilled(input)?,
        28 => Effect::DeniedByPolicy { delivery: DeliveryNo(input.number()?), origin: read_origin(input)? },
        17 => Effect::PresenceChanged { number: AgentNo(input.number()?), presence: presence::read(input)? },
        _ => return input.expected("a known effect"),
    })
}

fn read_changed(input: &mut Reader<'_>) -> Result<Effect, DecodeError> {
    let Some(verb) = Verb::from_number(input.number()?) else {
        return input.expected("a known verb");
    };
    let Some(kind) = ItemKind::from_number(input.narrow()?) else {
        return input.expected("a known kind of item");
    };
    Ok(Effect::Changed { verb, item: item::read(kind, input)? })
}

fn write_agent(out: &mut Writer, number: AgentNo, agent: &Agent) {
    out.number(number.0);
    out.text(&agent.id);
    out.number(agent.epoch.0);
    out.text(&agent.name);
    out.number(role_number(agent.role));
    for list in [&agent.capabilities, &agent.supported_actions] {
        out.number(list.len() as u64);
        list.iter().for_each(|label| out.text(label));
    }
    // Last and optional, so that agents without a heartbeat interval or a declaration keep their earlier encoding.
    if agent.heartbeat_ms > 0 || agent.declaration.is_some() {
        out.number(agent.heartbeat_ms);
    }
    if let Some(declaration) = agent.declaration {
        out.0.extend_from_slice(&declaration.0);
    }
}

fn read_agent(input: &mut Reader<'_>) -> Result<Effect, DecodeError> {
    let number = AgentNo(input.number()?);
    let id = input.id()?;
    let epoch = Epoch(input.number()?);
    let name = input.text()?.into();
    let role = read_role(input)?;
    let mut lists = [Vec::new(), Vec::new()];
    for list in &mut lists {
        for _ in 0..input.count(1)? {
            list.push(input.text()?.to_owned());
        }
    }
    let [capabilities, supported_actions] = lists;
    let heartbeat_ms = if input.is_done() { 0 } else { input.number()? };
    let declaration = if input.is_done() { None } else { Some(DeclarationDigest(input.array()?)) };
    let agent = Agent {
        id,
        name,
        role,
        capabilities,
        supported_actions,
        epoch,
        removed: false,
        heartbeat_ms,
        declaration,
        presence: Presence::default(),
    };
    Ok(Effect::AgentRegistered { number, agent })
}

fn write_deliveries(out: &mut Writer, deliveries: &[NewDelivery]) {
    out.number(deliveries.len() as u64);
    for delivery in deliveries {
        out.number(delivery.to.number());
        out.option(delivery.lease.map(|(token, _)| token.0));
        if let Some((_, lease_ms)) = delivery.lease {
            out.number(lease_ms);
        }
    }
}

fn read_deliveries(input: &mut Reader<'_>) -> Result<Vec<NewDelivery>, DecodeError> {
    let count = input.count(2)?;
    let mut deliveries = Vec::with_capacity(count);
    for _ in 0..count {
        let to = read_recipient(input)?;
        let lease = match input.option()? {
            Some(token) => Some((LeaseToken(token), input.number()?)),
            None => None,
        };
        deliveries.push(NewDelivery { to, lease });
    }
    Ok(deliveries)
}

fn read_recipient(input: &mut Reader<'_>) -> Result<Recipient, DecodeError> {
    let number = input.number()?;
    Recipient::from_number(number).map_or_else(|| input.expected("a recipient"), Ok)
}

fn write_origin(out: &mut Writer, origin: DeliveryOrigin) {
    out.numbers(&[origin.to.number(), origin.seq.0, u64::from(origin.n)]);
}

fn read_origin(input: &mut Reader<'_>) -> Result<DeliveryOrigin, DecodeError> {
    Ok(DeliveryOrigin { to: read_recipient(input)?, seq: Seq(input.number()?), n: input.narrow()? })
}

/// Delta-encodes deliveries, tokens and records: those acked together are mostly consecutive.
fn write_leases(out: &mut Writer, leases: &[LoggedLease]) {
    out.number(leases.len() as u64);
    let mut previous = (0, 0, 0);
    for LoggedLease { delivery, token, origin } in leases {
        out.difference(previous.0, delivery.0);
        out.difference(previous.1, token.0);
        out.difference(previous.2, origin.seq.0);
        out.numbers(&[u64::from(origin.n), origin.to.number()]);
        previous = (delivery.0, token.0, origin.seq.0);
    }
}

fn read_leases(input: &mut Reader<'_>) -> Result<Vec<LoggedLease>, DecodeError> {
    let count = input.count(5)?;
    let mut leases = Vec::with_capacity(count);
    let (mut delivery, mut token, mut seq) = (DeliveryNo(0), LeaseToken(0), Seq(0));
    for _ in 0..count {
        delivery = DeliveryNo(input.difference(delivery.0)?);
        token = LeaseToken(input.difference(token.0)?);
        seq = Seq(input.difference(seq.0)?);
        let n = input.narrow()?;
        let origin = DeliveryOrigin { to: read_recipient(input)?, seq, n };
        leases.push(LoggedLease { delivery, token, origin });
    }
    Ok(leases)
}

fn write_recorded_message(out: &mut Writer, message: &RecordedMessage) {
    out.numbers(&[message.seq.0, u64::from(message.n)]);
    out.0.extend_from_slice(&[message.priority.level, message.priority.rank]);
    out.number(u64::from(message.attempts_max));
    out.option(message.expires_at.map(|at| at.0));
    out.option(message.scope.map(|scope| scope.0));
}

fn read_backfilled(input: &mut Reader<'_>) -> Result<Effect, DecodeError> {
    let agent = AgentNo(input.number()?);
    let first = DeliveryNo(input.number()?);
    let count = input.count(7)?;
    let mut messages = Vec::with_capacity(count);
    for _ in 0..count {
        messages.push(RecordedMessage {
            seq: Seq(input.number()?),
            n: input.narrow()?,
            priority: input.array().map(|[level, rank]| Priority { level, rank })?,
            attempts_max: input.narrow()?,
            expires_at: input.option()?.map(Timestamp),
            scope: input.option()?.map(ScopeNo),
        });
    }
    Ok(Effect::Backfilled { agent, first, messages })
}

fn read_written(input: &mut Reader<'_>) -> Result<Effect, DecodeError> {
    let key = input.id()?;
    let version = Version(input.number()?);
    let entry_type = input.text()?.into();
    let content_type = Some(input.text()?).filter(|content_type| !content_type.is_empty()).map(Into::into);
    let part = input.narrow()?;
    let count = input.count(2)?;
    let mut depends_on = Vec::with_capacity(count);
    for _ in 0..count {
        depends_on.push((input.id()?, Version(input.number()?)));
    }
    let restores = match input.is_done() {
        true => None,
        false => Some(RestoredVersion { seq: Seq(input.number()?), version: Version(input.number()?) }),
    };
    Ok(Effect::Written { key, version, entry_type, content_type, part, depends_on, restores })
}

fn write_next(out: &mut Writer, next: ReturnOutcome) {
    match next {
        ReturnOutcome::Ready => out.number(0),
        ReturnOutcome::Scheduled(due) => {
            out.number(1);
            out.number(due.0);
        }
        ReturnOutcome::Dead => out.number(2),
        ReturnOutcome::Expired => out.number(3),
        ReturnOutcome::Redirected(agent) => out.numbers(&[4, agent.0]),
    }
}

fn read_next(input: &mut Reader<'_>) -> Result<ReturnOutcome, DecodeError> {
    match input.number()? {
        0 => Ok(ReturnOutcome::Ready),
        1 => Ok(ReturnOutcome::Scheduled(Timestamp(input.number()?))),
        2 => Ok(ReturnOutcome::Dead),
        3 => Ok(ReturnOutcome::Expired),
        4 => Ok(ReturnOutcome::Redirected(AgentNo(input.number()?))),
        _ => input.expected("the next state of a delivery"),
    }
}

fn cause_number(cause: ReturnCause) -> u64 {
    match cause {
        ReturnCause::Nacked => 0,
        ReturnCause::LeaseExpired => 1,
        ReturnCause::EpochEnded => 2,
        ReturnCause::Released => 3,
        ReturnCause::Offline => 4,
        ReturnCause::Restored => 5,
    }
}

fn read_cause(input: &mut Reader<'_>) -> Result<ReturnCause, DecodeError> {
    let number = input.number()?;
    let all = [
        ReturnCause::Nacked,
        ReturnCause::LeaseExpired,
        ReturnCause::EpochEnded,
        ReturnCause::Released,
        ReturnCause::Offline,
        ReturnCause::Restored,
    ];
    all.into_iter()
        .find(|cause| cause_number(*cause) == number)
        .map_or_else(|| input.expected("the cause of a return"), Ok)
}

pub(in crate::codec) fn role_number(role: AgentRole) -> u64 {
    match role {
        AgentRole::Coordinator => 0,
        AgentRole::Worker => 1,
        AgentRole::Specialist => 2,
        AgentRole::Observer => 3,
    }
}

pub(in crate::codec) fn read_role(input: &mut Reader<'_>) -> Result<AgentRole, DecodeError> {
    let number = input.number()?;
    let all = [AgentRole::Coordinator, AgentRole::Worker, AgentRole::Specialist, AgentRole::Observer];
    all.into_iter().find(|role| role_number(*role) == number).map_or_else(|| input.expected("a role"), Ok)
}
