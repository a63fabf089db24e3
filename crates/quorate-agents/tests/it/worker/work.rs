//! Requests, tasks and letters.

use std::time::Duration;

use quorate::proposal::{ProposalEnd, ProposalOutcome};
use quorate::{MessageType, ProcedureDraft, ProcedureStatus, TaskDraft, TaskStatus};
use quorate_agents::worker::{
    LETTER_TASK, OUTBOX, Worker, WorkerConfig, WorkerError, WorkerEvent, WrittenLetter,
};
use quorate_agents::{AgentContext, AgentSettings, DeclaredAgent};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::{TIMEOUT, TestHub, events, within};

/// Answers with its question.
const ECHO: &str = "import json, sys; q = json.load(sys.stdin); print(json.dumps({'asked': q, 'summary': 's', 'confidence': 0.25, \
                    'rationale': 'because'}))";

// Fails under: a request that is answered only for known actions; instructions or a schema that the agent does not get, or twice; a
// program that is started for a notification.
#[tokio::test(flavor = "multi_thread")]
async fn c2_a_worker_answers_requests_with_any_action() {
    let test = TestHub::new().await;
    let (worker, mut events) = test.worker([test.python("ada", ECHO, &[])]).await;
    test.client.send("ada", "news", json!({})).kind(MessageType::Event).await.unwrap();
    let payload = json!({ "text": "a", "instructions": "Be brief.", "answer": { "type": "object" } });
    let ask = test.client.ask("ada", "summarize", payload).timeout(Duration::from_secs(40));
    let answer: Value = ask.await.unwrap().payload().unwrap();
    let asked = &answer["asked"];
    assert_eq!((&asked["payload"], &asked["instructions"]), (&json!({ "text": "a" }), &json!("Be brief.")));
    assert_eq!((&asked["schema"], &asked["action"]), (&json!({ "type": "object" }), &json!("summarize")));
    let limit = asked["limits"]["milliseconds"].as_u64().unwrap();
    assert!(
        (1_000..=38_000).contains(&limit),
        "the timeout of the request, less the time to report: {limit}"
    );
    let first = events.find(|event| match event {
        WorkerEvent::Started { work, .. } => Some(work.action.clone()),
        _ => None,
    });
    assert_eq!(first.await, "summarize");
    worker.stop().await;
    assert!(test.hub.inbox("ada", 10).await.unwrap().is_empty(), "the notification was acknowledged");
}

// Fails under: a failure that ends the agent, or leaves the requester without an answer.
#[tokio::test(flavor = "multi_thread")]
async fn c2_a_failed_answer_is_an_error_and_the_agent_continues() {
    let test = TestHub::new().await;
    let script =
        "import json, sys; q = json.load(sys.stdin); print(json.dumps({'half': q['payload']['n'] / 2}))";
    let (worker, mut events) = test.worker([test.python("ada", script, &[])]).await;
    let ask = async |payload: Value| -> Value {
        test.client.ask("ada", "halve", payload).await.unwrap().payload().unwrap()
    };
    let failed = ask(json!({ "n": "x" })).await;
    assert!(failed["error"].as_str().unwrap().contains("TypeError"), "{failed}");
    events.find(|event| matches!(event, WorkerEvent::Failed { .. }).then_some(())).await;
    assert_eq!(ask(json!({ "n": 8 })).await, json!({ "half": 4.0 }));
    worker.stop().await;
}

// Fails under: a result, confidence, rationale or partial result that is lost; a dependency whose result the agent does not get.
#[tokio::test(flavor = "multi_thread")]
async fn e2_a_worker_completes_tasks() {
    let test = TestHub::new().await;
    let script = format!("print('{{\"partial\": {{\"page\": 1}}}}', flush=True); {ECHO}");
    let (worker, _events) = test.worker([test.python("ada", &script, &["review"])]).await;
    let info = test.hub.agent_info("ada").await.unwrap();
    assert_eq!((info.capabilities, info.declaration.is_some()), (vec!["review".to_owned()], true));
    let input = json!({ "text": "a", "instructions": "Look.", "answer": { "required": ["summary"] } });
    let first = TaskDraft::new("review", input).id("first").timeout(Duration::from_secs(50));
    let done = test.ended(first).await;
    assert_eq!((done.task.status, done.task.confidence), (TaskStatus::Done, Some(0.25)));
    assert_eq!(done.task.rationale.as_deref(), Some("because"));
    let result: Value = serde_json::from_slice(&done.more.result.unwrap().0).unwrap();
    assert_eq!(result["asked"]["payload"], json!({ "text": "a" }));
    assert_eq!(result["asked"]["instructions"], "Look.");
    assert!(result["asked"]["limits"]["milliseconds"].as_u64() <= Some(47_500), "{result}");
    assert!(result["asked"]["context"].is_null(), "{result}");
    let second = test.ended(TaskDraft::new("review", json!({})).depends_on(["first"])).await;
    let result: Value = serde_json::from_slice(&second.more.result.unwrap().0).unwrap();
    assert_eq!(result["asked"]["context"]["dependencies"]["first"]["confidence"], 0.25, "{result}");
    worker.stop().await;
}

// Fails under: partial results that are stored with the last attempt only, or not at all if the attempt fails; a retry that does not get
// them; a failure without its reason; a program that does not exist and is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn c9_a_failed_attempt_is_retried_with_what_it_left() {
    let test = TestHub::new().await;
    let script = "\
import json, sys
q = json.load(sys.stdin)
if 'context' in q:
    print(json.dumps(q['context']))
else:
    print(json.dumps({'partial': {'page': 1}}))
    sys.exit('no ink')";
    let missing = AgentSettings { tasks: vec!["print".into()], ..AgentSettings::default() };
    let context = AgentContext::new(test.path());
    let missing = DeclaredAgent::declare("ben", "cmd:no-such-program", &missing, &context).unwrap();
    let (worker, mut events) = test.worker([test.python("ada", script, &["write"]), missing]).await;
    let done = test.ended(TaskDraft::new("write", json!({})).backoff(Duration::from_millis(10))).await;
    assert_eq!((done.task.status, done.task.attempt), (TaskStatus::Done, 2), "{:?}", done.task.reason);
    let context: Value = serde_json::from_slice(&done.more.result.unwrap().0).unwrap();
    assert_eq!(context["partials"], json!([{ "page": 1 }]), "{context}");
    assert!(context["last_failure"].as_str().unwrap().contains("no ink"), "{context}");
    let failed = events.find(|event| match event {
        WorkerEvent::Failed { reason, retryable, work, .. } => {
            Some((reason.clone(), *retryable, work.attempt))
        }
        _ => None,
    });
    let (reason, retryable, attempt) = failed.await;
    assert!(reason.contains("no ink") && retryable && attempt == 1, "{reason}");
    let ended = test.ended(TaskDraft::new("print", json!({})).no_escalation()).await;
    assert_eq!((ended.task.status, ended.task.attempt), (TaskStatus::Failed, 1));
    assert!(ended.task.reason.unwrap().contains("not found on PATH"));
    worker.stop().await;
}

// Fails under: a time limit that is not enforced by the worker; processes that survive it.
#[tokio::test(flavor = "multi_thread")]
async fn c10_the_time_limit_of_a_task_stops_its_program() {
    let test = TestHub::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // The child inherits the connection, which ends with the last process of the group.
    let script = format!(
        "import os, socket, time; s = socket.create_connection(('127.0.0.1', {port})); s.set_inheritable(True); os.fork(); \
         time.sleep(600)"
    );
    let (worker, mut events) = test.worker([test.python("ada", &script, &["wait"])]).await;
    let task =
        TaskDraft::new("wait", json!({})).timeout(Duration::from_secs(1)).max_attempts(1).no_escalation();
    let ended = test.ended(task).await;
    assert_eq!(ended.task.status, TaskStatus::Failed, "{:?}", ended.task.reason);
    let (mut connection, _) = within(listener.accept()).await.unwrap();
    assert_eq!(within(connection.read(&mut [0; 8])).await.unwrap_or(0), 0, "all its processes have ended");
    let failed = events.find(|event| {
        matches!(event, WorkerEvent::Failed { .. } | WorkerEvent::Interrupted { .. }).then_some(())
    });
    failed.await;
    worker.stop().await;
}

// Fails under: a program that survives the cancellation of its task; a worker that calls that a failure.
#[tokio::test(flavor = "multi_thread")]
async fn c9_a_cancelled_task_stops_its_program() {
    let test = TestHub::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let script =
        format!("import socket, time; s = socket.create_connection(('127.0.0.1', {port})); time.sleep(600)");
    let (worker, mut events) = test.worker([test.python("ada", &script, &["wait"])]).await;
    let id = test.client.create_task(TaskDraft::new("wait", json!({}))).await.unwrap();
    let (mut connection, _) = within(listener.accept()).await.unwrap();
    test.client.cancel_task(&id, "not needed").await.unwrap();
    assert_eq!(within(connection.read(&mut [0; 8])).await.unwrap_or(0), 0, "the program has ended");
    let ended = events.find(|event| match event {
        WorkerEvent::Interrupted { work, .. } => Some(Ok(work.id.clone())),
        WorkerEvent::Failed { reason, .. } => Some(Err(reason.clone())),
        _ => None,
    });
    assert_eq!(ended.await, Ok(id.to_string()));
    worker.stop().await;
}

// Fails under: a stop that ends work in progress.
#[tokio::test(flavor = "multi_thread")]
async fn c2_a_worker_drains_when_it_is_stopped() {
    let test = TestHub::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "import socket; s = socket.create_connection(('127.0.0.1', {port})); s.recv(1); print('{{\"ok\": true}}')"
    );
    let (worker, _events) = test.worker([test.python("ada", &script, &["wait"])]).await;
    let id = test.client.create_task(TaskDraft::new("wait", json!({}))).await.unwrap();
    let (mut connection, _) = within(listener.accept()).await.unwrap();
    let stopping = tokio::spawn(worker.stop());
    tokio::io::AsyncWriteExt::write_all(&mut connection, b"x").await.unwrap();
    within(stopping).await.unwrap();
    assert_eq!(test.hub.task(&id).await.unwrap().task.status, TaskStatus::Done);
}

// Fails under: a letter that differs from the approved one, follows a link, or is not recorded; a second directory for letters.
#[tokio::test(flavor = "multi_thread")]
async fn e3_a_worker_writes_letters_that_are_approved_later() {
    let test = TestHub::new().await;
    // The letter is proposed and approved while no worker runs.
    test.hub.agent(OUTBOX).join().await.unwrap();
    let _host = test.hub.drive_procedures().await.unwrap();
    let spec = json!({
        "action": "send",
        "payload": { "letter": "Because of yes.\n", "write": "letter.txt" },
        "task": { "type": LETTER_TASK, "agent": OUTBOX },
    });
    test.hub
        .start_procedure(ProcedureDraft::new("proposal", spec).driver("procedures").id("p"))
        .await
        .unwrap();
    let mut info = test.hub.procedure("p").await.unwrap();
    while info.procedure().phase != "awaiting approval" {
        info = test.hub.wait_for_procedure_step("p", info.version(), TIMEOUT).await.unwrap();
    }
    let approval = test.hub.approval("p:approval-1").await.unwrap();
    let (id, digest) = (&approval.approval().id, approval.approval().digest);
    test.hub.approver("anna").unwrap().approve(id, digest, "fine").await.unwrap();
    let (letters, victim) = (test.path().join("letters"), test.path().join("victim"));
    std::fs::create_dir(&letters).unwrap();
    std::fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, letters.join("letter.txt")).unwrap();
    let config =
        |directory: &std::path::Path| WorkerConfig { agents: Vec::new(), letters: Some(directory.into()) };
    let (sink, mut written) = events();
    let worker = Worker::start(&test.hub, config(&letters), sink).await.unwrap();
    let file = written.find(|event| match event {
        WorkerEvent::LetterWritten { file, .. } => Some(file.clone()),
        _ => None,
    });
    let file = file.await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "Because of yes.\n");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    let info = test.hub.wait_for_procedure("p", TIMEOUT).await.unwrap();
    assert_eq!(info.procedure().status, ProcedureStatus::Done, "{:?}", info.procedure());
    let outcome: ProposalOutcome = info.result().unwrap().unwrap();
    let written = WrittenLetter { file, digest: digest.to_string() };
    assert_eq!((outcome.end, outcome.result), (ProposalEnd::Approved, json!(written)));
    let (sink, _) = events();
    let other = Worker::start(&test.hub, config(test.path()), sink).await.err().unwrap();
    assert!(matches!(&other, WorkerError::OtherDeclaration { agent, .. } if agent == OUTBOX), "{other}");
    assert!(other.hint().contains("same directory"), "{}", other.hint());
    let (sink, _) = events();
    let missing = Worker::start(&test.hub, config(&test.path().join("none")), sink).await.err().unwrap();
    assert!(matches!(missing, WorkerError::Letters { .. }), "{missing}");
    worker.stop().await;
}
