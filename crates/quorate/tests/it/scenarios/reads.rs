//! Read models are the same for embedded and remote hubs.

use std::time::Duration;

use quorate::{
    AgentFilter, AgentInfo, AgentRole, AgentStatus, Code, DeliveryStatus, Failure, Health, InboxDelivery,
    MessageFilter, MessageType, PageQuery, Policy, TaskDraft, TaskFilter, TaskStatus, WaitsFor, Work,
};

use super::{SOON, TestHub, next, until_dead};

/// Clears the times that change with every call.
fn without_times(agent: AgentInfo) -> AgentInfo {
    AgentInfo { heard_at: None, offline_at: None, disconnected_at: None, ..agent }
}

// Fails under: a read model that differs between embedded and remote hubs.
pub(crate) async fn agents_and_messages_are_read_the_same(fixture: &TestHub) {
    let (hub, embedded) = (&fixture.hub, &fixture.embedded);
    let alice =
        hub.agent("alice").name("Alice").role(AgentRole::Specialist).capability("cook").capability("bake");
    let alice = alice.heartbeat_interval(Duration::from_secs(30)).join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    alice.report_status(AgentStatus::Working, Health::Degraded("slow today".into())).await.expect("reported");
    let first = alice.send("bob", "greet", "one").id("first").await.expect("sent");
    alice.send_all(["alice", "bob"], "greet", "two").priority(quorate::Priority::HIGH).await.expect("sent");
    let received = next(&bob).await;
    assert_eq!(received.payload::<String>().expect("a text"), "two", "the higher goes first");

    let info = hub.agent_info("alice").await.expect("there");
    assert_eq!(
        (info.name.as_str(), info.role, info.status),
        ("Alice", AgentRole::Specialist, AgentStatus::Working)
    );
    assert_eq!((info.note.as_str(), info.available, info.load.open), ("slow today", true, 1));
    assert_eq!(without_times(info), without_times(embedded.agent_info("alice").await.expect("there")));
    let info = hub.agent_info("bob").await.expect("there");
    assert_eq!((info.load.open, info.load.leased), (2, 1));
    assert!(info.load.current_delivery.is_some());
    let cooks = AgentFilter { capability: Some("cook".into()), ..AgentFilter::default() };
    let found = hub.agents(cooks).await.expect("a list");
    assert_eq!(found.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(), ["alice"]);
    assert_eq!(hub.agents(AgentFilter::default()).await.expect("a list").len(), 2);
    assert_eq!(hub.agent_info("unknown").await.expect_err("unknown").code(), Code::NotFound);

    let inbox = hub.inbox("bob", 10).await.expect("read");
    let ids = |inbox: &[InboxDelivery]| -> Vec<_> {
        inbox.iter().map(|delivery| (delivery.delivery_id, delivery.message_id, delivery.attempt)).collect()
    };
    assert_eq!(ids(&inbox), ids(&embedded.inbox("bob", 10).await.expect("read")));
    assert_eq!(inbox.iter().filter(|delivery| delivery.lease_until.is_some()).count(), 1);
    let outbox = hub.outbox("alice", None, 1).await.expect("read");
    let older = hub.outbox("alice", outbox.cursor, 10).await.expect("read");
    assert_eq!((outbox.messages.len(), older.messages.len(), older.cursor), (1, 1, None));
    assert_eq!(older.messages[0].to_string(), first.id.to_string());

    bob.step(&received).commit().await.expect("done");
    let message = hub.message(&received.id().to_string()).await.expect("there");
    assert_eq!(message, embedded.message(&received.id().to_string()).await.expect("there"));
    let deliveries = &message.more.deliveries;
    let states: Vec<_> = deliveries
        .iter()
        .map(|delivery| (delivery.agent.as_str(), delivery.state, delivery.attempt))
        .collect();
    assert_eq!(states, [("alice", DeliveryStatus::Ready, Some(0)), ("bob", DeliveryStatus::Acked, None)]);
    assert!(deliveries[1].ended_by.is_some());
    assert_eq!(hub.message("first").await.expect("by the id of its sender").message.id, first.id.to_string());
    let events = MessageFilter { kind: Some(MessageType::Event), ..MessageFilter::default() };
    assert_eq!(hub.messages(events, None, 10).await.expect("read").messages.len(), 0);
    let to_alice =
        MessageFilter { to: Some(deliveries[0].agent.parse().expect("an id")), ..MessageFilter::default() };
    let listed = hub.messages(to_alice, None, 10).await.expect("read");
    assert_eq!(
        listed.messages.iter().map(|message| message.id.to_string()).collect::<Vec<_>>(),
        [message.message.id]
    );

    let why = hub.why("first").await.expect("there");
    assert_eq!((&*why.state, &why.waits_for), ("ready", &WaitsFor::Claim("bob".into())));
    assert_eq!(why, embedded.why("first").await.expect("there"));
    assert_eq!(hub.why("nothing").await.expect_err("unknown").code(), Code::NotFound);
    let counts = hub.counts().await.expect("read");
    assert_eq!((counts.ready, counts.acked), (2, 1));
    assert_eq!(counts, embedded.counts().await.expect("read"));
}

// Fails under: a dead letter that cannot be found or redriven; a policy that is read differently than it was set.
pub(crate) async fn dead_letters_and_policies_are_read_the_same(fixture: &TestHub) {
    let (hub, embedded) = (&fixture.hub, &fixture.embedded);
    let never = |_: Work<u64>| async { Err::<(), _>(Failure::permanent("never")) };
    let worker = hub.agent("worker").on("work", never).run().await.expect("it runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    alice.send("worker", "work", 1).await.expect("sent");
    until_dead(embedded, 1).await;
    worker.stop().await.expect("stopped");
    let dead = hub.dead_letters(None, 10).await.expect("read");
    assert_eq!(dead, embedded.dead_letters(Some("worker"), 10).await.expect("read"));
    assert_eq!((dead[0].agent.as_str(), dead[0].reason.as_str(), dead[0].attempts), ("worker", "never", 1));
    assert_eq!(hub.dead_letters(Some("unknown"), 10).await.expect_err("unknown").code(), Code::NotFound);
    hub.redrive(&dead[0]).await.expect("redriven");
    assert!(hub.dead_letters(None, 10).await.expect("read").is_empty());
    assert_eq!(hub.counts().await.expect("read").ready, 1);

    alice.set_budget("tight", 2).await.expect("set");
    alice.send("worker", "work", 2).budget("tight").await.expect("sent");
    let budget = hub.budget("tight").await.expect("read").expect("there");
    assert_eq!((budget.messages_max, budget.messages_used), (2, 1));
    assert_eq!(budget.owner.as_ref().map(|owner| owner.as_str()), Some("alice"));
    assert_eq!(Some(budget), embedded.budget("tight").await.expect("read"));
    hub.set_budget("tight", 1).await.expect("set");
    let error = alice.send("worker", "work", 3).budget("tight").await.expect_err("it is spent");
    assert_eq!(error.code(), Code::BudgetExceeded);
    assert!(hub.budget("none").await.expect("read").is_none());

    assert_eq!(hub.policy().await.expect("read"), Policy::mesh());
    let strict = Policy { actions_max: None, payload_bytes_max: 1_000, ..Policy::supervised() };
    hub.set_policy(strict.clone()).await.expect("set");
    assert_eq!(hub.policy().await.expect("read"), strict);
    assert_eq!(embedded.policy().await.expect("read"), strict);
    let error = alice.send("worker", "work", 4).await.expect_err("agents reach coordinators only");
    assert_eq!(error.code(), Code::PolicyViolation);
    let violations = hub.violations().await.expect("read");
    assert_eq!(violations, embedded.violations().await.expect("read"));
    let found: Vec<_> =
        violations.iter().map(|found| (found.principal.as_str(), found.code, found.count)).collect();
    assert_eq!(found, [("agent:alice", Code::BudgetExceeded, 1), ("agent:alice", Code::PolicyViolation, 1)]);
}

// Fails under: a payload that is refused although the policy allows it, or cut; one that is a byte too large.
pub(crate) async fn payloads_have_the_size_that_the_policy_allows(fixture: &TestHub) {
    let hub = &fixture.hub;
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").join().await.expect("he joins");
    // The quotes are part of the payload.
    let text = |bytes: usize| "x".repeat(bytes - 2);
    let (payload_bytes_max, commit_bytes_max) = (4 * 1024 * 1024, 8 * 1024 * 1024);
    for max in [512 * 1024, payload_bytes_max as usize] {
        alice.send("bob", "work", text(max)).await.expect("sent");
        let received = next(&bob).await;
        assert!(received.payload::<String>().expect("a text") == text(max), "{max}");
        bob.step(&received).commit().await.expect("acked");
        let refused = alice.send("bob", "work", text(max + 1)).await.expect_err("too large");
        assert_eq!(refused.code(), Code::TooLarge);
        let policy = Policy { payload_bytes_max, commit_bytes_max, ..Policy::mesh() };
        hub.set_policy(policy).await.expect("set");
    }
}

// Fails under: a task whose end is not reported; one that is created without its dependencies; a wrong result.
pub(crate) async fn tasks_are_read_and_awaited(fixture: &TestHub) {
    let (hub, embedded) = (&fixture.hub, &fixture.embedded);
    let alice = hub.agent("alice").join().await.expect("she joins");
    let bob = hub.agent("bob").capability("sum").capability("check").join().await.expect("he joins");
    let graph = [
        TaskDraft::new("sum", 1),
        TaskDraft::new("sum", 2).for_agent("bob").max_attempts(1).no_escalation(),
        TaskDraft::new("check", "both").depends_on_index([0, 1]).session("s1"),
    ];
    let ids = alice.create_tasks(graph).await.expect("made");
    let [first, second, third] = &ids[..] else { panic!("three tasks: {ids:?}") };
    let blocked = hub.task(third).await.expect("there");
    assert_eq!(blocked.task.status, TaskStatus::Blocked);
    assert_eq!(blocked.more.blocked_on, [first.clone(), second.clone()]);
    assert_eq!(blocked, embedded.task(third).await.expect("there"));
    let why = hub.why(third.as_str()).await.expect("there");
    assert_eq!(why.waits_for, WaitsFor::Tasks(vec![first.to_string(), second.to_string()]));
    let error = alice.wait_for_task(third, Duration::from_millis(20)).await.expect_err("not yet");
    assert_eq!(error.code(), Code::Timeout);
    assert_eq!(
        hub.wait_for_task(third, Duration::from_millis(20)).await.expect("as it is").task.status,
        TaskStatus::Blocked
    );

    let waiting = {
        let (alice, first) = (alice.clone(), first.clone());
        tokio::spawn(async move { alice.wait_for_task(&first, SOON).await })
    };
    let claimed = bob.claim_task(&["sum"], SOON).await.expect("read").expect("a task");
    assert_eq!((claimed.id(), claimed.task().attempt, claimed.bytes()), (first, 1, &b"1"[..]));
    bob.progress(&claimed, "half").await.expect("kept");
    let held = hub.task(first).await.expect("there");
    assert_eq!(held.task.holder.as_ref().map(|agent| agent.as_str()), Some("bob"));
    assert_eq!(held.more.partials.iter().map(|part| part.as_str()).collect::<Vec<_>>(), ["\"half\""]);
    assert!(held.more.lease_until.is_some());
    bob.complete_task(&claimed, 10).await.expect("done");
    let ended = tokio::time::timeout(SOON, waiting).await.expect("in time").expect("a task").expect("over");
    assert_eq!(
        (ended.task.status, ended.result().expect("bytes").as_deref()),
        (TaskStatus::Done, Some(&b"10"[..]))
    );
    assert_eq!(ended.task.accepted_token, Some(claimed.lease().token));
    assert_eq!(ended, embedded.task(first).await.expect("there"));

    let claimed = bob.claim_task(&[], SOON).await.expect("read").expect("a task");
    assert_eq!(claimed.id(), second);
    bob.fail_task(&claimed, Failure::permanent("too hard")).await.expect("failed");
    let failed = hub.wait_for_task(second, SOON).await.expect("over");
    assert_eq!((failed.task.status, failed.task.reason.as_deref()), (TaskStatus::Failed, Some("too hard")));
    a_cancelled_task_keeps_its_rank(hub, &alice).await;
    assert_eq!(
        hub.task(&"nothing".parse().expect("an id")).await.expect_err("unknown").code(),
        Code::NotFound
    );

    let done = TaskFilter { status: Some(TaskStatus::Done), ..TaskFilter::default() };
    let page = hub.tasks(&done, PageQuery::newest(10)).await.expect("read");
    assert_eq!(page.items.iter().map(|task| &task.id).collect::<Vec<_>>(), [first]);
    let all = TaskFilter::default();
    let page = hub.tasks(&all, PageQuery::newest(2)).await.expect("read");
    let next = PageQuery::newest(10).after(page.cursor);
    let rest = hub.tasks(&all, next.clone()).await.expect("read");
    assert_eq!((page.items.len(), rest.items.len(), &rest.cursor), (2, 2, &None));
    assert_eq!(rest, embedded.tasks(&all, next).await.expect("read"));
    let counts = hub.task_counts().await.expect("read");
    assert_eq!((counts.get(TaskStatus::Done), counts.get(TaskStatus::Cancelled)), (1, 1));
    assert_eq!(counts, embedded.task_counts().await.expect("read"));
}

/// A cancelled task has a reason, and keeps the rank of its priority.
async fn a_cancelled_task_keeps_its_rank(hub: &quorate::Hub, alice: &quorate::Agent) {
    let fourth = alice.create_task(TaskDraft::new("check", ()).id("fourth").priority(8)).await.expect("made");
    alice.cancel_task(&fourth, "not needed").await.expect("cancelled");
    let cancelled = hub.task(&fourth).await.expect("there");
    assert_eq!(cancelled.task.priority(), quorate::Priority::from_ten_scale(8), "the rank is not lost");
    assert_eq!(
        (cancelled.task.status, cancelled.task.reason.as_deref()),
        (TaskStatus::Cancelled, Some("not needed"))
    );
}
