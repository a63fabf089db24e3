//! Isolation of spaces, also for ephemeral state.

use std::time::Duration;

use quorate::{Code, Hub};
use quorate_core::{
    AgentId, Commit, Message, Op, Pattern, Policy, Principal, RegisterAgent, SpaceName, Subscribe, limits,
};
use quorate_engine::Space;

fn id(name: &str) -> AgentId {
    AgentId::new(name).expect("a good id")
}

/// Registers alice and bob; bob can cook and subscribes to all topics.
async fn register_agents(space: &Space) {
    let bob = RegisterAgent { capabilities: vec!["cook".into()], ..RegisterAgent::named(id("bob")) };
    let pattern = Pattern::new(">").expect("a good pattern");
    let ops = vec![
        Op::RegisterAgent(RegisterAgent::named(id("alice"))),
        Op::RegisterAgent(bob),
        Op::Subscribe(Subscribe { agent: id("bob"), pattern, history: None }),
        Op::SetPolicy(Policy { broadcasts_per_minute: 1, ..Policy::mesh() }),
    ];
    space.commit(Commit::new(Principal::System, ops)).await.expect("registered");
}

async fn send(space: &Space, to: &str) -> Result<(), Code> {
    let to = to.parse().expect("a good destination");
    let message = Message { from: Some(id("alice")), ..Message::new(to, "note", space.seal("1")) };
    let sent = space.send_ephemeral(&Principal::Agent(id("alice")), None, message).await;
    sent.map(drop).map_err(|error| error.code())
}

async fn claimed_count(space: &Space) -> usize {
    let principal = Principal::Agent(id("bob"));
    let agent = id("bob");
    let claim = space.claim(&principal, None, &agent, 9, limits::LEASE_MS_DEFAULT, Duration::ZERO);
    claim.await.expect("an answer").len()
}

// Fails under: ephemeral mailboxes, quotas or violations that are keyed by agent and not by space.
#[tokio::test]
async fn i16_ephemeral_state_stays_in_its_space() {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    let first = hub.space().expect("an embedded hub");
    let second = first.engine().space(SpaceName::new("second").expect("a good name")).await.expect("made");
    register_agents(first).await;
    register_agents(&second).await;
    let before = second.published().head;

    for to in ["bob", "topic:a.b", "*"] {
        assert_eq!(send(first, to).await, Ok(()), "{to}");
    }
    assert_eq!(send(first, "*").await, Err(Code::LimitExceeded), "one a minute");
    assert_eq!(claimed_count(&second).await, 0, "nothing crosses spaces");
    assert_eq!((second.violations(), second.published().head), (vec![], before));
    assert_eq!(send(&second, "*").await, Ok(()), "each space counts for itself");
    assert_eq!(
        (claimed_count(first).await, claimed_count(&second).await, first.violations().len()),
        (3, 1, 1)
    );
    hub.close().await;
}
