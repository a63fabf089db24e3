//! A connection from its welcome to its end: one task hears what the client asks for (`hear.rs`) and tells it what came of
//! it and what was sent to it (`tell.rs`). It is one task because most of what it does is to wait: two would wake each other,
//! and that costs more than what they do.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use quorate_core::{Code, LeaseRef, Mono, Receipt, Refused, SpaceNo};
use quorate_engine::{Answer, Consumer, Delivery, Error, Pending};

use super::hello::Known;
use super::ledger::{Ledger, Range};
use super::seats::Seat;
use super::{Session, closing, frame};
use crate::call::Pass;
use crate::listen::Life;
use crate::problem::Problem;

/// What may wait to be told; then nothing more is heard.
const LINE_MAX: usize = 1_024;
/// How often it is looked whether something got stuck, at least.
const LOOK: Duration = Duration::from_secs(2);
/// How long the last frame may take to be written before the connection is simply dropped.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Pings without a sign of life after which a client is gone.
const SILENT_MAX: u32 = 3;

/// What is in line at the head, and what its end means for the books.
pub(super) enum What {
    /// A commit, and which of the leases that it ends are of deliveries still to be sent again.
    Commit {
        resumed: Vec<LeaseRef>,
    },
    /// Leases end, by number; with it goes so much credit.
    End {
        end: End,
        credit: u32,
    },
    Extend,
    /// Credit alone; nobody waits to hear of it.
    Grant {
        credit: u32,
    },
}

/// How leases end by number.
pub(super) enum End {
    /// With an ack. `resumed` are those whose deliveries were still to be sent again.
    Acked { ranges: Vec<Range>, resumed: Vec<LeaseRef> },
    /// With a nack.
    Returned { ranges: Vec<Range> },
}

/// What waits to be told, in the order in which it was asked for.
pub(super) enum Line {
    /// What comes of something that is in line at the head.
    Pending(u64, Pending, What),
    /// A frame that is ready.
    Ready(String),
}

/// Why the connection is over.
pub(super) enum Over {
    /// It cannot be written to or read from.
    Gone,
    /// The client closes it.
    Closed,
    Said(Box<Problem>),
    /// The hub stops.
    Stopped,
}

impl<P: Into<Problem>> From<P> for Over {
    fn from(problem: P) -> Self {
        Self::Said(Box::new(problem.into()))
    }
}

/// A question to somebody else, by the number of its frame.
pub(super) type Question = BoxFuture<'static, (u64, Result<Answer, Error>)>;

/// What happens next.
enum Event {
    Ready,
    Answered(Result<Receipt, Error>),
    AnswerOf(u64, Result<Answer, Error>),
    Came(Option<Result<Message, axum::Error>>),
    Delivery(Result<Option<Delivery>, Error>),
    Look,
    Idle,
}

/// A connection.
pub(super) struct Talk {
    pub(super) session: Arc<Session>,
    /// The space of the token.
    pub(super) home: SpaceNo,
    pub(super) socket: WebSocket,
    pub(super) consumer: Option<Consumer>,
    pub(super) ledger: Ledger,
    pub(super) line: VecDeque<Line>,
    /// Questions to others that wait for their answers.
    pub(super) asking: FuturesUnordered<Question>,
    /// The number of the last frame.
    pub(super) last: Option<u64>,
    /// Whether something was fed to the socket and not flushed.
    pub(super) is_dirty: bool,
    /// Since when deliveries lie here that must not be sent.
    pub(super) starved: Option<Mono>,
    /// Whether anything came since the last ping.
    heard: bool,
    /// Pings in a row that nobody answered, and when the last one was due.
    silent: u32,
    pinged: Mono,
}

/// Serves a connection to its end.
pub(super) async fn run(known: Known, mut life: Option<Life>, socket: WebSocket) {
    let Known { session, pass, home, consumer, ledger, mut seat } = known;
    let session = Arc::new(session);
    let mut talk = Talk {
        pinged: session.now(),
        session: Arc::clone(&session),
        home,
        socket,
        consumer,
        ledger,
        line: VecDeque::new(),
        asking: FuturesUnordered::new(),
        last: None,
        is_dirty: false,
        starved: None,
        heard: true,
        silent: 0,
    };
    // Whoever must go, goes even while nobody reads what is written.
    let over = tokio::select! {
        over = talk.run() => over,
        refused = must_end(&session, &pass, seat.as_mut()) => refused.into(),
        () = stopped(life.as_mut()) => Over::Stopped,
    };
    // Whoever asked and has gone wants no answer any more.
    talk.asking.clear();
    let _ = tokio::time::timeout(END_WITHIN, talk.end(over)).await;
    // What was not sent is given back untouched, unless a newer connection takes it up.
    if let Some(consumer) = talk.consumer
        && seat.as_ref().is_none_or(|seat| !seat.is_lost())
    {
        let _ = consumer.close().await;
    }
}

async fn stopped(life: Option<&mut Life>) {
    match life {
        Some(life) => life.stopped().await,
        None => pending().await,
    }
}

/// Ends when the connection must: the token is good no more, or a newer connection is there.
async fn must_end(session: &Session, pass: &Pass, mut seat: Option<&mut Seat>) -> Refused {
    let look = session.app.settings().times.look;
    loop {
        let lost = async {
            match seat.as_mut() {
                Some(seat) => seat.lost().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = lost => return superseded(session),
            () = tokio::time::sleep(look) => {}
        }
        if !pass.is_good() {
            return Refused::new(Code::Unauthenticated, "the token was revoked, or has expired")
                .hint("connect again with another token");
        }
    }
}

/// Why a newer connection has the seat: it is a new start of the agent, or the same start from elsewhere.
fn superseded(session: &Session) -> Refused {
    let published = session.space.published();
    let now = session.agent.as_ref().and_then(|id| published.agents.by_id(id)).map(|agent| agent.epoch);
    if now != session.epoch {
        return started_again();
    }
    Refused::new(Code::Conflict, "a newer connection of this agent took over")
        .hint("let one connection serve an agent, or give each its own agent")
}

/// What whoever belongs to an earlier start is told.
fn started_again() -> Refused {
    Refused::new(Code::StaleEpoch, "the agent was started again, or removed")
        .hint("this start of the agent is over; stop it, or say hello without an epoch to start it again")
}

impl Talk {
    /// Hears and tells until it is over.
    async fn run(&mut self) -> Over {
        let ping = self.session.app.settings().patience.ping;
        let mut look = tokio::time::interval(LOOK.min(self.session.starved_after / 2).min(ping));
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let went = match self.next(&mut look).await {
                Event::Ready => self.ready().await,
                Event::Answered(outcome) => self.answered(outcome).await,
                Event::AnswerOf(n, answer) => self.answer_of(n, answer).await,
                Event::Came(came) => self.came(came).await,
                Event::Delivery(Ok(Some(delivery))) => self.deliver(delivery).await,
                Event::Delivery(Ok(None)) => Err(started_again().into()),
                Event::Delivery(Err(error)) => Err(error.into()),
                Event::Look => self.look(ping).await,
                Event::Idle => self.flush().await,
            };
            if let Err(over) = went {
                return over;
            }
        }
    }

    async fn next(&mut self, look: &mut tokio::time::Interval) -> Event {
        let Self { socket, consumer, ledger, line, asking, is_dirty, .. } = self;
        let may_send = consumer.is_some() && ledger.may_send();
        let has_room = line.len() < LINE_MAX;
        let answer = async {
            match line.front_mut() {
                Some(Line::Pending(_, pending, _)) => Event::Answered(pending.answer().await),
                Some(Line::Ready(_)) => Event::Ready,
                None => pending().await,
            }
        };
        let delivery = async {
            match consumer {
                Some(consumer) => consumer.next().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            event = answer => event,
            Some((n, answer)) = asking.next(), if !asking.is_empty() => Event::AnswerOf(n, answer),
            came = socket.recv(), if has_room => Event::Came(came),
            delivery = delivery, if may_send => Event::Delivery(delivery),
            _ = look.tick() => Event::Look,
            // Nothing else to do: now it is worth a write.
            () = std::future::ready(()), if *is_dirty => Event::Idle,
        }
    }

    /// Looks whether the connection still has a point, and whether something got stuck.
    async fn look(&mut self, ping: Duration) -> Result<(), Over> {
        // Without credit nobody waits for deliveries, and so nobody hears that there will be none.
        if self.session.is_over() {
            return Err(started_again().into());
        }
        let now = self.session.now();
        if now >= self.pinged.plus_ms(ping.as_millis() as u64) {
            self.pinged = now;
            self.silent = if std::mem::take(&mut self.heard) { 0 } else { self.silent + 1 };
            if self.silent >= SILENT_MAX {
                return Err(Refused::new(Code::Timeout, "there was no sign of life").into());
            }
            self.feed(Message::Ping(Bytes::new())).await?;
        }
        self.look_after_deliveries(now).await;
        Ok(())
    }

    /// The last words.
    async fn end(&mut self, over: Over) {
        let close = match over {
            Over::Gone => return,
            // Its own word is answered.
            Over::Closed => return drop(self.flush().await),
            Over::Said(problem) => {
                let _ = self.feed(Message::Text(frame::problem(None, &problem).into())).await;
                closing(&problem)
            }
            Over::Stopped => CloseFrame { code: 1001, reason: "stopping".into() },
        };
        let _ = self.feed(Message::Close(Some(close))).await;
        let _ = self.flush().await;
    }

    /// Takes what came.
    async fn came(&mut self, came: Option<Result<Message, axum::Error>>) -> Result<(), Over> {
        self.heard = true;
        match came {
            Some(Ok(Message::Text(text))) => self.hear(text.into()).await,
            Some(Ok(Message::Binary(_))) => Err(frame::no_text().into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Close(_))) => Err(Over::Closed),
            // Broken, unless it is what came that is wrong: then it is said.
            Some(Err(error)) => Err(super::broken::why(error).map_or(Over::Gone, Over::from)),
            None => Err(Over::Gone),
        }
    }
}
