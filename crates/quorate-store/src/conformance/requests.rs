//! Requests and presence: a requester receives the answer or an error, and an agent without heartbeats goes offline.

use quorate_core::{
    AcquireLocks, AgentFilter, AgentInspection, AgentNo, AgentStatus, AwaitTask, ClaimTasks, Code,
    ConsumerEvent, ConsumerId, CreateTasks, Health, Heartbeat, IfUnavailable, Inspect, InspectResult, Item,
    ItemKey, ItemKind, LockName, Message, MessageId, MessageType, NewTask, Op, OpResult, Principal, Priority,
    RegisterAgent, Request, RequestState, SendRequest, TaskId, WaitMode, limits,
};

use super::builders::{ack, agent, id, message_to, message_to_several, payload, send, with_client_id};
use super::test_bench::{Sent, TestBench, claimed};
use crate::{ReadQuery, ReadResult};

fn send_request(from: &str, message: Message, waiter: u64) -> SendRequest {
    SendRequest::new(Message { from: Some(id(from)), ..message }, None, Some(ConsumerId(waiter)))
}

fn answer(from: &str, to: &str, request_id: MessageId, text: &str) -> Op {
    let message = Message { payload: payload(text), ..message_to(to) };
    let kind = MessageType::Response;
    send(from, Message { kind, in_reply_to: Some(request_id.to_string()), ..message })
}

async fn submit(bench: &TestBench, agent_id: &str, send_request: SendRequest) -> Sent {
    match bench.commit_ok(agent(agent_id), vec![Op::Request(send_request)]).await.results[..] {
        [OpResult::Requested { id, first, count, is_open: true }] => {
            Sent { id, first_delivery: first, count }
        }
        ref other => panic!("not a request: {other:?}"),
    }
}

async fn read_request(bench: &TestBench, id: MessageId) -> Request {
    match bench.read(ReadQuery::Item(ItemKey::new(ItemKind::Request, id.to_string()))).await {
        ReadResult::Item(Some(Item::Request(request))) => request,
        other => panic!("not a request: {other:?}"),
    }
}

/// Returns the answers sent since the last call: the waiter, and the text or the error code.
fn answers(bench: &TestBench) -> Vec<(u64, Result<String, Code>)> {
    let content = |event: ConsumerEvent| match event {
        ConsumerEvent::Answered { message, .. } => {
            Ok(String::from_utf8(message.payload.bytes.to_vec()).expect("a text"))
        }
        ConsumerEvent::Refused(refused) => Err(refused.code),
        other => panic!("not an answer: {other:?}"),
    };
    bench.consumer_events().into_iter().map(|(id, event)| (id.0, content(event))).collect()
}

async fn inspect(bench: &TestBench, name: &str) -> AgentInspection {
    let filter = AgentFilter { id: Some(id(name)), ..AgentFilter::default() };
    let inspect = Op::Inspect(Inspect::Agents { filter, after: AgentNo(0), limit: 1 });
    let receipt = bench.commit_ok(Principal::System, vec![inspect]).await;
    assert_eq!(receipt.seq, None, "an inspection leaves no record");
    match receipt.results.into_iter().next() {
        Some(OpResult::Inspected(seen)) => match *seen {
            InspectResult::Agents(mut agents) => agents.remove(0),
            other => panic!("not agents: {other:?}"),
        },
        other => panic!("not an inspection: {other:?}"),
    }
}

async fn register_with_heartbeat(bench: &TestBench, name: &str, capability: &str) {
    let capabilities = vec![capability.to_owned()];
    let new = RegisterAgent { heartbeat_ms: 10_000, capabilities, ..RegisterAgent::named(id(name)) };
    bench.commit_ok(agent(name), vec![Op::RegisterAgent(new)]).await;
}

fn heartbeat(name: &str) -> Op {
    Op::Heartbeat(Heartbeat { agent: id(name), status: AgentStatus::Idle, health: Health::Healthy })
}

pub async fn d4_the_requester_receives_the_answer(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    let request = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    let held = bench.claim_one("bob").await;
    let receipt =
        bench.commit_ok(agent("bob"), vec![answer("bob", "alice", request.id, "42"), ack(&held)]).await;
    assert!(matches!(receipt.results[0], OpResult::Replied { late: false, .. }));
    assert_eq!(answers(&bench), vec![(1, Ok("42".into()))]);
    assert!(bench.claim("alice", 1).await.is_empty(), "an answer is not a delivery");
    let stored = read_request(&bench, request.id).await;
    assert_eq!((stored.state, stored.correlation), (RequestState::Answered, request.id.to_string()));
}

/// Builds a response that has a correlation id but no `in_reply_to`.
fn in_conversation(from: &str, to: &str, conversation: &str, text: &str) -> Op {
    let message = Message { payload: payload(text), ..message_to(to) };
    let correlation_id = Some(conversation.to_owned());
    send(from, Message { kind: MessageType::Response, correlation_id, ..message })
}

pub async fn d4_a_response_is_matched_by_correlation_id(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    let by_id = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    submit(&bench, "alice", send_request("alice", with_client_id("bob", "q-2", "{}"), 2)).await;
    let correlated = |name| Message { correlation_id: Some("c1".into()), ..message_to(name) };
    submit(&bench, "alice", send_request("alice", correlated("bob"), 3)).await;
    // The same conversation, but another recipient.
    submit(&bench, "alice", send_request("alice", correlated("carol"), 4)).await;
    for (waiter, conversation) in [(1, by_id.id.to_string()), (2, "q-2".into()), (3, "c1".into())] {
        let response = || in_conversation("bob", "alice", &conversation, "42");
        // Carol is not a recipient of this request, so her response is an ordinary message.
        if waiter < 3 {
            let carols = in_conversation("carol", "alice", &conversation, "42");
            bench.commit_ok(agent("carol"), vec![carols]).await;
            assert_eq!((answers(&bench), bench.claim("alice", 9).await.len()), (vec![], 1), "{conversation}");
        }
        let receipt = bench.commit_ok(agent("bob"), vec![response()]).await;
        assert!(matches!(receipt.results[0], OpResult::Replied { late: false, .. }), "{conversation}");
        assert_eq!(answers(&bench), vec![(waiter, Ok("42".into()))], "{conversation}");
        // The request is closed: a further response is an ordinary message.
        bench.commit_ok(agent("bob"), vec![response()]).await;
        assert_eq!((answers(&bench), bench.claim("alice", 9).await.len()), (vec![], 1), "{conversation}");
    }
    bench.commit_ok(agent("carol"), vec![in_conversation("carol", "alice", "c1", "43")]).await;
    assert_eq!(answers(&bench), vec![(4, Ok("43".into()))]);
}

pub async fn d4_an_ambiguous_correlation_id_matches_no_request(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let correlated = || Message { correlation_id: Some("c1".into()), ..message_to("bob") };
    let first = submit(&bench, "alice", send_request("alice", correlated(), 1)).await;
    submit(&bench, "alice", send_request("alice", correlated(), 2)).await;
    bench.commit_ok(agent("bob"), vec![in_conversation("bob", "alice", "c1", "which?")]).await;
    assert_eq!((answers(&bench), bench.claim("alice", 9).await.len()), (vec![], 1));
    bench.commit_ok(agent("bob"), vec![answer("bob", "alice", first.id, "1")]).await;
    assert_eq!(answers(&bench), vec![(1, Ok("1".into()))]);
    // Only one request is left. Repeating the response returns the same result, even long after the request has ended.
    let message = Message { payload: payload("2"), ..with_client_id("alice", "m-1", "2") };
    let kind = MessageType::Response;
    let only = || Message { kind, correlation_id: Some("c1".into()), ..message.clone() };
    let receipt = bench.commit_ok(agent("bob"), vec![send("bob", only())]).await;
    assert!(matches!(receipt.results[0], OpResult::Replied { late: false, .. }));
    assert_eq!(answers(&bench), vec![(2, Ok("2".into()))]);
    for _ in 0..2 {
        let again = bench.commit_ok(agent("bob"), vec![send("bob", only())]).await;
        assert_eq!((again.seq, &again.results), (None, &receipt.results));
        bench.reopen().await;
    }
}

pub async fn d5_a_request_times_out(bench: TestBench) {
    bench.register_all(&["alice", "bob", "carol"]).await;
    let command = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    let query = Message { kind: MessageType::Query, ..message_to("bob") };
    let query = submit(&bench, "alice", send_request("alice", query, 2)).await;
    let several =
        submit(&bench, "alice", send_request("alice", message_to_several(&["bob", "carol"]), 3)).await;
    for (seconds, waiter, request) in [(1, 3, several.id), (4, 2, query.id), (25, 1, command.id)] {
        bench.advance_secs(seconds);
        bench.sweep().await;
        assert_eq!(answers(&bench), vec![(waiter, Err(Code::Timeout))]);
        assert_eq!(read_request(&bench, request).await.state, RequestState::TimedOut);
    }
    assert!(bench.claim("bob", 10).await.is_empty(), "unclaimed questions are withdrawn");
    assert!(inspect(&bench, "bob").await.agent.presence.available, "an agent that acts is available again");
}

pub async fn d5_a_late_answer_is_recorded_but_not_delivered(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let request = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    bench.advance_secs(30);
    bench.sweep().await;
    answers(&bench);
    let receipt = bench.commit_ok(agent("bob"), vec![answer("bob", "alice", request.id, "late")]).await;
    let OpResult::Replied { id, late: true } = receipt.results[0] else { panic!("not a late reply") };
    assert!(answers(&bench).is_empty() && bench.claim("alice", 1).await.is_empty());
    let stored = bench.read(ReadQuery::Message { seq: id.seq, n: id.n }).await;
    assert!(
        matches!(stored, ReadResult::Message(Some(stored)) if stored.recipients.is_empty()),
        "the answer is recorded"
    );
}

pub async fn d4_a_request_is_cancelled_by_its_requester(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let request = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    let cancel = || vec![Op::CancelRequest { request: request.id }];
    bench.commit_refused_with(Code::NotFound, agent("bob"), cancel()).await;
    bench.commit_ok(agent("alice"), cancel()).await;
    assert_eq!(answers(&bench), vec![(1, Err(Code::Cancelled))]);
    assert!(bench.claim("bob", 1).await.is_empty());
    assert_eq!(bench.commit_ok(agent("alice"), cancel()).await.seq, None, "cancelling twice is a no-op");
}

pub async fn i3_every_waiter_of_a_request_receives_the_same_answer(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let await_request = |request, waiter| vec![Op::AwaitRequest { request, consumer: ConsumerId(waiter) }];
    let request = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    for waiter in 2..=4 {
        bench.commit_ok(agent("alice"), await_request(request.id, waiter)).await;
    }
    bench.commit_ok(Principal::System, vec![Op::CloseConsumer { consumer: ConsumerId(3) }]).await;
    bench.commit_ok(agent("bob"), vec![answer("bob", "alice", request.id, "42")]).await;
    assert_eq!(answers(&bench), [1, 2, 4].map(|waiter| (waiter, Ok("42".to_owned()))));
    // Beyond the limit of waiters, the oldest waiter is refused.
    let max = limits::REQUEST_LISTENERS_MAX as u64;
    let request = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    for waiter in 2..=max {
        bench.commit_ok(agent("alice"), await_request(request.id, waiter)).await;
    }
    assert!(answers(&bench).is_empty());
    bench.commit_ok(agent("alice"), await_request(request.id, max + 1)).await;
    assert_eq!(answers(&bench), [(1, Err(Code::Conflict))]);
    bench.advance_secs(30);
    bench.sweep().await;
    assert_eq!(answers(&bench), (2..=max + 1).map(|waiter| (waiter, Err(Code::Timeout))).collect::<Vec<_>>());
}

pub async fn d4_an_open_request_survives_a_restart(mut bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    let request = submit(&bench, "alice", send_request("alice", message_to("bob"), 1)).await;
    bench.advance_secs(20);
    bench.reopen().await;
    bench.advance_secs(29);
    bench.sweep().await;
    assert_eq!(
        read_request(&bench, request.id).await.state,
        RequestState::Waiting,
        "the timeout restarts with its full duration"
    );
    let await_op = Op::AwaitRequest { request: request.id, consumer: ConsumerId(2) };
    bench.commit_ok(agent("alice"), vec![await_op]).await;
    bench.commit_ok(agent("bob"), vec![answer("bob", "alice", request.id, "yes")]).await;
    assert_eq!(answers(&bench), vec![(2, Ok("yes".into()))]);
}

pub async fn d6_an_agent_is_offline_after_three_missed_heartbeats(bench: TestBench) {
    bench.register("alice").await;
    register_with_heartbeat(&bench, "bob", "cook").await;
    bench.send("alice", "bob").await;
    let (wait, lease_ms) = (WaitMode::NoWait, 600_000);
    let claim = Op::Claim { agent: id("bob"), max: 1, lease_ms, wait };
    let held = claimed(&bench.commit_ok(agent("bob"), vec![claim]).await).remove(0);
    bench.advance_secs(29);
    assert_eq!(
        bench.commit_ok(agent("bob"), vec![heartbeat("bob")]).await.seq,
        None,
        "a heartbeat leaves no record"
    );
    bench.advance_secs(29);
    bench.sweep().await;
    assert_eq!(inspect(&bench, "bob").await.status, AgentStatus::Working);
    bench.advance_secs(1);
    bench.sweep().await;
    let offline = inspect(&bench, "bob").await;
    assert_eq!(
        (offline.status, offline.leased_deliveries, offline.open_deliveries),
        (AgentStatus::Offline, 1, 1),
        "it keeps its leases"
    );
    bench.commit_ok(agent("bob"), vec![ack(&held)]).await;
    assert_eq!(inspect(&bench, "bob").await.status, AgentStatus::Idle);
}

pub async fn d6_the_sender_chooses_what_happens_if_the_recipient_is_unavailable(bench: TestBench) {
    bench.register("alice").await;
    register_with_heartbeat(&bench, "bob", "cook").await;
    register_with_heartbeat(&bench, "carol", "cook").await;
    bench.advance_secs(29);
    bench.commit_ok(agent("carol"), vec![heartbeat("carol")]).await;
    bench.advance_secs(1);
    bench.sweep().await;
    let to_bob = |if_unavailable| Message { if_unavailable, ..message_to("bob") };
    bench
        .commit_refused_with(
            Code::Unavailable,
            agent("alice"),
            vec![send("alice", to_bob(IfUnavailable::Fail))],
        )
        .await;
    bench.send_as("alice", to_bob(IfUnavailable::Redirect)).await;
    bench.send_as("alice", to_bob(IfUnavailable::Queue)).await;
    assert_eq!(
        (inspect(&bench, "carol").await.open_deliveries, inspect(&bench, "bob").await.open_deliveries),
        (1, 1)
    );
}

pub async fn d7_a_new_epoch_holds_no_leases(bench: TestBench) {
    bench.register_all(&["alice", "bob"]).await;
    bench.send("alice", "bob").await;
    bench.claim_one("bob").await;
    submit(&bench, "bob", send_request("bob", message_to("alice"), 7)).await;
    bench.register("bob").await;
    assert_eq!(bench.dismissed_consumers(), vec![ConsumerId(7)], "waiters of the old epoch are dismissed");
    assert_eq!(inspect(&bench, "bob").await.leased_deliveries, 0);
    assert_eq!(bench.claim("bob", 1).await.len(), 1, "immediately");
}

pub async fn d8_a_deadlock_across_requests_locks_and_tasks_is_detected(bench: TestBench) {
    bench.register_all(&["alice", "carol"]).await;
    let worker = RegisterAgent { capabilities: vec!["w".into()], ..RegisterAgent::named(id("bob")) };
    bench.commit_ok(agent("bob"), vec![Op::RegisterAgent(worker)]).await;
    let task = TaskId::new("t1").expect("valid id");
    let tasks = vec![NewTask { id: Some(task.clone()), ..NewTask::new("w") }];
    bench.commit_ok(Principal::System, vec![Op::CreateTasks(CreateTasks { tasks, inputs: None })]).await;
    let take = ClaimTasks { agent: id("bob"), types: vec![], max: 1, lease_ms: None, wait: WaitMode::NoWait };
    bench.commit_ok(agent("bob"), vec![Op::ClaimTasks(take)]).await;
    let lock = |agent_id: &str, wait| {
        Op::AcquireLocks(AcquireLocks {
            agent: id(agent_id),
            names: vec![LockName::new("x").expect("valid name")],
            ttl_ms: limits::LEASE_MS_DEFAULT,
            priority: Priority::NORMAL,
            capacity: None,
            wait,
            within: None,
        })
    };
    bench.commit_ok(agent("alice"), vec![lock("alice", WaitMode::NoWait)]).await;
    let wait = AwaitTask { agent: id("alice"), task, within: None, consumer: ConsumerId(1) };
    bench.commit_ok(agent("alice"), vec![Op::AwaitTask(wait)]).await;
    submit(&bench, "bob", send_request("bob", message_to("carol"), 2)).await;
    bench.claim_one("carol").await;
    bench.commit_ok(agent("carol"), vec![lock("carol", WaitMode::Once(ConsumerId(3)))]).await;
    bench.advance_secs(1);
    bench.sweep().await;
    let events = bench.consumer_events();
    let [(ConsumerId(3), ConsumerEvent::Refused(refused))] = &events[..] else {
        panic!("not the youngest wait: {events:?}")
    };
    let cycle: Vec<_> = refused.facts.cycle.iter().map(|edge| edge.agent.as_str()).collect();
    assert_eq!((refused.code, cycle), (Code::Deadlock, vec!["carol", "alice", "bob"]));
}
