//! W2 and W9: the durable cycle over WebSocket. Each of eight agents sends to the next one, acks in ranges what comes, and
//! sends again for what was acked. A cycle is over when the answer to its ack has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::payload;
use super::served::Served;
use super::socket::{Deliveries, Slot, Socket, Told};
use crate::Scale;
use crate::measure::Latencies;
use crate::report::Line;

const CONNECTIONS: usize = 8;

/// How a run looks.
#[derive(Clone, Copy)]
struct Shape {
    bytes: usize,
    /// Messages a frame.
    batch: usize,
    /// Frames of each sender that are on their way.
    frames: usize,
    /// Frames that each sender sends.
    share: usize,
}

/// W2, in frames of 16 and one by one.
pub(crate) async fn measure(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let batched = Shape { bytes: 256, batch: 16, frames: 4, share: share(scale, 800_000, 16) };
    let single = Shape { bytes: 256, batch: 1, frames: 32, share: share(scale, 400_000, 1) };
    Ok(vec![
        run(scale, "W2", "WebSocket, 8 connections, frames of 16", batched)
            .await?
            .target(70_000.0, "70k/s, p99 < 10 ms"),
        run(scale, "W2", "WebSocket, 8 connections, single", single)
            .await?
            .target(35_000.0, "35k/s, p99 < 10 ms"),
    ])
}

/// W9: 4 KiB each.
pub(crate) async fn large(scale: &Scale) -> anyhow::Result<Vec<Line>> {
    let shape = Shape { bytes: 4_096, batch: 16, frames: 2, share: share(scale, 200_000, 16) };
    Ok(vec![run(scale, "W9", "WebSocket, 4 KiB, frames of 16", shape).await?.target(20_000.0, "20k/s")])
}

fn share(scale: &Scale, cycles: u64, batch: usize) -> usize {
    (scale.count(cycles) as usize / CONNECTIONS / batch).max(4)
}

async fn run(scale: &Scale, workload: &'static str, variant: &str, shape: Shape) -> anyhow::Result<Line> {
    let hub = Served::start(scale)?;
    let tokens = hub.agents(CONNECTIONS).await?;
    let mut sockets = Vec::new();
    for token in &tokens {
        sockets.push(Socket::connect(hub.address, token, Note::Nothing).await?);
    }
    let (books, inboxes): (Vec<_>, Vec<_>) = (0..CONNECTIONS).map(|_| Book::new(shape)).unzip();
    let books = Arc::new(books);
    let meter = hub.meter().await?;
    let mut running = JoinSet::new();
    for (index, (socket, over)) in sockets.into_iter().zip(inboxes).enumerate() {
        running.spawn(Agent { index, socket, shape, books: Arc::clone(&books), over }.run());
    }
    let mut latencies = Latencies::new();
    while let Some(finished) = running.join_next().await {
        latencies.add(&finished??);
    }
    let taken = hub.taken(&meter).await?;
    hub.check_acked(latencies.count()).await?;
    let line = Line::new(workload, variant, latencies.count(), taken).latencies(&latencies);
    let line =
        line.set("connections", CONNECTIONS).set("bytes", shape.bytes).set("messagesAFrame", shape.batch);
    Ok(line.set("onTheirWay", CONNECTIONS * shape.batch * shape.frames).set("keyed", true))
}

/// What the recipients know of a sender: when its frames went, and how much of each is open.
struct Book {
    begun: Instant,
    frames: Vec<Frame>,
    over: mpsc::UnboundedSender<usize>,
}

#[derive(Default)]
struct Frame {
    sent_ns: AtomicU64,
    open: AtomicUsize,
}

impl Book {
    fn new(shape: Shape) -> (Self, mpsc::UnboundedReceiver<usize>) {
        let (over, inbox) = mpsc::unbounded_channel();
        let frames = (0..shape.frames).map(|_| Frame::default()).collect();
        (Self { begun: Instant::now(), frames, over }, inbox)
    }
}

/// What is noted with a frame until it is answered.
enum Note {
    Nothing,
    /// The slots that an ack ends.
    Acked(Vec<Slot>),
}

struct Agent {
    index: usize,
    socket: Socket<Note>,
    shape: Shape,
    books: Arc<Vec<Book>>,
    /// Frames of this agent whose messages are all acked.
    over: mpsc::UnboundedReceiver<usize>,
}

impl Agent {
    async fn run(mut self) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::new();
        // Each agent ends as many cycles as it begins: the one before it has the same share.
        let wanted = (self.shape.share * self.shape.batch) as u64;
        let mut left = self.shape.share;
        for frame in 0..self.shape.frames.min(left) {
            self.send(frame, &mut left).await?;
        }
        self.socket.flush().await?;
        while latencies.count() < wanted || left > 0 {
            tokio::select! {
                told = self.socket.next() => {
                    self.told(told?, &mut latencies).await?;
                    while let Some(told) = self.socket.at_hand()? {
                        self.told(told, &mut latencies).await?;
                    }
                }
                Some(frame) = self.over.recv(), if left > 0 => self.send(frame, &mut left).await?,
            }
            while left > 0
                && let Ok(frame) = self.over.try_recv()
            {
                self.send(frame, &mut left).await?;
            }
            self.socket.flush().await?;
        }
        Ok(latencies)
    }

    async fn send(&mut self, frame: usize, left: &mut usize) -> anyhow::Result<()> {
        *left -= 1;
        let to = (self.index + 1) % CONNECTIONS;
        let send = format!(
            "{{\"op\":\"send\",\"to\":\"a{to}\",\"action\":\"work\",\"payload\":{}}}",
            payload(self.index, frame, self.shape.bytes)
        );
        let ops = vec![send; self.shape.batch].join(",");
        let body = format!("{{\"ops\":[{ops}],\"idempotencyKey\":\"{:010}\"}}", *left);
        let book = &self.books[self.index];
        book.frames[frame].open.store(self.shape.batch, Ordering::Relaxed);
        book.frames[frame].sent_ns.store(book.begun.elapsed().as_nanos() as u64, Ordering::Release);
        self.socket.ask("commit", &body, Note::Nothing).await.map(drop)
    }

    async fn told(&mut self, told: Told<Note>, latencies: &mut Latencies) -> anyhow::Result<()> {
        match told {
            Told::Answer(Note::Nothing) => {}
            Told::Answer(Note::Acked(slots)) => {
                for Slot { sender, slot } in slots {
                    let book = &self.books[sender];
                    let sent = Duration::from_nanos(book.frames[slot].sent_ns.load(Ordering::Acquire));
                    latencies.record(book.begun.elapsed().saturating_sub(sent));
                    if book.frames[slot].open.fetch_sub(1, Ordering::AcqRel) == 1 {
                        // Whoever has sent its share does not listen any more.
                        let _ = book.over.send(slot);
                    }
                }
            }
            Told::Deliveries(text) => {
                let came: Deliveries<'_> = serde_json::from_str(&text)?;
                let slots = came.deliveries.iter().map(|one| serde_json::from_str(one.message.payload.get()));
                let slots = slots.collect::<Result<Vec<Slot>, _>>()?;
                let last = came.first + slots.len() as u64 - 1;
                self.socket.ask("ack", &format!("[[{},{last}]]", came.first), Note::Acked(slots)).await?;
            }
        }
        Ok(())
    }
}
