//! The worker in an embedded hub: real programs, real time.

mod standby;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorate::{Agent, Hub, TaskDraft, TaskWithPayloads};
use quorate_agents::worker::{EventSink, Worker, WorkerConfig, WorkerEvent};
use quorate_agents::{AgentContext, AgentSettings, DeclaredAgent};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("in time")
}

/// An embedded hub in a temporary directory, and an agent that creates work.
struct TestHub {
    hub: Hub,
    client: Agent,
    directory: TempDir,
}

impl TestHub {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let hub = Hub::open(directory.path().join("data")).await.unwrap();
        let client = hub.agent("client").join().await.unwrap();
        Self { hub, client, directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Declares an agent that is a Python program.
    fn python(&self, name: &str, script: &str, tasks: &[&str]) -> DeclaredAgent {
        let line = format!("cmd:python3 -c {}", shell_words::quote(script));
        let tasks = tasks.iter().map(|name| (*name).to_owned()).collect();
        let settings = AgentSettings { tasks, ..AgentSettings::default() };
        DeclaredAgent::declare(name, &line, &settings, &AgentContext::new(self.path())).unwrap()
    }

    /// Starts a worker with these agents.
    async fn worker(&self, agents: impl IntoIterator<Item = DeclaredAgent>) -> (Worker, Events) {
        let agents = agents.into_iter().map(Arc::new).collect();
        let (sink, events) = events();
        let config = WorkerConfig { agents, letters: None };
        (Worker::start(&self.hub, config, sink).await.unwrap(), events)
    }

    /// Creates a task and waits for its end.
    async fn ended(&self, task: TaskDraft) -> TaskWithPayloads {
        let id = self.client.create_task(task).await.unwrap();
        self.hub.wait_for_task(&id, TIMEOUT).await.unwrap()
    }
}

/// The events of a worker.
struct Events(mpsc::UnboundedReceiver<WorkerEvent>);

fn events() -> (EventSink, Events) {
    let (sender, receiver) = mpsc::unbounded_channel();
    // The receiver may be gone at the end of a test.
    (Arc::new(move |event| drop(sender.send(event))), Events(receiver))
}

impl Events {
    /// Waits for the first event of this kind.
    async fn find<T>(&mut self, mut wanted: impl FnMut(&WorkerEvent) -> Option<T>) -> T {
        within(async {
            loop {
                let event = self.0.recv().await.expect("the worker runs");
                if let Some(found) = wanted(&event) {
                    return found;
                }
            }
        })
        .await
    }

    async fn connected(&mut self, name: &str) {
        self.find(|event| {
            matches!(event, WorkerEvent::Connected { agent, .. } if agent == name).then_some(())
        })
        .await;
    }
}
