//! Deliberations in a hub that is killed after each record.

use super::fixture::{AgentSet, run_deliberation, spec, without_times};
use crate::kill_harness::{Commits, kill_after_each_record};

async fn killed_after_every_record(agent_set: AgentSet, commits: Commits) {
    let spec = spec(agent_set);
    let run = |hub| async {
        let (result, sent) = run_deliberation(hub, agent_set, &spec).await?;
        Some((without_times(result), sent))
    };
    let (result, _) = kill_after_each_record(commits, run).await;
    assert_eq!(result["synthesis"]["recommendation"], "do not sign", "{result:#}");
    let missing = result["missing"].as_array().expect("a list").len();
    assert_eq!(missing, if agent_set == AgentSet::TwoMissing { 2 } else { 0 }, "{result:#}");
}

// Fails under: a state that is stored in another commit than its questions; an answer that is not received after a
// restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_deliberation_survives_a_kill_after_each_record() {
    killed_after_every_record(AgentSet::Three, Commits::Whole).await;
}

// Fails under: a retried question that is sent again after a restart, or that lacks the error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_deliberation_with_a_retry_survives_a_kill_after_each_record() {
    killed_after_every_record(AgentSet::OneRetry, Commits::Whole).await;
}

// Fails under: a missing agent that is asked again after a restart, or not reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_deliberation_with_two_missing_agents_survives_a_kill_after_each_record() {
    killed_after_every_record(AgentSet::TwoMissing, Commits::Whole).await;
}

// Fails under: a message of a step that is not sent after a kill between its commits; an end that is recorded before
// all messages are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_deliberation_in_small_commits_survives_a_kill_after_each_record() {
    killed_after_every_record(AgentSet::OneRetry, Commits::Small).await;
}
