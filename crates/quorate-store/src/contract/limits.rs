//! Limits that take many rows to reach: for stores that are made for many rows.

use quorate_core::{Code, Op, OpResult, Principal, limits};

use super::bench::Bench;
use super::words::{agent, deliver_to, id, register, send};

const OPS: usize = limits::OPS_MAX;

pub async fn an_inbox_holds_100_000(bench: Bench) {
    bench.start_all(&["alice", "bob"]).await;
    for _ in 0..limits::INBOX_MAX / OPS {
        bench.ok(agent("alice"), (0..OPS).map(|_| send("alice", deliver_to("bob"))).collect()).await;
    }
    let rest = limits::INBOX_MAX % OPS;
    let one_too_many = (0..=rest).map(|_| send("alice", deliver_to("bob"))).collect();
    let refused = bench.refused(agent("alice"), one_too_many).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::QueueFull, Some(limits::INBOX_MAX as u64)));
    bench.ok(agent("alice"), (0..rest).map(|_| send("alice", deliver_to("bob"))).collect()).await;
    bench.refused_with(Code::QueueFull, agent("alice"), vec![send("alice", deliver_to("bob"))]).await;
    bench.send("bob", "alice").await;
    let purged = bench.ok(agent("bob"), vec![Op::Purge { agent: id("bob") }]).await;
    assert_eq!(purged.results, vec![OpResult::Purged { count: limits::PURGE_MAX as u32 }]);
    bench.send("alice", "bob").await;
}

pub async fn a_space_knows_100_000_agents(bench: Bench) {
    let names: Vec<String> = (0..limits::AGENTS_MAX).map(|number| format!("a{number}")).collect();
    for some in names.chunks(OPS) {
        bench.ok(Principal::System, some.iter().map(|name| register(name)).collect()).await;
    }
    let refused = bench.refused(Principal::System, vec![register("one-more")]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(limits::AGENTS_MAX as u64)));
    bench.start("a7").await;
}
