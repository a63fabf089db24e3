//! Statements about approvals: proposals, decisions and the state of an approval.

use quorate_core::{
    ActionDigest, ApprovalId, ApprovalState, DecideApproval, Item, ItemKey, ItemKind, Op, Priority,
    RequestApproval, Verdict, limits,
};
use quorate_store::{ReadQuery, ReadResult};

use super::asked::{Words, agent, because, payload, span};
use super::stage::Stage;
use super::told::since_start;

/// Default payload of a proposal.
const DEFAULT_PAYLOAD: &str = "letter";

/// Returns the canonical JSON of an action, as the API layer builds it.
fn document(word: &str) -> String {
    format!("{{\"action\":\"mail\",\"payload\":\"{word}\"}}")
}

fn approval_id(words: &mut Words<'_>) -> ApprovalId {
    ApprovalId::new(words.must("an approval")).expect("valid approval id")
}

/// `proposes A [saying W] [within T] [default W] [then B,B]`
pub(super) fn propose(words: &mut Words<'_>) -> Op {
    let id = Some(approval_id(words));
    let document = payload(&document(words.after("saying").unwrap_or(DEFAULT_PAYLOAD)));
    let timeout_ms = words.after("within").map_or(limits::APPROVAL_MS_DEFAULT, span);
    let default = words.after("default").unwrap_or_default().replace('_', " ");
    let then = words.after("then").map_or(Vec::new(), |to| to.split(',').collect());
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
        follow_ups: then.into_iter().map(|to| (agent(to), "mail".into())).collect(),
    }))
}

/// `approves A [of W] [because W]`, `rejects A [of W] [because W]`, `modifies A to W [of W] [because W]`
pub(super) fn decide(verb: &str, words: &mut Words<'_>) -> Op {
    let approval = approval_id(words);
    let verdict = match verb {
        "approves" => Verdict::Approve,
        "rejects" => Verdict::Reject,
        _ => {
            let text = document(words.after("to").expect("`to` with the new payload"));
            Verdict::Modify { patch: payload("[]"), document: Some(payload(&text)) }
        }
    };
    let digest = ActionDigest::of(document(words.after("of").unwrap_or(DEFAULT_PAYLOAD)).as_bytes());
    Op::DecideApproval(Box::new(DecideApproval { approval, verdict, digest, reason: because(words) }))
}

impl Stage {
    /// `approval A`
    pub(super) async fn tell_approval(&mut self, name: &str) {
        let ReadResult::Item(Some(Item::Approval(approval))) =
            self.rows(ReadQuery::Item(ItemKey::new(ItemKind::Approval, name))).await
        else {
            return self.say(format!("{name}: no such approval"));
        };
        let state = approval.state.as_str();
        let detail = match &approval.state {
            ApprovalState::Pending => format!("until {}", since_start(approval.expires_at)),
            ApprovalState::Expired { at, .. } => format!("at {}", since_start(*at)),
            over => {
                let decision = over.decision().expect("approval is decided");
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
        self.say(format!("{name} requested by {} is {state} {detail}: {approved}", approval.requested_by));
    }
}
