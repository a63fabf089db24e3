//! Round trips of every operation that a client can commit.

use std::collections::BTreeSet;

use bytes::Bytes;
use quorate_core::{
    AcquireLocks, AddToSession, AgentRole, AgentStatus, CancelTask, ChangeSession, CompleteTask,
    ContributionKind, ControlProcedure, CreateTasks, DecideApproval, DeclarationDigest, DeleteEntry,
    Dependency, Destination, Durability, Epoch, EscalateTo, Extend, FailTask, Fence, FenceRef, Health,
    Heartbeat as CoreHeartbeat, HeartbeatTask, IfUnavailable, LeaseRef, LeaseToken, MakeSnapshot, Message,
    MessageType, Nack, NackAction, NewTask as CoreNewTask, OnDependencyFailure, OpenSession, Payload, Policy,
    Priority, ProcedureControl, ProcedureStatus, PutEntry, RegisterAgent, RenewLocks, RequestApproval,
    Rollback as CoreRollback, RollbackScope, RollbackTarget, Secret, SessionChange as Change, SetBudget,
    SignalProcedure, StartProcedure, StepProcedure, Subscribe, TaskLeaseRef, TaskStatus, Timestamp, Verdict,
    Version, WaitMode,
};

use super::*;
use crate::canonical::action_document;
use crate::parse_context::{Defaults, Seal};
use crate::request_body::parse;
use crate::task::NewTask;

/// Seals with a fixed salt, so that equal bytes yield equal payloads.
struct FixedSeal;

impl Seal for FixedSeal {
    fn seal(&self, bytes: Bytes) -> Payload {
        Payload::seal(bytes, [7; 16])
    }

    fn seal_message(&self, _: &str, _: Option<&str>, bytes: Bytes) -> Payload {
        self.seal(bytes)
    }

    fn salt(&self) -> [u8; 16] {
        [7; 16]
    }

    fn generate_secret(&self) -> Secret {
        Secret::from_random([7; 32])
    }
}

fn sealed(text: &'static str) -> Payload {
    FixedSeal.seal(Bytes::from_static(text.as_bytes()))
}

fn id<T: std::str::FromStr<Err = Refused>>(text: &str) -> T {
    text.parse().unwrap()
}

fn graph(create: &CreateTasks) -> Result<TaskGraph<'static>, Refused> {
    let dependencies = |task: &CoreNewTask| {
        let ids = task.depends_on.iter().filter_map(|dependency| match dependency {
            Dependency::Task(id) => Some(id.clone()),
            Dependency::Index(_) => None,
        });
        ids.collect()
    };
    let new_task = |task: &CoreNewTask| {
        NewTask::new(task, task.id.clone(), dependencies(task), create.input_of(task).as_deref())
    };
    Ok(TaskGraph { tasks: create.tasks.iter().map(new_task).collect::<Result<_, _>>()? })
}

fn serialize(op: &Op) -> String {
    serialize_op(op, graph).unwrap().get().to_owned()
}

fn parse_back(text: &str) -> Op {
    let body = Bytes::copy_from_slice(text.as_bytes());
    // The defaults must not be used: the serialized form contains every value.
    let context = ParseContext {
        body: &body,
        agent: None,
        defaults: Defaults { lease_ms: 1, heartbeat_ms: 1 },
        seal: &FixedSeal,
        secrets: None,
    };
    parse_op(parse(&body).unwrap(), &context).unwrap()
}

fn fence() -> FenceRef {
    FenceRef { lock: id("build"), fence: Fence(5) }
}

fn lease() -> LeaseRef {
    LeaseRef { delivery: id("dlv_0-9"), token: LeaseToken(4) }
}

fn task_lease() -> TaskLeaseRef {
    TaskLeaseRef { task: id("t1"), token: LeaseToken(6) }
}

fn message() -> Message {
    let mut message = Message::new(id::<Destination>("topic:news"), "report", sealed(r#"{"b": 1.0,"a":[]}"#));
    message.from = Some(id("alice"));
    message.client_id = Some(id("m-1"));
    message.kind = MessageType::Event;
    message.priority = Priority::HIGH;
    message.durability = Durability::Durable;
    message.expires_at = Some(Timestamp(2_000));
    message.deliver_at = Some(Timestamp(1_000));
    message.attempts_max = 9;
    message.reply_to = Some(id("bob"));
    message.in_reply_to = Some("msg_0-1-0".to_owned());
    message.correlation_id = Some("c".to_owned());
    message.causation_id = Some("msg_0-1-1".to_owned());
    message.session_id = Some("s".to_owned());
    message.budget = Some("b".to_owned());
    message.hops = 3;
    message.max_hops = Some(40);
    message.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    message.origin = Some("elsewhere".to_owned());
    message.confidence = Some(0.5);
    message.rationale = Some("because".to_owned());
    message.metadata = Some(r#"{"z":1, "a":2}"#.to_owned());
    message.if_unavailable = IfUnavailable::ALL[1];
    message
}

fn text_message() -> Message {
    let mut message = Message::new(id::<Destination>("bob"), "say", sealed("plain words"));
    message.content_type = Some("text/plain".to_owned());
    message
}

fn binary_message() -> Message {
    let mut message = Message::new(id::<Destination>("bob"), "store", sealed("\u{0}\u{1}bytes"));
    message.content_type = Some("application/octet-stream".to_owned());
    message
}

fn messages_and_deliveries() -> Vec<Op> {
    let nack = |action| Op::Nack(Nack { lease: lease(), action, reason: "busy".to_owned() });
    vec![
        Op::send(message()),
        Op::send(text_message()),
        Op::send(binary_message()),
        Op::Ack(lease()),
        Op::AckMany(vec![lease(), LeaseRef { delivery: id("dlv_0-10"), token: LeaseToken(1) }]),
        nack(NackAction::Retry { delay_ms: Some(70) }),
        nack(NackAction::Retry { delay_ms: None }),
        nack(NackAction::Release),
        nack(NackAction::DeadLetter),
        Op::Extend(Extend { lease: lease(), lease_ms: 12_000 }),
        Op::Redrive { delivery: id("dlv_0-3") },
        Op::Purge { agent: id("alice") },
        Op::CancelRequest { request: id("msg_0-4-0") },
    ]
}

fn memory() -> Vec<Op> {
    let rollback = |scope, target| Op::Rollback(CoreRollback { scope, target, fence: Some(fence()) });
    let prefix = || RollbackScope::Prefix("plan/".to_owned());
    vec![
        Op::Put(PutEntry {
            key: id("plan"),
            entry_type: "plan".to_owned(),
            content: sealed(r#"[1, 2.50]"#),
            content_type: None,
            expect: Some(Version(0)),
            depends_on: vec![id("goal")],
            fence: Some(fence()),
        }),
        Op::Delete(DeleteEntry { key: id("plan"), expect: Some(Version(2)), fence: Some(fence()) }),
        rollback(
            RollbackScope::Key { key: id("plan"), expect: Some(Version(3)) },
            RollbackTarget::Version(Version(1)),
        ),
        rollback(prefix(), RollbackTarget::Seq(Seq(8))),
        rollback(prefix(), RollbackTarget::Time(Timestamp(5_000))),
        rollback(prefix(), RollbackTarget::Snapshot(id("before"))),
        Op::MakeSnapshot(MakeSnapshot { name: id("before"), prefix: "plan/".to_owned() }),
        Op::DropSnapshot { name: id("before") },
        Op::ErasePayload(ErasePayload { seq: Seq(7), part: 2 }),
    ]
}

fn agents_and_locks() -> Vec<Op> {
    let mut agent = RegisterAgent::named(id("alice"));
    agent.name = "Alice".to_owned();
    agent.role = AgentRole::ALL[1];
    agent.capabilities = vec!["review".to_owned()];
    agent.supported_actions = vec!["look".to_owned()];
    agent.epoch = Some(Epoch(3));
    agent.heartbeat_ms = 4_000;
    agent.declaration = Some(DeclarationDigest::of(b"cmd:cat"));
    let health = Health::Degraded("slow".to_owned());
    vec![
        Op::RegisterAgent(agent),
        Op::RemoveAgent { agent: id("alice") },
        Op::Heartbeat(CoreHeartbeat { agent: id("alice"), status: AgentStatus::Working, health }),
        Op::Subscribe(Subscribe { agent: id("alice"), pattern: id("news.*"), history: None }),
        Op::Unsubscribe { agent: id("alice"), pattern: id("news.>") },
        Op::RevokeToken { token: id("tok_0-1-0") },
        Op::AcquireLocks(AcquireLocks {
            agent: id("alice"),
            names: vec![id("build"), id("test")],
            ttl_ms: 9_000,
            priority: Priority::URGENT,
            capacity: Some(2),
            wait: WaitMode::NoWait,
            within: Some(id("dlv_0-9")),
        }),
        Op::RenewLocks(RenewLocks { locks: vec![fence()], ttl_ms: Some(8_000) }),
        Op::ReleaseLocks(vec![fence()]),
        Op::SetBudget(SetBudget { id: id("b"), messages_max: 10, tokens_max: Some(20), money_max: Some(30) }),
        Op::SetPolicy(Policy { actions_max: None, open_tasks_max: 77, ..Policy::supervised() }),
    ]
}

fn tasks() -> Vec<Op> {
    let mut task = CoreNewTask::new("review".to_owned());
    task.id = Some(id("t1"));
    task.agent = Some(id("alice"));
    task.priority = Priority::from_ten_scale(8).unwrap();
    task.depends_on = vec![Dependency::Task(id("t0"))];
    task.timeout_ms = Some(60_000);
    task.lease_ms = 5_000;
    task.attempts_max = 7;
    task.backoff_ms = 250;
    task.on_dependency_failure = OnDependencyFailure::Skip;
    task.escalate_to = EscalateTo::Agent(id("bob"));
    task.session = Some("s".to_owned());
    let mut binary = CoreNewTask::new("scan".to_owned());
    binary.content_type = Some("image/png".to_owned());
    binary.escalate_to = EscalateTo::Nobody;
    let inputs = [(task, Some(br#"{"x": 1}"#.to_vec())), (binary, Some(vec![0, 159, 146, 150]))];
    let mut completed = CompleteTask::done(task_lease(), Some(sealed("\"ok\"")));
    completed.status = TaskStatus::Partial;
    completed.confidence = Some(0.25);
    completed.rationale = Some("because".to_owned());
    completed.fence = Some(fence());
    vec![
        Op::CreateTasks(CreateTasks::pack(inputs, [7; 16])),
        Op::HeartbeatTask(HeartbeatTask { lease: task_lease(), partial: Some(sealed("[1]")) }),
        Op::CompleteTask(completed),
        Op::FailTask(FailTask {
            lease: task_lease(),
            reason: "broken".to_owned(),
            details: Some(sealed("{}")),
            recoverable: false,
        }),
        Op::ReleaseTask(task_lease()),
        Op::CancelTask(CancelTask { task: id("t1"), reason: "obsolete".to_owned() }),
    ]
}

fn sessions() -> Vec<Op> {
    let change =
        |change| Op::ChangeSession(ChangeSession { session: id("s"), change, reason: "because".to_owned() });
    vec![
        Op::OpenSession(OpenSession {
            id: Some(id("s")),
            coordinator: Some(id("alice")),
            participants: vec![id("bob")],
            title: "Review".to_owned(),
            task: Some(sealed("{\"a\": 1}")),
        }),
        change(Change::Pause),
        change(Change::Resume),
        change(Change::Complete),
        change(Change::Fail),
        change(Change::Join(id("bob"))),
        change(Change::Leave(id("bob"))),
        Op::AddToSession(AddToSession {
            session: id("s"),
            kind: ContributionKind::Finding,
            body: sealed("0x00"),
            content_type: Some("application/octet-stream".to_owned()),
            rationale: "because".to_owned(),
        }),
    ]
}

fn approvals_and_procedures() -> Vec<Op> {
    let document = action_document("deploy", br#"{"to":"production"}"#).unwrap();
    let decide = |verdict| {
        Op::DecideApproval(Box::new(DecideApproval {
            approval: id("a1"),
            verdict,
            digest: id(&"ab".repeat(32)),
            reason: "because".to_owned(),
        }))
    };
    vec![
        Op::RequestApproval(Box::new(RequestApproval {
            id: Some(id("a1")),
            agent: Some(id("alice")),
            action: "deploy".to_owned(),
            document: FixedSeal.seal(document),
            rationale: Some("because".to_owned()),
            confidence: Some(0.75),
            priority: Priority::LOW,
            timeout_ms: 90_000,
            default: "wait".to_owned(),
            session: Some("s".to_owned()),
            follow_ups: vec![(id("bob"), "run".to_owned())],
        })),
        decide(Verdict::Approve),
        decide(Verdict::Reject),
        decide(Verdict::Modify { patch: sealed("[]"), document: None }),
        Op::StartProcedure(StartProcedure {
            id: Some(id("p1")),
            kind: "deliberation".to_owned(),
            driver: Some(id("alice")),
            spec: Some(sealed("{}")),
            parent: Some(id("p0")),
        }),
        Op::StepProcedure(StepProcedure {
            procedure: id("p1"),
            expect: Version(4),
            phase: "vote".to_owned(),
            status: ProcedureStatus::Done,
            state: Some(sealed("{\"round\": 2}")),
            result: Some(sealed("true")),
            reason: String::new(),
        }),
        Op::StepProcedure(StepProcedure {
            status: ProcedureStatus::Stuck,
            reason: "no analyst".to_owned(),
            ..StepProcedure::new(id("p1"), Version(4), "vote")
        }),
        control(ProcedureControl::Pause),
        control(ProcedureControl::Resume),
        control(ProcedureControl::Cancel),
        Op::SignalProcedure(SignalProcedure {
            procedure: id("p1"),
            name: "guidance".to_owned(),
            payload: Some(sealed("{\"focus\": \"cost\"}")),
        }),
    ]
}

fn control(control: ProcedureControl) -> Op {
    Op::ControlProcedure(ControlProcedure { procedure: id("p1"), control, reason: "late".to_owned() })
}

fn all_ops() -> Vec<Op> {
    [messages_and_deliveries(), memory(), agents_and_locks(), tasks(), sessions(), approvals_and_procedures()]
        .into_iter()
        .flatten()
        .collect()
}

// Fails under: an operation that cannot be serialized, or a field that one of the two directions drops.
#[test]
fn every_operation_survives_a_round_trip() {
    let mut names = BTreeSet::new();
    for op in all_ops() {
        let text = serialize(&op);
        let parsed = parse_back(&text);
        assert_eq!(format!("{parsed:?}"), format!("{op:?}"), "{text}");
        // Debug output hides the bytes of payloads; the serialized form does not.
        assert_eq!(serialize(&parsed), text);
        let name = serde_json::from_str::<serde_json::Value>(&text).unwrap()["op"].clone();
        names.insert(name.as_str().unwrap().to_owned());
    }
    let missing: Vec<_> = op_names().filter(|name| !names.contains(*name)).collect();
    // The hub generates the secret of a token: a client sends the fields of `NewToken`, never the core operation.
    assert_eq!(missing, ["token.create"]);
}

#[test]
fn a_list_of_acks_is_one_operation() {
    let Op::AckMany(leases) =
        parse_back(r#"{"op":"ack","deliveries":[{"deliveryId":"dlv_0-9","leaseToken":4}]}"#)
    else {
        panic!("a list must be parsed as AckMany")
    };
    assert_eq!(leases, [lease()]);
}

#[test]
fn operations_of_the_hub_cannot_be_serialized() {
    let refused = serialize_op(&Op::Sweep, graph).unwrap_err();
    assert_eq!(refused.code, Code::Invalid);
    assert!(!refused.hint.is_empty());
}
