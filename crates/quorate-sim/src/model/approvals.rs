//! Approval steps: requests, and decisions by the wrong principal, about other bytes, too late, or repeated.

use std::collections::BTreeMap;
use std::fmt;

use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, prop_oneof};
use quorate_core::{
    ActionDigest, ApprovalId, DecideApproval, Op, OpResult, Priority, RequestApproval, Verdict,
};

use super::plan::AGENTS;
use super::resolve::{agent_id, payload};

const NAMES: [&str; 3] = ["a1", "a2", "a3"];

/// Operation on an approval.
#[derive(Clone, Debug)]
pub(super) enum ApprovalOp {
    Request {
        name: Option<usize>,
        agent: Option<usize>,
        content: u8,
        timeout_ms: u64,
        then: Option<usize>,
        session: bool,
    },
    Decide {
        name: usize,
        verdict: u8,
        other: bool,
    },
}

pub(super) fn request_ops() -> BoxedStrategy<ApprovalOp> {
    let timeout = prop_oneof![Just(1_000u64), Just(30_000), Just(61_000)];
    (
        weighted(0.9, 0..NAMES.len()),
        weighted(0.15, 0..AGENTS.len()),
        0..2u8,
        timeout,
        weighted(0.4, 0..AGENTS.len()),
        proptest::bool::weighted(0.2),
    )
        .prop_map(|(name, agent, content, timeout_ms, then, session)| ApprovalOp::Request {
            name,
            agent,
            content,
            timeout_ms,
            then,
            session,
        })
        .boxed()
}

pub(super) fn decision_ops() -> BoxedStrategy<ApprovalOp> {
    (0..NAMES.len(), prop_oneof![2 => Just(0u8), 1 => Just(1), 2 => Just(2)], proptest::bool::weighted(0.1))
        .prop_map(|(name, verdict, other)| ApprovalOp::Decide { name, verdict, other })
        .boxed()
}

/// Digests of the requested approvals, from responses.
#[derive(Default)]
pub(super) struct ApprovalDigests(BTreeMap<String, ActionDigest>);

impl ApprovalDigests {
    pub(super) fn record(&mut self, result: &OpResult) {
        if let OpResult::ApprovalRequested { id, digest, .. } = result {
            self.0.insert(id.to_string(), *digest);
        }
    }
}

fn approval_id(name: usize) -> ApprovalId {
    ApprovalId::new(NAMES[name]).expect("valid approval id")
}

impl ApprovalOp {
    pub(super) fn op(&self, digests: &ApprovalDigests) -> Op {
        match self {
            Self::Request { name, agent, content, timeout_ms, then, session } => {
                Op::RequestApproval(Box::new(RequestApproval {
                    id: name.map(approval_id),
                    agent: agent.map(agent_id),
                    action: "mail".into(),
                    document: payload(&format!("{{\"action\":\"mail\",\"payload\":{content}}}")),
                    rationale: Some("why not".into()),
                    confidence: Some(0.5),
                    priority: Priority::default(),
                    timeout_ms: *timeout_ms,
                    default: if *content == 0 { String::new() } else { "wait".into() },
                    session: session.then(|| "s1".to_owned()),
                    follow_ups: then.map(|to| (agent_id(to), "work".to_owned())).into_iter().collect(),
                }))
            }
            Self::Decide { name, verdict, other } => {
                let digest = digests.0.get(NAMES[*name]).copied();
                let digest = digest.filter(|_| !other).unwrap_or(ActionDigest([1; 32]));
                let verdict = match verdict {
                    0 => Verdict::Approve,
                    1 => Verdict::Reject,
                    _ => Verdict::Modify {
                        patch: payload("[]"),
                        document: Some(payload("{\"action\":\"mail\",\"payload\":1}")),
                    },
                };
                Op::DecideApproval(Box::new(DecideApproval {
                    approval: approval_id(*name),
                    verdict,
                    digest,
                    reason: "so".into(),
                }))
            }
        }
    }
}

impl fmt::Display for ApprovalOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { name, agent, content, timeout_ms, then, session } => {
                let name = name.map_or("-", |name| NAMES[name]);
                write!(
                    f,
                    "requests approval {name} as {agent:?} about {content} for {timeout_ms}ms then {then:?}"
                )?;
                if *session { write!(f, " in s1") } else { Ok(()) }
            }
            Self::Decide { name, verdict, other } => {
                write!(f, "decides {} with verdict {verdict} other {other}", NAMES[*name])
            }
        }
    }
}
