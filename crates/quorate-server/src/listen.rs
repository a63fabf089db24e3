//! Listening: connections in, requests to the app, and a clean end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::app::App;
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
    let graceful = GracefulShutdown::new();
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
        let connection = graceful.watch(serve(router.clone(), stream));
        tokio::spawn(async move {
            // A connection that breaks is the caller's affair: what it asked for is done or not done, as it can find out.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_WITHIN, graceful.shutdown()).await;
}

fn serve(router: axum::Router, stream: TcpStream) -> impl hyper_util::server::graceful::GracefulConnection {
    let _ = stream.set_nodelay(true);
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(HEADER_BYTES_MAX);
    builder.serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router))
}
