//! A deliberation in a hub whose power goes at any operation of the disk: it goes on where it was, asks nobody again for
//! what is on record, and comes to the same result.
// A test may stop at the first surprise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorate::deliberation::{Member, Spec};
use quorate::{Failure, Hub, ProcedureDraft, ProcedureStatus, Running, Settings, Work};
use quorate_sqlite::{Disk, How, Options};
use serde_json::{Value, json};

/// Nothing here takes that long.
const SOON: Duration = Duration::from_secs(60);
const AGENTS: [(&str, f64, &str, f64); 3] = [
    ("ada", 80.0, "do not sign", 0.9),
    ("ben", 30.0, "minor revisions", 0.6),
    ("cleo", 40.0, "minor revisions", 0.7),
];

fn spec() -> Spec {
    let members = AGENTS.map(|(id, ..)| Member { id: id.to_owned(), provider: None }).to_vec();
    Spec::contract("Shall we sign?", json!({"text": "a contract"}), members)
}

/// Finds what it always finds; keeps to it, except ben, whom a surer peer convinces.
fn answer(name: &str, action: &str, asked: &Value) -> Value {
    let (_, score, recommendation, confidence) = AGENTS.into_iter().find(|one| one.0 == name).expect("known");
    if action == "analyse" {
        return json!({
            "summary": format!("{name} has read it."),
            "confidence": confidence,
            "scores": {"overall_risk_score": score},
            "recommendation": recommendation,
        });
    }
    let mine = asked["your_position"]["position"].clone();
    let surest = asked["other_positions"].as_array().expect("a list").iter().max_by(|one, other| {
        let sure = |position: &Value| position["confidence"].as_f64().unwrap_or(0.0);
        sure(one).total_cmp(&sure(other))
    });
    let convinced = name == "ben";
    let position = if convinced { surest.expect("a peer")["position"].clone() } else { mine };
    json!({
        "revised_position": position,
        "confidence": confidence,
        "agrees_with_peer": convinced,
        "reasoning": format!("{name} thought again."),
    })
}

async fn agents(hub: &Hub) -> Result<Vec<Running>, quorate::Error> {
    let mut running = Vec::new();
    for (name, ..) in AGENTS {
        let handler = move |action: &'static str| {
            move |work: Work<Value>| async move { Ok::<_, Failure>(answer(name, action, &work.payload)) }
        };
        let agent = hub.agent(name).on("analyse", handler("analyse")).on("discuss", handler("discuss"));
        running.push(agent.at_once(8).run().await?);
    }
    Ok(running)
}

/// Runs the deliberation to its end, or until the power goes.
async fn deliberate(data: &Path, disk: Option<Arc<Disk>>) -> Option<(Value, usize)> {
    let store = Options { disk, ..Options::default() };
    let hub = Hub::open_with(data, Settings { store, ..Settings::default() }).await.ok()?;
    let work = async {
        let _agents = agents(&hub).await.ok()?;
        let driver = hub.drive_deliberations().await.ok()?;
        hub.start_procedure(ProcedureDraft::deliberation(&spec()).id("p")).await.ok()?;
        loop {
            let procedure = hub.procedure("p").await.ok()?;
            match procedure.procedure().status {
                ProcedureStatus::Running => tokio::task::yield_now().await,
                ProcedureStatus::Done => {
                    driver.stop().await;
                    let sent = sent(&hub).await;
                    return Some((procedure.result::<Value>().ok()??, sent));
                }
                ProcedureStatus::Failed => panic!("{:?}", procedure.result::<Value>()),
            }
        }
    };
    let worked = tokio::select! {
        worked = tokio::time::timeout(SOON, work) => worked.expect("in time"),
        _ = hub.space().expect("a hub in this process").engine().failure() => None,
    };
    hub.close().await;
    worked
}

/// How many messages were asked and published in all: what is on record is not sent again.
async fn sent(hub: &Hub) -> usize {
    hub.outbox("deliberations", None, 500).await.expect("an outbox").messages.len()
}

/// Without what tells one run from another: times, and what they add up to.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !["timestamp", "actual"].contains(&name.as_str()));
            fields.values_mut().for_each(|field| *field = timeless(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = timeless(item.take())),
        _ => {}
    }
    value
}

// Fails under: a state that is stored in another commit than what it asks; a question without an id of its own; an answer
// that is not heard after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_a_deliberation_goes_on_after_a_cut_at_any_operation_of_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    disk.faults().track();
    let whole = deliberate(&directory.path().join("whole"), Some(Arc::clone(&disk))).await;
    let (whole, messages) = whole.expect("nothing was cut");
    let whole = timeless(whole);
    assert_eq!(whole["synthesis"]["recommendation"], "do not sign", "{whole:#}");
    let ops = disk.faults().ops();
    let mut cut_in_time = 0;
    // A record is several writes and a sync: every second operation is at least one in each record.
    for op in (1..=ops).step_by(2) {
        let disk = Disk::new();
        disk.faults().track();
        disk.faults().cut_at(op);
        let (before, after) =
            (directory.path().join(format!("{op}")), directory.path().join(format!("{op}-on")));
        if deliberate(&before, Some(Arc::clone(&disk))).await.is_none() {
            cut_in_time += 1;
        }
        disk.faults().image(op, &after, How::KeepAll).unwrap();
        let (result, sent) = deliberate(&after, None).await.expect("nothing is cut");
        assert_eq!(timeless(result), whole, "cut at {op}");
        assert_eq!(sent, messages, "cut at {op}");
        std::fs::remove_dir_all(&after).unwrap();
    }
    assert!(cut_in_time * 3 > ops, "{cut_in_time} of {ops}");
}
