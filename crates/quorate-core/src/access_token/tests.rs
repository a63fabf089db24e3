//! Tests of token roles, names and principals.

use super::*;
use crate::ids::{Generation, Seq};

#[test]
fn i19_numbers_and_names_of_roles_never_change() {
    let all: Vec<_> = TokenRole::ALL.iter().map(|role| (role.number(), role.as_str())).collect();
    assert_eq!(all, [(2, "operator"), (3, "approver"), (4, "moderator"), (5, "viewer"), (6, "admin")]);
    assert!(TokenRole::ALL.iter().all(|role| TokenRole::from_number(role.number()) == Some(*role)));
    assert_eq!(TokenRole::from_number(1), None);
}

// Fails under: a bearer of role agent without an agent, or of another role with one.
#[test]
fn i19_only_a_token_of_role_agent_names_an_agent() {
    let bob = || AgentId::new("bob").ok();
    assert_eq!(Bearer::new("agent", bob()).unwrap(), Bearer::Agent(bob().unwrap()));
    assert_eq!(Bearer::new("viewer", None).unwrap(), Bearer::Holder(TokenRole::Viewer));
    for (role, agent) in [("agent", None), ("viewer", bob()), ("root", None), ("Admin", None), ("", bob())] {
        assert_eq!(Bearer::new(role, agent).unwrap_err().code, Code::Invalid, "{role}");
    }
}

// Fails under: a name that could impersonate another principal, or break a line of a log.
#[test]
fn i19_a_token_name_has_restricted_characters() {
    for name in ["ci", "anna@example.com", "build-7.x_2+test", &"a".repeat(128)] {
        assert_eq!(TokenName::new(name).unwrap().as_str(), name);
    }
    for name in ["", "a b", "agent:bob", "a\nb", "-x", "jürgen", "a\u{202e}b", &"a".repeat(129)] {
        assert_eq!(TokenName::new(name).unwrap_err().code, Code::Invalid, "{name:?}");
    }
    assert_eq!(TokenName::new("a".repeat(129)).unwrap_err().facts.limit, Some(128));
}

#[test]
fn i19_a_token_determines_principal_and_expiry() {
    let mut token = AccessToken {
        id: TokenId { generation: Generation(0), seq: Seq(2), n: 0 },
        digest: TokenDigest([7; 32]),
        bearer: Bearer::Agent("bob".parse().unwrap()),
        name: "laptop".parse().unwrap(),
        expires_at: Some(Timestamp(10)),
        created_by: "system".into(),
        created_at: Timestamp(1),
        state: TokenState::Active,
        parent: None,
        grants: Grants::default(),
    };
    assert_eq!(token.principal().to_text(), "agent:bob");
    assert_eq!((token.is_expired(Timestamp(9)), token.is_expired(Timestamp(10))), (false, true));
    assert_eq!(token.timers(), [ItemTimer::At { part: 0, time: Timestamp(10) }]);
    token.bearer = Bearer::Holder(TokenRole::Operator);
    token.state = TokenState::Ended;
    assert_eq!(token.principal().to_text(), "operator:laptop");
    assert_eq!(token.timers(), []);
    assert_eq!(format!("{:?}", token.digest), "TokenDigest(070707…)");
}
