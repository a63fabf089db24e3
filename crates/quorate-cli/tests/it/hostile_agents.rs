//! Misbehaving agents and unusable input: a clear error, or a stored outcome with bounded size, and no lost findings.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use quorate::{Hub, ProcedureStatus};
use serde_json::Value;

use crate::support::QUORATE;

fn quorate(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(QUORATE).args(arguments).current_dir(directory).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const GOOD: &str = r#"{"summary":"I looked.","confidence":0.6,"recommendation":"yes"}"#;

/// Writes a script and returns the declaration of an agent that runs it.
fn script(directory: &Path, name: &str, lines: &str) -> String {
    fs::write(directory.join(format!("{name}.sh")), format!("cat > /dev/null\n{lines}\n")).expect("written");
    format!("  {name}: {{ use: 'cmd:sh {name}.sh' }}\n")
}

/// Declares misbehaving agents; returns each with a part of the expected reason.
fn misbehaving_agents(directory: &Path) -> (String, Vec<(&'static str, &'static str)>) {
    let agents_and_reasons = [
        ("endless", "echo waiting >&2; sleep 600", "did not answer in time"),
        ("exits", "echo 'no such clause' >&2; exit 1", "no such clause"),
        ("nonsense", r#"echo '{"verdict": 42}'"#, "summary"),
        ("sure", &format!("echo '{}'", GOOD.replace("0.6", "7")), "7 is greater than the maximum of 1"),
        ("verbose", "yes spam | head -c 1000000000", "1048576 bytes"),
    ];
    let agents = agents_and_reasons.iter().map(|(name, lines, _)| script(directory, name, lines)).collect();
    (agents, agents_and_reasons.iter().map(|(name, _, reason)| (*name, *reason)).collect())
}

fn playbook(directory: &Path, agents: &str, limits: &str) {
    let text =
        format!("procedure: deliberation\nsubject: Shall we?\nlimits: {{ {limits} }}\nagents:\n{agents}");
    fs::write(directory.join("playbook.yaml"), text).expect("written");
}

fn check_missing(missing: &Value, expected: &[(&str, &str)]) {
    assert_eq!(missing.as_array().map(Vec::len), Some(expected.len()), "{missing}");
    for ((agent, reason), reported) in expected.iter().zip(missing.as_array().expect("a list")) {
        assert_eq!(reported["agent"], *agent);
        assert!(reported["why"].to_string().contains(reason), "{reported}");
        assert_eq!(reported["why"].as_array().map(Vec::len), Some(2), "{agent} was retried once");
        assert!(!reported["why"].to_string().contains("msg_"), "the same in every run: {reported}");
        assert!(reported["why"].to_string().len() < 4_000, "the reason for {agent} is bounded");
    }
}

// Fails under: an agent that blocks the others or ends the run, unbounded output, an accepted confidence of 7.
#[test]
fn a8_misbehaving_agents_are_excluded_and_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let (agents, expected) = misbehaving_agents(path);
    let agents = script(path, "ada", &format!("echo '{GOOD}'")) + &agents;
    playbook(path, &agents, "analysis_ms: 4000, quorum: 1");
    let start = Instant::now();
    let (code, out, err) = quorate(path, &["run", "playbook.yaml", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let report: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!(report["synthesis"]["recommendation"], "yes");
    check_missing(&report["missing"], &expected);
}

// Fails under: a failure that discards the findings.
#[tokio::test(flavor = "multi_thread")]
async fn a8_findings_are_stored_if_the_quorum_is_not_met() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let (agents, expected) = misbehaving_agents(path);
    let agents = script(path, "ada", &format!("echo '{GOOD}'")) + &agents;
    playbook(path, &agents, "analysis_ms: 4000, quorum: 2");
    let (code, out, err) = quorate(path, &["run", "playbook.yaml", "--json"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    for (agent, _) in &expected {
        assert!(err.contains(agent), "{agent} in {err}");
    }
    let id = err.split("deliberation ").nth(1).and_then(|rest| rest.split(' ').next()).expect("its id");
    let hub = Hub::open(path.join("quorate-data")).await.expect("it opens");
    let procedure = hub.procedure(id).await.expect("it is there");
    assert_eq!(procedure.procedure().status, ProcedureStatus::Failed);
    let result: Value = procedure.result().expect("JSON").expect("a result");
    assert_eq!(result["findings"]["ada"]["summary"], "I looked.", "{result}");
    check_missing(&result["missing"], &expected);
    hub.close().await;
}

// Fails under: input that is read completely before its size is checked; YAML whose aliases are all expanded.
#[test]
fn unusable_input_is_rejected_immediately() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    playbook(path, "  ada: { use: 'heuristic:risk' }\n", "rounds: 1");
    fs::write(path.join("long.txt"), "a contract. ".repeat(50_000_000 / 12)).expect("written");
    fs::write(path.join("long.yaml"), "# a comment\n".repeat(50_000_000 / 12)).expect("written");
    fs::write(path.join("deep.yaml"), "[".repeat(500_000)).expect("written");
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let in_place =
        format!("procedure: deliberation\nsubject: x\nagents: {{ ada: {{ use: 'cmd:true' }} }}\n{bomb}");
    fs::write(path.join("bomb.yaml"), bomb + "subject: *a29\n").expect("written");
    fs::write(path.join("bomb-2.yaml"), in_place + "vocabulary: { severities: *a29 }\n").expect("written");
    for (arguments, expected) in [
        (&["run", "none.yaml"][..], "none.yaml"),
        (&["run", "."], "failed to read ."),
        (&["run", "playbook.yaml", "--input", "none.txt"], "none.txt"),
        (&["run", "playbook.yaml", "--input", "/dev/null"], "is empty"),
        (&["run", "playbook.yaml", "--input", "/dev/zero"], "262144"),
        (&["run", "playbook.yaml", "--input", "long.txt"], "262144"),
        (&["run", "playbook.yaml", "--input", QUORATE], "quorate"),
        (&["run", "long.yaml"], "1048576"),
        (&["run", "deep.yaml"], "deep.yaml:"),
        (&["run", "bomb.yaml"], "bomb.yaml:"),
        (&["run", "bomb-2.yaml"], "bomb-2.yaml:"),
    ] {
        let start = Instant::now();
        let (code, out, err) = quorate(path, arguments);
        assert!(
            matches!(code, Some(1..=3)) && out.is_empty() && err.contains(expected),
            "{code:?} {out} {err}"
        );
        assert!(err.len() < 4_000 && !err.contains("panicked"), "{err}");
        assert!(start.elapsed() < Duration::from_secs(10), "{arguments:?}: {:?}", start.elapsed());
    }
    assert!(!path.join("quorate-data").exists(), "nothing was started");
}

const PLAIN: &str = "The Supplier delivers a dozen chairs on Monday. The Customer puts them into the hall.\n";
const PERSONAL: &str =
    "The Supplier processes personal data of the Customer's employees as a processor under the GDPR.\n";

// Fails under: a heuristic that is asked although the contract does not concern it; a quorum that counts agents not asked.
#[test]
fn a1_a_heuristic_takes_part_only_if_the_contract_concerns_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let agents = "  risk: { use: 'heuristic:risk' }\n  law: { use: 'heuristic:compliance' }\n";
    fs::write(path.join("plain.txt"), PLAIN.repeat(3)).expect("written");
    fs::write(path.join("personal.txt"), PLAIN.to_owned() + PERSONAL).expect("written");
    let run_with = |agents: &str, input: &str| {
        playbook(path, agents, "quorum: 2");
        let (code, out, err) = quorate(path, &["run", "playbook.yaml", "--json", "--input", input]);
        assert_eq!(code, Some(0), "{err}");
        let report: Value = serde_json::from_str(&out).expect("one document");
        (
            report["quorum"]["asked"].clone(),
            report["quorum"]["needed"].clone(),
            report["not_asked"].clone(),
            err,
        )
    };
    let (count, needed, not_asked, err) = run_with(agents, "plain.txt");
    assert_eq!((count, needed), (1.into(), 1.into()));
    assert_eq!(not_asked, serde_json::json!([{ "agent": "law", "why": "nothing in the text concerns it" }]));
    assert!(err.contains("law not asked: nothing in the text concerns it"), "{err}");
    let (count, needed, not_asked, _) = run_with(agents, "personal.txt");
    assert_eq!((count, needed, not_asked), (2.into(), 2.into(), Value::Null));
    let always = agents.replace("compliance'", "compliance', when: always");
    assert_eq!(run_with(&always, "plain.txt").0, 2);
    // No agent is concerned, and an agent that is not a heuristic.
    playbook(path, "  law: { use: 'heuristic:compliance' }\n", "rounds: 1");
    let (code, _, err) = quorate(path, &["run", "playbook.yaml", "--input", "plain.txt"]);
    assert!(code == Some(2) && err.contains("playbook.yaml:5") && err.contains("when: always"), "{err}");
    playbook(path, "  ada: { use: 'cmd:true', when: concerned }\n", "rounds: 1");
    let (code, _, err) = quorate(path, &["run", "playbook.yaml", "--input", "plain.txt"]);
    assert!(code == Some(2) && err.contains("agents.ada.when"), "{err}");
}
