//! Tests of task explanations.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroU64;
use std::sync::Arc;

use super::*;
use crate::codec::read_item;
use crate::ids::{LeaseToken, Seq};
use crate::item::{Item, ItemKind};
use crate::task::{TaskFailure, TaskLease};

fn task(state: TaskState, attempt: u16) -> Task {
    // The minimal encoded task: an id, no attempts, ready.
    let Item::Task(task) = read_item(ItemKind::Task, b"\x03\x01\x01t\x00\x01\x00\x00\x00\x00").unwrap()
    else {
        panic!("not a task")
    };
    Task { state, attempt, ..task }
}

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

fn leased(attempt: u16) -> Task {
    let lease = TaskLease {
        by: AgentNo(2),
        token: LeaseToken(1),
        length_ms: NonZeroU64::new(30_000).unwrap(),
        ready_since: Timestamp(0),
        since: Timestamp(1_000),
    };
    task(TaskState::Leased(lease), attempt)
}

#[test]
fn c4_a_blocked_task_names_its_dependencies() {
    let why = task(TaskState::Blocked { held_by: vec![] }, 0).why(vec![id("a")], Timestamp(0));
    assert_eq!(why.waits_for, TaskWaitsFor::Tasks(vec![id("a")]));
    assert_eq!((why.next, why.at), (TaskNext::Starts, None));
    let held = task(TaskState::Blocked { held_by: vec![id("b")] }, 0).why(vec![id("b")], Timestamp(0));
    assert_eq!((held.waits_for, held.next), (TaskWaitsFor::Tasks(vec![id("b")]), TaskNext::Stays));
}

#[test]
fn c4_a_ready_task_waits_for_a_claim() {
    let mut ready = task(TaskState::Ready { since: Timestamp(0) }, 0);
    Arc::make_mut(&mut ready.spec).task_type = "review".into();
    let why = ready.why(vec![], Timestamp(0));
    assert_eq!((why.waits_for, why.next), (TaskWaitsFor::Capability("review".into()), TaskNext::IsClaimed));
    Arc::make_mut(&mut ready.spec).agent = Some(AgentNo(7));
    assert_eq!(ready.why(vec![], Timestamp(0)).waits_for, TaskWaitsFor::Agent(AgentNo(7)));
}

#[test]
fn c9_a_scheduled_task_states_when_it_becomes_ready() {
    let why = task(TaskState::Scheduled { due: Timestamp(5_000) }, 1).why(vec![], Timestamp(0));
    assert_eq!((why.waits_for, why.next), (TaskWaitsFor::Time, TaskNext::BecomesReady));
    assert_eq!(why.at, Some(Timestamp(5_000)));
}

#[test]
fn i9_a_leased_task_states_its_expiry_and_what_follows() {
    let why = leased(1).why(vec![], Timestamp(2_000));
    assert_eq!((why.waits_for, why.next), (TaskWaitsFor::Agent(AgentNo(2)), TaskNext::IsRedelivered));
    assert_eq!(why.at, Some(Timestamp(31_000)));
    assert_eq!(leased(4).why(vec![], Timestamp(2_000)).next, TaskNext::Fails);
    // Past its expiry and still leased: a heartbeat extended it, at the latest just now.
    assert_eq!(leased(1).lease_expires_at(Timestamp(40_000)), Some(Timestamp(70_000)));
}

#[test]
fn i9_an_ended_task_waits_for_nothing() {
    let failure = TaskFailure { seq: Seq(1), at: Timestamp(0), failed_dependency: None };
    let why = task(TaskState::Failed(failure), 4).why(vec![], Timestamp(0));
    assert_eq!((why.waits_for, why.next, why.at), (TaskWaitsFor::Nothing, TaskNext::Nothing, None));
}

// Fails under: only holder-reported reasons rendered, or the reason of an earlier attempt rendered for a done task.
#[test]
fn c4_a_task_without_a_result_states_the_reason() {
    use crate::ids::LeaseToken;
    use crate::inspect::TaskInspection;
    use crate::task::{AttemptFailure, AttemptFailureKind, Cancellation};
    use crate::why::Why;
    let present = TaskInspection::default();
    let sentence =
        |task: &Task| Why::of_task(task, &present, vec![], |_| String::new(), Timestamp(0)).summary;
    let (seq, at) = (Seq(1), Timestamp(0));
    let failed = |failed_dependency| task(TaskState::Failed(TaskFailure { seq, at, failed_dependency }), 0);
    assert_eq!(sentence(&failed(Some(id("a")))), "failed: its dependency a failed");
    assert_eq!(sentence(&failed(None)), "failed");
    let reason = "no disk".to_owned();
    let cancelled = Cancellation { seq, at, by: None, reason: "not needed".into(), token: None };
    assert_eq!(sentence(&task(TaskState::Cancelled(Box::new(cancelled)), 0)), "cancelled: not needed");
    let (kind, by, token) = (AttemptFailureKind::Failed, AgentNo(2), LeaseToken(1));
    let failure = AttemptFailure { kind, by, token, attempt: 1, seq, at, reason, details: None };
    assert_eq!(sentence(&Task { last_failure: Some(Box::new(failure)), ..failed(None) }), "failed: no disk");
}

// Fails under: redelivery announced after the last attempt; a claim expected from the holder; the time left out.
#[test]
fn c4_a_task_is_explained_in_a_sentence_like_a_message() {
    use crate::inspect::TaskInspection;
    use crate::why::{NextTransition, WaitsFor, Why};
    let present = TaskInspection::default();
    let name = |agent: AgentNo| format!("agent{agent}");
    let mut first = leased(1);
    Arc::make_mut(&mut first.spec).attempts_max = 2;
    let why = Why::of_task(&first, &present, vec![], name, Timestamp(2_000));
    assert_eq!((&*why.state, &why.waits_for), ("leased", &WaitsFor::Ack("agent2".into())));
    assert_eq!((why.next, why.next_at), (NextTransition::IsRedelivered, Some(Timestamp(31_000))));
    assert_eq!(
        why.summary,
        "leased to agent2 since 00:00:01 (attempt 1 of 2); without a heartbeat by 00:00:31 it is redelivered"
    );
    let last = Task { attempt: 2, ..first };
    assert_eq!(Why::of_task(&last, &present, vec![], name, Timestamp(2_000)).next, NextTransition::Fails);
    let blocked = task(TaskState::Blocked { held_by: vec![] }, 0);
    let why = Why::of_task(&blocked, &present, vec![id("a"), id("b")], name, Timestamp(0));
    assert_eq!(
        (why.next, why.summary.as_str()),
        (NextTransition::Starts, "blocked; starts when these tasks are done: a, b")
    );
    let mut ready = task(TaskState::Ready { since: Timestamp(0) }, 1);
    Arc::make_mut(&mut ready.spec).task_type = "review".into();
    let why = Why::of_task(&ready, &present, vec![], name, Timestamp(0));
    assert_eq!(why.waits_for, WaitsFor::Claim("can:review".into()));
}

// Fails under: a gone holder left out; a claim expected though nobody can make one; the recorded end in place of the current.
#[test]
fn n5_a_task_states_which_agents_are_gone() {
    use crate::inspect::TaskInspection;
    use crate::presence::{Absence, AbsentAgent};
    use crate::why::{WaitsFor, Why};
    let gone = |name: &str, absence| AbsentAgent { agent: name.parse().unwrap(), absence };
    let why = |task: &Task, lease_until, absent: Vec<AbsentAgent>| {
        let inspection = TaskInspection { lease_until, absent: Some(absent) };
        Why::of_task(task, &inspection, vec![], |_| "bob".into(), Timestamp(2_000))
    };
    let held = why(&leased(1), Some(Timestamp(90_000)), vec![gone("bob", Absence::Offline)]);
    assert_eq!(
        held.summary,
        "leased to bob since 00:00:01 (attempt 1 of 4); without a heartbeat by 00:01:30 it is redelivered; bob is offline"
    );
    assert_eq!(held.next_at, Some(Timestamp(90_000)));
    let mut ready = task(TaskState::Ready { since: Timestamp(0) }, 0);
    Arc::make_mut(&mut ready.spec).task_type = "review".into();
    let nobody = why(&ready, None, vec![]);
    assert_eq!(
        nobody.summary,
        "ready since 00:00:00 (attempts used 0 of 4); no agent has the capability review, so it stays queued"
    );
    let absent = vec![
        gone("ann", Absence::Disconnected(Timestamp(1_000))),
        gone("bob", Absence::BeforeRestart(Timestamp(0))),
    ];
    let all_gone = why(&ready, None, absent.clone());
    assert_eq!(
        all_gone.summary,
        "ready since 00:00:00 (attempts used 0 of 4); ann disconnected at 00:00:01, \
         bob has not been seen since the restart at 00:00:00, so it stays queued"
    );
    assert_eq!(all_gone.waits_for, WaitsFor::Claim("can:review".into()));
    Arc::make_mut(&mut ready.spec).agent = Some(AgentNo(2));
    let named = why(&ready, None, vec![gone("bob", Absence::Removed)]);
    assert!(named.summary.ends_with("; bob was removed, so it stays queued"), "{}", named.summary);
    assert_eq!(named.waits_for, WaitsFor::Return("bob".into()));
}
