//! Encoding of requests: fixed fields, then numbered optional ones. The waiting consumers are not part of it.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentNo, DeliveryNo, Generation, MessageId, Seq};
use crate::recipient::Recipient;
use crate::refused::Code;
use crate::request::{
    AnswerFrom, Delegate, DelegatedDelivery, RecipientOutcome, ReplyState, Request, RequestState,
};

/// The number of the optional field `delegates`.
const DELEGATES: u64 = 1;
/// The number of the optional field that only the recipients may answer.
const ASKED: u64 = 2;
/// The number of the optional field `delegated`.
const DELEGATED: u64 = 3;

pub(super) fn write(out: &mut Writer, request: &Request) {
    let MessageId { generation, seq, n } = request.id;
    out.numbers(&[generation.0, seq.0, u64::from(n), request.from.0]);
    out.option(request.reply_to.map(|agent| agent.0));
    out.text(&request.correlation);
    out.numbers(&[request.timeout_ms, request.first_delivery.0, request.recipients.len() as u64]);
    for outcome in &request.recipients {
        out.number(outcome.recipient.number());
        match outcome.reply {
            ReplyState::Pending => out.number(0),
            ReplyState::Answered { seq, n } => out.numbers(&[1, seq.0, u64::from(n)]),
            ReplyState::Lost => out.number(2),
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
    if !request.delegates.is_empty() {
        out.numbers(&[DELEGATES, request.delegates.len() as u64]);
        for delegate in &request.delegates {
            out.numbers(&[delegate.recipient.number(), u64::from(delegate.index)]);
        }
    }
    if request.answer_from == AnswerFrom::Asked {
        out.number(ASKED);
    }
    if !request.delegated.is_empty() {
        out.numbers(&[DELEGATED, request.delegated.len() as u64]);
        for delegated in &request.delegated {
            out.numbers(&[delegated.delivery.0, u64::from(delegated.index)]);
        }
    }
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Request, DecodeError> {
    let id =
        MessageId { generation: Generation(input.number()?), seq: Seq(input.number()?), n: input.narrow()? };
    let from = AgentNo(input.number()?);
    let reply_to = input.option()?.map(AgentNo);
    let correlation = input.text()?.into();
    let timeout_ms = input.number()?;
    let first_delivery = DeliveryNo(input.number()?);
    let mut recipients = Vec::new();
    for _ in 0..input.count(2)? {
        recipients.push(RecipientOutcome { recipient: read_recipient(input)?, reply: read_reply(input)? });
    }
    let state = read_state(input)?;
    let (delegates, delegated, answer_from) = (Vec::new(), Vec::new(), AnswerFrom::Chain);
    let mut request = Request {
        id,
        from,
        reply_to,
        correlation,
        timeout_ms,
        first_delivery,
        recipients,
        answer_from,
        delegates,
        delegated,
        state,
    };
    while !input.is_done() {
        match input.number()? {
            DELEGATES => {
                for _ in 0..input.count(2)? {
                    let (recipient, index) = (read_recipient(input)?, input.narrow()?);
                    request.delegates.push(Delegate { recipient, index });
                }
            }
            ASKED => request.answer_from = AnswerFrom::Asked,
            DELEGATED => {
                for _ in 0..input.count(2)? {
                    let (delivery, index) = (DeliveryNo(input.number()?), input.narrow()?);
                    request.delegated.push(DelegatedDelivery { delivery, index });
                }
            }
            _ => return input.expected("a known field"),
        }
    }
    Ok(request)
}

fn read_recipient(input: &mut Reader<'_>) -> Result<Recipient, DecodeError> {
    Recipient::from_number(input.number()?).map_or_else(|| input.expected("a recipient"), Ok)
}

fn read_reply(input: &mut Reader<'_>) -> Result<ReplyState, DecodeError> {
    match input.number()? {
        0 => Ok(ReplyState::Pending),
        1 => Ok(ReplyState::Answered { seq: Seq(input.number()?), n: input.narrow()? }),
        2 => Ok(ReplyState::Lost),
        _ => input.expected("the outcome for a recipient"),
    }
}

fn read_state(input: &mut Reader<'_>) -> Result<RequestState, DecodeError> {
    Ok(match input.number()? {
        0 => RequestState::Waiting,
        1 => RequestState::Answered,
        2 => RequestState::TimedOut,
        3 => RequestState::Cancelled,
        4 => {
            let name = input.text()?;
            let Some(code) = Code::ALL.iter().copied().find(|code| code.as_str() == name) else {
                return input.expected("a known error code");
            };
            RequestState::Failed { code, reason: input.text()?.into() }
        }
        _ => return input.expected("the state of a request"),
    })
}
