//! Work that is not needed any more: the hub ends its leases, and its handlers are dropped within a second.

use std::future::pending;
use std::time::{Duration, Instant};

use quorate::{
    Agent, Code, Failure, Hub, ProcedureDraft, RequestHandle, RunningAgent, TaskDraft, TaskId, TaskWork, Work,
};
use quorate_core::{AgentId, Destination, Message, Payload, Principal, SendRequest};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{SOON, TestHub, next};

/// Upper bound between the end of work and the end of its handler.
const IN_TIME: Duration = Duration::from_secs(1);
/// Number of handlers in the figure: half of them handle requests, half tasks.
const HANDLERS: usize = 100;

/// Observes handlers that never end by themselves.
struct EndlessHandlers {
    probe: Probe,
    started: UnboundedReceiver<u64>,
    dropped: UnboundedReceiver<u64>,
}

#[derive(Clone)]
struct Probe {
    started: UnboundedSender<u64>,
    dropped: UnboundedSender<u64>,
}

/// Reports its drop.
struct Running(u64, UnboundedSender<u64>);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

impl Probe {
    async fn run_forever(self, number: u64) -> Result<(), Failure> {
        let _running = Running(number, self.dropped);
        let _ = self.started.send(number);
        pending().await
    }
}

impl EndlessHandlers {
    fn new() -> Self {
        let ((started, starts), (dropped, drops)) = (unbounded_channel(), unbounded_channel());
        Self { probe: Probe { started, dropped }, started: starts, dropped: drops }
    }

    /// Runs an agent whose handlers of the action `work` and of tasks of type `work` never end.
    async fn run(&self, hub: &Hub, id: &str, concurrency: usize) -> RunningAgent {
        let (probe, task_probe) = (self.probe.clone(), self.probe.clone());
        let agent = hub.agent(id).concurrency(u32::try_from(concurrency).expect("a small number"));
        let agent = agent.on("work", move |work: Work<u64>| probe.clone().run_forever(work.payload));
        let agent =
            agent.on_task("work", move |work: TaskWork<u64>| task_probe.clone().run_forever(work.input));
        agent.run().await.expect("it runs")
    }

    /// Runs an agent that only handles tasks.
    async fn run_for_tasks(&self, hub: &Hub, id: &str) -> RunningAgent {
        let probe = self.probe.clone();
        let agent =
            hub.agent(id).on_task("work", move |work: TaskWork<u64>| probe.clone().run_forever(work.input));
        agent.run().await.expect("it runs")
    }

    async fn started(&mut self) -> u64 {
        let started = tokio::time::timeout(SOON, self.started.recv());
        started.await.expect("a handler starts").expect("a number")
    }

    /// Waits for the end of the next handler.
    async fn dropped(&mut self) -> u64 {
        let dropped = tokio::time::timeout(IN_TIME, self.dropped.recv());
        dropped.await.expect("the handler is dropped within a second").expect("a number")
    }

    fn is_running(&mut self) -> bool {
        self.dropped.try_recv().is_err()
    }
}

async fn ask(alice: &Agent, number: u64) -> RequestHandle {
    alice.ask("worker", "work", number).timeout(SOON).start().await.expect("asked")
}

async fn create(alice: &Agent, number: u64) -> TaskId {
    alice.create_task(TaskDraft::new("work", number)).await.expect("created")
}

// Fails under: a handler that runs until its next extension; capacity that is not returned; a delivery that stays leased.
pub(crate) async fn m16_a_handler_is_dropped_when_its_request_ends(fixture: &TestHub) {
    let mut handlers = EndlessHandlers::new();
    let worker = handlers.run(&fixture.hub, "worker", 1).await;
    let alice = fixture.hub.agent("alice").join().await.expect("she joins");
    let (cancelled, dropped) = (ask(&alice, 1).await, ask(&alice, 2).await);
    assert_eq!(handlers.started().await, 1);
    assert!(handlers.is_running());
    cancelled.cancel().await.expect("cancelled");
    assert_eq!(handlers.dropped().await, 1);
    assert_eq!(handlers.started().await, 2, "the agent continues with the next delivery");
    drop(dropped);
    assert_eq!(handlers.dropped().await, 2);
    let timeout = Duration::from_millis(300);
    let error = alice.ask("worker", "work", 3).timeout(timeout).await.expect_err("no answer");
    assert_eq!((error.code(), handlers.started().await), (Code::Timeout, 3));
    assert_eq!(handlers.dropped().await, 3);
    let counts = fixture.embedded.counts().await.expect("read");
    assert_eq!((counts.leased, counts.ready, counts.purged, counts.expired), (0, 0, 2, 1));
    // Also while the agent is being stopped.
    let last = ask(&alice, 4).await;
    assert_eq!(handlers.started().await, 4);
    let stopping = tokio::spawn(worker.stop());
    last.cancel().await.expect("cancelled");
    assert_eq!(handlers.dropped().await, 4);
    tokio::time::timeout(SOON, stopping).await.expect("in time").expect("a task").expect("stopped");
}

// Fails under: a task worker that learns of a cancellation with its next heartbeat; an agent without message handlers that
// is not notified; capacity that is not returned.
pub(crate) async fn m16_a_handler_is_dropped_when_its_task_is_cancelled(fixture: &TestHub) {
    let mut handlers = EndlessHandlers::new();
    let alice = fixture.hub.agent("alice").join().await.expect("she joins");
    let worker = handlers.run_for_tasks(&fixture.hub, "worker").await;
    let (first, second) = (create(&alice, 1).await, create(&alice, 2).await);
    assert_eq!(handlers.started().await, 1);
    assert!(handlers.is_running());
    alice.cancel_task(&first, "not needed").await.expect("cancelled");
    assert_eq!(handlers.dropped().await, 1);
    assert_eq!(handlers.started().await, 2, "the agent continues with the next task");
    // An agent with task handlers only leaves its inbox to other code.
    alice.send("worker", "work", 9).await.expect("sent");
    let received = next(worker.agent()).await;
    assert_eq!(received.payload::<u64>().expect("a number"), 9);
    worker.agent().step(&received).commit().await.expect("done");
    let stopping = tokio::spawn(worker.stop());
    alice.cancel_task(&second, "not needed").await.expect("cancelled");
    assert_eq!(handlers.dropped().await, 2);
    tokio::time::timeout(SOON, stopping).await.expect("in time").expect("a task").expect("stopped");
    // An agent that handles both.
    let worker = handlers.run(&fixture.hub, "worker", 1).await;
    let third = create(&alice, 3).await;
    assert_eq!(handlers.started().await, 3);
    alice.cancel_task(&third, "not needed").await.expect("cancelled");
    assert_eq!(handlers.dropped().await, 3);
    worker.stop().await.expect("stopped");
}

/// Sends a request of a procedure, on behalf of its driver.
async fn ask_for_procedure(hub: &Hub, procedure: &str, number: u64) -> quorate_core::MessageId {
    let space = hub.space().expect("an embedded hub");
    let to: Destination = "worker".parse().expect("an agent");
    let payload = Payload::seal(number.to_string().into(), [1; 16]);
    let driver = AgentId::new("driver").expect("an id");
    let message = Message {
        from: Some(driver.clone()),
        correlation_id: Some(procedure.to_owned()),
        ..Message::new(to, "work", payload)
    };
    let (principal, request) = (Principal::Agent(driver), SendRequest::new(message, None, None));
    let mut waiter = space.request(&principal, None, request).await.expect("sent");
    waiter.keep_open();
    waiter.id()
}

// Fails under: a handler of a cancelled procedure that goes on; handlers that are notified one after the other.
#[allow(clippy::print_stdout, reason = "a figure")]
pub(crate) async fn m4_cancelling_a_procedure_ends_a_hundred_handlers_within_a_second(fixture: &TestHub) {
    let mut handlers = EndlessHandlers::new();
    let embedded = &fixture.embedded;
    let worker = handlers.run(&fixture.hub, "worker", HANDLERS).await;
    let driver = embedded.agent("driver").join().await.expect("it joins");
    let procedure = embedded.start_procedure(ProcedureDraft::new("own", ()).driver("driver")).await;
    let procedure = procedure.expect("started").to_string();
    for number in 0..HANDLERS as u64 / 2 {
        ask_for_procedure(embedded, &procedure, number).await;
        let task = TaskDraft::new("work", number).session(procedure.as_str());
        driver.create_task(task).await.expect("created");
    }
    for _ in 0..HANDLERS {
        handlers.started().await;
    }
    assert!(handlers.is_running());
    let start = Instant::now();
    fixture.hub.cancel_procedure(&procedure, "not needed").await.expect("cancelled");
    for _ in 0..HANDLERS {
        handlers.dropped().await;
    }
    let taken = start.elapsed();
    let backend = if fixture.hub.space().is_some() { "embedded" } else { "over WebSocket" };
    println!("{HANDLERS} handlers {backend} ended {taken:?} after the procedure was cancelled");
    assert!(taken < IN_TIME, "{taken:?}");
    assert_eq!(embedded.counts().await.expect("read").leased, 0);
    worker.stop().await.expect("stopped");
}
