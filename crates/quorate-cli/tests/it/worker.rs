//! `quorate worker` as a process: signals, bad input, several workers, and restarts of the hub.

mod kills;
mod process;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::support::run_guide;
use process::WatchedProcess;

// Fails under: a command of the guide that does not work; a letter that nobody writes; two workers that take an agent from each other.
#[test]
fn c2_the_commands_of_the_workers_guide_work() {
    run_guide("workers.md");
}

/// Waits for a file `go`, and answers.
const GATED: &str = "\
import json, os, sys, time
question = json.load(sys.stdin)
open('started', 'a').write('x')
while not os.path.exists('go'):
    time.sleep(0.05)
print(json.dumps({'ok': True}))
";

/// Writes a playbook with one agent whose program waits for a file.
fn write_gated(directory: &Path) {
    fs::write(directory.join("gated.py"), GATED).expect("written");
    let playbook = "agents:\n  ada: { use: 'cmd:python3 gated.py', tasks: [wait] }\n";
    fs::write(directory.join("agents.yaml"), playbook).expect("written");
}

/// Creates a task, and waits until a program works on it.
fn start_task(fixture: &Fixture, worker: &mut WatchedProcess) {
    fixture.call("POST", "/v1/tasks", &json!({ "id": "t", "type": "wait" }).to_string());
    worker.until("task t (wait)");
}

fn task(fixture: &Fixture) -> Value {
    fixture.call("GET", "/v1/tasks/t", "")
}

// Fails under: a worker that dies with its work, or that takes more; an exit code that hides an interruption.
#[test]
fn c2_a_signal_drains_the_worker_and_a_second_one_stops_it() {
    let fixture = Fixture::with_hub();
    let work = fixture.work();
    write_gated(&work);
    let mut first = WatchedProcess::start(&fixture, &["agents.yaml"]);
    first.until("ada connected, tasks: wait");
    start_task(&fixture, &mut first);
    first.signal("-TERM");
    first.until("stopping: waiting for 1 item in progress");
    fs::write(work.join("go"), "").expect("written");
    assert_eq!(first.wait(), Some(0));
    assert_eq!(task(&fixture)["status"], "done");
    // A second signal does not wait, and the work is given to another attempt.
    fs::remove_file(work.join("go")).expect("it is there");
    fixture.call("POST", "/v1/tasks", &json!({ "id": "u", "type": "wait" }).to_string());
    let mut second = WatchedProcess::start(&fixture, &["agents.yaml"]);
    second.until("task u (wait)");
    second.signal("-INT");
    second.until("stopping");
    second.signal("-INT");
    assert_eq!(second.wait(), Some(130));
    fs::write(work.join("go"), "").expect("written");
    let mut third = WatchedProcess::start(&fixture, &["agents.yaml"]);
    third.until("task u (wait, attempt 2): done");
}

// Fails under: a worker that starts although its agent cannot run; an error without the offending value or the next command.
#[test]
fn c2_bad_input_of_a_worker_is_reported() {
    let fixture = Fixture::empty();
    let work = fixture.work();
    let write =
        |name: &str, agents: &str| fs::write(work.join(name), format!("agents:\n{agents}")).expect("written");
    write("good.yaml", "  ada: { use: 'cmd:cat' }\n");
    let check = |arguments: &str, code: i32, expected: &[&str]| {
        let run = fixture.shell(&format!("quorate worker {arguments}"));
        assert_eq!((run.code, run.out.as_str()), (Some(code), ""), "{arguments}: {}", run.err);
        for part in expected {
            assert!(run.err.contains(part), "{arguments}: {part}: {}", run.err);
        }
    };
    check("good.yaml --data team", 3, &["team does not exist", "quorate serve --data team"]);
    check("good.yaml --url http://127.0.0.1:9", 1, &["no hub is listening", "quorate serve"]);
    write("twice.yaml", "  ada: { use: 'cmd:cat' }\n  ada: { use: 'cmd:cat' }\n");
    check("twice.yaml", 2, &["twice.yaml:3", "the key \"ada\" is there twice", "each agent"]);
    check("none.yaml", 3, &["failed to read none.yaml"]);
    check("", 2, &["required", "PLAYBOOK"]);
    check("good.yaml --name ada --use cmd:cat", 2, &["cannot be used with"]);
    check("--use cmd:cat", 2, &["--name"]);
    check("--name role:ada --use cmd:cat", 2, &["role:ada", "reserved for destinations"]);
    check("--name ada --use cat", 2, &["has no scheme", "cmd:"]);
    check("--name ada --use cmd:cat --types ''", 2, &["--types: a type is empty"]);
    check("--name ada --use heuristic:risk --types review", 2, &["heuristics only answer requests"]);
    let fixture = Fixture::with_hub();
    let work = fixture.work();
    let agents = "agents:\n  ada: { use: 'cmd:cat' }\n  ben: { use: 'cmd:no-such-program' }\n  cleo: { use: 'llm:groq/x' }\n";
    fs::write(work.join("bad.yaml"), agents).expect("written");
    let run = fixture.shell("quorate worker bad.yaml");
    assert_eq!(run.code, Some(1), "{}", run.err);
    for part in
        ["✓ ada", "`no-such-program` not found on PATH", "GROQ_API_KEY is not set", "cannot run ben, cleo"]
    {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
    assert_eq!(fixture.call("GET", "/v1/agents", "")["agents"], json!([]), "no agent was registered");
    let dry = fixture.shell("quorate worker --name ada --use cmd:cat --dry-run");
    assert!(dry.code == Some(0) && dry.err.contains("no agent was started"), "{}", dry.err);
    assert_eq!(fixture.call("GET", "/v1/agents", "")["agents"], json!([]), "no agent was registered");
}

// Fails under: a second process that takes an agent; one that does not take over from a killed process within seconds.
#[test]
fn c2_a_process_takes_over_from_one_that_was_killed() {
    let fixture = Fixture::with_hub();
    write_gated(&fixture.work());
    fs::write(fixture.work().join("go"), "").expect("written");
    let mut first = WatchedProcess::start(&fixture, &["agents.yaml"]);
    first.until("ada connected");
    let mut second = WatchedProcess::start(&fixture, &["agents.yaml", "--json"]);
    second.until("\"event\":\"standing_by\"");
    let agent = fixture.call("GET", "/v1/agents/ada", "");
    assert_eq!(agent["declaration"].as_str().map(str::len), Some(64), "{agent}");
    fs::write(fixture.work().join("other.yaml"), "agents:\n  ada: { use: 'cmd:cat' }\n").expect("written");
    let other = fixture.shell("quorate worker other.yaml");
    assert_eq!(other.code, Some(5), "{}", other.err);
    assert!(
        other.err.contains("ada is connected already, and runs from another declaration"),
        "{}",
        other.err
    );
    assert!(other.err.contains("rename the agent here, or stop the other process"), "{}", other.err);
    first.kill();
    second.until("\"event\":\"connected\"");
    fixture.call("POST", "/v1/tasks", &json!({ "id": "t", "type": "wait" }).to_string());
    second.until("\"event\":\"done\"");
    assert_ne!(fixture.call("GET", "/v1/agents/ada", "")["epoch"], agent["epoch"]);
}

// Fails under: a worker that ends with its hub, or that does not find it again at another address.
#[test]
fn c2_a_worker_comes_back_after_a_restart_of_the_hub() {
    let mut fixture = Fixture::with_hub();
    write_gated(&fixture.work());
    fs::write(fixture.work().join("go"), "").expect("written");
    let mut worker = WatchedProcess::start(&fixture, &["agents.yaml"]);
    worker.until("ada connected");
    let address = fixture.address.clone();
    fixture.kill();
    worker.until("hub lost");
    fixture.start(&address);
    worker.until("hub back");
    start_task(&fixture, &mut worker);
    worker.until("task t (wait): done");
    fixture.stop();
    worker.until("hub lost");
    fixture.start("127.0.0.1:0");
    assert_ne!(fixture.address, address);
    worker.until("worker of 1 agent in");
    worker.until("ada connected");
    fixture.call("POST", "/v1/tasks", &json!({ "id": "u", "type": "wait" }).to_string());
    worker.until("task u (wait): done");
    worker.signal("-TERM");
    assert_eq!(worker.wait(), Some(0));
}

// Fails under: a run that is silent while its procedure is paused, or that calls a cancelled one failed.
#[test]
fn a_run_shows_that_its_procedure_is_paused_and_cancelled() {
    let fixture = Fixture::with_hub();
    write_gated(&fixture.work());
    let playbook =
        "procedure: deliberation\nsubject: Shall we?\nagents:\n  ada: { use: 'cmd:python3 gated.py' }\n";
    fs::write(fixture.work().join("playbook.yaml"), playbook).expect("written");
    let mut command = fixture.command("quorate");
    command.args(["run", "playbook.yaml"]);
    let mut run = WatchedProcess::spawn(command);
    let (code, output) = fixture.script(
        "set -e; until quorate procedure list --status running | grep prc_; do sleep 0.1; done; until test -f started; do sleep 0.1; done; \
         quorate procedure pause @last --reason 'out for lunch'",
    );
    assert_eq!(code, Some(0), "{output}");
    run.until("paused: out for lunch");
    let resume = run.until("quorate procedure resume prc_");
    let resumed = fixture.shell(&resume);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    run.until("resumed");
    let cancelled = fixture.shell("quorate procedure cancel @last --reason 'not needed'");
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.err);
    run.until("was cancelled: not needed");
    assert_eq!(run.wait(), Some(5));
}

// Fails under: two runs of one playbook that take their agents from each other, or that wait for each other.
#[test]
fn c2_two_runs_of_one_playbook_both_end() {
    let fixture = Fixture::with_hub();
    let finding = r#"{"summary":"I looked.","confidence":0.6,"recommendation":"yes"}"#;
    let playbook = "procedure: deliberation\nsubject: Shall we?\nagents:\n  ada: { use: 'cmd:cat finding.json' }\n  ben: { use: 'cmd:cat finding.json' }\n";
    fs::write(fixture.work().join("finding.json"), finding).expect("written");
    fs::write(fixture.work().join("playbook.yaml"), playbook).expect("written");
    let (code, output) = fixture.script(
        "for i in 1 2 3; do quorate run playbook.yaml --json > out$i.json 2> err$i.txt & done; wait; cat err*.txt; cat out*.json",
    );
    assert_eq!(code, Some(0), "{output}");
    for name in ["out1.json", "out2.json", "out3.json"] {
        let report = fs::read_to_string(fixture.work().join(name)).expect("written");
        let report: Value =
            serde_json::from_str(&report).unwrap_or_else(|error| panic!("{name}: {error}: {output}"));
        assert_eq!(report["synthesis"]["recommendation"], "yes", "{output}");
        assert_eq!(report["missing"], json!([]), "{output}");
    }
    assert!(!output.contains("STALE_EPOCH"), "{output}");
}
