//! Table of what a token grants, by preset.

use super::*;
use crate::commit::RegisterAgent;
use crate::ids::Epoch;
use crate::presence::Presence;

fn agent(role: AgentRole, capabilities: &[&str]) -> Agent {
    let RegisterAgent { id, name, supported_actions, heartbeat_ms, .. } =
        RegisterAgent::named("bob".parse().unwrap());
    let capabilities = capabilities.iter().map(|name| (*name).to_owned()).collect();
    let presence = Presence::default();
    Agent {
        id,
        name,
        role,
        capabilities,
        supported_actions,
        epoch: Epoch(1),
        removed: false,
        heartbeat_ms,
        declaration: None,
        presence,
    }
}

/// The roles that are allowed, and whether the capabilities `deploy` and `sum` are.
fn allowed(grants: &Grants, policy: &Policy) -> (Vec<&'static str>, [bool; 2]) {
    let roles = AgentRole::ALL.into_iter().filter(|role| grants.allow_role(policy, *role));
    (
        roles.map(AgentRole::as_str).collect(),
        ["deploy", "sum"].map(|name| grants.allow_capability(policy, name)),
    )
}

// Fails under: a default in `mesh` that includes coordinator; a default in `supervised` that includes anything.
#[test]
fn i19_the_preset_decides_what_is_not_recorded() {
    let subordinate = vec!["worker", "specialist", "observer"];
    assert_eq!(allowed(&Grants::default(), &Policy::mesh()), (subordinate, [true, true]));
    assert_eq!(allowed(&Grants::default(), &Policy::supervised()), (vec![], [false, false]));
    let recorded = Grants {
        roles: Granted::Only(vec![AgentRole::Coordinator]),
        capabilities: Granted::Only(vec!["sum".into()]),
    };
    let all = Grants { roles: Granted::All, capabilities: Granted::All };
    for policy in [Policy::mesh(), Policy::supervised()] {
        assert_eq!(allowed(&recorded, &policy), (vec!["coordinator"], [false, true]));
        assert_eq!(allowed(&all, &policy), (AgentRole::ALL.map(AgentRole::as_str).to_vec(), [true, true]));
    }
}

// Fails under: a mesh that records the registration; a supervised space that does not; a recorded grant that is replaced.
#[test]
fn i19_a_new_token_grants_what_its_agent_has_registered() {
    let worker = agent(AgentRole::Worker, &["sum"]);
    let coordinator = agent(AgentRole::Coordinator, &["sum"]);
    let none = Grants::default();
    assert_eq!(none.completed(&Policy::mesh(), &worker), none);
    let promoted = Grants { roles: Granted::All, ..Grants::default() };
    assert_eq!(none.completed(&Policy::mesh(), &coordinator), promoted);
    let exact =
        |role| Grants { roles: Granted::Only(vec![role]), capabilities: Granted::Only(vec!["sum".into()]) };
    assert_eq!(none.completed(&Policy::supervised(), &worker), exact(AgentRole::Worker));
    assert_eq!(none.completed(&Policy::supervised(), &coordinator), exact(AgentRole::Coordinator));
    for policy in [Policy::mesh(), Policy::supervised()] {
        let stated = exact(AgentRole::Observer);
        assert_eq!(stated.completed(&policy, &coordinator), stated);
    }
}

// Fails under: a list without a limit; a capability that may contain a control character.
#[test]
fn i21_the_lists_of_grants_are_limited() {
    let roles = Granted::Only(vec![AgentRole::Worker; 5]);
    let refused = Grants { roles, ..Grants::default() }.check().unwrap_err();
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(4)));
    let grants = |names: Vec<String>| Grants { capabilities: Granted::Only(names), ..Grants::default() };
    assert!(grants(vec!["sum".into(); LIST_MAX]).check().is_ok());
    let refused = grants(vec!["sum".into(); LIST_MAX + 1]).check().unwrap_err();
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(LIST_MAX as u64)));
    assert_eq!(grants(vec!["a\nb".into()]).check().unwrap_err().code, Code::Invalid);
}
