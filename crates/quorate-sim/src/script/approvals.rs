//! Statements about approvals: proposals, decisions and the state of an approval.

use quorate_core::{
    ActionDigest, ApprovalId, ApprovalState, DecideApproval, Item, ItemKey, ItemKind, Op, Priority,
    RequestApproval, Verdict, limits,
};
use quorate_store::{ReadQuery, ReadResult};

use super::parse::{Words, agent_id, duration_ms, payload, reason};
use super::render::since_start;
use super::runner::ScriptRunner;

/// Default payload of a proposal.
const DEFAULT_PAYLOAD: &str = "letter";

/// Returns the canonical JSON of an action, as the API layer builds it.
fn document(word: &str) -> String {
    format!("{{\"action\":\"mail\",\"payload\":\"{word}\"}}")
}

fn approval_id(words: &mut Words<'_>) -> ApprovalId {
    ApprovalId::new(words.require("an approval")).expect("valid approval id")
}

/// `proposes A [saying W] [within T] [default W] [then B,B]`
pub(super) fn parse_proposal(words: &mut Words<'_>) -> Op {
    let id = Some(approval_id(words));
    let document = payload(&document(words.option("saying").unwrap_or(DEFAULT_PAYLOAD)));
    let timeout_ms = words.option("within").map_or(limits::APPROVAL_MS_DEFAULT, duration_ms);
    let default = words.option("default").unwrap_or_default().replace('_', " ");
    let follow_ups = words.option("then").map_or(Vec::new(), |to| to.split(',').collect());
    Op::RequestApproval(Box::new(RequestApproval {
        id,
        agent: None,
        action: "mail".into(),
        document,
        rationale: None,
        confidence: None,
        priority: Priority::default(),
        timeout_ms,
        default,
        session: None,
        follow_ups: follow_ups.into_iter().map(|to| (agent_id(to), "mail".into())).collect(),
    }))
}

/// `approves A [of W] [because W]`, `rejects A [of W] [because W]`, `modifies A to W [of W] [because W]`
pub(super) fn parse_decision(verb: &str, words: &mut Words<'_>) -> Op {
    let approval = approval_id(words);
    let verdict = match verb {
        "approves" => Verdict::Approve,
        "rejects" => Verdict::Reject,
        _ => {
            let text = document(words.option("to").expect("`to` with the new payload"));
            Verdict::Modify { patch: payload("[]"), document: Some(payload(&text)) }
        }
    };
    let digest = ActionDigest::of(document(words.option("of").unwrap_or(DEFAULT_PAYLOAD)).as_bytes());
    Op::DecideApproval(Box::new(DecideApproval { approval, verdict, digest, reason: reason(words) }))
}

impl ScriptRunner {
    /// `approval A`
    pub(super) async fn render_approval(&mut self, name: &str) {
        let ReadResult::Item(Some(Item::Approval(approval))) =
            self.read(ReadQuery::Item(ItemKey::new(ItemKind::Approval, name))).await
        else {
            return self.push_line(format!("{name}: no such approval"));
        };
        let state = approval.state.as_str();
        let detail = match &approval.state {
            ApprovalState::Pending => format!("until {}", since_start(approval.expires_at)),
            ApprovalState::Expired { at, .. } => format!("at {}", since_start(*at)),
            decided => {
                let decision = decided.decision().expect("approval is decided");
                format!("by {} at {} ({})", decision.by, since_start(decision.at), decision.reason)
            }
        };
        let approved = match approval.approved_action() {
            None => "nothing approved".to_owned(),
            Some((_, digest)) if digest == approval.digest => "approved as proposed".to_owned(),
            Some((_, digest)) => {
                format!("{:.8} approved instead of {:.8}", digest.to_string(), approval.digest.to_string())
            }
        };
        self.push_line(format!(
            "{name} requested by {} is {state} {detail}: {approved}",
            approval.requested_by
        ));
    }
}
