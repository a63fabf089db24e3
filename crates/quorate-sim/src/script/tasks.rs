//! Statements about tasks, and their rendering.

use std::collections::BTreeMap;

use quorate_core::{
    AgentNo, AwaitTask, CancelTask, ClaimTasks, CompleteTask, CreateTasks, Dependency, EscalateTo, FailTask,
    HeartbeatTask, Item, ItemKey, ItemKind, LeaseToken, LeasedTask, NewTask, OnDependencyFailure, Op,
    OpResult, Priority, Task, TaskId, TaskLeaseRef, TaskState, TaskStatus, Verb, WaitMode,
};
use quorate_store::{ReadQuery, ReadResult, Store as _};

use super::names::delivery_id;
use super::parse::{Words, agent_id, duration_ms, payload, reason};
use super::render::since_start;
use super::runner::ScriptRunner;

/// All lease tokens of each task, oldest first.
#[derive(Default)]
pub(super) struct TaskTokens(BTreeMap<TaskId, Vec<LeaseToken>>);

impl TaskTokens {
    pub(super) fn record_lease(&mut self, leased: &LeasedTask) {
        let TaskLeaseRef { task, token } = leased.lease_ref();
        self.0.entry(task).or_default().push(token);
    }

    /// Resolves `t1` or `t1#1`: the newest lease of a task, or its n-th. Token 0 if it never had one.
    fn lease(&self, text: &str) -> TaskLeaseRef {
        let (name, nth) = match text.split_once('#') {
            Some((name, nth)) => (name, Some(nth.parse::<usize>().expect("a number after #"))),
            None => (text, None),
        };
        let task = task(name);
        let tokens = self.0.get(&task).map_or(&[][..], Vec::as_slice);
        let token = match nth {
            Some(nth) => tokens.get(nth - 1),
            None => tokens.last(),
        };
        TaskLeaseRef { token: token.copied().unwrap_or_default(), task }
    }
}

fn task(name: &str) -> TaskId {
    TaskId::new(name).expect("valid task id")
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

impl ScriptRunner {
    /// Parses a task verb; `None` if the verb is not about tasks.
    pub(super) fn parse_task_op(&mut self, actor: &str, verb: &str, words: &mut Words<'_>) -> Option<Op> {
        let lease =
            |runner: &Self, words: &mut Words<'_>| runner.names().task_tokens.lease(words.require("a task"));
        Some(match verb {
            "makes" => create_tasks(words),
            "takes" | "awaits" | "serves" => self.claim_tasks(actor, verb, words),
            "beats" => Op::HeartbeatTask(HeartbeatTask {
                lease: lease(self, words),
                partial: words.option("with").map(payload),
            }),
            "finishes" => {
                let op = complete(lease(self, words), words);
                match (op, words.option("under")) {
                    (Op::CompleteTask(complete), Some(lock)) => {
                        Op::CompleteTask(CompleteTask { fence: Some(self.parse_fence(lock)), ..complete })
                    }
                    (op, _) => op,
                }
            }
            "flunks" => {
                let lease = lease(self, words);
                let permanent = words.flag("permanently");
                let details = words.option("leaving").map(payload);
                Op::FailTask(FailTask { lease, reason: reason(words), details, recoverable: !permanent })
            }
            "needs" => Op::AwaitTask(AwaitTask {
                agent: agent_id(actor),
                task: task(words.require("a task")),
                within: words.option("within").map(|name| delivery_id(self.names().delivery(name, actor))),
                consumer: self.names_mut().consumer(words.option("as").expect("`as` with a consumer")),
            }),
            "returns" => Op::ReleaseTask(lease(self, words)),
            "cancels" => {
                let task = task(words.require("a task"));
                Op::CancelTask(CancelTask { task, reason: reason(words) })
            }
            _ => return None,
        })
    }

    fn claim_tasks(&mut self, actor: &str, verb: &str, words: &mut Words<'_>) -> Op {
        let max = words.next_number().unwrap_or(1);
        let types = words.option("on").map(list).unwrap_or_default();
        let consumer = words.option("as").map(|name| self.names_mut().consumer(name));
        let lease_ms = words.option("for").map(duration_ms);
        let wait = match (verb, consumer) {
            ("awaits", Some(consumer)) => WaitMode::Once(consumer),
            ("serves", Some(consumer)) => WaitMode::Standing(consumer),
            ("takes", None) => WaitMode::NoWait,
            _ => panic!("`{actor} {verb}`: `as CONSUMER` is required with `awaits` and `serves` only"),
        };
        Op::ClaimTasks(ClaimTasks { agent: agent_id(actor), types, max, lease_ms, wait })
    }

    /// Renders the part of a result that no effect of its record shows.
    pub(super) fn task_result_line(&self, actor: &str, result: &OpResult, new: bool) -> Option<String> {
        match result {
            OpResult::TasksClaimed(tasks) if tasks.is_empty() => Some(format!("{actor}: no task to claim")),
            OpResult::TasksClaimed(tasks) if tasks.len() > 9 => {
                let (first, last) = (leased_line(&tasks[0]), leased_line(&tasks[tasks.len() - 1]));
                Some(format!("{actor} claims {} from {first} to {last}", tasks.len()))
            }
            OpResult::TasksClaimed(tasks) => Some(format!(
                "{actor} claims {}",
                tasks.iter().map(leased_line).collect::<Vec<_>>().join(", ")
            )),
            OpResult::TasksCreated { seq, .. } if !new => Some(format!("created already by #{seq}")),
            OpResult::TaskAccepted { seq, .. } if !new => Some(format!("accepted already by #{seq}")),
            _ => None,
        }
    }

    /// Records and renders a task that was dispatched to a consumer.
    pub(super) fn leased_task_line(&mut self, consumer: &str, leased: &LeasedTask) -> String {
        self.names_mut().task_tokens.record_lease(leased);
        format!("{consumer} receives {}", leased_line(leased))
    }

    /// Renders a change of a task.
    pub(super) fn task_effect_line(&self, verb: Verb, task: &Task) -> Option<String> {
        let id = &task.spec.id;
        let state = match &task.state {
            TaskState::Scheduled { due } => format!("due at {}", since_start(*due)),
            other => other.status().as_str().to_owned(),
        };
        let cause = task.last_failure.as_ref().map_or(String::new(), |failure| {
            let reason =
                if failure.reason.is_empty() { String::new() } else { format!(" ({})", failure.reason) };
            format!("{}{reason}", failure.kind.as_str())
        });
        Some(match verb {
            Verb::TaskCreated => format!("{id} created: {state}"),
            // Rendered from the result and the dispatch, which also contain the attempt and the token.
            Verb::TaskLeased => return None,
            Verb::TaskReady if task.missing.is_empty() => format!("{id} ready"),
            Verb::TaskReady => format!("{id} ready without {}", joined(&task.missing)),
            Verb::TaskProgressed => format!("{id} progressed"),
            Verb::TaskCompleted | Verb::TaskCancelled => format!("{id} {state}"),
            Verb::TaskRetried => format!("{id} {cause}: {state}"),
            Verb::TaskReleased => format!("{id} released: {state}"),
            Verb::TaskHeld | Verb::TaskFailed => self.task_line(task),
            Verb::TaskEscalated => format!("{id} {cause}: escalated"),
            _ => return None,
        })
    }

    /// Renders a task and its state.
    fn task_line(&self, task: &Task) -> String {
        let name = |agent: AgentNo| self.agent_name(agent);
        let state = match &task.state {
            TaskState::Blocked { held_by } if held_by.is_empty() => {
                format!("blocked, needs {}", joined(&task.spec.depends_on))
            }
            TaskState::Blocked { held_by } => format!("blocked, held by {}", joined(held_by)),
            TaskState::Ready { since } => format!("ready since {}", since_start(*since)),
            TaskState::Scheduled { due } => format!("due at {}", since_start(*due)),
            TaskState::Leased(lease) => format!("leased by {} under token {}", name(lease.by), lease.token),
            TaskState::Failed(end) => match &end.failed_dependency {
                Some(id) => format!("failed because of {id}"),
                None => "failed".into(),
            },
            TaskState::Done(end) | TaskState::Partial(end) => {
                format!("{} by {} under token {}", task.status().as_str(), name(end.by), end.token)
            }
            TaskState::Escalated(end) => format!("escalated by {}", end.message),
            TaskState::AwaitingApproval { .. } | TaskState::Cancelled(_) => task.status().as_str().into(),
        };
        let mut line = format!("{} {state}", task.spec.id);
        if task.attempt > 0 {
            line.push_str(&format!(", tried {}", task.attempt));
        }
        if let Some(failure) = &task.last_failure {
            line.push_str(&format!(", last {} by {}", failure.kind.as_str(), name(failure.by)));
        }
        line
    }

    /// Renders a task with its partial results and its result (`task t1`).
    pub(super) async fn render_task(&mut self, name: &str) {
        let key = ItemKey::new(ItemKind::Task, task(name).to_shared());
        let ReadResult::Item(Some(Item::Task(found))) = self.read(ReadQuery::Item(key)).await else {
            return self.push_line(format!("{name}: no such task"));
        };
        let mut line = self.task_line(&found);
        let result = match &found.state {
            TaskState::Done(end) | TaskState::Partial(end) => end.result,
            _ => None,
        };
        let parts = found.partials.iter().map(|partial| ("partial", partial.part));
        for (label, part) in parts.chain(result.map(|part| ("result", part))) {
            let (seq, part) = (part.seq, part.part);
            let ReadResult::Part(Some(found)) =
                self.read(ReadQuery::Part { seq, part, start: 0, length: 99 }).await
            else {
                panic!("record {seq} has no part {part}");
            };
            line.push_str(&format!(", {label} {}", String::from_utf8_lossy(&found.bytes)));
        }
        self.push_line(line);
    }

    /// Renders the number of tasks in each state (`tasks`).
    pub(super) fn render_task_counts(&mut self) {
        let published = self.store().published(self.space()).expect("space exists");
        let counts = published.borrow().tasks;
        let some = counts.iter().filter(|(_, count)| *count > 0);
        let some: Vec<_> = some.map(|(status, count)| format!("{count} {}", status.as_str())).collect();
        self.push_line(if some.is_empty() { "no tasks".into() } else { some.join(", ") });
    }
}

fn joined(ids: &[TaskId]) -> String {
    ids.iter().map(TaskId::as_str).collect::<Vec<_>>().join(",")
}

fn leased_line(leased: &LeasedTask) -> String {
    let token = leased.lease_ref().token;
    format!("{} (attempt {}, token {token})", leased.task.spec.id, leased.task.attempt)
}

fn complete(lease: TaskLeaseRef, words: &mut Words<'_>) -> Op {
    let mut complete = CompleteTask::done(lease, words.option("with").map(payload));
    if words.flag("partly") {
        complete.status = TaskStatus::Partial;
    }
    complete.confidence = words.option("sure").map(|sure| sure.parse().expect("a number from 0 to 1"));
    complete.rationale = Some(reason(words)).filter(|text| !text.is_empty());
    Op::CompleteTask(complete)
}

/// Parses `makes t1 of review + t2 of sum needs t1` into one operation. With `_` the hub generates the id.
fn create_tasks(words: &mut Words<'_>) -> Op {
    let mut tasks = Vec::new();
    loop {
        let name = words.require("a name for the task");
        let mut new = NewTask::new(words.option("of").unwrap_or(""));
        new.id = (name != "_").then(|| task(name));
        let mut input = None;
        let mut more = false;
        while let Some(word) = words.next_unless("twice") {
            let mut value = || words.require(word);
            match word {
                "+" => {
                    more = true;
                    break;
                }
                "for" => new.agent = Some(agent_id(value())),
                "needs" => {
                    new.depends_on = list(value()).iter().map(|id| Dependency::Task(task(id))).collect();
                }
                "priority" => {
                    new.priority =
                        Priority::from_ten_scale(value().parse().expect("1 to 10")).expect("1 to 10")
                }
                "tries" => new.attempts_max = value().parse().expect("a number of attempts"),
                "backoff" => new.backoff_ms = duration_ms(value()),
                "timeout" => new.timeout_ms = Some(duration_ms(value())),
                "lease" => new.lease_ms = duration_ms(value()),
                "skipping" => new.on_dependency_failure = OnDependencyFailure::Skip,
                "waiting" => new.on_dependency_failure = OnDependencyFailure::Wait,
                "escalating" => {
                    new.escalate_to = match value() {
                        "nobody" => EscalateTo::Nobody,
                        name => EscalateTo::Agent(agent_id(name)),
                    }
                }
                "saying" => input = Some(value().as_bytes().to_vec()),
                "in" => new.session = Some(value().to_owned()),
                other => panic!("unknown task option: {other}"),
            }
        }
        tasks.push((new, input));
        if !more {
            return Op::CreateTasks(CreateTasks::pack(tasks, [5; 16]));
        }
    }
}
