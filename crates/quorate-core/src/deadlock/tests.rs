//! Tests of deadlock detection. `detect` prints the duration of a run over 10,000 waits (target: under 20 ms).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::HashMap;

use super::*;

/// Something that an agent acquired in a record.
fn held(agent: u64, since: u64) -> Source {
    Source::Held { agent: AgentNo(agent), within: None, since: Seq(since) }
}

fn held_within(agent: u64, delivery: u64, since: u64) -> Source {
    Source::Held { agent: AgentNo(agent), within: Some(DeliveryNo(delivery)), since: Seq(since) }
}

fn inbox(agent: u64) -> Source {
    Source::Inbox(AgentNo(agent))
}

/// The wait-for graph of a test.
struct Scenario {
    waits: Vec<Wait<()>>,
    workloads: HashMap<u64, AgentWorkload>,
}

/// Waits as (agent, start, needs); the sources of one need are alternatives.
fn scenario(waits: &[(u64, u64, &[&[Source]])]) -> Scenario {
    let wait = |(agent, since, needs): &(u64, u64, &[&[Source]])| Wait {
        id: (),
        agent: AgentNo(*agent),
        within: None,
        age: (Seq(*since), 0),
        needs: (0..)
            .zip(needs.iter())
            .map(|(resource, sources)| Need { resource, sources: sources.to_vec() })
            .collect(),
    };
    Scenario { waits: waits.iter().map(wait).collect(), workloads: HashMap::new() }
}

impl Scenario {
    fn in_progress(mut self, agent: u64, count: usize) -> Self {
        self.workloads.entry(agent).or_default().in_progress = count;
        self
    }

    fn accepts_more(mut self, agent: u64) -> Self {
        self.workloads.entry(agent).or_default().accepts_more = true;
        self
    }

    fn within(mut self, wait: usize, delivery: u64) -> Self {
        self.waits[wait].within = Some(DeliveryNo(delivery));
        self
    }

    /// The agents of each cycle, the one whose wait is broken first.
    fn cycles(&self) -> Vec<Vec<u64>> {
        let workload = |agent: AgentNo| self.workloads.get(&agent.0).copied().unwrap_or_default();
        let agents =
            |cycle: DeadlockCycle| cycle.waits.iter().map(|(wait, _)| self.waits[*wait].agent.0).collect();
        find_cycles(&self.waits, workload).into_iter().map(agents).collect()
    }
}

const NONE: [Vec<u64>; 0] = [];

// Fails under: `cycles` finding none.
#[test]
fn d8_two_agents_that_wait_for_each_other_are_deadlocked() {
    assert_eq!(scenario(&[(1, 10, &[&[held(2, 5)]]), (2, 11, &[&[held(1, 4)]])]).cycles(), [[2, 1]]);
}

// Fails under: the oldest chosen; `rotate_left` left out.
#[test]
fn d8_the_youngest_wait_of_a_cycle_is_broken() {
    let waits: [(u64, u64, &[&[Source]]); 4] = [
        (1, 10, &[&[held(2, 1)]]),
        (2, 11, &[&[held(3, 1)]]),
        (4, 12, &[&[held(1, 1)]]),
        (3, 13, &[&[held(1, 1)]]),
    ];
    assert_eq!(scenario(&waits).cycles(), [[3, 1, 2]]);
}

// Fails under: a chain taken for a cycle.
#[test]
fn d8_a_chain_is_not_a_cycle() {
    let chain: [(u64, u64, &[&[Source]]); 3] =
        [(1, 10, &[&[held(2, 1)]]), (2, 11, &[&[held(3, 1)]]), (3, 12, &[&[held(4, 1)]])];
    assert_eq!(scenario(&chain).cycles(), NONE);
}

// Fails under: `since` ignored: a chain of calls A→B→C→D→A that calls back into A can progress.
#[test]
fn d8_work_acquired_while_waiting_progresses() {
    let call_back: [(u64, u64, &[&[Source]]); 2] = [(1, 10, &[&[held(2, 10)]]), (2, 11, &[&[held(1, 12)]])];
    assert_eq!(scenario(&call_back).in_progress(1, 1).in_progress(2, 1).cycles(), NONE);
}

// Fails under: `accepts_more` ignored, or an inbox that is never blocked.
#[test]
fn d8_a_callback_needs_an_agent_with_capacity() {
    let call_back: [(u64, u64, &[&[Source]]); 2] = [(1, 10, &[&[held(2, 10)]]), (2, 11, &[&[inbox(1)]])];
    assert_eq!(scenario(&call_back).in_progress(2, 1).accepts_more(1).cycles(), NONE);
    assert_eq!(scenario(&call_back).in_progress(2, 1).cycles(), [[2, 1]]);
}

// Fails under: `in_progress` not compared with the number of waits.
#[test]
fn d8_an_agent_with_more_work_than_waits_progresses() {
    let waits: [(u64, u64, &[&[Source]]); 2] = [(1, 10, &[&[held(2, 5)]]), (2, 11, &[&[held(1, 4)]])];
    assert_eq!(scenario(&waits).in_progress(1, 2).cycles(), NONE);
    assert_eq!(scenario(&waits).in_progress(1, 1).in_progress(2, 1).cycles(), [[2, 1]]);
}

// Fails under: the delivery of a wait ignored.
#[test]
fn d8_a_wait_of_a_delivery_blocks_nothing_else() {
    let own: [(u64, u64, &[&[Source]]); 2] =
        [(1, 10, &[&[held_within(2, 7, 5)]]), (2, 11, &[&[held_within(1, 6, 4)]])];
    let deadlocked = scenario(&own).in_progress(1, 9).in_progress(2, 9).within(0, 6).within(1, 7);
    assert_eq!(deadlocked.cycles(), [[2, 1]], "regardless of their other work");
    let other = scenario(&own).in_progress(1, 9).in_progress(2, 9).within(0, 8).within(1, 7);
    assert_eq!(other.cycles(), NONE);
}

// Fails under: all sources required where one is enough, or one need enough where all are required.
#[test]
fn d8_all_needs_and_any_source() {
    let any: [(u64, u64, &[&[Source]]); 2] =
        [(1, 10, &[&[held(2, 5), held(3, 5)]]), (2, 11, &[&[held(1, 4)]])];
    assert_eq!(scenario(&any).cycles(), NONE, "agent 3 can release it");
    let all: [(u64, u64, &[&[Source]]); 2] =
        [(1, 10, &[&[held(3, 5)], &[held(2, 5)]]), (2, 11, &[&[held(1, 4)]])];
    assert_eq!(scenario(&all).cycles(), [[2, 1]]);
    let both: [(u64, u64, &[&[Source]]); 3] =
        [(1, 10, &[&[held(2, 5), held(3, 5)]]), (2, 11, &[&[held(1, 4)]]), (3, 12, &[&[held(1, 4)]])];
    assert_eq!(scenario(&both).cycles(), [[2, 1]], "one of two is enough");
}

// Fails under: `dependents` left out.
#[test]
fn d8_a_queued_wait_depends_on_the_waits_ahead() {
    let queue: [(u64, u64, &[&[Source]]); 3] =
        [(1, 10, &[&[held(9, 1)]]), (2, 11, &[&[Source::Wait(0)]]), (9, 12, &[&[held(2, 2)]])];
    assert_eq!(scenario(&queue).cycles(), [[9, 2, 1]]);
}

// Fails under: an agent that waits for itself taken for deadlocked.
#[test]
fn d8_an_agent_that_waits_for_itself_is_ignored() {
    assert_eq!(scenario(&[(1, 10, &[&[held(1, 5)]])]).cycles(), NONE);
}

// Fails under: only the first cycle found.
#[test]
fn d8_every_cycle_is_broken() {
    let waits: [(u64, u64, &[&[Source]]); 5] = [
        (1, 10, &[&[held(2, 1)], &[held(3, 1)]]),
        (2, 11, &[&[held(1, 1)]]),
        (3, 12, &[&[held(1, 1)]]),
        (4, 13, &[&[held(5, 1)]]),
        (5, 14, &[&[held(4, 1)]]),
    ];
    assert_eq!(scenario(&waits).cycles(), [[2, 1], [5, 4], [3, 1]]);
}

/// Runs the detection over `count` waits: agents in cycles of five, each with a queue behind it.
fn detect(count: u64) -> (usize, std::time::Duration) {
    let mut waits = Vec::new();
    for number in 0..count {
        let (cycle, index) = (number / 10, number % 10);
        let sources = match index {
            0..5 => vec![held(1 + cycle * 5 + (index + 1) % 5, 1)],
            _ => vec![Source::Wait((number - 1) as usize)],
        };
        waits.push(Wait {
            id: (),
            agent: AgentNo(1 + if index < 5 { cycle * 5 + index } else { count + number }),
            within: None,
            age: (Seq(10), number),
            needs: vec![Need { resource: 0, sources }],
        });
    }
    let start = std::time::Instant::now();
    let found = find_cycles(&waits, |_| AgentWorkload::default()).len();
    (found, start.elapsed())
}

// Fails under: anything worse than linear: finding a thousand cycles one by one takes minutes.
#[test]
fn d8_ten_thousand_waits_take_milliseconds() {
    let (found, took) = detect(10_000);
    println!("10,000 waits with {found} cycles: {took:?}");
    assert_eq!(found, 1_000);
    assert!(took.as_millis() < 500, "a debug build on a busy machine; {took:?}");
}
