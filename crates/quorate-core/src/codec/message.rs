//! Encoding of the message envelope as numbered fields; unset fields are omitted. Field numbers never change.

use crate::codec::{DecodeError, Reader, Writer};
use crate::destination::Destination;
use crate::message::{Durability, IfUnavailable, Message, MessageType, Payload, Priority};
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, message: &Message) {
    let mut text = |field: u64, value: Option<&str>| {
        if let Some(value) = value {
            out.number(field);
            out.text(value);
        }
    };
    text(1, message.from.as_ref().map(AsRef::as_ref));
    text(2, message.client_id.as_ref().map(AsRef::as_ref));
    match &message.to {
        Destination::Agent(agent) => text(3, Some(agent.as_str())),
        Destination::Agents(agents) => agents.iter().for_each(|agent| text(4, Some(agent.as_str()))),
        Destination::Topic(topic) => text(30, Some(topic.as_str())),
        Destination::Broadcast => text(31, Some("*")),
        Destination::Role(role) => text(32, Some(role.as_str())),
        Destination::Can(capability) => text(33, Some(capability.as_str())),
    }
    text(6, (!message.action.is_empty()).then_some(&message.action));
    text(7, message.content_type.as_deref());
    text(12, message.reply_to.as_ref().map(AsRef::as_ref));
    text(13, message.in_reply_to.as_deref());
    text(14, message.correlation_id.as_deref());
    text(15, message.causation_id.as_deref());
    text(16, message.session_id.as_deref());
    text(17, message.budget.as_deref());
    text(19, message.traceparent.as_deref());
    text(20, message.origin.as_deref());
    text(22, message.rationale.as_deref());
    text(23, message.metadata.as_deref());
    let mut number = |field: u64, value: Option<u64>| {
        if let Some(value) = value {
            out.number(field);
            out.number(value);
        }
    };
    number(5, Some(kind_number(message.kind)).filter(|kind| *kind != 0));
    let priority = u64::from(message.priority.level) << 8 | u64::from(message.priority.rank);
    number(8, Some(priority).filter(|_| message.priority != Priority::NORMAL));
    number(9, message.expires_at.map(|at| at.0));
    number(10, message.deliver_at.map(|at| at.0));
    number(11, Some(u64::from(message.attempts_max)));
    number(18, Some(u64::from(message.hops)).filter(|hops| *hops != 0));
    number(21, message.confidence.map(f64::to_bits));
    number(40, Some(message.if_unavailable.number().into()).filter(|value| *value != 0));
    number(41, message.max_hops.map(u64::from));
}

pub(super) fn read(input: &mut Reader<'_>, payload: Payload) -> Result<Message, DecodeError> {
    let mut message = Message::new(Destination::Agents(Vec::new()), "", payload);
    while !input.is_done() {
        match input.number()? {
            1 => message.from = Some(input.id()?),
            2 => message.client_id = Some(input.id()?),
            3 => message.to = Destination::Agent(input.id()?),
            4 => match &mut message.to {
                Destination::Agents(agents) => agents.push(input.id()?),
                _ => return input.expected("a single kind of destination"),
            },
            5 => message.kind = read_kind(input)?,
            6 => message.action = input.text()?.into(),
            7 => message.content_type = Some(input.text()?.into()),
            8 => {
                let priority: u16 = input.narrow()?;
                message.priority = Priority { level: (priority >> 8) as u8, rank: priority as u8 };
            }
            9 => message.expires_at = Some(Timestamp(input.number()?)),
            10 => message.deliver_at = Some(Timestamp(input.number()?)),
            11 => message.attempts_max = input.narrow()?,
            12 => message.reply_to = Some(input.id()?),
            13 => message.in_reply_to = Some(input.text()?.into()),
            14 => message.correlation_id = Some(input.text()?.into()),
            15 => message.causation_id = Some(input.text()?.into()),
            16 => message.session_id = Some(input.text()?.into()),
            17 => message.budget = Some(input.text()?.into()),
            18 => message.hops = input.narrow()?,
            19 => message.traceparent = Some(input.text()?.into()),
            20 => message.origin = Some(input.text()?.into()),
            21 => message.confidence = Some(f64::from_bits(input.number()?)),
            22 => message.rationale = Some(input.text()?.into()),
            23 => message.metadata = Some(input.text()?.into()),
            30 => message.to = Destination::Topic(input.id()?),
            31 => match input.text()? {
                "*" => message.to = Destination::Broadcast,
                _ => return input.expected("`*`"),
            },
            32 => message.to = Destination::Role(input.id()?),
            33 => message.to = Destination::Can(input.id()?),
            40 => {
                let handling = IfUnavailable::from_number(input.narrow()?);
                let Some(handling) = handling else {
                    return input.expected("the handling of an unavailable recipient");
                };
                message.if_unavailable = handling;
            }
            41 => message.max_hops = Some(input.narrow()?),
            _ => return input.expected("a known field"),
        }
    }
    // Only durable messages are written to the log.
    message.durability = Durability::Durable;
    Ok(message)
}

fn kind_number(kind: MessageType) -> u64 {
    match kind {
        MessageType::Command => 0,
        MessageType::Query => 1,
        MessageType::Event => 2,
        MessageType::Response => 3,
    }
}

fn read_kind(input: &mut Reader<'_>) -> Result<MessageType, DecodeError> {
    let number = input.number()?;
    let all = [MessageType::Command, MessageType::Query, MessageType::Event, MessageType::Response];
    all.into_iter()
        .find(|kind| kind_number(*kind) == number)
        .map_or_else(|| input.expected("a message type"), Ok)
}
