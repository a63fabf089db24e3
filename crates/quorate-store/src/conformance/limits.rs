//! Limits that need many rows to reach. Only for backends that can hold that many efficiently.

use quorate_core::{
    Bearer, BudgetId, ChangeSession, ClaimTasks, Code, CompleteTask, ConsumerEvent, ConsumerId, CreateTasks,
    CreateToken, Dependency, LeasedTask, MakeSnapshot, Message, NewTask, Op, OpResult, OpenSession, Pattern,
    Principal, RegisterAgent, SessionChange, SessionId, SetBudget, SnapshotName, Subscribe, TaskStatus,
    TokenDigest, TokenRole, WaitMode, limits,
};

use super::approvals::request_approval;
use super::builders::{agent, id, message_to, payload, register, send};
use super::procedures::start;
use super::test_bench::TestBench;
use super::tokens::create_token;

const OPS: usize = limits::OPS_MAX;

/// Sends this many messages to bob.
async fn send_many(bench: &TestBench, from: &str, count: usize) {
    for start in (0..count).step_by(OPS) {
        let chunk = OPS.min(count - start);
        bench.commit_ok(agent(from), (0..chunk).map(|_| send(from, message_to("bob"))).collect()).await;
    }
}

// Fails under: an agent that fills the inbox of another one; a share that is not undone with its commit, or not given back
// when the inbox has room again.
pub async fn an_inbox_holds_at_most_100_000_open_deliveries(bench: TestBench) {
    let share = limits::INBOX_PER_SENDER_MAX as usize;
    let count = (limits::INBOX_MAX - limits::INBOX_SHARED_FROM) / share;
    let senders: Vec<String> = (0..=count).map(|number| format!("a{number}")).collect();
    bench.register("bob").await;
    bench.commit_ok(Principal::System, senders.iter().map(|name| register(name)).collect()).await;
    let one = |from: &str| vec![send(from, message_to("bob"))];
    // Half of the inbox is free for all; each sender has a share of the rest.
    send_many(&bench, "a0", limits::INBOX_SHARED_FROM).await;
    send_many(&bench, "a0", share - 1).await;
    let refused = bench.commit_refused(agent("a0"), [one("a0"), one("a0")].concat()).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::QueueFull, Some(share as u64)));
    bench.commit_ok(agent("a0"), one("a0")).await;
    bench.commit_refused_with(Code::QueueFull, agent("a0"), one("a0")).await;
    for sender in &senders[1..count] {
        send_many(&bench, sender, share).await;
    }
    let refused = bench.commit_refused(agent(&senders[count]), one(&senders[count])).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::QueueFull, Some(limits::INBOX_MAX as u64)));
    bench.commit_refused_with(Code::QueueFull, Principal::System, vec![Op::send(message_to("bob"))]).await;
    bench.send("bob", "a0").await;
    let purge = || vec![Op::Purge { agent: id("bob") }];
    let purged = bench.commit_ok(agent("bob"), purge()).await;
    assert_eq!(purged.results, vec![OpResult::Purged { count: limits::PURGE_MAX as u32 }]);
    bench.commit_ok(agent(&senders[count]), one(&senders[count])).await;
    bench.commit_ok(Principal::System, vec![Op::send(message_to("bob"))]).await;
    bench.commit_refused_with(Code::QueueFull, agent("a0"), one("a0")).await;
    for _ in 0..limits::INBOX_SHARED_FROM / limits::PURGE_MAX {
        bench.commit_ok(agent("bob"), purge()).await;
    }
    bench.commit_ok(agent("a0"), one("a0")).await;
}

pub async fn a_space_has_at_most_100_000_agents(bench: TestBench) {
    let names: Vec<String> = (0..limits::AGENTS_MAX).map(|number| format!("a{number}")).collect();
    for chunk in names.chunks(OPS) {
        bench.commit_ok(Principal::System, chunk.iter().map(|name| register(name)).collect()).await;
    }
    let refused = bench.commit_refused(Principal::System, vec![register("one-more")]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(limits::AGENTS_MAX as u64)));
    assert!(!refused.facts.retryable, "removed agents count as well: {refused:?}");
    bench.register("a7").await;
}

fn create_tasks(tasks: Vec<NewTask>) -> Op {
    Op::CreateTasks(CreateTasks { tasks, inputs: None })
}

fn claim(name: &str, max: u32, wait: WaitMode) -> Op {
    Op::ClaimTasks(ClaimTasks { agent: id(name), types: vec!["work".into()], max, lease_ms: None, wait })
}

fn done(held: &LeasedTask) -> Op {
    Op::CompleteTask(CompleteTask::done(held.lease_ref(), None))
}

// Fails under: a share that is counted for the whole space, or not given back when a task ends.
pub async fn c4_an_agent_has_at_most_10_000_open_tasks(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let max = limits::OPEN_TASKS_PER_AGENT_MAX;
    // All tasks but the last depend on the first; the last depends on all others.
    let mut graph = vec![NewTask::new("work"); max];
    graph[1..max - 1].iter_mut().for_each(|task| task.depends_on = vec![Dependency::Index(0)]);
    graph[max - 1].depends_on = (1..max as u32 - 1).map(Dependency::Index).collect();
    let one_more = || create_tasks(vec![NewTask::new("work")]);
    let refused = bench.commit_refused(agent("alice"), vec![one_more(), create_tasks(graph.clone())]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::QueueFull, Some(max as u64)));
    bench.commit_ok(agent("alice"), vec![create_tasks(graph)]).await;
    bench.commit_refused_with(Code::QueueFull, agent("alice"), vec![one_more()]).await;
    let other = || create_tasks(vec![NewTask::new("other")]);
    bench.commit_ok(agent("bob"), vec![other()]).await;
    bench.commit_ok(Principal::System, vec![other()]).await;
    let mut finished = 0;
    while finished < max {
        if finished == max / 2 {
            bench.reopen().await;
        }
        let receipt = bench.commit_ok(agent("bob"), vec![claim("bob", 200, WaitMode::NoWait)]).await;
        let [OpResult::TasksClaimed(held)] = &receipt.results[..] else { panic!("{receipt:?}") };
        assert!(!held.is_empty(), "something is ready after {finished}");
        bench.commit_ok(agent("bob"), held.iter().map(done).collect()).await;
        finished += held.len();
    }
    assert_eq!(bench.published().tasks.get(TaskStatus::Done), max as u64);
    bench.commit_ok(agent("alice"), vec![one_more()]).await;
}

// Fails under: a limit per space that an agent can use up alone.
pub async fn c4_a_space_has_at_most_100_000_open_tasks(bench: TestBench) {
    let (max, share) = (limits::OPEN_TASKS_DEFAULT, limits::OPEN_TASKS_PER_AGENT_MAX);
    let names: Vec<String> = (0..=max / share).map(|number| format!("a{number}")).collect();
    bench.commit_ok(Principal::System, names.iter().map(|name| register(name)).collect()).await;
    for name in &names[1..] {
        bench.commit_ok(agent(name), vec![create_tasks(vec![NewTask::new("work"); share])]).await;
    }
    let one_more = || vec![create_tasks(vec![NewTask::new("work")])];
    for principal in [agent("a0"), Principal::System] {
        let refused = bench.commit_refused(principal, one_more()).await;
        assert_eq!((refused.code, refused.facts.limit), (Code::QueueFull, Some(max as u64)));
    }
}

// Fails under: quotas of a space that one agent can use up; a share that also limits operators.
pub async fn i21_an_agent_has_a_share_of_sessions_procedures_and_approvals(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let session = |number: usize| session_op(&format!("s{number}"));
    let procedure = |number: usize| start(Some(&format!("p{number}")));
    let approval = |number: usize| request_approval(&format!("q{number}"));
    let operator = Principal::Holder { role: TokenRole::Operator, name: "olga".parse().expect("valid name") };
    let kinds: [(usize, &dyn Fn(usize) -> Op); 3] = [
        (limits::SESSIONS_PER_AGENT_MAX, &session),
        (limits::PROCEDURES_PER_AGENT_MAX, &procedure),
        (limits::APPROVALS_PER_AGENT_MAX, &approval),
    ];
    for (max, op) in kinds {
        let numbers: Vec<usize> = (0..max).collect();
        for chunk in numbers.chunks(100) {
            bench.commit_ok(agent("alice"), chunk.iter().map(|number| op(*number)).collect()).await;
        }
        bench.reopen().await;
        let refused = bench.commit_refused(agent("alice"), vec![op(max)]).await;
        assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(max as u64)));
        assert!(refused.facts.retryable && refused.detail.contains("agent:alice"), "{refused:?}");
        bench.commit_ok(agent("alice"), vec![op(0)]).await;
        bench.commit_ok(agent("bob"), vec![op(max)]).await;
        bench.commit_ok(operator.clone(), vec![op(max + 1)]).await;
    }
    // Each that ends gives its place back.
    let session = SessionId::new("s0").expect("valid id");
    let end = ChangeSession { session, change: SessionChange::Complete, reason: String::new() };
    bench.commit_ok(agent("alice"), vec![Op::ChangeSession(end), session_op("s-next")]).await;
    bench.advance_secs(60);
    bench.sweep().await;
    bench.commit_ok(agent("alice"), vec![approval(limits::APPROVALS_PER_AGENT_MAX + 2)]).await;
}

fn session_op(name: &str) -> Op {
    let id = Some(SessionId::new(name).expect("valid id"));
    Op::OpenSession(OpenSession {
        id,
        coordinator: None,
        participants: Vec::new(),
        title: "w".into(),
        task: None,
    })
}

pub async fn c4_an_agent_has_at_most_4096_tasks_in_flight(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let extra = 3;
    bench
        .commit_ok(
            agent("alice"),
            vec![create_tasks(vec![NewTask::new("work"); limits::IN_FLIGHT_MAX + extra])],
        )
        .await;
    let mut held = Vec::new();
    for _ in 0..limits::IN_FLIGHT_MAX / 256 {
        let receipt = bench.commit_ok(agent("bob"), vec![claim("bob", 256, WaitMode::NoWait)]).await;
        let [OpResult::TasksClaimed(leased)] = &receipt.results[..] else { panic!("{receipt:?}") };
        held.extend(leased.clone());
    }
    assert_eq!(held.len(), limits::IN_FLIGHT_MAX);
    let receipt =
        bench.commit_ok(agent("bob"), vec![claim("bob", 9, WaitMode::Standing(ConsumerId(1)))]).await;
    assert_eq!(
        receipt.results,
        [OpResult::TasksClaimed(vec![])],
        "the in-flight limit holds back {extra} ready tasks"
    );
    bench.commit_ok(agent("bob"), vec![done(&held[0])]).await;
    let events = bench.consumer_events();
    assert!(
        matches!(&events[..], [(ConsumerId(1), ConsumerEvent::TaskLeased(_))]),
        "an ack frees capacity: {events:?}"
    );
}

pub async fn i21_a_space_has_at_most_10_000_tokens(bench: TestBench) {
    let token = |number: usize| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&(number as u64).to_be_bytes());
        let digest = TokenDigest(digest);
        Op::CreateToken(CreateToken { digest, ..create_token(0, Bearer::Holder(TokenRole::Viewer)) })
    };
    let numbers: Vec<usize> = (0..limits::TOKENS_MAX).collect();
    let mut last = None;
    for chunk in numbers.chunks(OPS) {
        last = Some(
            bench.commit_ok(Principal::System, chunk.iter().map(|number| token(*number)).collect()).await,
        );
    }
    let one_more = || vec![token(limits::TOKENS_MAX)];
    let refused = bench.commit_refused(Principal::System, one_more()).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(limits::TOKENS_MAX as u64)));
    let last = last.expect("at least one commit").results.remove(0);
    let OpResult::TokenCreated { id, .. } = last else { panic!("not a token: {last:?}") };
    bench.commit_ok(Principal::System, vec![Op::RevokeToken { token: id }]).await;
    bench.commit_ok(Principal::System, one_more()).await;
    assert_eq!(bench.published().tokens.len(), limits::TOKENS_MAX);
}

pub async fn d3_a_space_has_at_most_10_000_pools(bench: TestBench) {
    let max = limits::POOLS_MAX;
    let register_capable = |number: usize| {
        let first = number * limits::LIST_MAX;
        let capabilities = (first..first + limits::LIST_MAX).map(|index| format!("c{index}")).collect();
        Op::RegisterAgent(RegisterAgent { capabilities, ..RegisterAgent::named(id(&format!("a{number}"))) })
    };
    bench.commit_ok(Principal::System, (0..=max / limits::LIST_MAX).map(register_capable).collect()).await;
    let to_pool = |number: usize| {
        let to = format!("can:c{number}").parse().expect("valid destination");
        Op::send(Message::new(to, "work", payload("{}")))
    };
    let numbers: Vec<usize> = (0..max).collect();
    for chunk in numbers.chunks(OPS) {
        bench.commit_ok(Principal::System, chunk.iter().map(|number| to_pool(*number)).collect()).await;
    }
    let refused = bench.commit_refused(Principal::System, vec![to_pool(max)]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(max as u64)));
    assert!(!refused.facts.retryable, "pools are permanent: {refused:?}");
    bench.commit_ok(Principal::System, vec![to_pool(0), to_pool(max - 1)]).await;
}

// Fails under: an agent that uses up the pools, snapshots or budgets of its space; a share that is not undone with its
// commit, or is lost with a restart; a refusal that promises that waiting helps.
pub async fn i21_an_agent_has_a_share_of_pools_snapshots_and_budgets(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let pools = limits::POOLS_PER_AGENT_MAX;
    let all = (0..=pools + 1).collect::<Vec<_>>();
    for (index, chunk) in all.chunks(limits::LIST_MAX).enumerate() {
        let capabilities = chunk.iter().map(|number| format!("c{number}")).collect();
        let named = RegisterAgent::named(id(&format!("w{index}")));
        bench
            .commit_ok(Principal::System, vec![Op::RegisterAgent(RegisterAgent { capabilities, ..named })])
            .await;
    }
    let to_pool = |from: &str, number: usize| {
        let to = format!("can:c{number}").parse().expect("valid destination");
        send(from, Message::new(to, "work", payload("{}")))
    };
    let snapshot = |_: &str, number: usize| snapshot_op(number);
    let budget = |_: &str, number: usize| budget_op(number);
    type Build<'a> = &'a dyn Fn(&str, usize) -> Op;
    let kinds: [(&str, usize, Build<'_>, bool); 3] = [
        ("pools", pools, &to_pool, false),
        ("snapshots", limits::SNAPSHOTS_PER_AGENT_MAX, &snapshot, true),
        ("budgets", limits::BUDGETS_PER_AGENT_MAX, &budget, false),
    ];
    for (name, max, op, is_temporary) in kinds {
        for chunk in (0..max - 1).collect::<Vec<_>>().chunks(OPS) {
            bench.commit_ok(agent("alice"), chunk.iter().map(|number| op("alice", *number)).collect()).await;
        }
        // A refused commit uses up nothing.
        let two = vec![op("alice", max - 1), op("alice", max)];
        let refused = bench.commit_refused(agent("alice"), two).await;
        assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(max as u64)));
        assert_eq!(refused.facts.retryable, is_temporary, "{refused:?}");
        assert!(refused.detail.contains("agent:alice") && refused.detail.contains(name), "{refused:?}");
        bench.commit_ok(agent("alice"), vec![op("alice", max - 1)]).await;
        bench.reopen().await;
        bench.commit_refused_with(Code::LimitExceeded, agent("alice"), vec![op("alice", max)]).await;
        bench.commit_ok(agent("bob"), vec![op("bob", max)]).await;
    }
    let drop = Op::DropSnapshot { name: snapshot_name(0) };
    let next = snapshot_op(limits::SNAPSHOTS_PER_AGENT_MAX + 1);
    bench.commit_ok(agent("alice"), vec![drop, next]).await;
    bench.commit_ok(agent("alice"), vec![to_pool("alice", 0), budget_op(0)]).await;
    bench.commit_ok(Principal::System, vec![to_pool("alice", pools + 1)]).await;
}

fn snapshot_name(number: usize) -> SnapshotName {
    SnapshotName::new(format!("n{number}")).expect("valid name")
}

fn snapshot_op(number: usize) -> Op {
    Op::MakeSnapshot(MakeSnapshot { name: snapshot_name(number), prefix: String::new() })
}

fn budget_op(number: usize) -> Op {
    let id = BudgetId::new(format!("b{number}")).expect("valid id");
    Op::SetBudget(SetBudget { id, messages_max: 1, tokens_max: None, money_max: None })
}

// Fails under: a dropped snapshot that still counts.
pub async fn i21_a_space_has_at_most_10_000_snapshots(mut bench: TestBench) {
    let max = limits::SNAPSHOTS_MAX;
    for chunk in (0..max).collect::<Vec<_>>().chunks(OPS) {
        bench.commit_ok(Principal::System, chunk.iter().map(|number| snapshot_op(*number)).collect()).await;
    }
    bench.reopen().await;
    let refused = bench.commit_refused(Principal::System, vec![snapshot_op(max)]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(max as u64)));
    let drop = || Op::DropSnapshot { name: snapshot_name(0) };
    let refused =
        bench.commit_refused(Principal::System, vec![drop(), snapshot_op(0), snapshot_op(max)]).await;
    assert_eq!((refused.code, refused.facts.op), (Code::LimitExceeded, Some(2)));
    bench.commit_ok(Principal::System, vec![drop(), snapshot_op(max)]).await;
}

pub async fn d4_a_space_has_at_most_100_000_subscriptions(bench: TestBench) {
    let (max, each) = (limits::SUBSCRIPTIONS_MAX, limits::SUBSCRIPTIONS_PER_AGENT_MAX);
    let names: Vec<String> = (0..=max / each).map(|number| format!("a{number}")).collect();
    for chunk in names.chunks(OPS) {
        bench.commit_ok(Principal::System, chunk.iter().map(|name| register(name)).collect()).await;
    }
    let subscribe = |number: usize| {
        let pattern = Pattern::new(format!("t.{}.>", number % each)).expect("valid pattern");
        Op::Subscribe(Subscribe { agent: id(&names[number / each]), pattern, history: None })
    };
    let numbers: Vec<usize> = (0..max).collect();
    for chunk in numbers.chunks(OPS) {
        bench.commit_ok(Principal::System, chunk.iter().map(|number| subscribe(*number)).collect()).await;
    }
    let refused = bench.commit_refused(Principal::System, vec![subscribe(max)]).await;
    assert_eq!((refused.code, refused.facts.limit), (Code::LimitExceeded, Some(max as u64)));
    let pattern = Pattern::new("t.0.>").expect("valid pattern");
    let free = Op::Unsubscribe { agent: id(&names[0]), pattern };
    bench.commit_ok(Principal::System, vec![free, subscribe(max)]).await;
}
