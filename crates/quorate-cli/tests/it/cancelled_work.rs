//! Cancelled work: the programs of its agents are gone within a second.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use quorate::{Failure, ProcedureDraft, TaskDraft, TaskWork, Work};
use quorate_agents::{AgentContext, AgentQuestion, AgentSettings, DeclaredAgent};
use rustix::process::{Pid, test_kill_process_group};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Hub, QUORATE};

/// Upper bound between the end of a command and the end of the program.
const IN_TIME: Duration = Duration::from_secs(1);
/// Upper bound of every other wait.
const SOON: Duration = Duration::from_secs(60);

/// A program that sends its id over a connection, then sleeps with a child and ignores SIGTERM. The connection ends when
/// no process of its group is left.
struct SleepingProgram(BufReader<TcpStream>);

/// Accepts the connections of programs.
struct Programs(TcpListener);

impl Programs {
    async fn listen(directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let script = format!(
            "trap '' TERM\nexec 3<>/dev/tcp/127.0.0.1/{port}\necho $$ >&3\nsleep 60 &\nsleep 60\nexit 1\n"
        );
        fs::write(directory.join("sleep.sh"), script).expect("written");
        Self(listener)
    }

    async fn started(&self) -> SleepingProgram {
        let accepted = tokio::time::timeout(SOON, self.0.accept()).await.expect("the program starts");
        let mut stream = BufReader::new(accepted.expect("a connection").0);
        let mut line = String::new();
        tokio::time::timeout(SOON, stream.read_line(&mut line)).await.expect("in time").expect("a line");
        let group = Pid::from_raw(line.trim().parse().expect("a process id")).expect("a process id");
        test_kill_process_group(group).expect("the program leads a process group");
        SleepingProgram(stream)
    }
}

impl SleepingProgram {
    async fn has_ended(mut self) {
        let mut rest = Vec::new();
        let end = tokio::time::timeout(IN_TIME, self.0.read_to_end(&mut rest)).await;
        end.expect("the process group ends within a second").expect("the end of the connection");
    }
}

fn command(hub: &Hub, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(QUORATE);
    command.args(arguments).args(["--url", &format!("http://{}", hub.address)]);
    command.env("QUORATE_TOKEN", &hub.admin).current_dir(directory).stdout(Stdio::null());
    command
}

fn run(hub: &Hub, directory: &Path, arguments: &[&str]) {
    let output = command(hub, directory, arguments).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A process that is killed with the test.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Declares an agent that runs the program.
fn sleeping_agent(directory: &Path) -> Arc<DeclaredAgent> {
    let (settings, context) = (AgentSettings::default(), AgentContext::new(directory));
    let declared = DeclaredAgent::declare("ada", "cmd:bash sleep.sh", &settings, &context);
    Arc::new(declared.expect("valid"))
}

async fn answer(declared: Arc<DeclaredAgent>, number: u64) -> Result<(), Failure> {
    let question = AgentQuestion::new("work", json!(number));
    declared.answer(&question).await.map(drop).map_err(|failure| Failure::retry(failure.message))
}

async fn connect(hub: &Hub) -> quorate::Hub {
    let connected = quorate_client::connect(&format!("http://{}", hub.address), &hub.admin).await;
    connected.expect("it connects")
}

// Fails under: a program of a run that goes on after its procedure was cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn m4_a_run_whose_procedure_is_cancelled_ends_its_programs() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let hub = Hub::start(&path.join("team"));
    let programs = Programs::listen(path).await;
    let playbook =
        "procedure: deliberation\nsubject: Shall we?\nagents:\n  ada: { use: 'cmd:bash sleep.sh' }\n";
    fs::write(path.join("playbook.yaml"), playbook).expect("written");
    let mut running = command(&hub, path, &["run", "playbook.yaml", "--json"]);
    let mut running = ChildGuard(running.stderr(Stdio::null()).spawn().expect("it starts"));
    let program = programs.started().await;
    run(&hub, path, &["procedure", "cancel", "@last", "--reason", "not needed"]);
    program.has_ended().await;
    assert!(!running.0.wait().expect("it ends").success(), "the run has no result");
}

// Fails under: an agent over the network that learns of the cancellation when it extends its lease; a program that survives
// because it ignores SIGTERM.
#[tokio::test(flavor = "multi_thread")]
async fn m4_cancelling_a_procedure_ends_the_program_of_an_agent() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let hub = Hub::start(&path.join("team"));
    let programs = Programs::listen(path).await;
    let declared = sleeping_agent(path);
    let remote = connect(&hub).await;
    let work = move |work: Work<u64>| answer(Arc::clone(&declared), work.payload);
    let worker = remote.agent("worker").on("work", work).run().await.expect("it runs");
    remote.agent("driver").join().await.expect("it joins");
    let draft = ProcedureDraft::new("own", ()).driver("driver").id("p1");
    remote.start_procedure(draft).await.expect("started");
    let request =
        json!({"from": "driver", "to": "worker", "action": "work", "payload": 1, "correlationId": "p1"});
    let (status, response) = hub.call(&hub.admin, "POST", "/v1/requests", &request);
    assert_eq!(status, 201, "{response}");
    let program = programs.started().await;
    run(&hub, path, &["procedure", "cancel", "p1", "--reason", "not needed"]);
    program.has_ended().await;
    worker.stop().await.expect("stopped");
    remote.close().await;
}

// Fails under: a task worker over the network that learns of the cancellation with its next heartbeat.
#[tokio::test(flavor = "multi_thread")]
async fn m16_cancelling_a_task_ends_the_program_of_its_worker() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let hub = Hub::start(&path.join("team"));
    let programs = Programs::listen(path).await;
    let declared = sleeping_agent(path);
    let remote = connect(&hub).await;
    let work = move |work: TaskWork<u64>| answer(Arc::clone(&declared), work.input);
    let worker = remote.agent("worker").on_task("work", work).run().await.expect("it runs");
    let alice = remote.agent("alice").join().await.expect("she joins");
    alice.create_task(TaskDraft::new("work", 1).id("t1")).await.expect("created");
    let program = programs.started().await;
    run(&hub, path, &["task", "cancel", "t1", "--reason", "not needed"]);
    program.has_ended().await;
    worker.stop().await.expect("stopped");
    remote.close().await;
}
