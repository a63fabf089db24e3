//! The WebSocket of one agent: deliveries in, commits and questions out. A break is nothing special: it connects again, goes
//! on with the same epoch, and says again what was not answered, under the same keys.

mod books;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use quorate::link::{Delivery, Inbox, Over, Promise, Room};
use quorate::{Code, Error, Refused};
use quorate_api::delivery::Delivery as DeliveryJson;
use quorate_core::{LeaseRef, Nack, NackThen, Op};
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

use crate::dial::{Dial, Stream};
use crate::patience::{Patience, backoff};
use crate::problem::{self, Problem};
use crate::wire::{self, op};
use books::{Books, Frame};

/// Frames that may wait for their answers.
const FRAMES_MAX: usize = 512;
/// Bytes of one frame of the hub: a delivery of the largest message fits.
const FRAME_BYTES_MAX: usize = 8 << 20;
/// Bytes read at once.
const READ_BUFFER_BYTES: usize = 32 << 10;
/// Bytes gathered before they are written, and those that may wait to be written.
const WRITE_BUFFER_BYTES: usize = 32 << 10;
const WRITE_BUFFER_BYTES_MAX: usize = 8 << 20;
/// How long the greeting may take.
const GREETING_WITHIN: Duration = Duration::from_secs(10);

type Ws = WebSocketStream<Stream>;

/// Who is there.
pub(crate) struct Hello {
    pub(crate) token: String,
    pub(crate) agent: String,
    pub(crate) epoch: u64,
    pub(crate) lease_ms: u64,
    pub(crate) space: Option<String>,
}

/// The connection of an agent. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Socket(Arc<Shared>);

struct Shared {
    dial: Dial,
    hello: Hello,
    patience: Patience,
    books: Mutex<Books>,
    /// There is something to say.
    speak: Notify,
    /// Something came, or it is over.
    came: Notify,
    slots: Arc<Semaphore>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// Why a connection ended.
enum End {
    /// It broke: the next one goes on.
    Broken,
    /// For good.
    Over(Error),
    /// It was closed here.
    Closed,
}

impl Socket {
    /// Connects, with room for so many deliveries.
    ///
    /// # Errors
    /// What the hub refused, or `UNAVAILABLE` if it cannot be reached in time.
    pub(crate) async fn open(dial: Dial, hello: Hello, patience: Patience, room: u32) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            dial,
            hello,
            patience: patience.clone(),
            books: Mutex::new(Books::with_room(room)),
            speak: Notify::new(),
            came: Notify::new(),
            slots: Arc::new(Semaphore::new(FRAMES_MAX)),
            task: Mutex::default(),
        });
        let first = patience.persist(|| shared.connect()).await?;
        let task = tokio::spawn(run(Arc::clone(&shared), first));
        *shared.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Ok(Self(shared))
    }

    /// Whether it is still there, connected or not.
    pub(crate) fn is_open(&self) -> bool {
        let books = self.0.books();
        books.end.is_none() && !books.closing
    }

    /// Says something and waits for the answer: `{"n":…, WHAT: BODY}`.
    pub(crate) async fn ask(&self, what: &str, body: &str, repeatable: bool) -> Result<String, Error> {
        let slot = Arc::clone(&self.0.slots).acquire_owned().await.map_err(|_| books::closed())?;
        let (tell, told) = oneshot::channel();
        let now = self.0.patience.clock.now();
        let mut frame = Frame::new(format!("\"{what}\":{body}"), repeatable, now);
        (frame.answer, frame.slot) = (Some(tell), Some(slot));
        self.0.books().ask(frame);
        self.0.speak.notify_one();
        told.await.map_err(|_| books::closed())?
    }

    /// Somebody took a delivery in another way.
    pub(crate) fn taken_elsewhere(&self, lease: &LeaseRef) {
        self.0.books().taken_elsewhere(lease);
    }

    /// Gives back what nobody took, waits for what was said to be answered, and closes.
    pub(crate) async fn close(&self) {
        let untaken = {
            let mut books = self.0.books();
            books.closing = true;
            books.untaken()
        };
        self.0.give_back(untaken);
        self.0.speak.notify_one();
        let task = self.0.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A panic of the task was reported when it happened.
            let _ = task.await;
        }
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the return of untouched deliveries in line. A lease that is over meanwhile is somebody else's.
    fn give_back(&self, leases: Vec<LeaseRef>) {
        for lease in leases {
            let nack = Op::Nack(Nack { lease, then: NackThen::Release, reason: String::new() });
            let key = format!("untaken-{}-{}", lease.delivery, lease.token.0);
            if let Ok(body) = op::commit(&[nack], &key, None) {
                let frame = Frame::new(format!("\"commit\":{body}"), true, self.patience.clock.now());
                self.books().ask(frame);
            }
        }
    }

    /// The connection broke. Says whether nothing is left that another one would be for.
    fn broke(&self, url: &str) -> bool {
        let now = self.patience.clock.now();
        let mut books = self.books();
        books.broke(now, url);
        books.give_up(now, self.patience.keep_trying, url);
        books.closing && books.is_quiet()
    }

    /// Connects and says hello. The answer tells how much comes again.
    async fn connect(&self) -> Result<(Ws, Welcome), Error> {
        let stream = self.dial.connect().await?;
        let greeting = async {
            let mut ws = self.upgrade(stream).await?;
            let hello = json!({"hello": {
                "token": self.hello.token,
                "agent": self.hello.agent,
                "epoch": self.hello.epoch,
                "leaseMs": self.hello.lease_ms,
                "space": self.hello.space,
            }});
            ws.send(Message::text(hello.to_string())).await.map_err(|error| self.broken(&error))?;
            let welcome = loop {
                match ws.next().await {
                    Some(Ok(Message::Text(text))) => break welcome_of(text.as_str())?,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(other)) => return Err(self.broken(&format!("it answered with {other:?}"))),
                    Some(Err(error)) => return Err(self.broken(&error)),
                    None => return Err(self.broken(&"it closed the connection")),
                }
            };
            Ok((ws, welcome))
        };
        tokio::select! {
            greeted = greeting => greeted,
            () = sleep(&*self.patience.clock, GREETING_WITHIN) => Err(self.broken(&"it did not greet back")),
        }
    }

    async fn upgrade(&self, stream: Stream) -> Result<Ws, Error> {
        let url = format!("ws://{}/v1/ws", self.dial.address.authority());
        let request = url.into_client_request().map_err(|error| self.broken(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(FRAME_BYTES_MAX))
            .max_frame_size(Some(FRAME_BYTES_MAX))
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(WRITE_BUFFER_BYTES)
            .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((ws, _)) => Ok(ws),
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => {
                let body = answer.body().as_deref().unwrap_or_default();
                Err(problem::of_answer(answer.status().as_u16(), body, &self.dial.address.url()))
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> Error {
        quorate::Remote {
            code: Code::Unavailable,
            detail: format!("the hub at {} is out of reach: {why}", self.dial.address.url()),
            hint: "check that the hub runs; the connection is tried again".to_owned(),
            nothing_applied: true,
        }
        .into()
    }
}

/// Serves one connection after the other until it is over.
async fn run(shared: Arc<Shared>, first: (Ws, Welcome)) {
    let url = shared.dial.address.url();
    let mut backoff = backoff();
    let mut breaks = 0_u64;
    let mut next = Ok(first);
    let why = loop {
        let end = match next {
            Ok((ws, welcome)) => {
                backoff.reset();
                if breaks > 0 {
                    tracing::info!(url, breaks, "connected to the hub again");
                }
                shared.books().begin(welcome.resumed);
                serve(&shared, ws, welcome.limits.ping_ms).await
            }
            Err(error) => of_error(error),
        };
        match end {
            End::Broken => {}
            End::Over(error) => break Some(error),
            End::Closed => break None,
        }
        if shared.broke(&url) {
            break None;
        }
        breaks += 1;
        let wait = backoff.next(&shared.patience.chance);
        tracing::warn!(url, retry_ms = wait.as_millis() as u64, "the connection to the hub broke");
        sleep(&*shared.patience.clock, wait).await;
        next = shared.connect().await;
    };
    shared.books().finish(why);
    shared.came.notify_one();
}

/// Whether another try may help.
fn of_error(error: Error) -> End {
    match &error {
        Error::Refused(refused) if !refused.code.retryable() => End::Over(error),
        _ => End::Broken,
    }
}

async fn serve(shared: &Arc<Shared>, ws: Ws, ping_ms: u64) -> End {
    let (sink, stream) = ws.split();
    tokio::select! {
        end = speak(shared, sink) => end,
        end = listen(shared, stream, Duration::from_millis(ping_ms.saturating_mul(3))) => end,
    }
}

async fn speak(shared: &Shared, mut sink: SplitSink<Ws, Message>) -> End {
    loop {
        loop {
            let text = shared.books().next_text();
            let Some(text) = text else { break };
            if sink.feed(Message::text(text)).await.is_err() {
                return End::Broken;
            }
        }
        if sink.flush().await.is_err() {
            return End::Broken;
        }
        let is_done = {
            let books = shared.books();
            books.closing && books.is_quiet()
        };
        if is_done {
            // The hub need not hear it: it notices that nobody is there.
            let _ = sink.close().await;
            return End::Closed;
        }
        shared.speak.notified().await;
    }
}

async fn listen(shared: &Shared, mut stream: SplitStream<Ws>, silence: Duration) -> End {
    loop {
        let next = tokio::select! {
            next = stream.next() => next,
            // The hub pings: whoever says nothing for so long is not there any more.
            () = sleep(&*shared.patience.clock, silence) => None,
        };
        let end = match next {
            Some(Ok(Message::Text(text))) => hear(shared, text.as_str()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => None,
            _ => Some(End::Broken),
        };
        if let Some(end) = end {
            return end;
        }
    }
}

/// A frame of the hub.
#[derive(Deserialize)]
struct FrameIn<'a> {
    n: Option<u64>,
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    problem: Option<Problem>,
    deliveries: Option<Vec<DeliveryJson>>,
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

fn welcome_of(text: &str) -> Result<Welcome, Error> {
    let frame: FrameIn<'_> = wire::read(text)?;
    match (frame.welcome, frame.problem) {
        (Some(welcome), _) => Ok(welcome),
        (None, Some(problem)) => Err(problem.into()),
        (None, None) => Err(wire::strange(&"the first frame is no welcome")),
    }
}

fn hear(shared: &Shared, text: &str) -> Option<End> {
    let frame: FrameIn<'_> = match wire::read(text) {
        Ok(frame) => frame,
        Err(error) => return Some(End::Over(error)),
    };
    if let Some(deliveries) = frame.deliveries {
        return take_in(shared, deliveries).err().map(End::Over);
    }
    let told = match (frame.ok, frame.problem) {
        (Some(ok), _) => Ok(ok.get().to_owned()),
        (None, Some(problem)) => Err(Error::from(problem)),
        (None, None) => return None,
    };
    let Some(n) = frame.n else { return told.err().map(of_error) };
    let mut books = shared.books();
    let unknown = books.answered(n, told);
    drop(books);
    // There may be room for more frames, or it was the last.
    shared.speak.notify_one();
    unknown.then_some(End::Broken)
}

fn take_in(shared: &Shared, deliveries: Vec<DeliveryJson>) -> Result<(), Error> {
    let mut unwanted = Vec::new();
    for delivery in deliveries {
        let delivery = wire::message::delivery(delivery, shared.hello.lease_ms)?;
        unwanted.extend(shared.books().deliver(delivery));
    }
    shared.give_back(unwanted);
    shared.came.notify_one();
    shared.speak.notify_one();
    Ok(())
}

/// Deliveries of a connection.
pub(crate) struct SocketInbox {
    socket: Socket,
    /// The delivery that was taken last.
    last: Option<LeaseRef>,
}

impl SocketInbox {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, last: None }
    }
}

impl Inbox for SocketInbox {
    fn next(&mut self) -> Promise<'_, Option<Delivery>> {
        Box::pin(async move {
            let shared = &self.socket.0;
            loop {
                let (taken, end) = {
                    let mut books = shared.books();
                    (books.take(), books.end.clone())
                };
                if let Some(delivery) = taken {
                    self.last = delivery.lease;
                    return Ok(Some(delivery));
                }
                match end {
                    Some(Some(error)) => return Err(error),
                    Some(None) => return Ok(None),
                    None => shared.came.notified().await,
                }
            }
        })
    }

    fn room(&self) -> Room {
        let (shared, last) = (Arc::clone(&self.socket.0), self.last);
        Room::Apart(Arc::new(move |over: Over| {
            last.iter().for_each(|lease| shared.books().over(lease, over));
            shared.speak.notify_one();
        }))
    }

    fn close(self: Box<Self>) -> Promise<'static, ()> {
        Box::pin(async move {
            self.socket.close().await;
            Ok(())
        })
    }
}

impl Drop for SocketInbox {
    fn drop(&mut self) {
        let mut books = self.socket.0.books();
        if !books.closing {
            // Nobody takes anything more; the hub gives out again what nobody took.
            books.closing = true;
            drop(books);
            self.socket.0.speak.notify_one();
        }
    }
}

/// A hub that refuses what a connection needs.
pub(crate) fn not_here(what: &str) -> Error {
    Refused::new(Code::Invalid, format!("{what} is not there over the network yet"))
        .hint("use the hub's HTTP interface, or a hub in this process")
        .into()
}
