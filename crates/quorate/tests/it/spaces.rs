//! Spaces of one hub, apart: what lives in memory only stays where it belongs, too.

use std::time::Duration;

use quorate::{Code, Hub};
use quorate_core::{
    AgentId, Commit, Message, Op, Pattern, Policy, Principal, RegisterAgent, SpaceName, Subscribe, limits,
};
use quorate_engine::Space;

fn id(name: &str) -> AgentId {
    AgentId::new(name).expect("a good id")
}

/// Alice and bob; bob can cook, and listens to everything.
async fn people(space: &Space) {
    let bob = RegisterAgent { capabilities: vec!["cook".into()], ..RegisterAgent::named(id("bob")) };
    let pattern = Pattern::new(">").expect("a good pattern");
    let ops = vec![
        Op::RegisterAgent(RegisterAgent::named(id("alice"))),
        Op::RegisterAgent(bob),
        Op::Subscribe(Subscribe { agent: id("bob"), pattern, history: None }),
        Op::SetPolicy(Policy { broadcasts_per_minute: 1, ..Policy::mesh() }),
    ];
    space.commit(Commit::new(Principal::System, ops)).await.expect("they are there");
}

async fn send(space: &Space, to: &str) -> Result<(), Code> {
    let to = to.parse().expect("a good destination");
    let message = Message { from: Some(id("alice")), ..Message::new(to, "told", space.seal("1")) };
    let sent = space.send_ephemeral(&Principal::Agent(id("alice")), None, message).await;
    sent.map(drop).map_err(|error| error.code())
}

async fn taken(space: &Space) -> usize {
    let bob = Principal::Agent(id("bob"));
    let of = id("bob");
    let claim = space.claim(&bob, None, &of, 9, limits::LEASE_MS_DEFAULT, Duration::ZERO);
    claim.await.expect("an answer").len()
}

// Fails under: shelves, quotas or violations that are kept by agent and not by space.
#[tokio::test]
async fn i16_what_lives_in_memory_stays_in_its_space() {
    let directory = tempfile::tempdir().expect("a directory");
    let hub = Hub::open(directory.path().join("team")).await.expect("the hub opens");
    let here = hub.space().expect("a hub in this process");
    let there = here.engine().space(SpaceName::new("there").expect("a good name")).await.expect("made");
    people(here).await;
    people(&there).await;
    let before = there.published().head;

    for to in ["bob", "topic:a.b", "*"] {
        assert_eq!(send(here, to).await, Ok(()), "{to}");
    }
    assert_eq!(send(here, "*").await, Err(Code::LimitExceeded), "one a minute");
    assert_eq!(taken(&there).await, 0, "nothing of it came over");
    assert_eq!((there.violations(), there.published().head), (vec![], before));
    assert_eq!(send(&there, "*").await, Ok(()), "each space counts for itself");
    assert_eq!((taken(here).await, taken(&there).await, here.violations().len()), (3, 1, 1));
    hub.close().await;
}
