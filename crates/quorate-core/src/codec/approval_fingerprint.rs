//! Fingerprints of the operations on approvals.

use crate::approval::{DecideApproval, RequestApproval, Verdict};
use crate::codec::Writer;
use crate::ids::AgentId;

pub(super) fn write_request(out: &mut Writer, request: &RequestApproval) {
    out.number(73);
    out.text(request.id.as_ref().map_or("", |id| id.as_str()));
    out.text(request.agent.as_ref().map_or("", AgentId::as_str));
    out.text(&request.action);
    out.bytes(&request.document.bytes);
    out.text(request.rationale.as_deref().unwrap_or(""));
    out.option(request.confidence.map(f64::to_bits));
    out.numbers(&[u64::from(request.priority.level), u64::from(request.priority.rank), request.timeout_ms]);
    out.text(&request.default);
    out.text(request.session.as_deref().unwrap_or(""));
    out.number(request.follow_ups.len() as u64);
    for (to, action) in &request.follow_ups {
        out.text(to);
        out.text(action);
    }
}

/// Omits the modified document, which is determined by the patch and the digest of the original.
pub(super) fn write_decide(out: &mut Writer, decide: &DecideApproval) {
    out.number(74);
    out.text(&decide.approval);
    out.0.extend_from_slice(&decide.digest.0);
    out.text(&decide.reason);
    match &decide.verdict {
        Verdict::Approve => out.number(0),
        Verdict::Reject => out.number(1),
        Verdict::Modify { patch, .. } => {
            out.number(2);
            out.bytes(&patch.bytes);
        }
    }
}
