//! What the hub refuses for a while, or for one agent only, ends no deliberation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quorate::deliberation::{Member, Spec};
use quorate::{Failure, Hub, Running, Work};
use quorate_core::{Code, Commit, Destination, Op, Principal, Refused, Seq};
use quorate_sim::data_directory;
use quorate_sim::gate::{Judge, TurnedAway};
use quorate_store::StoreError;
use serde_json::{Value, json};

use super::stage::{Cast, deliberate, gated, spec, timeless};

fn is_of_the_driver(commit: &Commit) -> bool {
    matches!(&commit.principal, Principal::Agent(agent) if agent.as_str() == "deliberations")
}

/// The place of a question to ben.
fn asks_ben(commit: &Commit) -> Option<usize> {
    commit.ops.iter().position(|op| match op {
        Op::Request(ask) => matches!(&ask.message.to, Destination::Agent(agent) if agent.as_str() == "ben"),
        _ => false,
    })
}

/// Ben's inbox is full, the first times; counts the questions that he could not take.
fn full_for_ben(times: usize) -> (Judge, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let judge = move |commit: &Commit, _: Seq| {
        let place = asks_ben(commit).filter(|_| seen.load(Ordering::SeqCst) < times)?;
        seen.fetch_add(1, Ordering::SeqCst);
        let refused = Refused::new(Code::QueueFull, "the inbox of agent ben is full").at_op(place);
        Some(TurnedAway::Refused(refused))
    };
    (Box::new(judge), count)
}

async fn undisturbed(spec: &Spec) -> (Value, Vec<String>) {
    let directory = data_directory();
    let hub = gated(&directory.path().join("hub"), Box::new(|_, _| None)).await;
    let (result, sent) = deliberate(hub, Cast::Three, spec).await.expect("nothing happens");
    (timeless(result), sent)
}

// Fails under: a refusal that passes and ends the deliberation; a question that is not put again, or twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_a_full_inbox_is_waited_for() {
    let (directory, spec) = (data_directory(), spec(Cast::Three));
    let (judge, refused) = full_for_ben(3);
    let hub = gated(&directory.path().join("hub"), judge).await;
    let (result, sent) = deliberate(hub, Cast::Three, &spec).await.expect("it ends");
    assert_eq!((timeless(result), sent), undisturbed(&spec).await);
    assert_eq!(refused.load(Ordering::SeqCst), 3);
}

// Fails under: one full inbox that keeps the others from coming to a result; a try without a pause; a result that does not
// say who is missing and why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_an_inbox_that_stays_full_leaves_its_agent_out() {
    let (directory, mut spec) = (data_directory(), spec(Cast::Three));
    (spec.limits.analysis_ms, spec.limits.message_ms) = (1_000, 1_000);
    let (judge, refused) = full_for_ben(usize::MAX);
    let hub = gated(&directory.path().join("hub"), judge).await;
    let (result, _) = deliberate(hub, Cast::Three, &spec).await.expect("it ends");
    let missing = result["missing"].as_array().expect("a list");
    assert_eq!((missing.len(), &missing[0]["agent"]), (1, &json!("ben")));
    let why = "the inbox of agent ben is full";
    assert_eq!(missing[0]["why"], json!([why, why]));
    let found: Vec<_> = result["findings"].as_object().expect("findings").keys().collect();
    assert_eq!(found, ["ada", "cleo"]);
    let tries = refused.load(Ordering::SeqCst);
    assert!((2..20).contains(&tries), "{tries} tries in two seconds");
}

// Fails under: a driver that lets go of a deliberation when the hub cannot write for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_hub_that_cannot_write_for_a_while_goes_on_afterwards() {
    let (directory, spec) = (data_directory(), spec(Cast::Three));
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let judge = move |commit: &Commit, _: Seq| {
        let registers = matches!(commit.ops.first(), Some(Op::RegisterAgent(_)));
        if !is_of_the_driver(commit) || registers {
            return None;
        }
        // Three bad times, each of several tries.
        match seen.fetch_add(1, Ordering::SeqCst) {
            1..6 => Some(TurnedAway::Failed(StoreError::Busy)),
            9..14 => Some(TurnedAway::Failed(StoreError::Full)),
            17..22 => Some(TurnedAway::Refused(Refused::new(Code::Overloaded, "too much waits"))),
            _ => None,
        }
    };
    let hub = gated(&directory.path().join("hub"), Box::new(judge)).await;
    let (result, sent) = deliberate(hub, Cast::Three, &spec).await.expect("it ends");
    assert_eq!((timeless(result), sent), undisturbed(&spec).await);
    assert!(count.load(Ordering::SeqCst) > 22, "all bad times were met");
}

/// Everybody holds something else on everything, and keeps to it.
async fn crowd(hub: &Hub, names: &[String]) -> Vec<Running> {
    let mut running = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let facts = ["one", "two", "three", "four", "five"].map(|fact| (fact, format!("{fact} by {at}")));
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
        running.push(agent.at_once(8).run().await.expect("it runs"));
    }
    running
}

async fn with_a_crowd(count: usize, change: impl FnOnce(&mut Spec)) -> Value {
    let directory = data_directory();
    let hub = gated(&directory.path().join("hub"), Box::new(|_, _| None)).await;
    let names: Vec<String> = (0..count).map(|at| format!("a{at}")).collect();
    let _running = crowd(&hub, &names).await;
    let members = names.into_iter().map(|id| Member { id, provider: None }).collect();
    let mut spec = Spec::contract("Shall we?", Value::Null, members);
    spec.limits.rounds = 1;
    change(&mut spec);
    // The three of the cast are there too, and nobody asks them.
    deliberate(hub, Cast::Three, &spec).await.expect("it ends").0
}

// Fails under: a round of which only what fits in one commit is asked, or that is refused as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_a_round_of_more_questions_than_fit_in_a_commit_is_asked_in_full() {
    let result = with_a_crowd(60, |spec| spec.limits.messages = 1_000).await;
    assert_eq!(result["missing"], json!([]));
    assert_eq!(result["decisions"].as_array().expect("a list").len(), 5);
    let said = result["messages"].as_array().expect("a list").iter().filter(|one| one["round"] == 1);
    assert_eq!(said.count(), 300);
}

// Fails under: questions that are too much together and end the deliberation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_an_input_that_is_too_large_for_all_in_one_commit_reaches_all() {
    let text = "All parties agree. ".repeat(23_000);
    let result = with_a_crowd(6, |spec| spec.input = json!({ "text": text })).await;
    assert_eq!(result["missing"], json!([]));
    assert_eq!(result["findings"].as_object().expect("findings").len(), 6);
}
