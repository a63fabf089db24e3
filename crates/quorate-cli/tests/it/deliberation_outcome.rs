//! Outcomes of `quorate deliberate` and `quorate run`: headline, JSON and exit code are consistent.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::fixture::{CommandOutput, command_output};
use crate::support::QUORATE;

/// An agent that keeps its position, and agrees with peers that hold the same.
const AGENT: &str = r#"
import json, sys
asked = json.load(sys.stdin)
if asked["action"] == "analyse":
    answer = {"summary": "I looked.", "confidence": float(sys.argv[2]), "recommendation": sys.argv[1]}
else:
    payload = asked["payload"]
    own = payload["your_position"]
    agrees = any(one["position"] == own["position"] for one in payload["other_positions"])
    answer = {"revised_position": own["position"], "confidence": own["confidence"], "agrees_with_peer": agrees,
              "reasoning": "I stay."}
json.dump(answer, sys.stdout)
"#;

fn quorate(directory: &Path, arguments: &[&str]) -> CommandOutput {
    let output = Command::new(QUORATE).args(arguments).current_dir(directory).output();
    command_output(&output.expect("it runs"))
}

/// Runs a deliberation of agents with these positions; returns the report as text and as JSON.
fn deliberate(positions: &[(&str, &str)], options: &[&str]) -> (CommandOutput, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("says.py"), AGENT).expect("written");
    let agents: Vec<String> = positions
        .iter()
        .enumerate()
        .map(|(index, (choice, confidence))| format!("a{index}=cmd:python3 says.py {choice} {confidence}"))
        .collect();
    let mut arguments = vec!["deliberate", "Shall we?"];
    agents.iter().for_each(|agent| arguments.extend(["--agent", agent.as_str()]));
    arguments.extend(options);
    let result = quorate(directory.path(), &arguments);
    let shown = quorate(directory.path(), &["deliberation", "show", "@last", "--json"]);
    assert_eq!(shown.code, Some(0), "showing it is not a failure: {}", shown.err);
    (result, serde_json::from_str(&shown.out).expect("one document"))
}

#[test]
fn v1_agents_who_agree_from_the_start_do_not_override_the_rule() {
    let (result, document) = deliberate(&[("no", "0.99"), ("yes", "0.3"), ("yes", "0.3")], &[]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(
        result.out.contains("✓ no\n") && result.out.contains("contested: 1 of 3, by weight"),
        "{}",
        result.out
    );
    assert!(result.out.contains("voted after 2 rounds") && !result.out.contains("agreed"), "{}", result.out);
    assert_eq!(document["decisions"][0]["how"], "voted");
}

#[test]
fn n2_plain_text_is_not_comparable_and_no_decision() {
    let directory = tempfile::tempdir().expect("a directory");
    let agents = ["a=cmd:echo It looks fine to me.", "b=cmd:echo I would not do it."];
    let arguments = ["deliberate", "Shall we?", "--agent", agents[0], "--agent", agents[1]];
    let result = quorate(directory.path(), &arguments);
    assert_eq!(result.code, Some(8), "{}", result.err);
    assert!(result.out.contains("· no decision: no agent gave a recommendation"), "{}", result.out);
    assert!(!result.out.contains("unanimous"), "{}", result.out);
    let result = quorate(directory.path(), &[&arguments[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&result.out).expect("one document");
    let synthesis = &document["synthesis"];
    assert_eq!((result.code, &synthesis["recommendation"]), (Some(8), &Value::Null));
    assert_eq!(synthesis["agreement"], json!({"level": "not_comparable", "reason": "no_recommendations"}));
    let listed = quorate(directory.path(), &["deliberation", "list"]);
    assert!(listed.out.contains("no decision: no recommendation"), "{}", listed.out);
}

#[test]
fn n2_the_headline_matches_the_numbers() {
    let (result, document) = deliberate(&[("yes", "1"), ("no", "0.4"), ("no", "0.4")], &[]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.out.contains("contested: 1 of 3, by weight"), "{}", result.out);
    assert_eq!(document["synthesis"]["agreement"]["level"], "contested");
    let (result, _) = deliberate(&[("yes", "0.5"), ("no", "0.6"), ("no", "0.6")], &[]);
    assert!(result.out.contains("majority 2 of 3"), "{}", result.out);
    let (result, document) = deliberate(&[("yes", "0.5"), ("yes", "0.6")], &[]);
    assert!(result.out.contains("· unanimous\n"), "{}", result.out);
    assert_eq!(document["synthesis"]["agreement"], json!({"level": "unanimous", "held": 2, "of": 2}));
}

#[test]
fn n18_a_tie_is_no_decision_unless_a_tie_break_is_declared() {
    let (result, document) = deliberate(&[("yes", "0.5"), ("no", "0.5")], &[]);
    assert_eq!(result.code, Some(8), "{}", result.err);
    assert!(result.out.contains("= no decision: tied between no and yes"), "{}", result.out);
    assert!(!result.out.contains("stands by") && !result.out.contains('✓'), "{}", result.out);
    assert!(result.err.contains("no decision") && result.err.contains("tie_break"), "{}", result.err);
    assert_eq!(document["synthesis"]["recommendation"], Value::Null);
    assert_eq!(document["decisions"][0]["position"], Value::Null);
    let (result, document) =
        deliberate(&[("yes", "0.5"), ("no", "0.5")], &["--options", "yes,no", "--tie-break", "last-listed"]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert!(result.out.contains("✓ no\n"), "{}", result.out);
    assert!(result.out.contains("contested: 1 of 2, by tie-break last-listed"), "{}", result.out);
    assert_eq!(document["tie_break"], "last-listed");
    assert_eq!(document["synthesis"]["agreement"]["tie_break"], "last-listed");
}

#[test]
fn n18_a_playbook_declares_its_tie_break() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("says.py"), AGENT).expect("written");
    let playbook = |tie_break: &str| {
        let text = format!(
            "procedure: deliberation\nsubject: Shall we?\n{tie_break}agents:\n  a: {{ use: 'cmd:python3 says.py yes 0.5' }}\n  b: {{ use: 'cmd:python3 says.py no 0.5' }}\n"
        );
        fs::write(directory.path().join("playbook.yaml"), text).expect("written");
        quorate(directory.path(), &["run", "playbook.yaml"])
    };
    assert_eq!(playbook("").code, Some(8));
    let decided = playbook("tie_break: first-listed\n");
    assert_eq!(decided.code, Some(0), "{}", decided.err);
    assert!(decided.out.contains("by tie-break first-listed"), "{}", decided.out);
    let invalid = playbook("tie_break: a coin\n");
    assert_eq!(invalid.code, Some(2), "{}", invalid.err);
}

/// An agent that echoes its own position, in a conflict about a score and one about what to do.
const ECHOES: &str = r#"
import json, sys
asked = json.load(sys.stdin)
if asked["action"] == "analyse":
    answer = {"summary": "I looked.", "confidence": 0.6, "recommendation": sys.argv[1],
              "scores": {"risk": float(sys.argv[2])}}
else:
    own = asked["payload"]["your_position"]
    position = own["position"]
    if len(sys.argv) > 3 and asked["payload"]["conflict"]["kind"] == "numeric":
        position = str(position) if sys.argv[3] == "text" else "no idea"
    answer = {"revised_position": position, "confidence": own["confidence"], "agrees_with_peer": False,
              "reasoning": "I stay."}
json.dump(answer, sys.stdout)
"#;

fn run_scored(third: &str) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("echoes.py"), ECHOES).expect("written");
    let text = format!(
        "procedure: deliberation\nsubject: Shall we?\nconflicts: [{{ numeric: {{ score: risk, spread: 20 }} }}, {{ categorical: {{}} }}]\nagents:\n  a: {{ use: 'cmd:python3 echoes.py yes 35' }}\n  b: {{ use: 'cmd:python3 echoes.py no 80.5' }}\n  c: {{ use: 'cmd:python3 echoes.py no 70 {third}' }}\n"
    );
    fs::write(directory.path().join("playbook.yaml"), text).expect("written");
    let result = quorate(directory.path(), &["run", "playbook.yaml", "--json"]);
    assert_eq!(result.code, Some(0), "{}", result.err);
    serde_json::from_str(&result.out).expect("one document")
}

#[test]
fn n3_an_agent_may_echo_its_position_in_a_numeric_conflict() {
    for third in ["", "text"] {
        let document = run_scored(third);
        assert_eq!(document["missing"], json!([]), "{third}");
        let numeric = document["decisions"]
            .as_array()
            .expect("decisions")
            .iter()
            .find(|decision| decision["kind"] == "numeric");
        let numeric = numeric.expect("a conflict about the score");
        assert_eq!(
            (&numeric["ballots"][0]["position"], &numeric["ballots"][2]["position"]),
            (&json!(35), &json!(70))
        );
    }
}

#[test]
fn n3_a_bad_answer_is_dropped_alone_and_its_calls_are_counted() {
    let document = run_scored("nonsense");
    let missing = document["missing"].as_array().expect("a list");
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0]["agent"], "c");
    assert!(missing[0]["why"].to_string().contains("no idea"), "{missing:?}");
    let messages = document["messages"].as_array().expect("messages").iter();
    let sent = messages.filter(|message| message["round"] == 2 && message["sender"] == "c").count();
    assert_eq!(sent, 1, "c continues in the other conflict");
    // 3 findings; round 1: 2 conflicts with 3 agents, one asked twice; round 2: c takes part in one conflict only.
    let calls = |phase: &str| document["actual"][phase]["providers"]["local"]["calls"].as_u64();
    assert_eq!((calls("analysis"), calls("discussion")), (Some(3), Some(7 + 5)));
}
