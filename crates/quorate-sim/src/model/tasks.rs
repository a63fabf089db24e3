//! Task steps: generation, display, and resolution to operations.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use quorate_core::{
    AwaitTask, CancelTask, ClaimTasks, CompleteTask, CreateTasks, Dependency, EscalateTo, FailTask,
    HeartbeatTask, LeaseToken, LeasedTask, NewTask, OnDependencyFailure, Op, OpResult, Payload, Priority,
    Task, TaskId, TaskLeaseRef, TaskStatus, WaitMode,
};

use super::plan::{AGENTS, Actor, WaitChoice};
use super::resolve::{agent_id, consumer};
use super::sessions::SESSION_IDS;

/// Task ids of a plan.
pub(super) const TASKS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
const TYPES: [&str; 2] = ["x", "y"];
/// First consumer slot for waits until a task ends.
const AWAIT_SLOT: u64 = 10;

/// Operation on tasks.
#[derive(Clone, Debug)]
pub(super) enum TaskOp {
    Create { tasks: Vec<NewTaskSpec> },
    Claim { agent: usize, types: Vec<usize>, max: u32, lease_ms: Option<u64>, wait: WaitChoice },
    Grant { agent: usize, slot: u64, credit: u32 },
    Close { agent: usize, slot: u64 },
    Heartbeat { lease: TaskLease, partial: bool },
    Complete { lease: TaskLease, partly: bool, result: Option<u8> },
    Fail { lease: TaskLease, hopeless: bool, details: bool },
    Release { lease: TaskLease },
    Cancel { task: usize },
    Await { agent: usize, task: usize, slot: u64 },
    StopAwaiting { agent: usize, slot: u64 },
}

/// Parameters of a new task.
#[derive(Clone, Debug)]
pub(super) struct NewTaskSpec {
    id: Option<usize>,
    /// Type of the task; a task may name an agent instead.
    task_type: Option<usize>,
    agent: Option<usize>,
    dependencies: Vec<PlannedDependency>,
    policy: OnDependencyFailure,
    priority: u8,
    attempts: u16,
    backoff_ms: u64,
    timeout_ms: Option<u64>,
    lease_ms: u64,
    escalate_to: Option<usize>,
    input: Option<u8>,
    session: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum PlannedDependency {
    Id(usize),
    /// The n-th task before this one in the same operation, if there is one.
    Before(usize),
    /// Any task of the same operation, which may create cycles.
    Any(usize),
}

/// Selects a task lease, counted back from the newest.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskLease {
    own: bool,
    held: bool,
    back: usize,
    token_offset: i8,
}

/// Returns the capabilities of an agent that match task types.
pub(super) fn task_capabilities(agent: usize) -> impl Iterator<Item = String> {
    [&["x"][..], &["x", "y"], &["y"], &[]][agent].iter().map(|capability: &&str| (*capability).to_owned())
}

/// Generates task operations of an agent.
pub(super) fn agent_ops(agent: usize) -> BoxedStrategy<TaskOp> {
    let slot = || 4..6u64;
    prop_oneof![
        6 => create(),
        9 => claim(agent),
        3 => (lease(), any::<bool>()).prop_map(|(lease, partial)| TaskOp::Heartbeat { lease, partial }),
        9 => complete(),
        7 => (lease(), proptest::bool::weighted(0.25), any::<bool>())
            .prop_map(|(lease, hopeless, details)| TaskOp::Fail { lease, hopeless, details }),
        2 => lease().prop_map(|lease| TaskOp::Release { lease }),
        2 => (0..TASKS.len()).prop_map(|task| TaskOp::Cancel { task }),
        2 => (Just(agent), slot(), 0..3u32)
            .prop_map(|(agent, slot, credit)| TaskOp::Grant { agent, slot, credit }),
        1 => (Just(agent), slot()).prop_map(|(agent, slot)| TaskOp::Close { agent, slot }),
        3 => (Just(agent), 0..TASKS.len(), AWAIT_SLOT..AWAIT_SLOT + 2)
            .prop_map(|(agent, task, slot)| TaskOp::Await { agent, task, slot }),
        1 => (Just(agent), AWAIT_SLOT..AWAIT_SLOT + 2).prop_map(|(agent, slot)| TaskOp::StopAwaiting { agent, slot }),
    ]
    .boxed()
}

fn create() -> BoxedStrategy<TaskOp> {
    prop_oneof![3 => vec(spec(), 1..=1), 4 => vec(spec(), 2..=5)]
        .prop_map(|tasks| TaskOp::Create { tasks })
        .boxed()
}

fn spec() -> BoxedStrategy<NewTaskSpec> {
    let dependency = prop_oneof![
        3 => (0..TASKS.len()).prop_map(PlannedDependency::Id),
        6 => (1..4usize).prop_map(PlannedDependency::Before),
        1 => (0..5usize).prop_map(PlannedDependency::Any),
    ];
    let policy = prop_oneof![
        2 => Just(OnDependencyFailure::Fail),
        1 => Just(OnDependencyFailure::Skip),
        1 => Just(OnDependencyFailure::Wait),
    ];
    let assignment = prop_oneof![
        8 => (0..TYPES.len()).prop_map(|task_type| (Some(task_type), None)),
        1 => (0..3usize).prop_map(|agent| (None, Some(agent))),
        1 => (0..AGENTS.len()).prop_map(|agent| (Some(0), Some(agent))),
    ];
    (
        weighted(0.6, 0..TASKS.len()),
        assignment,
        vec(dependency, 0..=3),
        policy,
        prop_oneof![3 => Just(5u8), 1 => 1..=10u8],
        prop_oneof![Just(1u16), Just(2), Just(4)],
        prop_oneof![Just(0u64), Just(1_000)],
        (weighted(0.3, prop_oneof![Just(5_000u64), Just(30_000)]), prop_oneof![Just(30_000u64), Just(5_000)]),
        weighted(0.2, 0..AGENTS.len() + 1),
        (weighted(0.5, 0..2u8), weighted(0.3, 0..2usize)),
    )
        .prop_map(
            |(
                id,
                assignment,
                dependencies,
                policy,
                priority,
                attempts,
                backoff_ms,
                times,
                escalate_to,
                (input, session),
            )| {
                NewTaskSpec {
                    id,
                    task_type: assignment.0,
                    agent: assignment.1,
                    dependencies,
                    policy,
                    priority,
                    attempts,
                    backoff_ms,
                    timeout_ms: times.0,
                    lease_ms: times.1,
                    escalate_to,
                    input,
                    session,
                }
            },
        )
        .boxed()
}

fn claim(agent: usize) -> BoxedStrategy<TaskOp> {
    let wait = prop_oneof![
        4 => Just(WaitChoice::No),
        2 => (4..6u64).prop_map(WaitChoice::Once),
        2 => (4..6u64).prop_map(WaitChoice::Standing),
    ];
    let types = prop_oneof![4 => Just(vec![]), 1 => vec(0..TYPES.len(), 1..=2)];
    let lease = weighted(0.3, prop_oneof![Just(1_000u64), Just(60_000)]);
    (Just(agent), types, prop_oneof![Just(1u32), Just(2), Just(5)], lease, wait)
        .prop_map(|(agent, types, max, lease_ms, wait)| TaskOp::Claim { agent, types, max, lease_ms, wait })
        .boxed()
}

fn complete() -> BoxedStrategy<TaskOp> {
    (lease(), proptest::bool::weighted(0.15), weighted(0.6, 0..2u8))
        .prop_map(|(lease, partly, result)| TaskOp::Complete { lease, partly, result })
        .boxed()
}

fn lease() -> BoxedStrategy<TaskLease> {
    let likely = || proptest::bool::weighted(0.9);
    let back = prop_oneof![4 => Just(0usize), 1 => 1..4usize];
    let token_offset = prop_oneof![12 => Just(0i8), 1 => Just(1), 1 => Just(-1)];
    (likely(), likely(), back, token_offset)
        .prop_map(|(own, held, back, token_offset)| TaskLease { own, held, back, token_offset })
        .boxed()
}

/// Task results of a space so far, which later steps refer to.
#[derive(Default)]
pub(super) struct SeenTasks {
    /// All task leases, with their holders.
    leases: Vec<(usize, TaskLeaseRef)>,
    /// All created tasks.
    pub(super) created: BTreeSet<TaskId>,
}

impl SeenTasks {
    pub(super) fn record(&mut self, op: &Op, result: &OpResult) {
        match (op, result) {
            (Op::ClaimTasks(claim), OpResult::TasksClaimed(tasks)) => {
                let agent = AGENTS.iter().position(|name| *name == claim.agent.as_str()).unwrap_or(0);
                tasks.iter().for_each(|task| self.record_lease(agent, task));
            }
            (Op::CreateTasks(create), OpResult::TasksCreated { generation, seq, first, .. }) => {
                for (n, task) in create.tasks.iter().enumerate() {
                    let generated = || TaskId::generated(*generation, *seq, first + n as u32);
                    self.created.insert(task.id.clone().unwrap_or_else(generated));
                }
            }
            _ => {}
        }
    }

    pub(super) fn record_lease(&mut self, agent: usize, task: &LeasedTask) {
        self.leases.push((agent, task.lease_ref()));
    }

    /// Returns the newest lease.
    pub(super) fn newest_lease(&self) -> Option<TaskLeaseRef> {
        self.leases.last().map(|(_, lease)| lease.clone())
    }

    /// Resolves an operation. An agent without a task claims instead, so that the plan makes progress.
    pub(super) fn op(&self, actor: Actor, op: &TaskOp, held: &BTreeSet<LeaseToken>) -> Op {
        let with_lease = |lease: &TaskLease, build: &dyn Fn(TaskLeaseRef) -> Op| match (
            self.lease(actor, *lease, held),
            actor,
        ) {
            (Some(found), _) => build(found),
            (None, Actor::Hub | Actor::Holder(_)) => Op::Sweep,
            (None, Actor::Agent(agent)) => claim_op(agent, &[], 3, None, WaitChoice::No),
        };
        match op {
            TaskOp::Create { tasks } => create_op(tasks),
            TaskOp::Claim { agent, types, max, lease_ms, wait } => {
                claim_op(*agent, types, *max, *lease_ms, *wait)
            }
            TaskOp::Grant { agent, slot, credit } => {
                Op::GrantCredit { consumer: consumer(*agent, *slot), credit: *credit }
            }
            TaskOp::Close { agent, slot } => Op::CloseConsumer { consumer: consumer(*agent, *slot) },
            TaskOp::Heartbeat { lease, partial } => with_lease(lease, &|lease| {
                let partial = partial.then(|| payload("{\"so\":\"far\"}"));
                Op::HeartbeatTask(HeartbeatTask { lease, partial })
            }),
            TaskOp::Complete { lease, partly, result } => with_lease(lease, &|lease| {
                let result = result.map(|result| payload(&format!("{{\"result\":{result}}}")));
                let mut complete = CompleteTask::done(lease, result);
                if *partly {
                    complete.status = TaskStatus::Partial;
                    complete.confidence = Some(0.5);
                }
                Op::CompleteTask(complete)
            }),
            TaskOp::Fail { lease, hopeless, details } => with_lease(lease, &|lease| {
                let details = details.then(|| payload("{\"line\":7}"));
                Op::FailTask(FailTask { lease, reason: "busy".into(), details, recoverable: !*hopeless })
            }),
            TaskOp::Release { lease } => with_lease(lease, &Op::ReleaseTask),
            TaskOp::Cancel { task } => {
                Op::CancelTask(CancelTask { task: task_id(*task), reason: "late".into() })
            }
            TaskOp::Await { agent, task, slot } => Op::AwaitTask(AwaitTask {
                agent: agent_id(*agent),
                task: task_id(*task),
                within: None,
                consumer: consumer(*agent, *slot),
            }),
            TaskOp::StopAwaiting { agent, slot } => Op::CloseConsumer { consumer: consumer(*agent, *slot) },
        }
    }

    fn lease(&self, actor: Actor, lease: TaskLease, held: &BTreeSet<LeaseToken>) -> Option<TaskLeaseRef> {
        let is_selected =
            |holder: usize| !lease.own || !matches!(actor, Actor::Agent(agent) if agent != holder);
        let matches = |(holder, lease_ref): &&(usize, TaskLeaseRef)| {
            is_selected(*holder) && (!lease.held || held.contains(&lease_ref.token))
        };
        let found = self.leases.iter().rev().filter(matches).nth(lease.back);
        let (_, mut found) = found.or_else(|| self.leases.iter().rev().find(matches))?.clone();
        found.token = LeaseToken(found.token.0.saturating_add_signed(lease.token_offset.into()));
        Some(found)
    }
}

/// Returns the tokens of current task leases.
pub(super) fn leased_tokens<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> BTreeSet<LeaseToken> {
    tasks.into_iter().filter_map(|task| task.lease()).map(|lease| lease.token).collect()
}

pub(super) fn task_id(task: usize) -> TaskId {
    TaskId::new(TASKS[task]).expect("valid task id")
}

fn payload(text: &str) -> Payload {
    Payload::seal(Bytes::from(text.to_owned()), [9; 16])
}

fn claim_op(agent: usize, types: &[usize], max: u32, lease_ms: Option<u64>, wait: WaitChoice) -> Op {
    let mode = match wait {
        WaitChoice::No => WaitMode::NoWait,
        WaitChoice::Once(slot) => WaitMode::Once(consumer(agent, slot)),
        WaitChoice::Standing(slot) => WaitMode::Standing(consumer(agent, slot)),
    };
    let types = types.iter().map(|index| TYPES[*index].to_owned()).collect();
    Op::ClaimTasks(ClaimTasks { agent: agent_id(agent), types, max, lease_ms, wait: mode })
}

fn create_op(tasks: &[NewTaskSpec]) -> Op {
    let new_tasks = tasks.iter().enumerate().map(|(index, spec)| {
        let mut new = NewTask::new(spec.task_type.map_or("", |index| TYPES[index]));
        new.id = spec.id.map(task_id);
        new.agent = spec.agent.map(agent_id);
        let dependency = |dependency: &PlannedDependency| match dependency {
            PlannedDependency::Id(task) => Some(Dependency::Task(task_id(*task))),
            PlannedDependency::Before(back) => {
                index.checked_sub(*back).map(|at| Dependency::Index(at as u32))
            }
            PlannedDependency::Any(at) => Some(Dependency::Index((at % tasks.len()) as u32)),
        };
        new.depends_on = spec.dependencies.iter().filter_map(dependency).collect();
        new.on_dependency_failure = spec.policy;
        new.priority = Priority::from_ten_scale(spec.priority).expect("1 to 10");
        new.attempts_max = spec.attempts;
        new.backoff_ms = spec.backoff_ms;
        new.timeout_ms = spec.timeout_ms;
        new.lease_ms = spec.lease_ms;
        new.session = spec.session.map(|name| SESSION_IDS[name].to_owned());
        new.escalate_to = match spec.escalate_to {
            None => EscalateTo::Coordinators,
            Some(agent) if agent == AGENTS.len() => EscalateTo::Nobody,
            Some(agent) => EscalateTo::Agent(agent_id(agent)),
        };
        (new, spec.input.map(|input| format!("{{\"input\":{input}}}").into_bytes()))
    });
    Op::CreateTasks(CreateTasks::pack(new_tasks, [9; 16]))
}

impl fmt::Display for TaskOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { tasks } => {
                let tasks: Vec<_> = tasks.iter().map(ToString::to_string).collect();
                write!(f, "makes {}", tasks.join(" + "))
            }
            Self::Claim { agent, types, max, lease_ms, wait } => {
                let types: Vec<_> = types.iter().map(|index| TYPES[*index]).collect();
                write!(f, "claims {max} tasks of {:?} for {} lease {lease_ms:?}", types, AGENTS[*agent])?;
                match wait {
                    WaitChoice::No => Ok(()),
                    WaitChoice::Once(slot) => write!(f, " waiting as {slot}"),
                    WaitChoice::Standing(slot) => write!(f, " standing as {slot}"),
                }
            }
            Self::Grant { agent, slot, credit } => {
                write!(f, "grants {credit} tasks to {slot} of {}", AGENTS[*agent])
            }
            Self::Close { agent, slot } => write!(f, "closes {slot} of {}", AGENTS[*agent]),
            Self::Heartbeat { lease, partial } => {
                write!(f, "beats {lease}{}", if *partial { " with a partial result" } else { "" })
            }
            Self::Complete { lease, partly, result } => {
                write!(f, "completes {lease}{} {result:?}", if *partly { " partly" } else { "" })
            }
            Self::Fail { lease, hopeless, details } => {
                write!(f, "fails {lease} hopeless {hopeless} details {details}")
            }
            Self::Release { lease } => write!(f, "returns {lease}"),
            Self::Cancel { task } => write!(f, "cancels {}", TASKS[*task]),
            Self::Await { agent, task, slot } => {
                write!(f, "{} awaits {} as {slot}", AGENTS[*agent], TASKS[*task])
            }
            Self::StopAwaiting { agent, slot } => {
                write!(f, "{} stops awaiting a task as {slot}", AGENTS[*agent])
            }
        }
    }
}

impl fmt::Display for NewTaskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id.map_or("_", |id| TASKS[id]))?;
        if let Some(index) = self.task_type {
            write!(f, " of {}", TYPES[index])?;
        }
        if let Some(agent) = self.agent {
            write!(f, " for {}", AGENTS[agent])?;
        }
        if !self.dependencies.is_empty() {
            write!(f, " needs {:?} else {}", self.dependencies, self.policy.as_str())?;
        }
        write!(f, " priority {} attempts {} backoff {}ms", self.priority, self.attempts, self.backoff_ms)?;
        write!(
            f,
            " lease {}ms timeout {:?} escalate_to {:?}",
            self.lease_ms, self.timeout_ms, self.escalate_to
        )?;
        if let Some(name) = self.session {
            write!(f, " in {}", SESSION_IDS[name])?;
        }
        self.input.map_or(Ok(()), |input| write!(f, " input {input}"))
    }
}

impl fmt::Display for TaskLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = if self.held { "held" } else { "held or ended" };
        write!(f, "{} task {held} -{}", if self.own { "own" } else { "any" }, self.back)?;
        if self.token_offset == 0 { Ok(()) } else { write!(f, " (token {:+})", self.token_offset) }
    }
}
