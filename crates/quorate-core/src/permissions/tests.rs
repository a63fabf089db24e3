//! The permission table, spelled out in full.

use super::*;
use crate::access_token::{Bearer, CreateToken, TokenDigest};
use crate::approval::{ActionDigest, DecideApproval, Verdict};
use crate::commit::{DeleteEntry, ErasePayload};
use crate::grants::Grants;
use crate::ids::{AgentId, DeliveryId, DeliveryNo, Generation, Seq, TokenId};
use crate::inspect::{AgentFilter, Inspect};
use crate::message::Payload;
use crate::policy::Policy;
use crate::request::SendRequest;
use crate::subscription::{Backfill, History};

fn message(from: Option<&str>) -> Op {
    let payload = Payload::seal("1".into(), [0; 16]);
    let to = "bob".parse().unwrap();
    Op::send(Message { from: from.map(|id| id.parse().unwrap()), ..Message::new(to, "work", payload) })
}

/// Operations that need each permission.
fn ops() -> [(&'static str, Vec<Op>); 6] {
    let agent: AgentId = "bob".parse().unwrap();
    let bob = agent.clone();
    let delivery = DeliveryId { generation: Generation(0), number: DeliveryNo(1) };
    let filter = AgentFilter::default();
    let (bearer, name) = (Bearer::Holder(TokenRole::Admin), "x".parse().unwrap());
    let new = CreateToken {
        digest: TokenDigest([0; 32]),
        bearer,
        name,
        expires_at: None,
        parent: None,
        grants: Grants::default(),
    };
    let backfill = Backfill {
        agent: agent.clone(),
        pattern: "a".parse().unwrap(),
        expected: History::Last(1),
        messages: Vec::new(),
        next: Seq(1),
    };
    let delete = DeleteEntry { key: "k".parse().unwrap(), expect: None, fence: None };
    let decide = DecideApproval {
        approval: "a".parse().unwrap(),
        verdict: Verdict::Approve,
        digest: ActionDigest([0; 32]),
        reason: String::new(),
    };
    let token = TokenId { generation: Generation(0), seq: Seq(1), n: 0 };
    [
        ("inspect", vec![Op::Inspect(Inspect::Agents { filter, after: Default::default(), limit: 1 })]),
        (
            "work",
            vec![
                message(Some("bob")),
                Op::Delete(delete),
                Op::Purge { agent: agent.clone() },
                Op::RemoveAgent { agent },
            ],
        ),
        (
            "operate",
            vec![
                Op::Redrive { delivery },
                Op::Purge { agent: "can:review".parse().unwrap() },
                Op::CreateToken(CreateToken { bearer: Bearer::Agent(bob), ..new.clone() }),
            ],
        ),
        (
            "administer",
            vec![
                Op::SetPolicy(Policy::mesh()),
                Op::ErasePayload(ErasePayload { seq: Seq(1), part: 0 }),
                Op::CreateToken(new),
                Op::RevokeToken { token },
                message(None),
            ],
        ),
        ("approve", vec![Op::DecideApproval(Box::new(decide))]),
        ("internal", vec![Op::Sweep, Op::Backfill(backfill)]),
    ]
}

fn holder(role: TokenRole) -> Principal {
    Principal::Holder { role, name: "anna".parse().unwrap() }
}

// Fails under: any changed cell of the table.
#[test]
fn i19_every_role_has_exactly_the_permissions_of_the_table() {
    let principals = [
        (Principal::System, "inspect work operate administer approve internal"),
        (Principal::Agent("bob".parse().unwrap()), "work"),
        (holder(TokenRole::Admin), "inspect work operate administer approve"),
        (holder(TokenRole::Operator), "inspect work operate"),
        (holder(TokenRole::Approver), "inspect approve"),
        (holder(TokenRole::Moderator), "inspect"),
        (holder(TokenRole::Viewer), "inspect"),
    ];
    for (principal, expected) in principals {
        for (permission, ops) in ops() {
            for op in ops {
                let allowed = principal.check_allowed(&op).is_ok();
                assert_eq!(
                    allowed,
                    expected.split(' ').any(|name| name == permission),
                    "{principal} {permission} {op:?}"
                );
            }
        }
    }
}

// Fails under: a refusal that does not name the required role.
#[test]
fn i19_a_refusal_names_the_required_role() {
    let refusal = |principal: &Principal, op: &Op| {
        let refused = principal.check_allowed(op).unwrap_err();
        (refused.code, refused.detail, refused.hint)
    };
    let [_, (_, work), _, (_, administer), _, (_, internal)] = ops();
    assert_eq!(
        refusal(&holder(TokenRole::Viewer), &work[0]),
        (
            Code::Forbidden,
            "viewer:anna is not permitted to send messages".into(),
            "use an access token with role operator or admin".into()
        )
    );
    let operator = refusal(&holder(TokenRole::Operator), &administer[0]);
    assert_eq!(
        (&*operator.1, &*operator.2),
        ("operator:anna is not permitted to set the policy", "use an access token with role admin")
    );
    let admin = refusal(&holder(TokenRole::Admin), &internal[0]);
    assert_eq!(
        (&*admin.1, &*admin.2),
        ("admin:anna is not permitted to sweep", "only the hub itself performs this operation")
    );
}

// Fails under: a client that sends a message as if it came from a webhook.
#[test]
fn i2_the_origin_of_webhooks_is_reserved_for_the_hub() {
    let with_origin = |from: Option<&str>, origin: &str| {
        let Op::Send { message, .. } = message(from) else { panic!("a message") };
        Message { origin: Some(origin.into()), ..Message::clone(&message) }
    };
    let bob = Principal::Agent("bob".parse().unwrap());
    for origin in ["webhook:github", "webhook:", "Webhook:github", " webhook:x"] {
        for (principal, from) in [(&bob, Some("bob")), (&holder(TokenRole::Admin), None)] {
            let sent = Op::send(with_origin(from, origin));
            let asked = Op::Request(SendRequest::new(with_origin(from, origin), None, None));
            for op in [sent, asked] {
                let refused = principal.check_allowed(&op).unwrap_err();
                assert_eq!(refused.code, Code::Forbidden, "{origin}");
                assert!(refused.detail.contains("webhook:"), "{}", refused.detail);
            }
        }
        assert_eq!(Principal::System.check_allowed(&Op::send(with_origin(None, origin))), Ok(()));
    }
    for origin in ["github", "webhook", "a webhook:github"] {
        assert_eq!(bob.check_allowed(&Op::send(with_origin(Some("bob"), origin))), Ok(()), "{origin}");
    }
}
