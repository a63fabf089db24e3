//! W3 over WebSocket: questions and answers in memory only, with one caller and with 64.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::served::Served;
use super::socket::{Deliveries, Socket, Told};
use crate::Scale;
use crate::measure::Latencies;
use crate::report::Line;

pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let echo = tokio::task::spawn_blocking(echo_us).await??;
    let one = run(scale, 1, 1, scale.count(60_000)).await?.set("echoUs", echo);
    let many = run(scale, 4, 16, scale.count(400_000)).await?;
    Ok(vec![one.target(6_500.0, "6.5k/s, p50 ≤ 150 µs"), many.target(60_000.0, "60k/s")])
}

/// What a bare echo takes on this machine, there and back between two threads, without any hub: the yardstick. A question
/// through a hub and its answer are two of them.
fn echo_us() -> anyhow::Result<u64> {
    const ROUNDS: u32 = 2_000;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let answering = std::thread::spawn(move || {
        let mut bytes = [0; 256];
        while far.read_exact(&mut bytes).and_then(|()| far.write_all(&bytes)).is_ok() {}
    });
    let mut bytes = [1; 256];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        near.write_all(&bytes)?;
        near.read_exact(&mut bytes)?;
    }
    let taken = start.elapsed() / ROUNDS;
    drop(near);
    let _ = answering.join();
    Ok(taken.as_micros() as u64)
}

/// Pairs of connections: one asks, with so many questions at once, the other answers.
async fn run(scale: &Scale, pairs: usize, at_once: usize, count: u64) -> anyhow::Result<Line> {
    let hub = Served::start(scale)?;
    let tokens = hub.agents(2 * pairs).await?;
    let share = (count / pairs as u64).max(at_once as u64);
    let (mut asking, mut answering) = (JoinSet::new(), JoinSet::new());
    let mut asks = Vec::new();
    for pair in 0..pairs {
        asks.push(Socket::connect(hub.address, &tokens[pair], Instant::now()).await?);
        let answers = Socket::connect(hub.address, &tokens[pairs + pair], ()).await?;
        answering.spawn(answer(answers, pair));
    }
    let meter = hub.meter().await?;
    for (pair, socket) in asks.into_iter().enumerate() {
        asking.spawn(ask(socket, pairs + pair, at_once, share));
    }
    let mut latencies = Latencies::new();
    while latencies.count() < share * pairs as u64 {
        tokio::select! {
            Some(finished) = asking.join_next() => latencies.add(&finished??),
            Some(failed) = answering.join_next() => return Err(failed?.err().context("nobody answers")?),
        }
    }
    let taken = hub.taken(&meter).await?;
    let callers = pairs * at_once;
    let line = Line::new("W3", format!("ephemeral, WebSocket, {callers} callers"), latencies.count(), taken);
    Ok(line.latencies(&latencies).set("callers", callers).set("connections", 2 * pairs).set("bytes", 256))
}

async fn ask(
    mut socket: Socket<Instant>,
    to: usize,
    at_once: usize,
    share: u64,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::new();
    let question = format!(
        "{{\"to\":\"a{to}\",\"type\":\"query\",\"action\":\"ask\",\"payload\":\"{}\",\"durability\":\"ephemeral\"}}",
        "x".repeat(254)
    );
    for _ in 0..at_once {
        socket.ask("request", &question, Instant::now()).await?;
    }
    socket.flush().await?;
    let mut asked = at_once as u64;
    while latencies.count() < share {
        let mut told = Some(socket.next().await?);
        while let Some(one) = told {
            if let Told::Answer(asked_at) = one {
                latencies.record(asked_at.elapsed());
                if asked < share {
                    asked += 1;
                    socket.ask("request", &question, Instant::now()).await?;
                }
            }
            told = socket.at_hand()?;
        }
        socket.flush().await?;
    }
    Ok(latencies)
}

async fn answer(mut socket: Socket<()>, asker: usize) -> anyhow::Result<()> {
    loop {
        let mut told = Some(socket.next().await?);
        while let Some(one) = told {
            if let Told::Deliveries(text) = one {
                let came: Deliveries<'_> = serde_json::from_str(&text)?;
                for question in came.deliveries {
                    let body = format!(
                        "{{\"to\":\"a{asker}\",\"type\":\"response\",\"inReplyTo\":\"{}\",\"payload\":{},\"durability\":\"ephemeral\"}}",
                        question.message.id, question.message.payload
                    );
                    socket.ask("send", &body, ()).await?;
                }
            }
            told = socket.at_hand()?;
        }
        socket.flush().await?;
    }
}
