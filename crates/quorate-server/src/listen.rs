//! Listening: connections in, requests to the app, and a clean end.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::app::App;
use crate::observe::Presence;
use crate::patience::Patient;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 10_000;
/// Bytes of a request's headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// How long a caller may take to send its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// How long requests under way may take when the hub is told to stop.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// Why a hub could not listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not loopback, and nothing protects what would be sent.
    #[error("{0} can be reached from other machines, and the connection would not be encrypted")]
    NotLoopback(SocketAddr),
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A hub that listens.
pub struct Listening {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Starts to listen. Port 0 is any that is free. `insecure` allows addresses that other machines can reach.
    ///
    /// # Errors
    /// When the address is not loopback, or cannot be used.
    pub async fn start(app: App, address: SocketAddr, insecure: bool) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() && !insecure {
            return Err(ServeError::NotLoopback(address));
        }
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(app, listener, stopped));
        Ok(Self { address, stop, task })
    }

    /// Where.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets the requests under way end, and returns then, within 10 seconds.
    pub async fn drain(self) {
        self.stop.send_replace(true);
        // A panic of the task was reported when it happened.
        let _ = self.task.await;
    }
}

async fn run(app: App, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let router = app.router();
    loop {
        let permit = Arc::clone(&room).acquire_owned();
        let accepted = tokio::select! {
            accepted = async { (permit.await, listener.accept().await) } => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let (Ok(permit), Ok((stream, _))) = accepted else {
            // Out of descriptors, or a caller that has gone already: the next one may be luckier.
            tokio::task::yield_now().await;
            continue;
        };
        // Held by the connection, and by what it turns into: a WebSocket outlives the request that began it.
        let life = Life {
            stopped: stopped.clone(),
            cut: Arc::default(),
            _permit: Arc::new(permit),
            _presence: Arc::new(Presence::of_connection(&app)),
        };
        tokio::spawn(serve(router.clone().layer(Extension(life.clone())), stream, life));
    }
    app.end();
    drop(listener);
    // Until the last one has gone.
    let _ = tokio::time::timeout(DRAIN_WITHIN, room.acquire_many(CONNECTIONS_MAX as u32)).await;
}

/// What a connection lives with. What goes on after a request was answered holds on to it.
#[derive(Clone)]
pub(crate) struct Life {
    stopped: watch::Receiver<bool>,
    cut: Arc<Notify>,
    _permit: Arc<OwnedSemaphorePermit>,
    _presence: Arc<Presence>,
}

impl Life {
    /// Ends when the hub is told to stop.
    pub(crate) async fn stopped(&mut self) {
        // If whoever could say so is gone, so is the hub.
        let _ = self.stopped.wait_for(|stop| *stop).await;
    }

    /// Drops the connection as it is: nobody reads what is written to it.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }
}

async fn serve(router: axum::Router, stream: TcpStream, mut life: Life) {
    let _ = stream.set_nodelay(true);
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(HEADER_BYTES_MAX);
    let connection =
        builder.serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router));
    let mut connection = pin!(connection.with_upgrades());
    let cut = Arc::clone(&life.cut);
    let ended = async {
        // A connection that breaks is the caller's affair: what it asked for is done or not done, as it can find out.
        tokio::select! {
            _ = &mut connection => {}
            () = life.stopped() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    };
    tokio::select! {
        () = ended => {}
        () = cut.notified() => {}
    }
}
