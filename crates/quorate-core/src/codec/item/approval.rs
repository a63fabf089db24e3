//! Encoding of approvals.

use crate::approval::{ActionDigest, Approval, ApprovalFollowUp, ApprovalState, Decision};
use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{AgentNo, Seq};
use crate::message::Priority;
use crate::task::PartRef;
use crate::time::Timestamp;

pub(super) fn write(out: &mut Writer, approval: &Approval) {
    out.text(&approval.id);
    out.option(approval.agent.map(|agent| agent.0));
    out.text(&approval.requested_by);
    out.numbers(&[approval.requested_at.0, approval.seq.0]);
    out.text(&approval.action);
    write_part(out, approval.document);
    out.0.extend_from_slice(&approval.digest.0);
    out.text(&approval.rationale);
    match approval.confidence {
        Some(confidence) => out.bytes(&confidence.to_be_bytes()),
        None => out.bytes(&[]),
    }
    let Priority { level, rank } = approval.priority;
    out.numbers(&[u64::from(level), u64::from(rank), approval.expires_at.0]);
    out.text(&approval.default);
    out.text(approval.session.as_deref().unwrap_or(""));
    out.number(approval.follow_ups.len() as u64);
    for follow_up in &approval.follow_ups {
        out.number(follow_up.to.0);
        out.text(&follow_up.action);
    }
    write_state(out, &approval.state);
}

fn write_state(out: &mut Writer, state: &ApprovalState) {
    match state {
        ApprovalState::Pending => out.number(0),
        ApprovalState::Approved(decision) => {
            out.number(1);
            write_decision(out, decision);
        }
        ApprovalState::Rejected(decision) => {
            out.number(2);
            write_decision(out, decision);
        }
        ApprovalState::Modified { decision, patch, action, digest } => {
            out.number(3);
            write_decision(out, decision);
            write_part(out, *patch);
            write_part(out, *action);
            out.0.extend_from_slice(&digest.0);
        }
        ApprovalState::Expired { seq, at } => out.numbers(&[4, seq.0, at.0]),
    }
}

fn write_decision(out: &mut Writer, decision: &Decision) {
    out.text(&decision.by);
    out.numbers(&[decision.at.0, decision.seq.0]);
    out.text(&decision.reason);
}

fn write_part(out: &mut Writer, part: PartRef) {
    out.numbers(&[part.seq.0, u64::from(part.part)]);
}

pub(super) fn read(input: &mut Reader<'_>) -> Result<Approval, DecodeError> {
    Ok(Approval {
        id: input.id()?,
        agent: input.option()?.map(AgentNo),
        requested_by: input.text()?.into(),
        requested_at: Timestamp(input.number()?),
        seq: Seq(input.number()?),
        action: input.text()?.into(),
        document: read_part(input)?,
        digest: ActionDigest(input.array()?),
        rationale: input.text()?.into(),
        confidence: read_confidence(input)?,
        priority: Priority { level: input.narrow()?, rank: input.narrow()? },
        expires_at: Timestamp(input.number()?),
        default: input.text()?.into(),
        session: Some(input.text()?).filter(|session| !session.is_empty()).map(Into::into),
        follow_ups: read_follow_ups(input)?,
        state: read_state(input)?,
    })
}

fn read_confidence(input: &mut Reader<'_>) -> Result<Option<f64>, DecodeError> {
    match input.slice()? {
        [] => Ok(None),
        bytes => match <[u8; 8]>::try_from(bytes).map(f64::from_be_bytes) {
            Ok(confidence) if (0.0..=1.0).contains(&confidence) => Ok(Some(confidence)),
            _ => input.expected("a confidence"),
        },
    }
}

fn read_follow_ups(input: &mut Reader<'_>) -> Result<Vec<ApprovalFollowUp>, DecodeError> {
    let count = input.count(2)?;
    let mut follow_ups = Vec::with_capacity(count);
    for _ in 0..count {
        follow_ups.push(ApprovalFollowUp { to: AgentNo(input.number()?), action: input.text()?.into() });
    }
    Ok(follow_ups)
}

fn read_state(input: &mut Reader<'_>) -> Result<ApprovalState, DecodeError> {
    Ok(match input.number()? {
        0 => ApprovalState::Pending,
        1 => ApprovalState::Approved(read_decision(input)?),
        2 => ApprovalState::Rejected(read_decision(input)?),
        3 => ApprovalState::Modified {
            decision: read_decision(input)?,
            patch: read_part(input)?,
            action: read_part(input)?,
            digest: ActionDigest(input.array()?),
        },
        4 => ApprovalState::Expired { seq: Seq(input.number()?), at: Timestamp(input.number()?) },
        _ => return input.expected("the state of an approval"),
    })
}

fn read_decision(input: &mut Reader<'_>) -> Result<Decision, DecodeError> {
    Ok(Decision {
        by: input.text()?.into(),
        at: Timestamp(input.number()?),
        seq: Seq(input.number()?),
        reason: input.text()?.into(),
    })
}

fn read_part(input: &mut Reader<'_>) -> Result<PartRef, DecodeError> {
    Ok(PartRef { seq: Seq(input.number()?), part: input.narrow()? })
}
