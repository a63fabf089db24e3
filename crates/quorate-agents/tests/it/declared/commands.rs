//! Agents that are programs: real processes, including misbehaving ones.

use std::sync::Arc;
use std::time::Duration;

use quorate_agents::{
    AgentContext, AgentFailure, AgentQuestion, AgentReply, AgentSettings, CheckOutcome, DeclaredAgent,
    EnvInheritance, FailureKind, HubAccess, limits, probe,
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

fn agent(line: &str) -> DeclaredAgent {
    DeclaredAgent::declare(
        "program",
        line,
        &AgentSettings::default(),
        &AgentContext::new(env!("CARGO_MANIFEST_DIR")),
    )
    .unwrap()
}

fn python(script: &str) -> DeclaredAgent {
    agent(&format!("cmd:python3 -c {}", shell_words::quote(script)))
}

fn question() -> AgentQuestion {
    let mut question = AgentQuestion::new("analyse", json!({ "text": "hello" }));
    question.timeout = Duration::from_secs(30);
    question.schema = Some(json!({ "type": "object", "required": ["summary"] }));
    question
}

async fn ask(script: &str) -> Result<AgentReply, AgentFailure> {
    python(script).answer(&question()).await
}

/// Accepts connections of started processes; a connection ends when its process exits.
struct Watch {
    listener: TcpListener,
}

impl Watch {
    async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    /// Python code that connects and stays connected while the process runs.
    fn script(&self) -> String {
        let port = self.listener.local_addr().unwrap().port();
        format!(
            "import os,socket,sys,signal,time; s=socket.create_connection(('127.0.0.1',{port})); s.sendall(b'x\\n')\n"
        )
    }

    async fn accept(&self) -> TcpStream {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let mut stream = BufReader::new(stream);
        within(stream.read_line(&mut String::new())).await.unwrap();
        stream.into_inner()
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("timed out")
}

/// Waits until the process at the other end has exited.
async fn wait_for_exit(mut stream: TcpStream) {
    let _ = within(stream.read(&mut [0; 1])).await;
}

#[tokio::test]
async fn a_program_reads_the_question_and_answers_in_json() {
    let script = "import json,sys; q=json.load(sys.stdin); \
                  print(json.dumps({'summary': q['action'], 'text': q['payload']['text'], 'ms': q['limits']['milliseconds']}))";
    let reply = ask(script).await.unwrap();
    assert_eq!(reply.body, json!({ "summary": "analyse", "text": "hello", "ms": 30000 }));
    assert_eq!((reply.usage.calls, reply.notes.len()), (1, 0));
}

#[tokio::test]
async fn it_runs_in_the_playbooks_directory_without_a_shell() {
    let reply = agent("cmd:cat Cargo.toml").answer(&AgentQuestion::new("analyse", json!(1))).await.unwrap();
    assert!(reply.body["text"].as_str().unwrap().contains("quorate-agents"));
    let agent_here =
        DeclaredAgent::declare("a", "cmd:cat Cargo.toml", &AgentSettings::default(), &AgentContext::new(""))
            .unwrap();
    assert!(
        agent_here.answer(&AgentQuestion::new("analyse", json!(1))).await.is_ok(),
        "an empty path is the current directory"
    );
    let reply =
        agent("cmd:echo '$HOME' ';' ls").answer(&AgentQuestion::new("analyse", json!(1))).await.unwrap();
    assert_eq!(reply.body["text"], "$HOME ; ls");
}

/// Returns the names of the variables that a program gets, given the environment of a test. The program is `env`: an
/// interpreter may add variables of its own.
async fn variables_of_program(settings: &AgentSettings, inheritance: EnvInheritance) -> Vec<String> {
    let mut context = AgentContext::new(".");
    let mut variables = context.variables.as_ref().clone();
    variables.retain(|(name, _)| name == "PATH");
    for name in ["LC_TIME", "GITHUB_TOKEN", "EDITOR", "QUORATE_TOKEN", "OPENAI_API_KEY"] {
        variables.push((name.into(), "value".into()));
    }
    context.variables = Arc::new(variables);
    context.env_inheritance = inheritance;
    let program = DeclaredAgent::declare("program", "cmd:env", settings, &context).unwrap();
    let reply = program.answer(&question()).await.unwrap();
    let lines = reply.body["text"].as_str().expect("text").lines();
    let mut names: Vec<String> = lines.filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
    names.sort();
    names
}

// Fails under: a program that inherits the environment of this process, the token of the hub included.
#[tokio::test]
async fn s14_a_program_does_not_get_credentials_that_it_does_not_list() {
    let listed = AgentSettings { env: vec!["GITHUB_TOKEN".into()], ..AgentSettings::default() };
    for (settings, inheritance, names) in [
        (AgentSettings::default(), EnvInheritance::Allowlist, vec!["LC_TIME", "PATH"]),
        (listed, EnvInheritance::Allowlist, vec!["GITHUB_TOKEN", "LC_TIME", "PATH"]),
        (AgentSettings::default(), EnvInheritance::All, vec!["EDITOR", "GITHUB_TOKEN", "LC_TIME", "PATH"]),
    ] {
        assert_eq!(variables_of_program(&settings, inheritance).await, names, "{settings:?} {inheritance:?}");
    }
}

#[tokio::test]
async fn s14_a_program_with_hub_access_gets_its_own_token() {
    let settings = AgentSettings { hub: true, ..AgentSettings::default() };
    let script = "import json,os; print(json.dumps({'summary': os.environ['QUORATE_AGENT'], \
                  'access': [os.environ['QUORATE_URL'], os.environ['QUORATE_TOKEN']]}))";
    let line = format!("cmd:python3 -c {}", shell_words::quote(script));
    let agent = DeclaredAgent::declare("ada", &line, &settings, &AgentContext::new(".")).unwrap();
    assert!(agent.needs_hub_access);
    let (url, token) = ("http://127.0.0.1:1".to_owned(), "of-ada".to_owned());
    agent.grant_hub_access(HubAccess { url, token, ca_file: None });
    let reply = agent.answer(&question()).await.unwrap();
    assert_eq!(reply.body["summary"], "ada");
    assert_eq!(reply.body["access"], json!(["http://127.0.0.1:1", "of-ada"]));
}

#[test]
fn s14_only_programs_have_an_environment() {
    let context = AgentContext::new(".");
    for (settings, detail) in [
        (AgentSettings { env: vec!["A".into()], ..AgentSettings::default() }, "env: only programs"),
        (AgentSettings { hub: true, ..AgentSettings::default() }, "hub: only programs"),
    ] {
        let refused = DeclaredAgent::declare("ada", "heuristic:risk", &settings, &context).unwrap_err();
        assert!(refused.detail.contains("`ada`") && refused.detail.contains(detail), "{}", refused.detail);
    }
    let settings = AgentSettings { env: vec!["QUORATE_TOKEN".into()], ..AgentSettings::default() };
    let refused = DeclaredAgent::declare("ada", "cmd:true", &settings, &context).unwrap_err();
    assert!(refused.hint.contains("hub: true"), "{}", refused.hint);
}

#[tokio::test]
async fn plain_text_is_repaired_once_then_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let questions_file = directory.path().join("seen");
    let script = format!(
        "import sys; open({:?},'a').write(sys.stdin.read()); print('It looks fine to me.')",
        questions_file
    );
    let reply = ask(&script).await.unwrap();
    assert_eq!(reply.body, json!({ "text": "It looks fine to me.", "confidence": null }));
    assert!(reply.notes[0].contains("plain text"), "{:?}", reply.notes);
    assert_eq!(reply.usage.calls, 2);
    let questions = std::fs::read_to_string(&questions_file).unwrap();
    let second: serde_json::Value = serde_json::from_str(questions.lines().nth(1).unwrap()).unwrap();
    assert_eq!(second["retry"]["previous_answer"], "It looks fine to me.");
    assert!(second["retry"]["error"].as_str().unwrap().contains("no JSON"));
}

#[tokio::test]
async fn json_that_does_not_match_the_schema_is_repaired_once_then_fails() {
    let script = "import json,sys; q=json.load(sys.stdin); \
                    print(json.dumps({'summary': 'second'} if 'retry' in q else {'sumary': 'first'}))";
    assert_eq!(ask(script).await.unwrap().body["summary"], "second");
    let failure = ask("print('{\"sumary\": 1}')").await.unwrap_err();
    assert!(failure.kind == FailureKind::SchemaMismatch && failure.message.contains("summary"), "{failure}");
    assert_eq!(ask("pass").await.unwrap_err().kind, FailureKind::SchemaMismatch);
    let bytes = ask("import sys; sys.stdout.buffer.write(bytes(range(128, 256)) * 100)").await.unwrap();
    assert!(bytes.body["text"].is_string(), "invalid UTF-8 does not crash");
}

#[tokio::test]
async fn a8_a_program_that_prints_a_gigabyte_is_stopped_at_the_limit() {
    let before = resident_kb();
    let failure =
        ask("import sys\nfor _ in range(1024): sys.stdout.write('x' * (1 << 20))").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::TooLong);
    assert!(failure.message.contains(&limits::ANSWER_BYTES_MAX.to_string()), "{failure}");
    let growth = resident_kb().saturating_sub(before);
    assert!(growth < 64 * 1024, "memory grew by {growth} KB");
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn stderr_is_drained_and_its_end_is_quoted() {
    let script = "import sys\nfor _ in range(64): sys.stderr.write('x' * (1 << 20))\nsys.stderr.write('the last word'); sys.exit(3)";
    let failure = ask(script).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Exited);
    assert!(
        failure.message.contains("exited with code 3") && failure.message.contains("the last word"),
        "{failure}"
    );
    assert!(failure.message.len() < 1000);
}

#[tokio::test]
async fn a8_a_hanging_program_is_killed_with_its_descendants() {
    let watch = Watch::new().await;
    // The child ignores SIGTERM; both would run forever. They connect after they have written to stderr.
    let script = format!(
        "{}if os.fork() == 0: signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(9)",
        watch
            .script()
            .replace("s=socket", "print('waiting', file=sys.stderr, flush=True); os.fork(); s=socket")
    );
    let agent = python(&script);
    let mut question = question();
    question.timeout = Duration::from_secs(5);
    let answer = tokio::spawn(async move { agent.answer(&question).await });
    let (first, second) = (watch.accept().await, watch.accept().await);
    let failure = within(answer).await.unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert!(failure.message.contains("stderr: waiting"), "{failure}");
    wait_for_exit(first).await;
    wait_for_exit(second).await;
}

#[tokio::test]
async fn dropping_the_question_terminates_the_program() {
    let watch = Watch::new().await;
    let agent = python(&format!("{}while True: time.sleep(9)", watch.script()));
    let answer = tokio::spawn(async move { agent.answer(&question()).await });
    let process = watch.accept().await;
    answer.abort();
    wait_for_exit(process).await;
}

#[tokio::test]
async fn a_child_that_outlives_its_parent_does_not_delay_the_answer() {
    let watch = Watch::new().await;
    let script = format!(
        "import os,sys\nif os.fork() == 0:\n {}\n signal.signal(signal.SIGTERM, signal.SIG_IGN)\n while True: time.sleep(9)\n\
         print('{{\"summary\": \"done\"}}')",
        watch.script().replace('\n', "\n ").trim_end()
    );
    let reply = ask(&script).await.unwrap();
    assert_eq!(reply.body["summary"], "done");
    // The child may have been killed before it connected, which is fine.
    if let Ok(Ok((process, _))) =
        tokio::time::timeout(Duration::from_millis(200), watch.listener.accept()).await
    {
        wait_for_exit(process).await;
    }
}

#[tokio::test]
async fn a_program_that_does_not_read_may_still_answer() {
    let script = "import os; os.close(0); print('{\"summary\": \"deaf\"}')";
    let mut question = question();
    question.payload = json!({ "text": "x".repeat(4 << 20) });
    let reply = python(script).answer(&question).await.unwrap();
    assert_eq!(reply.body["summary"], "deaf");
}

#[tokio::test]
async fn a_missing_program_fails_with_a_hint() {
    let failure = agent("cmd:no-such-program-4711 -p").answer(&question()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound);
    assert!(failure.message.contains("`no-such-program-4711` not found on PATH"), "{failure}");
    let failure = agent("cmd:./Cargo.toml").answer(&question()).await.unwrap_err();
    assert!(failure.kind == FailureKind::NotFound && failure.hint.contains("executable"), "{failure}");
    let result = probe(&agent("cmd:no-such-program-4711"), &question()).await;
    assert_eq!((result.passed(), result.checks[0].outcome), (false, CheckOutcome::Failed));
}

#[tokio::test]
async fn signals_and_exit_codes_are_reported_with_the_end_of_stderr() {
    let failure = ask("import os; os.kill(os.getpid(), 9)").await.unwrap_err();
    assert!(failure.kind == FailureKind::Exited && failure.message.contains("signal 9"), "{failure}");
    let failure = ask("raise ValueError('no such clause')").await.unwrap_err();
    assert!(
        failure.message.contains("exited with code 1") && failure.message.contains("no such clause"),
        "{failure}"
    );
}
