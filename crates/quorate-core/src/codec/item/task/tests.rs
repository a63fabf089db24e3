//! Golden tests of the encoding of tasks. Changing their expectations breaks every existing log.
#![allow(clippy::unwrap_used)]

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::codec::{read_item, write_item};
use crate::hex::encode as hex;
use crate::item::{Item, ItemKind};

fn spec() -> TaskSpec {
    TaskSpec {
        id: "t-1".parse().unwrap(),
        number: TaskNo { seq: Seq(300), n: 2 },
        created_at: Timestamp(1_800_000_000_000),
        creator: Some(AgentNo(3)),
        task_type: "review".into(),
        agent: Some(AgentNo(4)),
        input: Some(TaskInput { part: 1, start: 10, length: 20 }),
        content_type: Some("text/plain".into()),
        priority: Priority { level: 2, rank: 8 },
        depends_on: vec!["a".parse().unwrap(), "tsk_0-3-1".parse().unwrap()],
        timeout_ms: NonZeroU64::new(300_000),
        lease_ms: NonZeroU64::new(5_000).unwrap(),
        attempts_max: 6,
        backoff_ms: 500,
        on_dependency_failure: OnDependencyFailure::Skip,
        escalate: EscalationTarget::Agent(AgentNo(5)),
        session: Some("ses_1".into()),
    }
}

/// A task with default values except its type.
fn plain() -> TaskSpec {
    let spec = read_spec(&mut Reader::new(b"\x01\x01t")).unwrap();
    TaskSpec { task_type: "x".into(), number: TaskNo { seq: Seq(9), n: 0 }, created_at: Timestamp(7), ..spec }
}

fn completion() -> Box<Completion> {
    Box::new(Completion {
        by: AgentNo(4),
        token: LeaseToken(77),
        seq: Seq(305),
        at: Timestamp(1_800_000_005_000),
        result: Some(PartRef { seq: Seq(305), part: 1 }),
        content_type: Some("text/plain".into()),
        confidence: Some(0.75),
        rationale: Some("because".into()),
    })
}

fn every_state() -> Vec<TaskState> {
    let lease = TaskLease {
        by: AgentNo(4),
        token: LeaseToken(77),
        length_ms: NonZeroU64::new(30_000).unwrap(),
        ready_since: Timestamp(1_800_000_000_500),
        since: Timestamp(1_800_000_001_000),
    };
    let (seq, at) = (Seq(305), Timestamp(1_800_000_005_000));
    let cancellation =
        Cancellation { seq, at, by: Some(AgentNo(3)), reason: "late".into(), token: Some(LeaseToken(77)) };
    let message = MessageId { generation: Generation(1), seq, n: 2 };
    vec![
        TaskState::Blocked { held_by: vec!["a".parse().unwrap()] },
        TaskState::Ready { since: at },
        TaskState::Scheduled { due: at },
        TaskState::Leased(lease),
        TaskState::AwaitingApproval { approval: "apr_1".into() },
        TaskState::Done(completion()),
        TaskState::Partial(Box::new(Completion {
            result: None,
            content_type: None,
            confidence: None,
            rationale: None,
            ..*completion()
        })),
        TaskState::Failed(TaskFailure { seq, at, failed_dependency: Some("a".parse().unwrap()) }),
        TaskState::Cancelled(Box::new(cancellation)),
        TaskState::Escalated(Escalation { at, message }),
    ]
}

fn failure(kind: AttemptFailureKind) -> AttemptFailure {
    AttemptFailure {
        kind,
        by: AgentNo(4),
        token: LeaseToken(76),
        attempt: 1,
        seq: Seq(304),
        at: Timestamp(1_800_000_004_000),
        reason: "busy".into(),
        details: Some(PartRef { seq: Seq(304), part: 0 }),
    }
}

/// A task in each state, with every field set.
fn every_task() -> Vec<Task> {
    let part = PartRef { seq: Seq(303), part: 0 };
    let full = Task {
        spec: Arc::new(spec()),
        attempt: 2,
        state: TaskState::Ready { since: Timestamp(0) },
        last_failure: Some(Box::new(failure(AttemptFailureKind::Failed))),
        partials: vec![TaskPartial { attempt: 1, at: Timestamp(1_800_000_003_000), part }],
        missing: vec!["b".parse().unwrap()],
    };
    let each = every_state().into_iter().map(|state| Task { state, ..full.clone() });
    let failures =
        FAILURE_KINDS.map(|kind| Task { last_failure: Some(Box::new(failure(kind))), ..full.clone() });
    each.chain(failures).collect()
}

#[test]
fn the_bytes_of_a_task_never_change() {
    let lines: Vec<String> =
        every_task().into_iter().map(|task| hex(&write_item(&Item::Task(task)))).collect();
    expect![[r#"
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a1402000101610100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a14020188c7f1c2b1340100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a14020288c7f1c2b1340100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140203044db0ea01f4a3f1c2b134e8a7f1c2b1340100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140204056170725f310100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140205044db10288c7f1c2b134b202010a746578742f706c61696e81808080808080f43f07626563617573650100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140206044db10288c7f1c2b13400000000000100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140207b10288c7f1c2b13401610100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140208b10288c7f1c2b13404046c6174654e0100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a14020988c7f1c2b13401b102020100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140201000100044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140201000101044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140201000102044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140201000103044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162
        550103742d310606726576696577090a746578742f706c61696e0b01610b0974736b5f302d332d3112057365735f3102ac0203020480a0f1c2b134050307040a88040ce0a7120d88270e060ff4031001110508010a140201000104044c01b002a0bff1c2b1340462757379010101b8b7f1c2b134af0200010162"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn default_values_take_no_bytes() {
    let state = TaskState::Ready { since: Timestamp(7) };
    let (last_failure, partials, missing) = (None, Vec::new(), Vec::new());
    let task = Task { spec: Arc::new(plain()), attempt: 0, state, last_failure, partials, missing };
    expect!["0a01017406017802090407000107000000"].assert_eq(&hex(&write_item(&Item::Task(task))));
}

#[test]
fn a_task_round_trips() {
    for task in every_task() {
        let item = Item::Task(task);
        assert_eq!(read_item(ItemKind::Task, &write_item(&item)).unwrap(), item);
    }
}

#[test]
fn i9_a_lease_without_a_duration_is_rejected() {
    let leased = every_task().swap_remove(3);
    let mut bytes = write_item(&Item::Task(leased));
    let length = [0xb0, 0xea, 0x01];
    let at = bytes.windows(3).position(|window| window == length).unwrap();
    bytes.splice(at..at + 3, [0]);
    assert_eq!(read_item(ItemKind::Task, &bytes).unwrap_err().expected, "a non-zero duration");
}

#[test]
fn results_of_tasks_round_trip() {
    use crate::commit::OpResult;
    use crate::task::LeasedTask;
    let leased = LeasedTask { task: every_task().swap_remove(3), input: None };
    let results = vec![
        OpResult::TasksCreated { generation: Generation(1), seq: Seq(2), first: 3, count: 10_000 },
        OpResult::TasksClaimed(vec![leased.clone(), leased]),
        OpResult::TaskAccepted { seq: Seq(8), token: LeaseToken(9) },
    ];
    let bytes = crate::codec::write_results(&results);
    assert_eq!(crate::codec::read_results(&bytes).unwrap(), results);
}

proptest! {
    #[test]
    fn corrupt_tasks_do_not_panic(index in 0usize..15, at in 0usize..200, with: u8, cut in 0usize..200) {
        let mut bytes = write_item(&Item::Task(every_task().swap_remove(index)));
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
        bytes.truncate(cut);
        // Either result is fine, as long as it does not panic.
        let _ = read_item(ItemKind::Task, &bytes);
        let _ = crate::codec::read_results(&bytes);
    }
}
