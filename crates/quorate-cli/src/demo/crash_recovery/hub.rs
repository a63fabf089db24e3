//! The hub of the demo, in a separate process so that it can be killed.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quorate::{Agent, AgentFilter, Hub, ReceivedMessage, Seq};
use quorate_store::{Clock as _, SystemClock};
use serde_json::{Value, json};

use super::documents;

/// Arguments of the hidden command `demo-hub`, which reports events as JSON lines.
#[derive(Args, Debug)]
pub(crate) struct DemoHubArgs {
    data: PathBuf,
    #[arg(long)]
    documents: u32,
}

const AGENTS: [&str; 2] = ["ada", "ben"];

pub(crate) async fn run(args: DemoHubArgs) -> anyhow::Result<()> {
    let clock = SystemClock::new();
    let hub = Hub::open(&args.data).await?;
    let counts = hub.counts().await?;
    let open = counts.ready + counts.scheduled + counts.leased;
    report(&json!({ "event": "ready", "ms": clock.now().mono.0, "open": open }))?;
    let is_new = hub.agents(AgentFilter::default()).await?.is_empty();
    let planner = hub.agent("planner").join().await?;
    let ada = hub.agent("ada").join().await?;
    let ben = hub.agent("ben").join().await?;
    send(&hub, &planner, args.documents).await?;
    let ben = tokio::spawn(work(ben));
    if is_new {
        crash_while_processing(ada).await?;
        let ada = hub.agent("ada").join().await?;
        receive_redelivered(&ada).await?;
        work(ada).await?;
    } else {
        work(ada).await?;
    }
    ben.await??;
    report(&json!({ "event": "finished" }))?;
    hub.close().await;
    Ok(())
}

fn report(event: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{event}")?;
    Ok(out.flush()?)
}

/// Sends every document with its own client id, so that resending it has no effect.
async fn send(hub: &Hub, planner: &Agent, documents: u32) -> anyhow::Result<()> {
    let before = hub.space().map_or(Seq(0), |space| space.published().head.seq);
    let mut new = 0;
    for number in 1..=documents {
        let to = AGENTS[number as usize % AGENTS.len()];
        let document = json!({ "number": number, "text": documents::text(number) });
        let sent = planner.send(to, "count", document).id(format!("document-{number}")).await?;
        new += u32::from(sent.seq.is_some_and(|seq| seq > before));
    }
    report(&json!({ "event": "sent", "count": documents, "new": new }))
}

/// Processes messages until the inbox is empty. Each step is one commit: it writes the result and acks the input atomically.
async fn work(agent: Agent) -> anyhow::Result<()> {
    while let Some(received) = agent.receive(Duration::ZERO).await? {
        process(&agent, &received).await?;
    }
    Ok(())
}

async fn process(agent: &Agent, received: &ReceivedMessage) -> anyhow::Result<()> {
    let document: Value = received.payload()?;
    let number = document["number"].as_u64().unwrap_or(0);
    let words = documents::count_words(document["text"].as_str().unwrap_or_default());
    agent.step(received).put(&format!("words/{number:05}"), "count", words).commit().await?;
    report(
        &json!({ "event": "done", "agent": agent.id(), "document": number, "attempt": received.attempt() }),
    )
}

/// Leases a document and stops without ack or nack.
async fn crash_while_processing(ada: Agent) -> anyhow::Result<()> {
    for _ in 0..10 {
        if let Some(received) = ada.receive(Duration::ZERO).await? {
            process(&ada, &received).await?;
        }
    }
    if let Some(received) = ada.receive(Duration::ZERO).await? {
        let document: Value = received.payload()?;
        report(&json!({ "event": "died", "document": document["number"] }))?;
    }
    Ok(())
}

/// Receives the document that the crashed agent had leased: registering again releases its leases.
async fn receive_redelivered(ada: &Agent) -> anyhow::Result<()> {
    if let Some(received) = ada.receive(Duration::ZERO).await? {
        let document: Value = received.payload()?;
        report(&json!({ "event": "back", "document": document["number"], "attempt": received.attempt() }))?;
        process(ada, &received).await?;
    }
    Ok(())
}
