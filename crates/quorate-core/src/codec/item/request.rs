//! Encoding of requests. The waiting consumers are not part of it.

use crate::codec::{Reader, Unreadable, Writer};
use crate::ids::{AgentNo, DeliveryNo, Generation, MessageId, Seq};
use crate::recipient::Recipient;
use crate::refused::Code;
use crate::request::{Asked, Reply, Request, RequestState};

pub(super) fn write(out: &mut Writer, request: &Request) {
    let MessageId { generation, seq, n } = request.id;
    out.numbers(&[generation.0, seq.0, u64::from(n), request.from.0]);
    out.option(request.reply_to.map(|agent| agent.0));
    out.text(&request.correlation);
    out.numbers(&[request.length_ms, request.first.0, request.asked.len() as u64]);
    for one in &request.asked {
        out.number(one.to.number());
        match one.reply {
            Reply::Open => out.number(0),
            Reply::Answered { seq, n } => out.numbers(&[1, seq.0, u64::from(n)]),
            Reply::Lost => out.number(2),
        }
    }
    match &request.state {
        RequestState::Waiting => out.number(0),
        RequestState::Answered => out.number(1),
        RequestState::TimedOut => out.number(2),
        RequestState::Cancelled => out.number(3),
        RequestState::Failed { code, reason } => {
            out.number(4);
            out.text(code.as_str());
            out.text(reason);
        }
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Request, Unreadable> {
    let id =
        MessageId { generation: Generation(input.number()?), seq: Seq(input.number()?), n: input.narrow()? };
    let from = AgentNo(input.number()?);
    let reply_to = input.option()?.map(AgentNo);
    let correlation = input.text()?.into();
    let length_ms = input.number()?;
    let first = DeliveryNo(input.number()?);
    let mut asked = Vec::new();
    for _ in 0..input.count(2)? {
        let Some(to) = Recipient::from_number(input.number()?) else { return input.wrong("a recipient") };
        asked.push(Asked { to, reply: read_reply(input)? });
    }
    let state = read_state(input)?;
    Ok(Request { id, from, reply_to, correlation, length_ms, first, asked, state })
}

fn read_reply(input: &mut Reader<'_>) -> Result<Reply, Unreadable> {
    match input.number()? {
        0 => Ok(Reply::Open),
        1 => Ok(Reply::Answered { seq: Seq(input.number()?), n: input.narrow()? }),
        2 => Ok(Reply::Lost),
        _ => input.wrong("the outcome for a recipient"),
    }
}

fn read_state(input: &mut Reader<'_>) -> Result<RequestState, Unreadable> {
    Ok(match input.number()? {
        0 => RequestState::Waiting,
        1 => RequestState::Answered,
        2 => RequestState::TimedOut,
        3 => RequestState::Cancelled,
        4 => {
            let word = input.text()?;
            let Some(code) = Code::ALL.iter().copied().find(|code| code.as_str() == word) else {
                return input.wrong("a known error code");
            };
            RequestState::Failed { code, reason: input.text()?.into() }
        }
        _ => return input.wrong("the state of a request"),
    })
}
