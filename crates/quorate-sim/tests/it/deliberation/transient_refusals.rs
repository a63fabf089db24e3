//! Temporary refusals, or refusals for one agent only, do not end a deliberation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quorate::deliberation::{Member, Spec};
use quorate::{Failure, Hub, RunningAgent, Work};
use quorate_core::{Code, Commit, Destination, Op, Principal, Refused, Seq};
use quorate_sim::data_directory;
use quorate_sim::fault_store::{FaultRule, InjectedFault};
use quorate_store::StoreError;
use serde_json::{Value, json};

use super::fixture::{AgentSet, hub_with_faults, run_deliberation, spec, without_times};

fn is_from_driver(commit: &Commit) -> bool {
    matches!(&commit.principal, Principal::Agent(agent) if agent.as_str() == "deliberations")
}

/// Returns the index of a request to ben.
fn request_to_ben(commit: &Commit) -> Option<usize> {
    commit.ops.iter().position(|op| match op {
        Op::Request(request) => {
            matches!(&request.message.to, Destination::Agent(agent) if agent.as_str() == "ben")
        }
        _ => false,
    })
}

/// Refuses the first `times` requests to ben as if his inbox were full, and counts them.
fn full_inbox_of_ben(times: usize) -> (FaultRule, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let rule = move |commit: &Commit, _: Seq| {
        let index = request_to_ben(commit).filter(|_| seen.load(Ordering::SeqCst) < times)?;
        seen.fetch_add(1, Ordering::SeqCst);
        let refused = Refused::new(Code::QueueFull, "the inbox of agent ben is full").at_op(index);
        Some(InjectedFault::Refused(refused))
    };
    (Box::new(rule), count)
}

async fn undisturbed(spec: &Spec) -> (Value, Vec<String>) {
    let directory = data_directory();
    let hub = hub_with_faults(&directory.path().join("hub"), Box::new(|_, _| None)).await;
    let (result, sent) = run_deliberation(hub, AgentSet::Three, spec).await.expect("no faults");
    (without_times(result), sent)
}

// Fails under: a temporary refusal that ends the deliberation; a question that is not retried, or sent twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_full_inbox_is_retried() {
    let (directory, spec) = (data_directory(), spec(AgentSet::Three));
    let (rule, refused) = full_inbox_of_ben(3);
    let hub = hub_with_faults(&directory.path().join("hub"), rule).await;
    let (result, sent) = run_deliberation(hub, AgentSet::Three, &spec).await.expect("deliberation ends");
    assert_eq!((without_times(result), sent), undisturbed(&spec).await);
    assert_eq!(refused.load(Ordering::SeqCst), 3);
}

// Fails under: one full inbox that prevents a result; a retry without backoff; a result that does not list the missing
// agent with a reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_an_agent_whose_inbox_stays_full_is_excluded() {
    let (directory, mut spec) = (data_directory(), spec(AgentSet::Three));
    (spec.limits.analysis_ms, spec.limits.message_ms) = (1_000, 1_000);
    let (rule, refused) = full_inbox_of_ben(usize::MAX);
    let hub = hub_with_faults(&directory.path().join("hub"), rule).await;
    let (result, _) = run_deliberation(hub, AgentSet::Three, &spec).await.expect("deliberation ends");
    let missing = result["missing"].as_array().expect("a list");
    assert_eq!((missing.len(), &missing[0]["agent"]), (1, &json!("ben")));
    let reason = "the inbox of agent ben is full";
    assert_eq!(missing[0]["why"], json!([reason, reason]));
    let found: Vec<_> = result["findings"].as_object().expect("findings").keys().collect();
    assert_eq!(found, ["ada", "cleo"]);
    let attempts = refused.load(Ordering::SeqCst);
    assert!((2..20).contains(&attempts), "{attempts} attempts in two seconds");
}

// Fails under: a driver that abandons a deliberation while the hub cannot write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_deliberation_resumes_after_temporary_write_failures() {
    let (directory, spec) = (data_directory(), spec(AgentSet::Three));
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let rule = move |commit: &Commit, _: Seq| {
        let registers = matches!(commit.ops.first(), Some(Op::RegisterAgent(_)));
        if !is_from_driver(commit) || registers {
            return None;
        }
        // Three periods of failures, each with several attempts.
        match seen.fetch_add(1, Ordering::SeqCst) {
            1..6 => Some(InjectedFault::Failed(StoreError::Busy)),
            9..14 => Some(InjectedFault::Failed(StoreError::DiskFull)),
            17..22 => Some(InjectedFault::Refused(Refused::new(Code::Overloaded, "too much waits"))),
            _ => None,
        }
    };
    let hub = hub_with_faults(&directory.path().join("hub"), Box::new(rule)).await;
    let (result, sent) = run_deliberation(hub, AgentSet::Three, &spec).await.expect("deliberation ends");
    assert_eq!((without_times(result), sent), undisturbed(&spec).await);
    assert!(count.load(Ordering::SeqCst) > 22, "all failures were reached");
}

/// Starts agents that disagree on every fact and never change their position.
async fn start_disagreeing_agents(hub: &Hub, names: &[String]) -> Vec<RunningAgent> {
    let mut running = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let facts = ["one", "two", "three", "four", "five"].map(|fact| (fact, format!("{fact} by {index}")));
        let finding = json!({
            "summary": "Looked.",
            "confidence": 0.5,
            "facts": facts.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        });
        let analyse = move |_: Work<Value>| {
            let finding = finding.clone();
            async move { Ok::<_, Failure>(finding) }
        };
        let discuss = |work: Work<Value>| async move {
            let position = &work.payload["your_position"]["position"];
            Ok::<_, Failure>(
                json!({"revised_position": position, "agrees_with_peer": false, "reasoning": "I am sure."}),
            )
        };
        let agent = hub.agent(name).on("analyse", analyse).on("discuss", discuss);
        running.push(agent.concurrency(8).run().await.expect("it runs"));
    }
    running
}

async fn deliberate_with_agents(count: usize, change: impl FnOnce(&mut Spec)) -> Value {
    let directory = data_directory();
    let hub = hub_with_faults(&directory.path().join("hub"), Box::new(|_, _| None)).await;
    let names: Vec<String> = (0..count).map(|index| format!("a{index}")).collect();
    let _running = start_disagreeing_agents(&hub, &names).await;
    let members = names.into_iter().map(|id| Member { id, provider: None }).collect();
    let mut spec = Spec::contract("Shall we?", Value::Null, members);
    spec.limits.rounds = 1;
    change(&mut spec);
    // The three agents of the fixture are registered too, but not members.
    run_deliberation(hub, AgentSet::Three, &spec).await.expect("deliberation ends").0
}

// Fails under: a round that is truncated to one commit, or refused as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_a_round_that_exceeds_one_commit_is_sent_completely() {
    let result = deliberate_with_agents(60, |spec| spec.limits.messages = 1_000).await;
    assert_eq!(result["missing"], json!([]));
    assert_eq!(result["decisions"].as_array().expect("a list").len(), 5);
    let discussion =
        result["messages"].as_array().expect("a list").iter().filter(|message| message["round"] == 1);
    assert_eq!(discussion.count(), 300);
}

// Fails under: questions that together exceed the commit size and end the deliberation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_an_input_too_large_for_one_commit_reaches_all_members() {
    let text = "All parties agree. ".repeat(23_000);
    let result = deliberate_with_agents(6, |spec| spec.input = json!({ "text": text })).await;
    assert_eq!(result["missing"], json!([]));
    assert_eq!(result["findings"].as_object().expect("findings").len(), 6);
}
