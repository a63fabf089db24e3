//! Approvals in words and numbers. Never the action itself, which is a payload; its digest says which one it is.

use super::{Fields, Names, Value, number, shown_priority, text, time};
use crate::{Approval, ApprovalState};

pub(super) fn fields(approval: &Approval, names: &Names<'_>) -> Fields {
    let mut fields = vec![
        ("approval", text(&approval.id)),
        ("state", text(approval.state.as_str())),
        ("action", text(&approval.action)),
        ("digest", text(approval.digest)),
        ("askedBy", text(&approval.asked_by)),
        ("askedAt", time(approval.asked_at)),
        ("expiresAt", time(approval.expires_at)),
        ("documentSeq", number(approval.document.seq.0)),
        ("documentPart", number(approval.document.part)),
    ];
    fields.extend(shown_priority(approval.priority));
    fields.extend(approval.agent.map(|agent| ("agent", names.agent(agent))));
    fields.extend(approval.confidence.map(|confidence| ("confidence", Value::Share(confidence))));
    let words = [
        ("rationale", approval.rationale.as_str()),
        ("default", &approval.default),
        ("sessionId", approval.session.as_deref().unwrap_or_default()),
    ];
    fields.extend(
        words.into_iter().filter(|(_, word)| !word.is_empty()).map(|(name, word)| (name, text(word))),
    );
    let then = approval
        .then
        .iter()
        .map(|then| Value::Group(vec![("to", names.agent(then.to)), ("action", text(&then.action))]));
    if !approval.then.is_empty() {
        fields.push(("then", Value::List(then.collect())));
    }
    if let Some(decision) = approval.state.decision() {
        fields.extend([("decidedBy", text(&decision.by)), ("decidedAt", time(decision.at))]);
        fields.extend(Some(("reason", text(&decision.reason))).filter(|_| !decision.reason.is_empty()));
    }
    if let ApprovalState::Modified { digest, patch, action, .. } = &approval.state {
        fields.extend([
            ("approvedDigest", text(digest)),
            ("patchSeq", number(patch.seq.0)),
            ("patchPart", number(patch.part)),
            ("approvedSeq", number(action.seq.0)),
            ("approvedPart", number(action.part)),
        ]);
    }
    fields
}
