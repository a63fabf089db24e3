//! WebSocket of one agent: receives deliveries, sends commits and requests.
//!
//! After a connection loss it reconnects with the same epoch and resends unanswered frames with the same idempotency
//! keys.

mod lease_events;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use quorate::backend::{
    BackendFuture, CreditReturn, DeliveryStream, LeaseEvent, ReceivedDelivery, WorkOutcome,
};
use quorate::{Code, Error, Refused};
use quorate_api::delivery::{Delivery as DeliveryJson, EndedRequest};
use quorate_api::problem::ProblemDetails;
use quorate_api::task::LostTask;
use quorate_core::{Epoch, LeaseRef, Nack, NackAction, Op};
use quorate_env::sleep;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connect::{HubConnector, HubStream};
use crate::problem;
use crate::retry::{Retrier, reconnect_backoff};
use crate::wire::{self, op};
use state::{Frame, SocketState};

pub(crate) use lease_events::{SocketLeaseEvents, SocketOwner};

/// Maximum number of frames that await a response.
const FRAMES_MAX: usize = 512;
/// Maximum size of a frame from the hub, in bytes. A delivery of the largest message fits.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// Size of the read buffer, in bytes.
const READ_BUFFER_BYTES: usize = 32 << 10;
/// Bytes to buffer before writing to the socket.
const WRITE_BUFFER_BYTES: usize = 32 << 10;
/// Maximum number of unwritten bytes. The largest commit fits.
const WRITE_BUFFER_BYTES_MAX: usize = 16 << 20;
/// Timeout of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

type Ws = WebSocketStream<HubStream>;

/// Content of the `hello` frame: token, agent and epoch of the connection, and its lease duration.
pub(crate) struct Hello {
    pub(crate) token: String,
    pub(crate) agent: String,
    pub(crate) epoch: u64,
    pub(crate) lease_ms: u64,
    pub(crate) space: Option<String>,
    /// Whether the connection receives the deliveries of the agent.
    pub(crate) deliveries: bool,
}

/// Connection of an agent. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Socket(Arc<Shared>);

struct Shared {
    connector: HubConnector,
    hello: Hello,
    retrier: Retrier,
    state: Mutex<SocketState>,
    /// Signals the send loop that there is something to send.
    send_ready: Notify,
    /// Signals the consumer that a delivery arrived or the connection ended.
    received: Notify,
    /// Signals the stream of lease events that there is one, or the connection ended.
    lease_ended: Notify,
    slots: Arc<Semaphore>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// Why a connection ended.
enum End {
    /// Connection lost: reconnect.
    Lost,
    /// Permanent error.
    Failed(Error),
    /// Closed by this client.
    Closed,
}

impl Socket {
    /// Connects with this many messages of credit.
    ///
    /// # Errors
    /// Returns the error of the hub, or `UNAVAILABLE` if it cannot be reached before the retry timeout.
    pub(crate) async fn open(
        connector: HubConnector,
        hello: Hello,
        retrier: Retrier,
        credit: u32,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            connector,
            hello,
            retrier: retrier.clone(),
            state: Mutex::new(SocketState::with_credit(credit)),
            send_ready: Notify::new(),
            received: Notify::new(),
            lease_ended: Notify::new(),
            slots: Arc::new(Semaphore::new(FRAMES_MAX)),
            task: Mutex::default(),
        });
        let first = retrier.retry(|| shared.connect()).await?;
        let task = tokio::spawn(run(Arc::clone(&shared), first));
        *shared.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Ok(Self(shared))
    }

    /// Whether the socket accepts calls. It does so while it reconnects, too.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.0.state();
        state.outcome.is_none() && !state.closing
    }

    /// Returns the epoch of the agent.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.0.hello.epoch)
    }

    /// Sends a frame `{"n":…, KIND: BODY}` and waits for its response.
    pub(crate) async fn call(&self, kind: &str, body: &str, repeatable: bool) -> Result<String, Error> {
        let slot = Arc::clone(&self.0.slots).acquire_owned().await.map_err(|_| state::closed())?;
        let (sender, response) = oneshot::channel();
        let now = self.0.retrier.clock.now();
        let mut frame = Frame::new(format!("\"{kind}\":{body}"), repeatable, now);
        (frame.responder, frame.slot) = (Some(sender), Some(slot));
        self.0.state().enqueue(frame);
        self.0.send_ready.notify_one();
        response.await.map_err(|_| state::closed())?
    }

    /// Records that a delivery was claimed over HTTP, so that this socket ignores it.
    pub(crate) fn mark_claimed(&self, lease: &LeaseRef) {
        self.0.state().mark_claimed(lease);
    }

    /// Releases unread deliveries, waits for all responses, and closes the connection.
    pub(crate) async fn close(&self) {
        let unread = {
            let mut state = self.0.state();
            state.closing = true;
            state.drain_unread()
        };
        self.0.release(unread);
        self.0.send_ready.notify_one();
        let task = self.0.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A panic of the task was reported when it happened.
            let _ = task.await;
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SocketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues the release of unread deliveries. If a lease has expired meanwhile, the delivery was already
    /// redelivered.
    fn release(&self, leases: Vec<LeaseRef>) {
        for lease in leases {
            let nack = Op::Nack(Nack { lease, action: NackAction::Release, reason: String::new() });
            let key = format!("untaken-{}-{}", lease.delivery, lease.token.0);
            if let Ok(body) = op::commit_json(&[nack], &key, None) {
                let frame = Frame::new(format!("\"commit\":{body}"), true, self.retrier.clock.now());
                self.state().enqueue(frame);
            }
        }
    }

    fn push_lease_event(&self, event: LeaseEvent) {
        self.state().push_lease_event(event);
        self.lease_ended.notify_one();
    }

    /// Handles a lost connection. Returns `true` if nothing is left to reconnect for.
    fn connection_lost(&self, url: &str) -> bool {
        let now = self.retrier.clock.now();
        let mut state = self.state();
        state.handle_disconnect(now, url);
        state.expire_frames(now, self.retrier.timeout, url);
        state.closing && state.is_idle()
    }

    /// Connects and sends `hello`. The hub's `welcome` states how many deliveries are sent again.
    async fn connect(&self) -> Result<(Ws, Welcome), Error> {
        let stream = self.connector.connect().await?;
        let handshake = async {
            let mut ws = self.upgrade(stream).await?;
            let hello = json!({"hello": {
                "token": self.hello.token,
                "agent": self.hello.agent,
                "epoch": self.hello.epoch,
                "leaseMs": self.hello.lease_ms,
                "space": self.hello.space,
                "deliveries": self.hello.deliveries,
            }});
            ws.send(Message::text(hello.to_string())).await.map_err(|error| self.unavailable(&error))?;
            let welcome = loop {
                match ws.next().await {
                    Some(Ok(Message::Text(text))) => break parse_welcome(text.as_str())?,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(other)) => return Err(self.unavailable(&format!("unexpected frame {other:?}"))),
                    Some(Err(error)) => return Err(self.unavailable(&error)),
                    None => return Err(self.unavailable(&"it closed the connection")),
                }
            };
            Ok((ws, welcome))
        };
        tokio::select! {
            connected = handshake => connected,
            () = sleep(&*self.retrier.clock, HANDSHAKE_TIMEOUT) => Err(self.unavailable(&"no welcome frame received in time")),
        }
    }

    async fn upgrade(&self, stream: HubStream) -> Result<Ws, Error> {
        let url = format!("ws://{}/v1/ws", self.connector.address.authority());
        let request = url.into_client_request().map_err(|error| self.unavailable(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX))
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(WRITE_BUFFER_BYTES)
            .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((ws, _)) => Ok(ws),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                Err(problem::error_from_response(
                    response.status().as_u16(),
                    body,
                    &self.connector.address.url(),
                ))
            }
            Err(error) => Err(self.unavailable(&error)),
        }
    }

    fn unavailable(&self, reason: &dyn std::fmt::Display) -> Error {
        quorate::RemoteError {
            code: Code::Unavailable,
            detail: format!("the hub at {} is unavailable: {reason}", self.connector.address.url()),
            hint: "check that the hub is running; the client keeps reconnecting".to_owned(),
            nothing_applied: true,
        }
        .into()
    }
}

/// Serves one connection after the other until the socket is closed or fails.
async fn run(shared: Arc<Shared>, first: (Ws, Welcome)) {
    let url = shared.connector.address.url();
    let mut backoff = reconnect_backoff();
    let mut losses = 0_u64;
    let mut next = Ok(first);
    let error = loop {
        let end = match next {
            Ok((ws, welcome)) => {
                backoff.reset();
                if losses > 0 {
                    tracing::info!(url, losses, "reconnected to the hub");
                    shared.push_lease_event(LeaseEvent::Interrupted);
                }
                shared.state().start_connection(welcome.resumed);
                serve(&shared, ws, welcome.limits.ping_ms).await
            }
            Err(error) => classify_error(error),
        };
        match end {
            End::Lost => {}
            End::Failed(error) => break Some(error),
            End::Closed => break None,
        }
        if shared.connection_lost(&url) {
            break None;
        }
        losses += 1;
        let delay = backoff.next(&shared.retrier.entropy);
        tracing::warn!(url, retry_ms = delay.as_millis() as u64, "connection to the hub lost");
        sleep(&*shared.retrier.clock, delay).await;
        next = shared.connect().await;
    };
    shared.state().close(error);
    shared.received.notify_one();
    shared.lease_ended.notify_one();
}

/// Classifies an error: permanent, or worth a reconnect.
fn classify_error(error: Error) -> End {
    match &error {
        Error::Refused(refused) if !refused.code.retryable() => End::Failed(error),
        _ => End::Lost,
    }
}

async fn serve(shared: &Arc<Shared>, ws: Ws, ping_ms: u64) -> End {
    let (sink, stream) = ws.split();
    tokio::select! {
        end = send_loop(shared, sink) => end,
        end = receive_loop(shared, stream, Duration::from_millis(ping_ms.saturating_mul(3))) => end,
    }
}

async fn send_loop(shared: &Shared, mut sink: SplitSink<Ws, Message>) -> End {
    loop {
        loop {
            let text = shared.state().next_frame();
            let Some(text) = text else { break };
            if sink.feed(Message::text(text)).await.is_err() {
                return End::Lost;
            }
        }
        if sink.flush().await.is_err() {
            return End::Lost;
        }
        let done = {
            let state = shared.state();
            state.closing && state.is_idle()
        };
        if done {
            // Best effort: the hub detects a closed connection anyway.
            let _ = sink.close().await;
            return End::Closed;
        }
        shared.send_ready.notified().await;
    }
}

async fn receive_loop(shared: &Shared, mut stream: SplitStream<Ws>, silence_max: Duration) -> End {
    loop {
        let next = tokio::select! {
            next = stream.next() => next,
            // The hub sends pings, so a longer silence means that the connection is lost.
            () = sleep(&*shared.retrier.clock, silence_max) => None,
        };
        let end = match next {
            Some(Ok(Message::Text(text))) => receive(shared, text.as_str()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => None,
            _ => Some(End::Lost),
        };
        if let Some(end) = end {
            return end;
        }
    }
}

/// A frame sent by the hub.
#[derive(Deserialize)]
struct FrameIn<'a> {
    n: Option<u64>,
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    problem: Option<ProblemDetails>,
    deliveries: Option<Vec<DeliveryJson>>,
    #[serde(rename = "requestEnded")]
    request_ended: Option<EndedRequest>,
    #[serde(rename = "taskLost")]
    task_lost: Option<LostTask>,
    welcome: Option<Welcome>,
}

#[derive(Deserialize)]
struct Welcome {
    resumed: u32,
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    ping_ms: u64,
}

fn parse_welcome(text: &str) -> Result<Welcome, Error> {
    let frame: FrameIn<'_> = wire::parse_json(text)?;
    match (frame.welcome, frame.problem) {
        (Some(welcome), _) => Ok(welcome),
        (None, Some(problem)) => Err(problem.into()),
        (None, None) => Err(wire::unexpected_response(&"the first frame is not a welcome")),
    }
}

fn receive(shared: &Shared, text: &str) -> Option<End> {
    let frame: FrameIn<'_> = match wire::parse_json(text) {
        Ok(frame) => frame,
        Err(error) => return Some(End::Failed(error)),
    };
    if let Some(deliveries) = frame.deliveries {
        return receive_deliveries(shared, deliveries).err().map(End::Failed);
    }
    let ended = frame.request_ended.as_ref().map(lease_events::of_request);
    if let Some(event) = ended.or_else(|| frame.task_lost.map(lease_events::of_task)) {
        shared.push_lease_event(event);
        return None;
    }
    let result = match (frame.ok, frame.problem) {
        (Some(ok), _) => Ok(ok.get().to_owned()),
        (None, Some(problem)) => Err(Error::from(problem)),
        (None, None) => return None,
    };
    let Some(n) = frame.n else { return result.err().map(classify_error) };
    let mut state = shared.state();
    let unknown = state.handle_response(n, result);
    drop(state);
    // The response may have opened the send window, or was the last one before closing.
    shared.send_ready.notify_one();
    unknown.then_some(End::Lost)
}

fn receive_deliveries(shared: &Shared, deliveries: Vec<DeliveryJson>) -> Result<(), Error> {
    let mut unread = Vec::new();
    for delivery in deliveries {
        let delivery = wire::message::convert_delivery(delivery, shared.hello.lease_ms)?;
        unread.extend(shared.state().receive(delivery));
    }
    shared.release(unread);
    shared.received.notify_one();
    shared.send_ready.notify_one();
    Ok(())
}

/// Stream of the deliveries of a socket.
pub(crate) struct SocketInbox {
    socket: Socket,
    /// Lease of the delivery that was returned last.
    last: Option<LeaseRef>,
}

impl SocketInbox {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, last: None }
    }
}

impl DeliveryStream for SocketInbox {
    fn next(&mut self) -> BackendFuture<'_, Option<ReceivedDelivery>> {
        Box::pin(async move {
            let shared = &self.socket.0;
            loop {
                let (delivery, end) = {
                    let mut state = shared.state();
                    (state.pop_delivery(), state.outcome.clone())
                };
                if let Some(delivery) = delivery {
                    self.last = delivery.lease;
                    return Ok(Some(delivery));
                }
                match end {
                    Some(Some(error)) => return Err(error),
                    Some(None) => return Ok(None),
                    None => shared.received.notified().await,
                }
            }
        })
    }

    fn credit_return(&self) -> CreditReturn {
        let (shared, last) = (Arc::clone(&self.socket.0), self.last);
        CreditReturn::Callback(Arc::new(move |outcome: WorkOutcome| {
            last.iter().for_each(|lease| shared.state().end_delivery(lease, outcome));
            shared.send_ready.notify_one();
        }))
    }

    fn close(self: Box<Self>) -> BackendFuture<'static, ()> {
        Box::pin(async move {
            self.socket.close().await;
            Ok(())
        })
    }
}

impl Drop for SocketInbox {
    fn drop(&mut self) {
        let mut state = self.socket.0.state();
        if !state.closing {
            // No consumer is left: the hub redelivers the unread deliveries.
            state.closing = true;
            drop(state);
            self.socket.0.send_ready.notify_one();
        }
    }
}

/// Returns the error for an operation that a remote hub does not support.
pub(crate) fn unsupported_remotely(operation: &str) -> Error {
    Refused::new(Code::Invalid, format!("not supported by a remote hub: {operation}"))
        .hint("use the HTTP API of the hub, or an embedded hub")
        .into()
}
