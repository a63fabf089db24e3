//! The queue is fair by cost, keeps the order of each space, and loses nothing.

use quorate_core::{Commit, Op, Principal, SpaceNo};
use tokio::sync::oneshot;

use super::{BATCH_OPS_MAX, Job, Patience, Queue};

fn job(space: u64, ops: usize) -> Job {
    let (answer, _) = oneshot::channel();
    let commits = vec![Commit::new(Principal::System, vec![Op::Sweep; ops])];
    Job::Transact { space: SpaceNo(space), commits, answer }
}

fn push(queue: &Queue, space: u64, ops: usize) {
    assert!(queue.push(job(space, ops)).is_ok());
}

/// The spaces of the jobs of the next batch, in order, each with how many operations.
fn batch(queue: &Queue) -> Vec<(u64, usize)> {
    let jobs = queue.take(&mut Patience::default()).expect("something waits");
    jobs.iter().map(|job| (job.space().0, job.ops())).collect()
}

// Fails under: a turn by jobs, so that whoever brings larger jobs gets more.
#[test]
fn i16_spaces_are_served_by_what_their_jobs_cost() {
    let queue = Queue::default();
    for _ in 0..8 {
        push(&queue, 1, 256);
        push(&queue, 2, 1);
    }
    let served: Vec<_> = [batch(&queue), batch(&queue)].concat();
    let first_large = served.iter().position(|(space, _)| *space == 1).expect("it is served");
    let small: Vec<_> = served.iter().enumerate().filter(|(_, (space, _))| *space == 2).collect();
    assert_eq!(small.len(), 8, "{served:?}");
    assert!(
        small.iter().all(|(at, _)| *at <= first_large + 8),
        "one large job is as many small ones: {served:?}"
    );
}

// Fails under: work that only shows when it is decided, and is not charged.
#[test]
fn i16_a_space_pays_for_work_that_was_not_expected() {
    let queue = Queue::default();
    push(&queue, 1, 1);
    assert_eq!(batch(&queue), [(1, 1)]);
    queue.settle([(SpaceNo(1), 1_000)], Vec::new());
    for _ in 0..3 {
        push(&queue, 1, 1);
        push(&queue, 2, 300);
    }
    assert_eq!(batch(&queue), [(2, 300), (2, 300)], "the other space first, up to a batch");
    assert_eq!(batch(&queue), [(2, 300), (1, 1), (1, 1), (1, 1)]);
}

// Fails under: jobs that were not begun and are lost, or overtaken by later ones of their space.
#[test]
fn what_is_put_back_keeps_its_place() {
    let queue = Queue::default();
    for ops in 1..=4 {
        push(&queue, 1, ops);
    }
    push(&queue, 2, 9);
    let mut taken = queue.take(&mut Patience::default()).expect("something waits");
    let rest = taken.split_off(1);
    push(&queue, 1, 5);
    queue.settle([], rest);
    assert_eq!(queue.waiting_ops(), 2 + 3 + 4 + 5 + 9);
    let mut first: Vec<_> = batch(&queue).into_iter().filter(|(space, _)| *space == 1).collect();
    assert_eq!(first.drain(..).map(|(_, ops)| ops).collect::<Vec<_>>(), [2, 3, 4, 5]);
}

#[test]
fn a_batch_is_bounded() {
    let queue = Queue::default();
    for _ in 0..8 {
        push(&queue, 1, 256);
    }
    assert_eq!(batch(&queue).iter().map(|(_, ops)| ops).sum::<usize>(), BATCH_OPS_MAX);
}
