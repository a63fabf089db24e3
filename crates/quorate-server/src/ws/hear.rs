//! The task that reads: frames in their order, each put in line before the next one is looked at.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::stream::SplitStream;
use futures_util::{FutureExt as _, StreamExt as _};
use quorate_core::{Ask, Code, Durability, Epoch, IdempotencyKey, Message as Letter, Op, Refused, SpaceNo};
use quorate_engine::{Answer, Consumer, Error, Pending};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::frame::{self, Asked, REQUESTS_MAX, Unread};
use super::ledger::Range;
use super::seats::Seat;
use super::tell::{Tell, Teller, What, started_again};
use super::{Session, broken, no_letter};
use crate::body::Fields;
use crate::call::Pass;
use crate::deliberations;
use crate::listen::Life;
use crate::observe;
use crate::problem::Problem;
use crate::wire::message::MessageIn;
use crate::wire::op::{self, CommitIn};

/// Frames that may wait for the task that writes.
const QUEUE_MAX: usize = 64;
/// Ranges that one frame may name.
const RANGES_MAX: usize = 1_024;
/// How long the last frame may take to be written before the connection is simply dropped.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Payloads above this are looked through elsewhere; whoever sends one waits, so that the order is kept.
const LARGE_BYTES: usize = 32 * 1024;

/// Serves a connection to its end.
pub(super) async fn run(
    session: Arc<Session>,
    pass: Pass,
    home: SpaceNo,
    consumer: Option<Consumer>,
    mut seat: Option<Seat>,
    mut life: Option<Life>,
    socket: WebSocket,
) {
    let (sink, stream) = socket.split();
    let (queue, told) = mpsc::channel(QUEUE_MAX);
    let mut teller = tokio::spawn(Teller::new(Arc::clone(&session), sink, told, consumer).run());
    let heard = AtomicBool::new(true);
    let settings = session.app.settings();
    let (ping, look) = (settings.patience.ping, settings.times.look);
    let mut hearer = Hearer::new(Arc::clone(&session), home, queue.clone());
    let last = tokio::select! {
        last = hearer.hear(stream, &heard) => last,
        problem = must_end(&session, &pass, seat.as_mut(), Every { ping, look }, &queue, &heard) => Some(Tell::End(Box::new(problem))),
        () = stopped(life.as_mut()) => Some(Tell::Stop),
        () = queue.closed() => None,
    };
    // Whoever asked and has gone wants no answer any more.
    drop(hearer);
    if let Some(last) = last {
        let _ = queue.send_timeout(last, END_WITHIN).await;
    }
    drop(queue);
    let unsent = match tokio::time::timeout(END_WITHIN, &mut teller).await {
        Ok(unsent) => unsent.ok().flatten(),
        Err(_) => {
            teller.abort();
            None
        }
    };
    // What was not sent is given back untouched, unless a newer connection takes it up.
    if let Some(consumer) = unsent
        && seat.as_ref().is_none_or(|seat| !seat.is_lost())
    {
        let _ = consumer.close().await;
    }
}

async fn stopped(life: Option<&mut Life>) {
    match life {
        Some(life) => life.stopped().await,
        None => std::future::pending().await,
    }
}

/// How often something is done.
struct Every {
    /// A sign of life is asked for.
    ping: Duration,
    /// The token is looked at again.
    look: Duration,
}

/// Ends when the connection must: the token is good no more, a newer connection is there, or nobody answers pings.
async fn must_end(
    session: &Session,
    pass: &Pass,
    mut seat: Option<&mut Seat>,
    Every { ping, look }: Every,
    queue: &mpsc::Sender<Tell>,
    heard: &AtomicBool,
) -> Problem {
    let look = look.min(ping);
    let (mut waited, mut silent) = (Duration::ZERO, 0);
    loop {
        let lost = async {
            match seat.as_mut() {
                Some(seat) => seat.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = lost => return superseded(session).into(),
            () = tokio::time::sleep(look) => waited += look,
        }
        if !pass.is_good() {
            return Refused::new(Code::Unauthenticated, "the token was revoked, or has expired")
                .hint("connect again with another token")
                .into();
        }
        if waited < ping {
            continue;
        }
        waited = Duration::ZERO;
        silent = if heard.swap(false, Ordering::Relaxed) { 0 } else { silent + 1 };
        if silent >= 3 {
            return Refused::new(Code::Timeout, "there was no sign of life").into();
        }
        let _ = queue.try_send(Tell::Ping);
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

struct Hearer {
    session: Arc<Session>,
    /// The space of the token.
    home: SpaceNo,
    queue: mpsc::Sender<Tell>,
    /// Those who wait for answers of others.
    requests: JoinSet<()>,
    /// The number of the last frame.
    last: Option<u64>,
}

/// What a frame is answered with, before or after it was in line.
enum Said {
    Now(String),
    Later(Pending, What),
    /// Somebody else answers.
    Elsewhere,
}

impl Hearer {
    fn new(session: Arc<Session>, home: SpaceNo, queue: mpsc::Sender<Tell>) -> Self {
        Self { session, home, queue, requests: JoinSet::new(), last: None }
    }

    /// Hears until nothing more comes. Says what the client is told last, if it is told anything.
    async fn hear(&mut self, mut stream: SplitStream<WebSocket>, heard: &AtomicBool) -> Option<Tell> {
        while let Some(came) = stream.next().await {
            heard.store(true, Ordering::Relaxed);
            let message = match came {
                Ok(message) => message,
                // Broken, unless it is what came that is wrong: then it is said.
                Err(error) => return broken::why(error).map(|problem| Tell::End(Box::new(problem))),
            };
            let bytes: Bytes = match message {
                Message::Text(text) => text.into(),
                Message::Binary(_) => return Some(Tell::End(Box::new(frame::no_text().into()))),
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Close(_) => return None,
            };
            let (n, said) = match frame::read(&bytes) {
                Ok((n, asked)) => (n, self.numbered(n, asked, &bytes).await),
                Err(Unread { n: Some(n), refused }) => (n, Err(refused.into())),
                // Whom to answer is not known, nor what was meant.
                Err(Unread { n: None, refused }) => return Some(Tell::End(Box::new(refused.into()))),
            };
            let tell = match said {
                Ok(Said::Now(text)) => Tell::InTurn(text),
                Ok(Said::Later(pending, what)) => Tell::Answer { n, pending, what },
                Ok(Said::Elsewhere) => continue,
                Err(problem) => {
                    self.session.refused(&problem);
                    Tell::InTurn(frame::problem(Some(n), &problem))
                }
            };
            self.queue.send(tell).await.ok()?;
        }
        None
    }

    async fn numbered(&mut self, n: u64, asked: Asked<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        if self.last.is_some_and(|last| n <= last) {
            let refused = Refused::new(
                Code::Invalid,
                format!("n is {n}, and was at {} before", self.last.unwrap_or(0)),
            )
            .hint("number frames upwards: answers are told apart by n");
            return Err(refused.into());
        }
        self.last = Some(n);
        let session = &self.session;
        let now = session.app.engine().clock().now().mono;
        session.app.rates().call(self.home, &session.principal, now)?;
        self.act(n, asked, bytes).await
    }

    async fn act(&mut self, n: u64, asked: Asked<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        match asked {
            Asked::Commit(commit) => self.commit(commit, bytes).await,
            Asked::Credit(credit) => {
                self.session.ledger().check(credit)?;
                // Told before anything is sent for it.
                let _ = self.queue.send(Tell::InTurn(frame::ok(n, &json!({})))).await;
                self.session.ledger().credit(credit);
                self.grant().await;
                Ok(Said::Elsewhere)
            }
            Asked::Ack(ranges) => {
                let leases = self.leases(&ranges)?;
                if leases.is_empty() {
                    return Ok(Said::Now(frame::ok(n, &json!({"seq": null}))));
                }
                self.end(vec![Op::AckMany(leases)], ranges).await
            }
            Asked::Nack(nack) => {
                let ops: Vec<_> =
                    self.leases(&nack.deliveries)?.into_iter().map(|lease| nack.op(lease)).collect();
                if ops.is_empty() {
                    return Err(no_letter().into());
                }
                self.end(ops, nack.deliveries).await
            }
            Asked::Extend(extend) => {
                let leases = self.leases(&extend.deliveries)?;
                let times = &self.session.app.settings().times;
                let ops: Vec<_> = leases.into_iter().map(|lease| extend.op(lease, times)).collect();
                if ops.is_empty() {
                    return Err(no_letter().into());
                }
                let pending = self.session.space.enqueue(self.session.commit(ops)).await?;
                Ok(Said::Later(pending, What::Extend))
            }
            Asked::Send(message) => self.send(n, *message, bytes),
            Asked::Request(fields) => self.request(n, fields, bytes).await,
        }
    }

    fn leases(&self, ranges: &[Range]) -> Result<Vec<quorate_core::LeaseRef>, Refused> {
        if ranges.len() > RANGES_MAX {
            return Err(Refused::new(
                Code::LimitExceeded,
                format!("the frame names {} ranges", ranges.len()),
            )
            .limit(RANGES_MAX as u64)
            .hint("name fewer at a time"));
        }
        self.session.ledger().leases(ranges)
    }

    async fn commit(&self, asked: CommitIn<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        let session = &self.session;
        let key = asked.idempotency_key.ok_or_else(|| {
            Refused::new(Code::Invalid, "idempotencyKey is missing")
                .hint("give every commit a key: after a break it can be repeated without a second effect")
        })?;
        let sealing = session.sealing(bytes);
        let read = |(index, fields)| {
            op::read(fields, &sealing, session.by.as_ref()).map_err(|refused: Refused| refused.at_op(index))
        };
        let mut ops = asked.ops.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        observe::continued(&session.app, &session.space, &mut ops, None).await;
        deliberations::driven(&session.app, &session.space, &mut ops).await?;
        let mut commit = session.commit(ops).keyed(IdempotencyKey::new(key)?);
        commit.epoch = asked.epoch.map(Epoch).or(commit.epoch);
        Ok(Said::Later(session.space.enqueue(commit).await?, What::Commit))
    }

    /// Ends deliveries. What they made room for goes with it.
    async fn end(&self, mut ops: Vec<Op>, ranges: Vec<Range>) -> Result<Said, Problem> {
        let granted = self.session.ledger().grant();
        let credit = granted.as_ref().map_or(0, |(_, credit)| *credit);
        ops.extend(granted.map(|(op, _)| op));
        match self.session.space.enqueue(self.session.commit(ops)).await {
            Ok(pending) => Ok(Said::Later(pending, What::End { ranges, credit })),
            Err(error) => {
                self.session.ledger().take_back(u64::from(credit));
                Err(error.into())
            }
        }
    }

    /// Lets the head hand out what there is credit for. What fails here is tried again at the next look.
    async fn grant(&self) {
        let granted = self.session.ledger().grant();
        let Some((op, credit)) = granted else {
            let _ = self.queue.send(Tell::Wake).await;
            return;
        };
        match self.session.space.enqueue(self.session.commit(vec![op])).await {
            Ok(pending) => {
                let tell = Tell::Answer { n: 0, pending, what: What::Grant { credit } };
                let _ = self.queue.send(tell).await;
            }
            Err(_) => self.session.ledger().take_back(u64::from(credit)),
        }
    }

    /// A message that lives in memory only. Whatever is to last goes into a commit.
    fn send(&self, n: u64, message: MessageIn<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        let letter = self.letter(message, bytes)?;
        if letter.durability != Durability::Ephemeral {
            return Err(Refused::new(Code::Invalid, "only an ephemeral message is sent by itself")
                .hint("send it in a commit, or say durability: ephemeral")
                .into());
        }
        let session = &self.session;
        let id = session.space.send_ephemeral(&session.principal, session.epoch, letter)?;
        Ok(Said::Now(frame::ok(n, &json!({"id": id.to_string()}))))
    }

    fn letter(&self, message: MessageIn<'_>, bytes: &Bytes) -> Result<Letter, Refused> {
        message.read(&self.session.sealing(bytes), self.session.by.as_ref())
    }

    /// Asks somebody. The question is in line when this returns; the answer comes when it comes.
    async fn request(&mut self, n: u64, mut fields: Fields<'_>, bytes: &Bytes) -> Result<Said, Problem> {
        while self.requests.try_join_next().is_some() {}
        if self.requests.len() >= REQUESTS_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many requests of this connection wait")
                .limit(REQUESTS_MAX as u64)
                .hint("wait for some of the answers")
                .into());
        }
        let timeout_ms = fields.take_number("timeoutMs")?;
        let mut letter = self.letter(fields.read()?, bytes)?;
        observe::one_continued(&self.session.app, &self.session.space, &mut letter, None).await;
        let is_large = letter.payload.bytes.len() > LARGE_BYTES;
        let (session, queue) = (Arc::clone(&self.session), self.queue.clone());
        if is_large && letter.durability == Durability::Durable {
            let named = letter.client_id.is_some();
            let ask = Ask::new(letter, timeout_ms, None);
            let mut asking = session.space.request(&session.principal, session.epoch, ask).await?;
            if named {
                asking.stays();
            }
            self.requests.spawn(async move { answer(&queue, n, asking.answer().await).await });
            return Ok(Said::Elsewhere);
        }
        let mut asking: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let asked = ask(&session, letter, timeout_ms).await;
            answer(&queue, n, asked).await;
        });
        // Once it was polled it is in line, so what follows comes after it.
        if (&mut asking).now_or_never().is_none() {
            self.requests.spawn(asking);
        }
        Ok(Said::Elsewhere)
    }
}

async fn ask(session: &Session, letter: Letter, timeout_ms: Option<u64>) -> Result<Answer, Error> {
    let (space, principal, epoch) = (&session.space, &session.principal, session.epoch);
    if letter.durability == Durability::Ephemeral {
        let within = timeout_ms.map(Duration::from_millis);
        return space.request_ephemeral(principal, epoch, letter, within).await;
    }
    let named = letter.client_id.is_some();
    let mut asking = space.request(principal, epoch, Ask::new(letter, timeout_ms, None)).await?;
    // With an id it can be asked again after a break, and waits for the same answer.
    if named {
        asking.stays();
    }
    asking.answer().await
}

async fn answer(queue: &mpsc::Sender<Tell>, n: u64, answer: Result<Answer, Error>) {
    let text = match answer {
        Ok(answer) => frame::answered(n, &answer),
        Err(error) => frame::problem(Some(n), &error.into()),
    };
    let _ = queue.send(Tell::Frame(text)).await;
}
