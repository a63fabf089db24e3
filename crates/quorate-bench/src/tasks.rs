//! W6: graphs of 10,000 tasks, processed by 100 workers in process. Each worker completes a task and grants credit for
//! the next one in a single commit. A graph is done when the completion of its last task is durable.
//!
//! There are two shapes. `wide`: one task, then 9,998 parallel ones, then one that depends on all of them; it measures
//! how fast a backlog drains. `layers`: 100 parallel tasks, then one that depends on them, then the next 100; a worker
//! is always idle, so it measures the latency from ready to leased.

use std::sync::Arc;
use std::time::Instant;

use quorate_core::{AgentId, Commit, CompleteTask, Dependency, NewTask, Now, Op, Principal, TaskStatus};
use quorate_engine::{Error, Space, TaskClaimQuery, TaskConsumerEvent};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::Scale;
use crate::cycle::register_agents;
use crate::embedded_hub::EmbeddedHub;
use crate::measure::{Latencies, Meter};
use crate::report::Measurement;

const WORKERS: usize = 100;
const TASKS: u64 = 10_000;
const WIDTH: u32 = 100;
/// Graphs of each shape, run sequentially, so that the run is long enough to measure.
const GRAPHS: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Wide,
    Layers,
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for shape in [Shape::Wide, Shape::Layers] {
        lines.push(measure_shape(scale, shape).await?);
    }
    Ok(lines)
}

async fn measure_shape(scale: &Scale, shape: Shape) -> anyhow::Result<Measurement> {
    let hub = EmbeddedHub::new(scale.data.as_deref()).await?;
    let agents = register_agents(&hub.space, WORKERS + 1).await?;
    // A smaller run has fewer graphs; only the smallest run has smaller graphs.
    let graphs = scale.count(GRAPHS).max(1);
    let tasks = if scale.count(TASKS) < 100 { 20 } else { TASKS };
    let workers = if tasks < TASKS { 4 } else { WORKERS };
    let mut running = JoinSet::new();
    let ready = Arc::new(Barrier::new(workers + 1));
    for agent in agents.iter().take(workers) {
        running.spawn(work(hub.space.clone(), agent.clone(), Arc::clone(&ready)));
    }
    ready.wait().await;
    let meter = Meter::start(&hub.store);
    for _ in 0..graphs {
        run_graph(&hub.space, &agents[WORKERS], graph(shape, tasks as u32)).await?;
    }
    let usage = meter.stop(&hub.store);
    let done = hub.space.task_counts().get(TaskStatus::Done);
    anyhow::ensure!(done == graphs * tasks, "{done} of {} tasks are done", graphs * tasks);
    // Closing the engine ends the streams of the workers.
    hub.space.engine().close().await;
    let mut waits = Latencies::new();
    while let Some(finished) = running.join_next().await {
        waits.merge(&finished??);
    }
    let variant = match shape {
        Shape::Wide => "wide: 1, then all, then 1",
        Shape::Layers => "layers: 100, then 1, repeated",
    };
    let line = Measurement::new("W6", variant, done, usage).latencies(&waits);
    let line = line.set("workers", workers).set("tasks", tasks).set("graphs", graphs);
    let line = line.set("readyToLeasedP95Us", waits.quantile(0.95));
    Ok(match shape {
        Shape::Wide => line.target(25_000.0, "25k/s"),
        Shape::Layers => line.target(25_000.0, "25k/s, ready to leased p95 < 5 ms"),
    })
}

/// Creates a graph and waits until its last task is done.
async fn run_graph(space: &Space, agent: &AgentId, tasks: Vec<NewTask>) -> Result<(), Error> {
    let op = space.create_tasks_op(tasks.into_iter().map(|task| (task, Some(b"{\"n\":1}".to_vec()))));
    space.create_tasks(Commit::new(Principal::Agent(agent.clone()), vec![op])).await?;
    let mut follow = space.follow();
    // The published state is updated after the fsync, like the result of each completion.
    let _ = follow.wait_for(|published| published.tasks.open() == 0).await;
    Ok(())
}

/// Builds the tasks of a graph, the last of which completes the graph.
fn graph(shape: Shape, count: u32) -> Vec<NewTask> {
    let width = WIDTH.min(count / 2);
    let dependencies = |n: u32| -> Vec<Dependency> {
        match shape {
            Shape::Wide if n == 0 => Vec::new(),
            Shape::Wide if n + 1 == count => (1..n).map(Dependency::Index).collect(),
            Shape::Wide => vec![Dependency::Index(0)],
            // The last task of a layer joins the layer; the tasks of the next layer depend on it.
            Shape::Layers => {
                let (layer, position) = (n / (width + 1), n % (width + 1));
                let first = layer * (width + 1);
                let joins = position == width || n + 1 == count;
                match (joins, layer) {
                    (true, _) => (first..n).map(Dependency::Index).collect(),
                    (false, 0) => Vec::new(),
                    (false, _) => vec![Dependency::Index(first - 1)],
                }
            }
        }
    };
    (0..count).map(|n| NewTask { depends_on: dependencies(n), ..NewTask::new("work") }).collect()
}

/// Processes tasks until the hub is closed. Returns the latencies from ready to leased.
async fn work(space: Space, agent: AgentId, ready: Arc<Barrier>) -> Result<Latencies, Error> {
    let principal = Principal::Agent(agent.clone());
    let (types, lease_ms) = (vec!["work".to_owned()], None);
    let claim =
        TaskClaimQuery { principal: principal.clone(), epoch: None, token: None, agent, types, lease_ms };
    let mut consumer = space.consume_tasks(&claim, 1).await?;
    ready.wait().await;
    let mut waits = Latencies::new();
    // Record timestamps have millisecond resolution, so the current time comes from a more precise clock.
    let start = (space.engine().clock().now(), Instant::now());
    while let Some(TaskConsumerEvent::Task(task)) = consumer.next().await? {
        if let Some(lease) = task.task.lease() {
            waits.record(since(start, lease.ready_since.0));
        }
        let completion = CompleteTask::done(task.lease.clone(), Some(space.seal(&b"{\"ok\":true}"[..])));
        let ops = vec![Op::CompleteTask(completion), consumer.grant_credit_op(1)];
        space.commit(Commit::new(principal.clone(), ops)).await?;
    }
    Ok(waits)
}

/// Returns the time elapsed since a wall-clock time, in microsecond resolution. Assumes that the wall clock does not
/// jump.
fn since((wall, instant): (Now, Instant), then_ms: u64) -> std::time::Duration {
    let now = std::time::Duration::from_millis(wall.wall.0) + instant.elapsed();
    now.saturating_sub(std::time::Duration::from_millis(then_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependencies(task: &NewTask) -> Vec<u32> {
        let index_of = |dependency: &Dependency| match dependency {
            Dependency::Index(n) => *n,
            Dependency::Task(id) => panic!("{id} is not an index"),
        };
        task.depends_on.iter().map(index_of).collect()
    }

    #[test]
    fn a_wide_graph_fans_out_and_in() {
        let graph = graph(Shape::Wide, 5);
        let found: Vec<_> = graph.iter().map(dependencies).collect();
        assert_eq!(found, [vec![], vec![0], vec![0], vec![0], vec![1, 2, 3]]);
    }

    #[test]
    fn layers_are_sequential_and_the_last_task_joins() {
        let graph = graph(Shape::Layers, 8);
        let found: Vec<_> = graph.iter().map(dependencies).collect();
        let expected = [vec![], vec![], vec![], vec![], vec![0, 1, 2, 3], vec![4], vec![4], vec![5, 6]];
        assert_eq!(found, expected);
    }
}
