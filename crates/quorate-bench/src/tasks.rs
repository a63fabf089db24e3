//! W6: graphs of 10,000 tasks, worked through by 100 workers. Each worker waits in process, and ends a task with one commit
//! that also lets the next one come; the graph is done when its last task is done on disk.
//!
//! Two shapes. `wide`: one task, then 9,998 at once, then one that needs them all; it shows how fast a backlog drains.
//! `layers`: 100 at once, then one that needs them, then the next 100; a worker is always free for what becomes ready, so
//! it shows how long that takes to be in its hands.

use std::sync::Arc;
use std::time::Instant;

use quorate_core::{AgentId, Commit, CompleteTask, Dependency, NewTask, Now, Op, Principal, TaskStatus};
use quorate_engine::{Error, Space, TaskClaim, TaskEvent};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::Scale;
use crate::cycle::register;
use crate::measure::{Latencies, Meter};
use crate::report::Line;
use crate::rig::Rig;

const WORKERS: usize = 100;
const TASKS: u64 = 10_000;
const WIDTH: u32 = 100;
/// Graphs of each shape, one after the other, so that a run lasts long enough to be measured.
const GRAPHS: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Wide,
    Layers,
}

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for shape in [Shape::Wide, Shape::Layers] {
        lines.push(one(scale, shape).await?);
    }
    Ok(lines)
}

async fn one(scale: &Scale, shape: Shape) -> anyhow::Result<Line> {
    let rig = Rig::new(scale.data.as_deref()).await?;
    let agents = register(&rig.space, WORKERS + 1).await?;
    // A smaller run has fewer graphs, and only the smallest has smaller ones.
    let graphs = scale.count(GRAPHS).max(1);
    let tasks = if scale.count(TASKS) < 100 { 20 } else { TASKS };
    let workers = if tasks < TASKS { 4 } else { WORKERS };
    let mut running = JoinSet::new();
    let ready = Arc::new(Barrier::new(workers + 1));
    for agent in agents.iter().take(workers) {
        running.spawn(work(rig.space.clone(), agent.clone(), Arc::clone(&ready)));
    }
    ready.wait().await;
    let meter = Meter::start(&rig.store);
    for _ in 0..graphs {
        run_graph(&rig.space, &agents[WORKERS], graph(shape, tasks as u32)).await?;
    }
    let taken = meter.stop(&rig.store);
    let done = rig.space.task_counts().of(TaskStatus::Done);
    anyhow::ensure!(done == graphs * tasks, "{done} of {} tasks are done", graphs * tasks);
    // Closing ends the workers' streams.
    rig.space.engine().close().await;
    let mut waits = Latencies::new();
    while let Some(finished) = running.join_next().await {
        waits.add(&finished??);
    }
    let variant = match shape {
        Shape::Wide => "wide: 1, then all, then 1",
        Shape::Layers => "layers: 100, then 1, and so on",
    };
    let line = Line::new("W6", variant, done, taken).latencies(&waits);
    let line = line.set("workers", workers).set("tasks", tasks).set("graphs", graphs);
    let line = line.set("readyToLeasedP95Us", waits.at(0.95));
    Ok(match shape {
        Shape::Wide => line.target(25_000.0, "25k/s"),
        Shape::Layers => line.target(25_000.0, "25k/s, ready to leased p95 < 5 ms"),
    })
}

/// Makes a graph and waits until its last task is done.
async fn run_graph(space: &Space, agent: &AgentId, tasks: Vec<NewTask>) -> Result<(), Error> {
    let op = space.task_op(tasks.into_iter().map(|task| (task, Some(b"{\"n\":1}".to_vec()))));
    space.create_tasks(Commit::new(Principal::Agent(agent.clone()), vec![op])).await?;
    let mut follow = space.follow();
    // The answer to each end comes after its sync, and so does what is published.
    let _ = follow.wait_for(|published| published.tasks.open() == 0).await;
    Ok(())
}

/// The tasks of a graph, the last of which is done when all are.
fn graph(shape: Shape, count: u32) -> Vec<NewTask> {
    let width = WIDTH.min(count / 2);
    let needs = |n: u32| -> Vec<Dependency> {
        match shape {
            Shape::Wide if n == 0 => Vec::new(),
            Shape::Wide if n + 1 == count => (1..n).map(Dependency::Nth).collect(),
            Shape::Wide => vec![Dependency::Nth(0)],
            // Every so many-th gathers those before it; what follows needs the gathered.
            Shape::Layers => {
                let (layer, place) = (n / (width + 1), n % (width + 1));
                let first = layer * (width + 1);
                let gathers = place == width || n + 1 == count;
                match (gathers, layer) {
                    (true, _) => (first..n).map(Dependency::Nth).collect(),
                    (false, 0) => Vec::new(),
                    (false, _) => vec![Dependency::Nth(first - 1)],
                }
            }
        }
    };
    (0..count).map(|n| NewTask { depends_on: needs(n), ..NewTask::new("work") }).collect()
}

/// Works until the hub is closed. How long each task waited from being ready to being in hand.
async fn work(space: Space, agent: AgentId, ready: Arc<Barrier>) -> Result<Latencies, Error> {
    let principal = Principal::Agent(agent.clone());
    let (types, lease_ms) = (vec!["work".to_owned()], None);
    let claim = TaskClaim { principal: principal.clone(), epoch: None, agent, types, lease_ms };
    let mut consumer = space.consume_tasks(&claim, 1).await?;
    ready.wait().await;
    let mut waits = Latencies::new();
    // Times in records are in milliseconds; the part below is taken from a clock of our own.
    let start = (space.engine().clock().now(), Instant::now());
    while let Some(TaskEvent::Task(task)) = consumer.next().await? {
        if let Some(lease) = task.task.lease() {
            waits.record(since(start, lease.ready_since.0));
        }
        let done = CompleteTask::done(task.lease.clone(), Some(space.seal(&b"{\"ok\":true}"[..])));
        let ops = vec![Op::CompleteTask(done), consumer.grant(1)];
        space.commit(Commit::new(principal.clone(), ops)).await?;
    }
    Ok(waits)
}

/// How long it is since a wall-clock time, to the microsecond, as long as the wall clock does not jump meanwhile.
fn since((wall, instant): (Now, Instant), then_ms: u64) -> std::time::Duration {
    let now = std::time::Duration::from_millis(wall.wall.0) + instant.elapsed();
    now.saturating_sub(std::time::Duration::from_millis(then_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(task: &NewTask) -> Vec<u32> {
        let nth = |one: &Dependency| match one {
            Dependency::Nth(n) => *n,
            Dependency::Task(id) => panic!("{id} is not a place"),
        };
        task.depends_on.iter().map(nth).collect()
    }

    #[test]
    fn a_wide_graph_fans_out_and_in() {
        let graph = graph(Shape::Wide, 5);
        let needs: Vec<_> = graph.iter().map(needs).collect();
        assert_eq!(needs, [vec![], vec![0], vec![0], vec![0], vec![1, 2, 3]]);
    }

    #[test]
    fn layers_follow_each_other_and_the_last_task_gathers() {
        let graph = graph(Shape::Layers, 8);
        let needs: Vec<_> = graph.iter().map(needs).collect();
        let expected = [vec![], vec![], vec![], vec![], vec![0, 1, 2, 3], vec![4], vec![4], vec![5, 6]];
        assert_eq!(needs, expected);
    }
}
