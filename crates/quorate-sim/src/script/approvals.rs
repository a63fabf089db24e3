//! Approvals in scripts: what is proposed, and what a person says of it.

use quorate_core::{
    ActionDigest, ApprovalId, ApprovalState, DecideApproval, Item, ItemKey, ItemKind, Op, Priority,
    RequestApproval, Verdict, limits,
};
use quorate_store::{Read, Rows};

use super::asked::{Words, agent, because, payload, span};
use super::stage::Stage;
use super::told::since_start;

/// What is proposed if nothing else is said.
const LETTER: &str = "letter";

/// The canonical bytes of an action, as the door makes them.
fn document(word: &str) -> String {
    format!("{{\"action\":\"mail\",\"payload\":\"{word}\"}}")
}

fn named(words: &mut Words<'_>) -> ApprovalId {
    ApprovalId::new(words.must("an approval")).expect("a good id")
}

/// `proposes A [saying W] [within T] [default W] [then B,B]`
pub(super) fn propose(words: &mut Words<'_>) -> Op {
    let id = Some(named(words));
    let document = payload(&document(words.after("saying").unwrap_or(LETTER)));
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
        then: then.into_iter().map(|to| (agent(to), "mail".into())).collect(),
    }))
}

/// `approves A [of W] [because W]`, `rejects A [of W] [because W]`, `modifies A to W [of W] [because W]`
pub(super) fn decide(verb: &str, words: &mut Words<'_>) -> Op {
    let approval = named(words);
    let verdict = match verb {
        "approves" => Verdict::Approve,
        "rejects" => Verdict::Reject,
        _ => {
            let text = document(words.after("to").expect("into what"));
            Verdict::Modify { patch: payload("[]"), document: Some(payload(&text)) }
        }
    };
    let digest = ActionDigest::of(document(words.after("of").unwrap_or(LETTER)).as_bytes());
    Op::DecideApproval(Box::new(DecideApproval { approval, verdict, digest, reason: because(words) }))
}

impl Stage {
    /// `approval A`
    pub(super) async fn tell_approval(&mut self, name: &str) {
        let Rows::Item(Some(Item::Approval(approval))) =
            self.rows(Read::Item(ItemKey::new(ItemKind::Approval, name))).await
        else {
            return self.say(format!("{name} is no approval"));
        };
        let state = approval.state.as_str();
        let how = match &approval.state {
            ApprovalState::Pending => format!("until {}", since_start(approval.expires_at)),
            ApprovalState::Expired { at, .. } => format!("at {}", since_start(*at)),
            over => {
                let decision = over.decision().expect("somebody decided");
                format!("by {} at {} ({})", decision.by, since_start(decision.at), decision.reason)
            }
        };
        let may = match approval.approved() {
            None => "nothing may happen".to_owned(),
            Some((_, digest)) if digest == approval.digest => "what was proposed may happen".to_owned(),
            Some((_, digest)) => {
                format!("{:.8} may happen instead of {:.8}", digest.to_string(), approval.digest.to_string())
            }
        };
        self.say(format!("{name} asked by {} is {state} {how}: {may}", approval.asked_by));
    }
}
