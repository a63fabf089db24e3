//! The task that writes: answers in the order of their commits, and deliveries in batches within the credit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{FutureExt as _, SinkExt as _};
use quorate_core::{Code, Mono, Receipt, Refused};
use quorate_engine::{Consumer, Delivery, Error, Pending};
use serde_json::json;
use tokio::sync::mpsc;

use super::frame::{self, BATCH_BYTES_MAX, BATCH_MESSAGES_MAX};
use super::ledger::Range;
use super::{Session, closing};
use crate::problem::Problem;
use crate::wire::delivery::DeliveryOut;

/// Commits that wait for their answers.
const PENDING_MAX: usize = 1_024;
/// How often it is looked whether something got stuck, at least.
const LOOK: Duration = Duration::from_secs(2);

/// What is to be told.
pub(super) enum Tell {
    /// A frame that is ready, whatever waits before it.
    Frame(String),
    /// A frame that is ready, after all that waits before it.
    InTurn(String),
    /// What comes of something that is in line.
    Answer { n: u64, pending: Pending, what: What },
    /// There is credit for what lies here.
    Wake,
    /// A sign of life is asked for.
    Ping,
    /// The last thing, and why.
    End(Box<Problem>),
    /// The hub stops.
    Stop,
}

/// What is in line, and what its end means for the books.
pub(super) enum What {
    Commit,
    /// These numbers end; with it goes so much credit.
    End {
        ranges: Vec<Range>,
        credit: u32,
    },
    Extend,
    /// Credit alone; nobody waits to hear of it.
    Grant {
        credit: u32,
    },
}

/// Why the connection is over.
pub(super) enum Over {
    /// It cannot be written to, or whoever hears has gone.
    Gone,
    Said(Box<Problem>),
    Stopped,
}

pub(super) struct Teller {
    session: Arc<Session>,
    sink: SplitSink<WebSocket, Message>,
    queue: mpsc::Receiver<Tell>,
    pending: VecDeque<Line>,
    consumer: Option<Consumer>,
    /// Whether something was fed to the sink and not flushed.
    is_dirty: bool,
    /// Since when deliveries lie here that must not be sent.
    starved: Option<Mono>,
}

/// What waits to be told.
enum Line {
    Pending(u64, Pending, What),
    Ready(String),
}

/// What happens next.
enum Event {
    Ready,
    Answered(Result<Receipt, Error>),
    Tell(Option<Tell>),
    Delivery(Result<Option<Delivery>, Error>),
    Look,
    Idle,
}

impl Teller {
    pub(super) fn new(
        session: Arc<Session>,
        sink: SplitSink<WebSocket, Message>,
        queue: mpsc::Receiver<Tell>,
        consumer: Option<Consumer>,
    ) -> Self {
        Self { session, sink, queue, pending: VecDeque::new(), consumer, is_dirty: false, starved: None }
    }

    /// Tells until it is over. Returns what was not sent, so that it can be given back.
    pub(super) async fn run(mut self) -> Option<Consumer> {
        let over = self.tell().await;
        let last = async {
            let close = match over {
                Over::Gone => return,
                Over::Said(problem) => {
                    let text = frame::problem(None, &problem);
                    let _ = self.sink.feed(Message::Text(text.into())).await;
                    closing(&problem)
                }
                Over::Stopped => axum::extract::ws::CloseFrame { code: 1001, reason: "stopping".into() },
            };
            let _ = self.sink.send(Message::Close(Some(close))).await;
        };
        let _ = tokio::time::timeout(self.session.app.settings().patience.reader, last).await;
        self.consumer
    }

    async fn tell(&mut self) -> Over {
        let mut look = tokio::time::interval(LOOK.min(self.session.starved_after / 2));
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let event = self.next(&mut look).await;
            let went = match event {
                Event::Ready => self.ready().await,
                Event::Answered(outcome) => self.answered(outcome).await,
                Event::Tell(Some(tell)) => self.take(tell).await,
                Event::Tell(None) => Err(Over::Gone),
                Event::Delivery(Ok(Some(delivery))) => self.deliver(delivery).await,
                Event::Delivery(Ok(None)) => Err(Over::Said(Box::new(started_again().into()))),
                Event::Delivery(Err(error)) => Err(Over::Said(Box::new(error.into()))),
                Event::Look => self.look().await,
                Event::Idle => self.flush().await,
            };
            if let Err(over) = went {
                return over;
            }
        }
    }

    async fn next(&mut self, look: &mut tokio::time::Interval) -> Event {
        let Self { session, queue, pending, consumer, is_dirty, .. } = self;
        let may_send = consumer.is_some() && session.ledger().may_send();
        let has_room = pending.len() < PENDING_MAX;
        let answer = async {
            match pending.front_mut() {
                Some(Line::Pending(_, pending, _)) => Event::Answered(pending.answer().await),
                Some(Line::Ready(_)) => Event::Ready,
                None => std::future::pending().await,
            }
        };
        let delivery = async {
            match consumer {
                Some(consumer) => consumer.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = answer => event,
            tell = queue.recv(), if has_room => Event::Tell(tell),
            delivery = delivery, if may_send => Event::Delivery(delivery),
            _ = look.tick() => Event::Look,
            // Nothing else to do: now it is worth a write.
            () = std::future::ready(()), if *is_dirty => Event::Idle,
        }
    }

    async fn take(&mut self, tell: Tell) -> Result<(), Over> {
        match tell {
            Tell::Frame(text) => self.feed(Message::Text(text.into())).await,
            Tell::InTurn(text) => {
                self.pending.push_back(Line::Ready(text));
                Ok(())
            }
            Tell::Answer { n, pending, what } => {
                self.pending.push_back(Line::Pending(n, pending, what));
                Ok(())
            }
            Tell::Wake => Ok(()),
            Tell::Ping => self.feed(Message::Ping(Bytes::new())).await,
            Tell::End(problem) => Err(Over::Said(problem)),
            Tell::Stop => Err(Over::Stopped),
        }
    }

    async fn ready(&mut self) -> Result<(), Over> {
        match self.pending.pop_front() {
            Some(Line::Ready(text)) => self.feed(Message::Text(text.into())).await,
            _ => Ok(()),
        }
    }

    async fn answered(&mut self, outcome: Result<Receipt, Error>) -> Result<(), Over> {
        let Some(Line::Pending(n, _, what)) = self.pending.pop_front() else { return Ok(()) };
        let text = match outcome {
            Ok(receipt) => {
                if let What::End { ranges, .. } = &what {
                    self.session.ledger().end(ranges);
                }
                match what {
                    What::Grant { .. } => return Ok(()),
                    What::Commit => frame::ok(n, &frame::committed(&self.session.space, &receipt)),
                    What::End { .. } | What::Extend => {
                        frame::ok(n, &json!({"seq": receipt.seq.map(|seq| seq.0)}))
                    }
                }
            }
            Err(error) => {
                let problem = Problem::from(error);
                let mut ledger = self.session.ledger();
                // Named once; the same ack again ends the rest.
                ledger.forget(problem.stale());
                if let What::End { credit, .. } | What::Grant { credit } = what {
                    ledger.take_back(u64::from(credit));
                }
                drop(ledger);
                if matches!(what, What::Grant { .. }) {
                    return Ok(());
                }
                self.session.refused(&problem);
                frame::problem(Some(n), &problem)
            }
        };
        self.feed(Message::Text(text.into())).await
    }

    /// Sends what has come, as many as fit into a frame.
    async fn deliver(&mut self, first: Delivery) -> Result<(), Over> {
        let now = self.session.app.engine().clock().now().wall;
        let mut batch = Batch::default();
        let mut next = Some(first);
        while let Some(delivery) = next.take() {
            self.session.app.observed().handed.note(self.session.space.number(), &delivery);
            let bytes = batch.add(&DeliveryOut::new(&delivery, now));
            if let Some(full) = batch.overflow() {
                self.feed(Message::Text(full.text().into())).await?;
            }
            let mut ledger = self.session.ledger();
            batch.number(ledger.send(delivery.lease, bytes as u64));
            let may_send = ledger.may_send();
            drop(ledger);
            if may_send
                && batch.count < BATCH_MESSAGES_MAX
                && let Some(consumer) = &mut self.consumer
            {
                // What cannot be read at once is found by the next wait.
                next = consumer.at_hand().now_or_never().and_then(Result::ok).flatten();
            }
        }
        self.feed(Message::Text(batch.text().into())).await?;
        self.starved = None;
        if self.session.ledger().runs_low() {
            self.grant().await;
        }
        Ok(())
    }

    /// Asks the head for more, if there is credit for it.
    async fn grant(&mut self) {
        let granted = self.session.ledger().grant();
        let Some((op, credit)) = granted else { return };
        match self.session.space.enqueue(self.session.commit(vec![op])).await {
            Ok(pending) => self.pending.push_back(Line::Pending(0, pending, What::Grant { credit })),
            Err(_) => self.session.ledger().take_back(u64::from(credit)),
        }
    }

    /// What lies here and must not be sent is given back before its lease is over: nobody has seen it, so nobody tried.
    async fn look(&mut self) -> Result<(), Over> {
        // Without credit nobody waits for deliveries, and so nobody hears that there will be none.
        if self.session.is_over() {
            return Err(Over::Said(Box::new(started_again().into())));
        }
        if self.session.ledger().may_send() {
            self.starved = None;
            self.grant().await;
            return Ok(());
        }
        // Counted from one look to the next: what came in between is younger.
        let now = self.session.app.engine().clock().now().mono;
        let since = *self.starved.get_or_insert(now);
        let Some(consumer) = &mut self.consumer else { return Ok(()) };
        if now >= since.plus_ms(self.session.starved_after.as_millis() as u64) {
            let count = consumer.give_back().await.unwrap_or(0);
            self.session.ledger().take_back(count as u64);
            self.starved = None;
        }
        Ok(())
    }

    async fn feed(&mut self, message: Message) -> Result<(), Over> {
        self.is_dirty = true;
        let patience = self.session.app.settings().patience.reader;
        match tokio::time::timeout(patience, self.sink.feed(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Over::Gone),
        }
    }

    async fn flush(&mut self) -> Result<(), Over> {
        self.is_dirty = false;
        let patience = self.session.app.settings().patience.reader;
        match tokio::time::timeout(patience, self.sink.flush()).await {
            Ok(Ok(())) => Ok(()),
            // It broke, or nobody reads: what was sent is held until its lease is over, or comes again to who resumes.
            _ => Err(Over::Gone),
        }
    }
}

/// Deliveries on their way into one frame.
#[derive(Default)]
struct Batch {
    first: u64,
    count: usize,
    /// Where the last one begins.
    last: usize,
    items: Vec<u8>,
}

impl Batch {
    /// Writes one more, and says how many bytes it has.
    fn add(&mut self, item: &DeliveryOut) -> usize {
        if self.count > 0 {
            self.items.push(b',');
        }
        self.last = self.items.len();
        self.count += 1;
        // Nothing in it can fail to be written, and a vector takes everything.
        let _ = serde_json::to_writer(&mut self.items, item);
        self.items.len() - self.last
    }

    /// The number of the last one.
    fn number(&mut self, number: u64) {
        if self.count == 1 {
            self.first = number;
        }
    }

    /// If the last one made it too large: all before it. The last one stays, to be the first of the next frame.
    fn overflow(&mut self) -> Option<Self> {
        if self.count < 2 || self.items.len() <= BATCH_BYTES_MAX {
            return None;
        }
        let alone = Self { first: 0, count: 1, last: 0, items: self.items.split_off(self.last) };
        let mut full = std::mem::replace(self, alone);
        // The comma.
        full.items.pop();
        Some(full)
    }

    fn text(self) -> String {
        // JSON is text.
        let items = String::from_utf8(self.items).unwrap_or_default();
        format!("{{\"first\":{},\"deliveries\":[{items}]}}", self.first)
    }
}

/// What whoever belongs to an earlier start is told.
pub(super) fn started_again() -> Refused {
    Refused::new(Code::StaleEpoch, "the agent was started again, or removed")
        .hint("this start of the agent is over; stop it, or say hello without an epoch to start it again")
}
