//! A connection after its hello: one task receives frames (`receive.rs`) and sends replies and deliveries
//! (`send.rs`). It is one task because most of the time it waits: two tasks would wake each other, which costs more
//! than the work itself.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use quorate_core::{Code, HolderEvent, LeaseRef, Mono, Receipt, Refused, SpaceNo};
use quorate_engine::{Consumer, Error, HolderEvents, PendingCommit, ReceivedDelivery};

use super::active::ActiveConnection;
use super::frame_limit::FrameLimit;
use super::hello::Handshake;
use super::ledger::{Ledger, Range};
use super::read_error::frame_too_large;
use super::{Session, close_frame, frame};
use crate::call::Credential;
use crate::listen::Connection;
use crate::problem::Problem;

/// Maximum number of pending replies per WebSocket. Beyond that no more frames are received.
const REPLIES_MAX: usize = 1_024;
/// Maximum interval of the periodic check.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout for the last frame before the connection is dropped.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Unanswered pings after which a client counts as disconnected.
const UNANSWERED_PINGS_MAX: u32 = 3;

/// An enqueued operation, and the effect of its result on the ledger.
pub(super) enum PendingOperation {
    /// A commit, with those of its ended leases whose deliveries are still to be redelivered.
    Commit {
        resumed: Vec<LeaseRef>,
    },
    /// Ends leases by number, and grants this much credit.
    EndLeases {
        end: LeaseEnd,
        credit: u32,
    },
    Extend,
    /// Grants credit only; no reply is sent.
    Grant {
        credit: u32,
    },
}

/// How leases ended, by delivery number.
pub(super) enum LeaseEnd {
    /// With an ack. `resumed` are the leases whose deliveries were still to be redelivered.
    Acked { ranges: Vec<Range>, resumed: Vec<LeaseRef> },
    /// With a nack.
    Returned { ranges: Vec<Range> },
}

/// A pending reply. Replies are sent in the order of their frames.
pub(super) enum Reply {
    /// Waits for the result of an enqueued operation.
    Pending(u64, PendingCommit, PendingOperation),
    /// A frame to send.
    Ready(String),
}

/// Reason for the end of the connection.
pub(super) enum CloseReason {
    /// Reading or writing failed.
    Disconnected,
    /// The client closed it.
    Closed,
    Failed(Box<Problem>),
    /// The hub is shutting down.
    ShuttingDown,
}

impl<P: Into<Problem>> From<P> for CloseReason {
    fn from(problem: P) -> Self {
        Self::Failed(Box::new(problem.into()))
    }
}

/// A call that waits: a request to another agent, a claim of tasks or an acquisition of locks. Resolves to the number of
/// its frame and the reply.
pub(super) type PendingWait = BoxFuture<'static, (u64, Result<String, Problem>)>;

/// Next event of a connection.
enum Event {
    /// The first reply is ready to be sent.
    Ready,
    /// The result of the first pending operation.
    Result(Result<Receipt, Error>),
    /// The end of a wait, by the number of its frame.
    WaitEnded(u64, Result<String, Problem>),
    Received(Option<Result<Message, axum::Error>>),
    /// The frame that is being received exceeds its limit.
    FrameExceeded,
    /// There is a slot for a large frame.
    SlotAcquired,
    Delivery(Result<Option<ReceivedDelivery>, Error>),
    /// Work that the agent holds is no longer needed.
    Holder(HolderEvent),
    Check,
    Idle,
}

/// An open connection.
pub(super) struct WsConnection {
    pub(super) session: Arc<Session>,
    /// Space of the token.
    pub(super) token_space: SpaceNo,
    pub(super) socket: WebSocket,
    frame_limit: FrameLimit,
    pub(super) consumer: Option<Consumer>,
    /// Events for the agent as the holder of leases.
    holder_events: Option<HolderEvents>,
    pub(super) ledger: Ledger,
    pub(super) replies: VecDeque<Reply>,
    pub(super) pending_waits: FuturesUnordered<PendingWait>,
    /// Number of the last frame.
    pub(super) last_n: Option<u64>,
    /// Whether the socket has unflushed output.
    pub(super) is_dirty: bool,
    /// Since when unsent deliveries are held without credit.
    pub(super) starved_since: Option<Mono>,
    /// Whether anything was received since the last ping.
    received: bool,
    /// Consecutive unanswered pings, and the time of the last ping.
    unanswered_pings: u32,
    last_ping: Mono,
}

/// Serves a connection until it ends.
pub(super) async fn run(handshake: Handshake, connection: Option<Connection>, socket: WebSocket) {
    let Handshake { session, credential, token_space, consumer, holder_events, ledger, mut active } =
        handshake;
    let session = Arc::new(session);
    let mut ws = WsConnection {
        last_ping: session.now(),
        session: Arc::clone(&session),
        token_space,
        socket,
        holder_events,
        frame_limit: FrameLimit::new(connection.clone()),
        consumer,
        ledger,
        replies: VecDeque::new(),
        pending_waits: FuturesUnordered::new(),
        last_n: None,
        is_dirty: false,
        starved_since: None,
        received: true,
        unanswered_pings: 0,
    };
    // These conditions end the connection even while a write is blocked.
    let reason = tokio::select! {
        reason = ws.run() => reason,
        refused = must_close(&session, &credential, active.as_mut()) => refused.into(),
        () = stopped(connection.as_ref()) => CloseReason::ShuttingDown,
    };
    // The client has disconnected: nothing receives these replies.
    ws.pending_waits.clear();
    let _ = tokio::time::timeout(END_TIMEOUT, ws.end(reason)).await;
    // Unsent deliveries are released without counting an attempt, unless a newer connection resumes them.
    if let Some(consumer) = ws.consumer
        && active.as_ref().is_none_or(|active| !active.is_replaced())
    {
        let _ = consumer.close().await;
    }
}

/// Returns the next event for the agent; `None` without an agent, or once the hub is closed.
async fn next_holder_event(events: Option<&mut HolderEvents>) -> Option<HolderEvent> {
    match events {
        Some(events) => events.next().await,
        None => None,
    }
}

async fn stopped(connection: Option<&Connection>) {
    match connection {
        Some(connection) => connection.shutting_down().await,
        None => pending().await,
    }
}

/// Resolves when the connection must end: the token is no longer valid, or a newer connection has replaced it.
async fn must_close(
    session: &Session,
    credential: &Credential,
    mut active: Option<&mut ActiveConnection>,
) -> Refused {
    let check = session.app.settings().durations.token_check;
    loop {
        let replaced = async {
            match active.as_mut() {
                Some(active) => active.replaced().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = replaced => return superseded(session),
            () = tokio::time::sleep(check) => {}
        }
        if !credential.is_valid() {
            return Refused::new(Code::Unauthenticated, "the access token expired or was revoked")
                .hint("reconnect with a valid access token");
        }
    }
}

/// Returns why a newer connection has replaced this one: a new epoch of the agent, or another connection of the same
/// epoch.
fn superseded(session: &Session) -> Refused {
    let published = session.space.published();
    let current_epoch =
        session.agent.as_ref().and_then(|id| published.agents.by_id(id)).map(|agent| agent.epoch);
    if current_epoch != session.epoch {
        return stale_epoch();
    }
    Refused::new(Code::Conflict, "replaced by a newer connection of this agent")
        .hint("use one connection per agent, or register one agent per connection")
}

/// Refusal of a connection with an earlier epoch.
fn stale_epoch() -> Refused {
    Refused::new(Code::StaleEpoch, "the agent has registered again or was removed")
        .hint("stop this instance of the agent, or send hello without epoch to register again")
}

impl WsConnection {
    /// Receives and sends until the connection ends.
    async fn run(&mut self) -> CloseReason {
        let ping = self.session.app.settings().timeouts.ping;
        let mut check = tokio::time::interval(CHECK_INTERVAL.min(self.session.starved_after / 2).min(ping));
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let outcome = match self.next(&mut check).await {
                Event::Ready => self.send_ready().await,
                Event::Result(outcome) => self.send_result(outcome).await,
                Event::WaitEnded(n, reply) => self.send_wait_reply(n, reply).await,
                Event::Received(received) => self.received(received).await,
                Event::FrameExceeded => {
                    self.frame_limit.on_exceeded(&self.session).map_err(|limit| frame_too_large(limit).into())
                }
                Event::SlotAcquired => Ok(()),
                Event::Delivery(Ok(Some(delivery))) => self.deliver(delivery).await,
                Event::Delivery(Ok(None)) => Err(stale_epoch().into()),
                Event::Delivery(Err(error)) => Err(error.into()),
                Event::Holder(event) => self.notify_holder(&event).await,
                Event::Check => self.check(ping).await,
                Event::Idle => self.flush().await,
            };
            if let Err(reason) = outcome {
                return reason;
            }
        }
    }

    async fn next(&mut self, check: &mut tokio::time::Interval) -> Event {
        let Self {
            socket,
            consumer,
            holder_events,
            ledger,
            replies,
            pending_waits,
            is_dirty,
            frame_limit,
            ..
        } = self;
        let may_send = consumer.is_some() && ledger.may_send();
        if replies.is_empty() {
            frame_limit.advance(&self.session);
        }
        let is_waiting = frame_limit.is_waiting();
        let has_capacity = replies.len() < REPLIES_MAX && !is_waiting;
        let limit = async {
            match is_waiting {
                true => {
                    frame_limit.acquired().await;
                    Event::SlotAcquired
                }
                false => {
                    frame_limit.exceeded().await;
                    Event::FrameExceeded
                }
            }
        };
        let reply = async {
            match replies.front_mut() {
                Some(Reply::Pending(_, pending, _)) => Event::Result(pending.receipt().await),
                Some(Reply::Ready(_)) => Event::Ready,
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
            event = reply => event,
            Some((n, reply)) = pending_waits.next(), if !pending_waits.is_empty() => {
                Event::WaitEnded(n, reply)
            }
            Some(event) = next_holder_event(holder_events.as_mut()) => Event::Holder(event),
            received = socket.recv(), if has_capacity => Event::Received(received),
            event = limit => event,
            delivery = delivery, if may_send => Event::Delivery(delivery),
            _ = check.tick() => Event::Check,
            // Nothing else to do: flush now.
            () = std::future::ready(()), if *is_dirty => Event::Idle,
        }
    }

    /// Periodic check: whether the epoch is current, whether the client is alive, and whether deliveries are stuck.
    async fn check(&mut self, ping: Duration) -> Result<(), CloseReason> {
        // Without credit no delivery is awaited, so the end of the consumer would go unnoticed.
        if self.session.is_superseded() {
            return Err(stale_epoch().into());
        }
        let now = self.session.now();
        // Nothing is read while a frame waits for a slot, so no answer to a ping either.
        self.received |= self.frame_limit.is_waiting();
        if now >= self.last_ping.plus_ms(ping.as_millis() as u64) {
            self.last_ping = now;
            self.unanswered_pings =
                if std::mem::take(&mut self.received) { 0 } else { self.unanswered_pings + 1 };
            if self.unanswered_pings >= UNANSWERED_PINGS_MAX {
                return Err(Refused::new(Code::Timeout, "the client did not respond to pings").into());
            }
            self.feed(Message::Ping(Bytes::new())).await?;
        }
        self.check_deliveries(now).await;
        Ok(())
    }

    /// Sends the final frames.
    async fn end(&mut self, reason: CloseReason) {
        let close = match reason {
            CloseReason::Disconnected => return,
            // Completes the close handshake.
            CloseReason::Closed => return drop(self.flush().await),
            CloseReason::Failed(problem) => {
                let _ = self.feed(Message::Text(frame::problem(None, &problem).into())).await;
                close_frame(&problem)
            }
            CloseReason::ShuttingDown => CloseFrame { code: 1001, reason: "stopping".into() },
        };
        let _ = self.feed(Message::Close(Some(close))).await;
        let _ = self.flush().await;
    }

    /// Handles a received WebSocket message.
    async fn received(&mut self, received: Option<Result<Message, axum::Error>>) -> Result<(), CloseReason> {
        self.received = true;
        match received {
            Some(Ok(Message::Text(text))) => {
                self.frame_limit.on_frame(&self.session, text.len()).map_err(frame_too_large)?;
                self.receive(text.into()).await
            }
            Some(Ok(Message::Binary(_))) => Err(frame::binary_refused().into()),
            Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => {
                self.frame_limit.on_control_frame(payload.len());
                Ok(())
            }
            Some(Ok(Message::Close(_))) => Err(CloseReason::Closed),
            // The connection is lost, unless the client's message caused the error: then a problem is sent.
            Some(Err(error)) => {
                Err(super::read_error::client_error(error)
                    .map_or(CloseReason::Disconnected, CloseReason::from))
            }
            None => Err(CloseReason::Disconnected),
        }
    }
}
