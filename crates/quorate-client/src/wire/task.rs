//! Conversion of tasks.

use std::collections::BTreeSet;

use quorate::Error;
use quorate::backend::HeldTask;
use quorate_api::task::{HeldTask as HeldTaskJson, NewTask, TaskGraph};
use quorate_core::{Code, CreateTasks, Dependency, Refused, TaskId, TaskLeaseRef, Timestamp};

/// Converts tasks to create. A task that another one depends on by index gets an id derived from the idempotency key.
pub(crate) fn task_graph(create: &CreateTasks, key: &str) -> Result<TaskGraph<'static>, Refused> {
    let dependencies = create.tasks.iter().flat_map(|task| &task.depends_on);
    let needed: BTreeSet<usize> = dependencies
        .filter_map(|dependency| match dependency {
            Dependency::Index(index) => Some(*index as usize),
            Dependency::Task(_) => None,
        })
        .collect();
    let mut ids = Vec::with_capacity(create.tasks.len());
    for (index, task) in create.tasks.iter().enumerate() {
        let derived = || TaskId::new(format!("task-{key}-{index}"));
        let needs_id = task.id.is_none() && needed.contains(&index);
        ids.push(if needs_id { Some(derived()?) } else { task.id.clone() });
    }
    let id_of = |dependency: &Dependency| match dependency {
        Dependency::Task(id) => Ok(id.clone()),
        Dependency::Index(index) => ids.get(*index as usize).cloned().flatten().ok_or_else(|| {
            Refused::new(Code::Invalid, format!("dependsOn: no task has the index {index}"))
                .hint("use the index of a task in the same request, starting at 0")
        }),
    };
    let mut tasks = Vec::with_capacity(create.tasks.len());
    for (task, id) in create.tasks.iter().zip(&ids) {
        let depends_on = task.depends_on.iter().map(id_of).collect::<Result<_, _>>()?;
        let input = create.input_of(task);
        tasks.push(NewTask::new(task, id.clone(), depends_on, input.as_deref())?);
    }
    Ok(TaskGraph { tasks })
}

/// Converts a claimed task. The hub returns the expiry of the lease, not its duration, so the result depends on the
/// local clock.
pub(crate) fn convert_held_task(
    claimed: HeldTaskJson,
    now: Timestamp,
    lease_ms: Option<u64>,
) -> Result<HeldTask, Error> {
    let (input, context) = (claimed.input()?, claimed.context());
    let HeldTaskJson { held, task } = claimed;
    let lease_ms = lease_ms.unwrap_or_else(|| held.lease_until.0.saturating_sub(now.0).max(1));
    let lease = TaskLeaseRef { task: task.id.clone(), token: held.lease_token };
    Ok(HeldTask { lease, lease_ms, task, input, context })
}

#[cfg(test)]
mod tests {
    use quorate_api::claim::ClaimedTasks;
    use quorate_core::{Priority, Timestamp};

    use super::convert_held_task;

    // Fails under: parsing the name of a priority without its rank.
    #[test]
    fn the_rank_of_a_priority_is_parsed() {
        let text = r#"{"tasks":[{"leaseToken":3,"leaseUntil":"1970-01-01T00:00:09.000Z","input":{"a": 1},
            "id":"t1","type":"review","agent":null,"status":"leased","priority":"high","priorityRank":8,
            "attempt":1,"maxAttempts":3,"dependsOn":[],"createdAt":"1970-01-01T00:00:01.000Z","creator":null,
            "timeoutMs":null,"leaseMs":30000,"backoffMs":1000,"onDependencyFailure":"fail","escalateTo":"nobody"}]}"#;
        let claimed: ClaimedTasks = serde_json::from_str(text).unwrap();
        let task =
            convert_held_task(claimed.tasks.into_iter().next().unwrap(), Timestamp(2_000), None).unwrap();
        assert_eq!(task.task.priority().unwrap(), Priority::from_ten_scale(8).unwrap());
        assert_eq!((task.lease_ms, &task.input[..]), (7_000, &br#"{"a": 1}"#[..]));
    }
}
