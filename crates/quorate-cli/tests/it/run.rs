//! `quorate run` with real playbooks, programs and reports.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::support::{Hub, QUORATE, run_guide};

#[test]
fn a1_the_commands_of_the_first_playbook_guide_work() {
    run_guide("your-first-playbook.md");
}

const PLAYBOOK: &str =
    "procedure: deliberation\nsubject: Shall we?\nlimits: { analysis_ms: 2000, message_ms: 2000 }\nagents:\n";

/// Returns a finding with this recommendation.
fn finding(recommendation: &str) -> String {
    format!("{{\"summary\":\"I looked.\",\"confidence\":0.6,\"recommendation\":\"{recommendation}\"}}")
}

fn echo(answer: &str) -> String {
    format!("{{ use: 'cmd:echo {}' }}", answer.replace('"', "\\\""))
}

fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(QUORATE).arg("run").args(arguments).current_dir(directory).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn playbook(directory: &Path, agents: &[(&str, String)]) {
    let agents: String = agents.iter().map(|(name, agent)| format!("  {name}: {agent}\n")).collect();
    fs::write(directory.join("playbook.yaml"), format!("{PLAYBOOK}{agents}")).expect("written");
}

// Fails under: a failing agent that stops the others; a result that does not list missing agents.
#[test]
fn a8_a_failing_agent_is_excluded_and_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let failing = "{ use: 'cmd:sh -c \"echo broken >&2; exit 3\"' }".to_owned();
    playbook(
        path,
        &[("ada", echo(&finding("yes"))), ("ben", failing.clone()), ("cleo", echo(&finding("yes")))],
    );
    let (code, out, err) = run(path, &["playbook.yaml", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let report: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!(report["synthesis"]["recommendation"], "yes");
    assert_eq!(report["missing"][0]["agent"], "ben");
    assert!(report["missing"][0]["why"].to_string().contains('3'), "{}", report["missing"]);
    assert_eq!(report["digest"].as_str().map(str::len), Some(64));
    // Below the quorum it fails with a reason, and stores the findings.
    playbook(path, &[("ada", echo(&finding("yes"))), ("ben", failing.clone()), ("cleo", failing)]);
    let (code, out, err) = run(path, &["playbook.yaml", "--json"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("ben") && err.contains("cleo") && err.contains("stored"), "{err}");
}

// Fails under: escape codes or markup of agents that reach a terminal, Markdown or HTML.
#[test]
fn text_from_agents_is_escaped_in_reports() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let hostile = "{\"summary\":\"<script>alert(1)</script> \\\\u001b[31m\",\"confidence\":1,\
                   \"issues\":[{\"topic\":\"<img src=x onerror=y>\",\"severity\":\"high\",\"detail\":\"\\\\u001b]0;x\\\\u0007\"}]}";
    fs::write(path.join("hostile.json"), hostile.replace("\\\\", "\\")).expect("written");
    playbook(path, &[("ada", "{ use: 'cmd:cat hostile.json' }".to_owned())]);
    for format in ["text", "md", "html", "json"] {
        let (code, out, err) = run(path, &["playbook.yaml", "--format", format]);
        assert_eq!(code, Some(8), "it recommends nothing: {err}");
        assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{format}: {out}");
        assert!(out.contains("script"), "{format}: {out}");
        if format != "text" && format != "json" {
            assert!(!out.contains("<script") && !out.contains("<img"), "{format}: {out}");
        }
    }
}

#[test]
fn invalid_playbooks_and_inputs_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let check_invalid = |text: &str, expected: &[&str]| {
        fs::write(path.join("wrong.yaml"), text).expect("written");
        let (code, out, err) = run(path, &["wrong.yaml"]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{text}\n{err}");
        for expected_text in expected.iter().chain(&["wrong.yaml", "help:"]) {
            assert!(err.contains(expected_text), "{expected_text} in\n{err}");
        }
    };
    let agent = "agents:\n  ada: { use: 'cmd:true' }\n";
    check_invalid(&format!("procedure: debate\nsubject: x\n{agent}"), &[":1", "debate", "deliberation"]);
    check_invalid(&format!("procedure: deliberation\nsubjct: x\n{agent}"), &[":2:", "subjct", "subject"]);
    check_invalid(
        "procedure: deliberation\nsubject: x\nagents:\n  ada: { use: 'cmnd:true' }\n",
        &[":4", "cmnd", "cmd"],
    );
    check_invalid("procedure: deliberation\nsubject: x\nagents: {}\n", &["agents"]);
    check_invalid(
        &format!("procedure: deliberation\nsubject: x\nlimits: {{ rounds: many }}\n{agent}"),
        &[":3"],
    );
    check_invalid(
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b]\n",
        &[],
    );
    // Invalid inputs.
    let valid = format!("procedure: deliberation\nsubject: x\ninput: text.txt\n{agent}");
    fs::write(path.join("good.yaml"), valid).expect("written");
    let check_rejected = |arguments: &[&str], expected: &str| {
        let (code, _, err) = run(path, arguments);
        assert!(
            matches!(code, Some(1..=3)) && err.contains(expected) && !path.join("quorate-data").exists(),
            "{code:?} {err}"
        );
    };
    check_rejected(&["missing.yaml"], "missing.yaml");
    check_rejected(&["good.yaml"], "text.txt");
    for (name, bytes, expected) in [
        ("empty.txt", &b" \n"[..], "empty"),
        ("binary.bin", &[0x7f, b'E', b'L', b'F', 0xff, 0xfe][..], "UTF-8"),
        ("long.txt", &vec![b'a'; 300 * 1024][..], "262144"),
    ] {
        fs::write(path.join(name), bytes).expect("written");
        check_rejected(&["good.yaml", "--input", name], expected);
    }
}

// Fails under: a digest that depends on times, or an order that differs from the playbook.
#[test]
fn a1_the_contract_review_runs_without_a_key_and_is_reproducible() {
    let directory = tempfile::tempdir().expect("a directory");
    let review = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../playbooks/contract-review/playbook.yaml");
    let review = review.to_string_lossy();
    let reports: Vec<Value> = (0..2)
        .map(|_| {
            let (code, out, err) = run(directory.path(), &[&review, "--json"]);
            assert_eq!(code, Some(0), "{err}");
            assert!(err.contains("local heuristics: no LLM, no key, no network"), "{err}");
            serde_json::from_str(&out).expect("one document")
        })
        .collect();
    assert_eq!(reports[0]["digest"], reports[1]["digest"]);
    assert_ne!(reports[0]["id"], reports[1]["id"]);
    let report = &reports[0];
    assert_eq!(report["quorum"]["present"], 5, "{report}");
    let issues = report["synthesis"]["issues"].as_array().expect("a list");
    assert_eq!(issues[0]["topic"], "uncapped customer liability", "the worst first");
    assert!(report["decisions"].as_array().is_some_and(|conflicts| conflicts.len() >= 2), "they disagree");
    for sentence in report["synthesis"]["summary"].as_array().expect("sentences") {
        assert!(sentence["sources"].as_array().is_some_and(|sources| !sources.is_empty()), "{sentence}");
    }
}

// Fails under: an agent that is excluded because it answers with plain text.
#[test]
fn a_program_may_answer_with_plain_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    playbook(path, &[("ada", "{ use: 'cmd:echo It looks fine to me.' }".to_owned())]);
    let (code, out, err) = run(path, &["playbook.yaml", "--json"]);
    assert_eq!(code, Some(8), "no recommendation, so no decision: {err}");
    let report: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!(report["findings"]["ada"]["summary"], "It looks fine to me.", "{report}");
}

// Fails under: a run that opens the directory of a running hub, or that bypasses the hub.
#[test]
fn a1_a_playbook_runs_in_the_running_hub() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let hub = Hub::start(&path.join("team"));
    playbook(path, &[("ada", echo(&finding("yes"))), ("ben", echo(&finding("no")))]);
    let (code, out, err) = run(path, &["playbook.yaml", "--data", "team", "--json"]);
    assert_eq!(code, Some(8), "one against one: {err}");
    let report: Value = serde_json::from_str(&out).expect("one document");
    let id = report["id"].as_str().expect("an id");
    let (status, stored) = hub.call(&hub.admin, "GET", &format!("/v1/procedures/{id}"), &Value::Null);
    assert_eq!((status, &stored["status"]), (200, &Value::from("done")), "{stored}");
    hub.stop();
    // Without a running hub, it uses an embedded hub.
    let (code, out, err) = run(path, &["playbook.yaml", "--data", "team", "--json"]);
    assert_eq!(code, Some(8), "one against one: {err}");
    let second: Value = serde_json::from_str(&out).expect("one document");
    assert_eq!((&second["digest"], second["id"] != report["id"]), (&report["digest"], true));
}

// Fails under: an answer without the confidence and the rationale that a policy requires, or with a rationale that is too
// long; a missing confidence without a reason; a failure that the policy refuses.
#[test]
fn m1_playbooks_run_in_a_supervised_space() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let hub = Hub::start(&path.join("team"));
    let policy = json!({"preset": "supervised", "rationaleCharsMax": 40});
    assert_eq!(hub.call(&hub.admin, "PUT", "/v1/policy", &policy).0, 200);
    let long = "I looked. ".repeat(300);
    let verbose = finding("yes").replace("I looked.", long.trim_end());
    let unsure = finding("yes").replace("\"confidence\":0.6,", "");
    let failing = "{ use: 'cmd:sh -c \"echo broken >&2; exit 3\"' }".to_owned();
    let agents =
        [("ada", echo(&finding("yes"))), ("ben", echo(&verbose)), ("cleo", echo(&unsure)), ("dave", failing)];
    playbook(path, &agents);
    let text = fs::read_to_string(path.join("playbook.yaml")).expect("written");
    fs::write(path.join("playbook.yaml"), text.replace("limits: {", "limits: { quorum: 2,"))
        .expect("written");
    // Remotely, and in a directory without a running hub.
    let mut hub = Some(hub);
    for _ in 0..2 {
        let (code, out, err) = run(path, &["playbook.yaml", "--data", "team", "--json"]);
        assert_eq!(code, Some(0), "{err}");
        let report: Value = serde_json::from_str(&out).expect("one document");
        assert_eq!(report["synthesis"]["recommendation"], "yes", "{report}");
        let found: Vec<&String> = report["findings"].as_object().expect("findings").keys().collect();
        assert_eq!(found, ["ada", "ben"]);
        assert_eq!(report["findings"]["ben"]["summary"], long.trim_end());
        let missing = report["missing"].as_array().expect("a list");
        let why = |agent: &str| {
            let missing = missing.iter().find(|missing| missing["agent"] == agent);
            missing.unwrap_or_else(|| panic!("{agent}: {report}"))["why"].to_string()
        };
        assert!(why("cleo").contains("no `confidence`"), "{report}");
        assert!(why("dave").contains('3'), "{report}");
        if let Some(hub) = &hub {
            let (_, sent) = hub.call(&hub.admin, "GET", "/v1/messages?from=ben&type=response", &Value::Null);
            let answer = &sent["messages"][0];
            assert_eq!((&answer["confidence"], &answer["rationale"]), (&json!(0.6), &json!(long[..40])));
        }
        if let Some(hub) = hub.take() {
            hub.stop();
        }
    }
    // Without a playbook, with heuristics.
    let hub = Hub::start(&path.join("team"));
    fs::write(path.join("contract.txt"), "Either party may terminate at any time.").expect("written");
    let question = ["deliberate", "May we sign?", "--input", "contract.txt", "--agent", "law=heuristic:risk"];
    let mut command = Command::new(QUORATE);
    command.args(question).args(["--agent", "money=heuristic:financial", "--data", "team", "--json"]);
    let output = command.current_dir(path).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let found: Vec<&String> = report["findings"].as_object().expect("findings").keys().collect();
    assert_eq!(found, ["law", "money"], "{report}");
    hub.stop();
}

const LETTER: &str = "approval:\n  action: send the letter\n  when: ['yes']\n  write: letter.txt\n  letter: |\n    Because of {recommendation}.\n";

// Fails under: a letter that is written without approval, or after an outcome that requires none.
#[test]
fn e3_a_letter_is_written_after_its_approval() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let with_letter = |recommendation: &str| {
        playbook(path, &[("ada", echo(&finding(recommendation)))]);
        let text = fs::read_to_string(path.join("playbook.yaml")).expect("written");
        fs::write(path.join("playbook.yaml"), format!("{text}{LETTER}")).expect("written");
    };
    with_letter("yes");
    let approval = |arguments: &[&str]| {
        let (code, out, err) = run(path, &[&["playbook.yaml", "--json"], arguments].concat());
        assert_eq!(code, Some(0), "{err}");
        serde_json::from_str::<Value>(&out).expect("one document")["approval"].clone()
    };
    assert_eq!(approval(&[])["state"], "pending", "there is no terminal to prompt at");
    assert!(!path.join("letter.txt").exists());
    assert_eq!(approval(&["--approve", "auto", "--out", "."])["state"], "approved");
    assert_eq!(fs::read_to_string(path.join("letter.txt")).expect("it is written"), "Because of yes.\n");
    with_letter("no");
    assert_eq!(approval(&["--approve", "auto"]), Value::Null, "there is nothing to approve");
    // Errors have the line.
    for (from, to, expected) in [
        ("letter.txt", "../letter.txt", "is not a file name"),
        ("{recommendation}", "{recomendation}", "{recomendation}"),
        ("write:", "wirte:", "did you mean \"write\""),
        ("when:", "timeout_hours: 0\n  when:", "between 1 and 2160"),
    ] {
        with_letter("yes");
        let text = fs::read_to_string(path.join("playbook.yaml")).expect("written");
        fs::write(path.join("playbook.yaml"), text.replace(from, to)).expect("written");
        let (code, _, err) = run(path, &["playbook.yaml", "--json"]);
        assert!(code == Some(2) && err.contains(expected) && err.contains("playbook.yaml:"), "{err}");
    }
}

/// Returns the command that a run printed to continue it.
fn printed_command(err: &str) -> &str {
    let mut commands = err.lines().map(str::trim).filter(|line| line.starts_with("quorate run"));
    commands.next().unwrap_or_else(|| panic!("no command was printed: {err}"))
}

// Fails under: a printed command that does not work as it is, or an approved letter that is never written.
#[test]
fn a_run_is_continued_with_the_command_that_it_printed() {
    let fixture = Fixture::empty();
    let path = fixture.work();
    playbook(&path, &[("ada", echo(&finding("yes")))]);
    let text = fs::read_to_string(path.join("playbook.yaml")).expect("written");
    fs::write(path.join("my play.yaml"), format!("{text}{LETTER}")).expect("written");
    let later = fixture.shell("quorate run 'my play.yaml' --approve later --out .");
    assert_eq!(later.code, Some(0), "{}", later.err);
    let resume = printed_command(&later.err);
    assert!(resume.contains("'my play.yaml'") && resume.contains("--resume prc_"), "{resume}");
    let resumed = fixture.shell(&format!("echo a | {resume}"));
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    assert_eq!(fs::read_to_string(path.join("letter.txt")).expect("it is written"), "Because of yes.\n");
    assert_eq!(resumed.out, later.out, "the stored outcome gives the same report");
    let waiting = fixture.shell("quorate run 'my play.yaml' --approve wait");
    assert!(waiting.code == Some(2) && waiting.err.contains("quorate serve"), "{}", waiting.err);
    // In a hub, the approval is decided with another command, and the run is continued afterwards.
    fs::remove_file(path.join("letter.txt")).expect("it is there");
    let _hub = Hub::start(&path.join("team"));
    let later = fixture.shell("quorate run 'my play.yaml' --data team --approve later");
    let approved = fixture.shell("quorate approval approve @last --data team");
    assert_eq!(approved.code, Some(0), "{}", approved.err);
    assert!(!path.join("letter.txt").exists());
    let resumed = fixture.shell(printed_command(&later.err));
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    assert!(path.join("letter.txt").exists(), "{}", resumed.err);
    let other = fixture.shell("sed 's/Shall we/May we/' 'my play.yaml' > other.yaml; quorate run other.yaml --data team --resume @last");
    assert!(other.code == Some(5) && other.err.contains("another question"), "{}", other.err);
}

// Fails under: a run that asks its agents although too many of them cannot answer, or a check that stops one that can.
#[test]
fn agents_are_checked_before_a_run() {
    let fixture = Fixture::empty();
    let path = fixture.work();
    let missing = "{ use: 'cmd:no-such-program' }".to_owned();
    let model = "{ use: 'llm:groq/llama-3.3-70b-versatile' }".to_owned();
    playbook(&path, &[("ada", echo(&finding("yes"))), ("ben", missing.clone()), ("cleo", model)]);
    let run = fixture.shell("quorate run playbook.yaml");
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{}", run.err);
    for expected in [
        "✓ ada   ",
        "✗ ben   ",
        "`no-such-program` not found on PATH",
        "✗ cleo  ",
        "GROQ_API_KEY is not set",
        "2 of 3 agents cannot answer (ben, cleo), and the quorum is 2: no agent was asked",
    ] {
        assert!(run.err.contains(expected), "{expected}: {}", run.err);
    }
    // With a quorum, it runs, and the agent is missing.
    playbook(&path, &[("ada", echo(&finding("yes"))), ("ben", missing), ("eve", echo(&finding("yes")))]);
    let run = fixture.shell("quorate run playbook.yaml");
    assert!(
        run.code == Some(0) && run.err.contains("✗ ben") && run.out.contains("MISSING  ben"),
        "{}",
        run.err
    );
}

// Fails under: agents of the hub that are announced as local heuristics, or asked without a word that they are absent.
#[test]
fn agents_of_the_hub_are_announced_and_checked() {
    let fixture = Fixture::with_hub();
    for agent in ["ada", "ben"] {
        fixture.call("PUT", &format!("/v1/agents/{agent}"), "{}");
    }
    let started = fixture.shell("timeout 3 quorate deliberate 'Do we ship?' --agent ada --agent ben");
    assert_eq!(started.code, Some(124), "{}", started.err);
    assert!(started.err.contains("! ada  in the hub: not connected, last seen"), "{}", started.err);
    assert!(!started.err.contains("heuristics"), "{}", started.err);
}
