//! Grants: the roles and capabilities that an agent with an access token may register, and the task types it may claim.

use quorate_core::{
    AgentRole, Bearer, ClaimTasks, Code, Commit, CreateTasks, CreateToken, Granted, Grants, NewTask, Op,
    OpResult, Policy, Principal, Refused, RegisterAgent, TokenId, TokenLookup, TokenRole, WaitMode,
};

use super::builders::{agent, id};
use super::test_bench::TestBench;
use super::tokens::{create_token, created_id, holder};
use crate::Clock as _;

fn registration(role: AgentRole, capabilities: &[&str]) -> Op {
    let capabilities = strings(capabilities);
    Op::RegisterAgent(RegisterAgent { role, capabilities, ..RegisterAgent::named(id("bob")) })
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn claim_of(types: &[&str], wait: WaitMode) -> Op {
    Op::ClaimTasks(ClaimTasks { agent: id("bob"), types: strings(types), max: 1, lease_ms: None, wait })
}

fn claim(types: &[&str]) -> Op {
    claim_of(types, WaitMode::NoWait)
}

/// Grants of exactly this role and these capabilities.
fn only(role: AgentRole, capabilities: &[&str]) -> Grants {
    Grants { roles: Granted::Only(vec![role]), capabilities: Granted::Only(strings(capabilities)) }
}

/// Registers bob as a worker with the capability `sum`.
async fn register_bob(bench: &TestBench) {
    bench.commit_ok(Principal::System, vec![registration(AgentRole::Worker, &["sum"])]).await;
}

async fn set_policy(bench: &TestBench, policy: Policy) {
    bench.commit_ok(Principal::System, vec![Op::SetPolicy(policy)]).await;
}

/// Creates a token of bob.
async fn token(bench: &TestBench, secret: u8, grants: Grants) -> TokenId {
    let create = CreateToken { grants, ..create_token(secret, Bearer::Agent(id("bob"))) };
    created_id(&bench.commit_ok(holder(TokenRole::Admin), vec![Op::CreateToken(create)]).await, 0)
}

/// Commits as bob with a token.
async fn commit(bench: &TestBench, token: TokenId, op: Op) -> Result<(), Refused> {
    let commit = Commit { token: Some(token), ..Commit::new(agent("bob"), vec![op]) };
    bench.commit(commit).await.map(drop)
}

async fn accept(bench: &TestBench, token: TokenId, op: Op) {
    commit(bench, token, op).await.expect("it is granted");
}

/// Commits an operation that no grant allows. It changes nothing.
async fn refuse(bench: &TestBench, token: TokenId, op: Op, field: &str) {
    let before = bench.published();
    let refused = commit(bench, token, op.clone()).await.expect_err("it is not granted");
    let facts = (refused.code, refused.facts.rule.as_deref(), refused.facts.field.as_deref());
    assert_eq!(facts, (Code::Forbidden, Some("grants"), Some(field)), "{op:?}");
    let after = bench.published();
    assert_eq!((before.head, &before.agents, &before.tasks), (after.head, &after.agents, &after.tasks));
}

/// Returns the grants of the token with this secret.
fn grants_of(bench: &TestBench, secret: u8) -> Grants {
    let digest = create_token(secret, Bearer::Agent(id("bob"))).digest;
    match bench.published().tokens.find(&digest, bench.clock.now().wall) {
        TokenLookup::Active(token) => token.grants.clone(),
        other => panic!("not a valid token: {other:?}"),
    }
}

// Fails under: a role or capability that is not checked in `register`; a default that includes coordinator.
pub async fn i19_by_policy_a_mesh_grants_everything_but_coordinator(bench: TestBench) {
    register_bob(&bench).await;
    let bob = token(&bench, 1, Grants::default()).await;
    assert_eq!(grants_of(&bench, 1), Grants::default());
    accept(&bench, bob, registration(AgentRole::Specialist, &["sum", "deploy"])).await;
    accept(&bench, bob, claim(&["anything"])).await;
    refuse(&bench, bob, registration(AgentRole::Coordinator, &["sum"]), "role").await;
    // An admin that registers a coordinator grants the role.
    bench.commit_ok(holder(TokenRole::Admin), vec![registration(AgentRole::Coordinator, &[])]).await;
    let coordinator = token(&bench, 2, Grants::default()).await;
    assert_eq!(grants_of(&bench, 2), Grants { roles: Granted::All, ..Grants::default() });
    accept(&bench, bob, registration(AgentRole::Coordinator, &["audit"])).await;
    accept(&bench, bob, registration(AgentRole::Worker, &[])).await;
    refuse(&bench, bob, registration(AgentRole::Coordinator, &[]), "role").await;
    accept(&bench, coordinator, registration(AgentRole::Coordinator, &[])).await;
}

// Fails under: grants that are not recorded in a supervised space; a token from before that is not limited there; a
// coordinator with a grant that the policy refuses.
pub async fn i19_a_supervised_space_grants_what_was_registered(bench: TestBench) {
    register_bob(&bench).await;
    let early = token(&bench, 1, Grants::default()).await;
    set_policy(&bench, Policy::supervised()).await;
    let late = token(&bench, 2, Grants::default()).await;
    assert_eq!(grants_of(&bench, 1), Grants::default());
    assert_eq!(grants_of(&bench, 2), only(AgentRole::Worker, &["sum"]));
    for bob in [early, late] {
        accept(&bench, bob, registration(AgentRole::Worker, &["sum"])).await;
        accept(&bench, bob, claim(&["sum"])).await;
        refuse(&bench, bob, registration(AgentRole::Specialist, &["sum"]), "role").await;
        refuse(&bench, bob, registration(AgentRole::Coordinator, &["sum"]), "role").await;
        refuse(&bench, bob, registration(AgentRole::Worker, &["sum", "deploy"]), "capabilities").await;
        refuse(&bench, bob, claim(&["sum", "deploy"]), "types").await;
    }
    // Recorded capabilities may be registered again after the agent dropped them; others may not.
    accept(&bench, late, registration(AgentRole::Worker, &[])).await;
    refuse(&bench, early, registration(AgentRole::Worker, &["sum"]), "capabilities").await;
    accept(&bench, late, registration(AgentRole::Worker, &["sum"])).await;
    let leader = token(&bench, 3, only(AgentRole::Coordinator, &[])).await;
    accept(&bench, leader, registration(AgentRole::Coordinator, &["sum"])).await;
    set_policy(&bench, Policy::mesh()).await;
    accept(&bench, early, registration(AgentRole::Observer, &["deploy"])).await;
    refuse(&bench, late, registration(AgentRole::Specialist, &[]), "role").await;
}

// Fails under: a recorded list that is ignored in a mesh; a grant of one kind that extends to the other; `*` that is not
// all.
pub async fn i19_recorded_grants_limit_registrations(bench: TestBench) {
    register_bob(&bench).await;
    let exact = token(&bench, 1, only(AgentRole::Coordinator, &["deploy"])).await;
    refuse(&bench, exact, registration(AgentRole::Specialist, &["sum"]), "role").await;
    refuse(&bench, exact, registration(AgentRole::Worker, &["sum", "audit"]), "capabilities").await;
    // The role is checked first.
    refuse(&bench, exact, registration(AgentRole::Observer, &["audit"]), "role").await;
    accept(&bench, exact, registration(AgentRole::Worker, &["sum", "deploy"])).await;
    accept(&bench, exact, registration(AgentRole::Coordinator, &["sum", "deploy"])).await;
    accept(&bench, exact, registration(AgentRole::Coordinator, &["deploy"])).await;
    refuse(&bench, exact, registration(AgentRole::Coordinator, &["sum"]), "capabilities").await;
    refuse(&bench, exact, registration(AgentRole::Worker, &["deploy"]), "role").await;
    let roles = Granted::Only(vec![AgentRole::Worker]);
    let worker = token(&bench, 2, Grants { roles, capabilities: Granted::All }).await;
    accept(&bench, worker, registration(AgentRole::Worker, &["audit"])).await;
    refuse(&bench, worker, registration(AgentRole::Coordinator, &["audit"]), "role").await;
    let none = Granted::Only(Vec::new());
    let nothing = token(&bench, 3, Grants { roles: Granted::All, capabilities: none }).await;
    accept(&bench, nothing, registration(AgentRole::Coordinator, &["audit"])).await;
    accept(&bench, nothing, registration(AgentRole::Observer, &[])).await;
    refuse(&bench, nothing, registration(AgentRole::Observer, &["audit"]), "capabilities").await;
}

// Fails under: a claim that may name types that its agent may not register; a refused claim that waits.
pub async fn i19_recorded_grants_limit_claimed_task_types(bench: TestBench) {
    register_bob(&bench).await;
    let bob = token(&bench, 1, only(AgentRole::Worker, &["audit"])).await;
    let tasks = ["deploy", "sum", "audit"].map(|name| (NewTask::new(name), None));
    let create = Op::CreateTasks(CreateTasks::pack(tasks, [1; 16]));
    bench.commit_ok(Principal::System, vec![create]).await;
    for types in [&["deploy"][..], &["sum", "deploy"], &["deploy", "sum"]] {
        refuse(&bench, bob, claim(types), "types").await;
        let waiting = WaitMode::Standing(quorate_core::ConsumerId(7));
        refuse(&bench, bob, claim_of(types, waiting), "types").await;
    }
    assert_eq!(bench.consumer_events(), vec![], "nothing waits");
    for types in [&[][..], &["audit", "sum"]] {
        let op = claim(types);
        let commit = Commit { token: Some(bob), ..Commit::new(agent("bob"), vec![op]) };
        let receipt = bench.commit(commit).await.expect("the claim is accepted");
        let [OpResult::TasksClaimed(leased)] = &receipt.results[..] else { panic!("{receipt:?}") };
        assert_eq!(leased.len(), 1, "{types:?}");
    }
}

// Fails under: grants that limit an operator who acts for the agent, the hub, or an agent of an embedding program.
pub async fn i19_only_agents_with_a_token_are_limited(bench: TestBench) {
    register_bob(&bench).await;
    let bob = token(&bench, 1, only(AgentRole::Worker, &[])).await;
    let ops = || vec![registration(AgentRole::Coordinator, &["deploy"]), claim(&["audit"])];
    for principal in [agent("bob"), Principal::System, holder(TokenRole::Operator), holder(TokenRole::Admin)]
    {
        bench.commit_ok(principal, ops()).await;
        accept(&bench, bob, registration(AgentRole::Worker, &[])).await;
    }
    for role in [TokenRole::Operator, TokenRole::Admin] {
        let commit = Commit { token: Some(bob), ..Commit::new(holder(role), ops()) };
        bench.commit(commit).await.expect("people are not limited by the grants of an agent");
    }
    set_policy(&bench, Policy::supervised()).await;
    accept(&bench, bob, registration(AgentRole::Worker, &[])).await;
    let coordinator = vec![registration(AgentRole::Coordinator, &[])];
    bench.commit_refused_with(Code::PolicyViolation, agent("bob"), coordinator).await;
}

// Fails under: a token that is looked up by its number only, or not found and therefore unlimited.
pub async fn i19_a_token_that_has_ended_grants_nothing(bench: TestBench) {
    register_bob(&bench).await;
    bench.register("eve").await;
    let all = Grants { roles: Granted::All, capabilities: Granted::All };
    let bob = token(&bench, 1, all.clone()).await;
    let create = CreateToken { grants: all, ..create_token(2, Bearer::Agent(id("eve"))) };
    let eve = bench.commit_ok(Principal::System, vec![Op::CreateToken(create)]).await;
    bench.commit_ok(Principal::System, vec![Op::RevokeToken { token: bob }]).await;
    for ended in [bob, created_id(&eve, 0), TokenId { n: 9, ..bob }] {
        for op in [registration(AgentRole::Worker, &["deploy"]), claim(&["deploy"])] {
            let refused = commit(&bench, ended, op).await.expect_err("the token has ended");
            assert_eq!(refused.code, Code::Unauthenticated);
        }
    }
}

// Fails under: grants that are not stored.
pub async fn i19_grants_survive_a_restart(mut bench: TestBench) {
    register_bob(&bench).await;
    let grants = Grants { roles: Granted::All, capabilities: Granted::Only(strings(&["deploy"])) };
    let bob = token(&bench, 1, grants.clone()).await;
    bench.reopen().await;
    assert_eq!(grants_of(&bench, 1), grants);
    refuse(&bench, bob, registration(AgentRole::Coordinator, &["audit"]), "capabilities").await;
    accept(&bench, bob, registration(AgentRole::Coordinator, &["deploy"])).await;
}
