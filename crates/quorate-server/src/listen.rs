//! TCP listener: accepts connections, serves HTTP/1 (optionally over TLS), and shuts down gracefully.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use crate::app::App;
use crate::observe::CountGuard;
use crate::reject;
use crate::settings::{HEADER_BYTES_MAX, Timeouts};
use crate::tls::Tls;
use crate::unauthenticated::{
    LimitedStream, ReadBudget, UnauthenticatedConnection, UnauthenticatedConnections,
};
use crate::write_timeout::WriteTimeout;

/// Pause after a failed `accept`. Most likely the process is out of file descriptors, and some must be closed first.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Accept backlog of the listening socket.
const BACKLOG: u32 = 1_024;

/// Failure to listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is not loopback and the connection would not be encrypted.
    #[error("{0} can be reached from other machines, and the connection would not be encrypted")]
    NotLoopback(SocketAddr),
    /// Binding or listening on the address failed.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// An address that is bound and not yet listened on: connections are refused until the hub is ready.
pub struct BoundAddress {
    socket: TcpSocket,
    address: SocketAddr,
    tls: Option<Tls>,
    /// Whether to fall back to any free port if another process takes this one first.
    any_port: bool,
}

impl BoundAddress {
    /// Binds an address without TLS. Port 0 selects any free port. `insecure` allows addresses reachable from other
    /// machines.
    ///
    /// # Errors
    /// When the address is not loopback, or cannot be used.
    pub fn plain(address: SocketAddr, insecure: bool) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() && !insecure {
            return Err(ServeError::NotLoopback(address));
        }
        Self::new(address, None)
    }

    /// Binds an address with TLS. A changed certificate is reloaded while the hub runs.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn tls(address: SocketAddr, tls: Tls) -> Result<Self, ServeError> {
        Self::new(address, Some(tls))
    }

    /// Loopback without encryption: `port` if it is free, and any free port if not.
    ///
    /// # Errors
    /// When no port of the loopback address can be bound.
    pub fn loopback(port: u16) -> Result<Self, ServeError> {
        let bind_port = |port| Self::new((Ipv4Addr::LOCALHOST, port).into(), None);
        let bound = bind_port(port).or_else(|_| bind_port(0))?;
        Ok(Self { any_port: true, ..bound })
    }

    fn new(address: SocketAddr, tls: Option<Tls>) -> Result<Self, ServeError> {
        let socket = bind(address).map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { socket, address, tls, any_port: false })
    }

    /// Starts to listen and serve the app.
    ///
    /// # Errors
    /// When another process listens on the port in the meantime.
    pub fn listen(self, app: App) -> Result<Server, ServeError> {
        let Self { socket, address, tls, any_port } = self;
        let failed = |source| ServeError::Listen { address, source };
        let listener = match socket.listen(BACKLOG) {
            // Several sockets can be bound to a port with SO_REUSEADDR; the first to listen gets it.
            Err(error) if any_port && error.kind() == io::ErrorKind::AddrInUse => {
                bind((address.ip(), 0).into()).and_then(|socket| socket.listen(BACKLOG))
            }
            listener => listener,
        };
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(app, listener, stopped, tls));
        Ok(Server { address, stop, task })
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a hub that has just stopped may still be in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts to listen without TLS. Port 0 selects any free port. `insecure` allows addresses reachable from other
    /// machines.
    ///
    /// # Errors
    /// When the address is not loopback, or cannot be used.
    pub async fn start(app: App, address: SocketAddr, insecure: bool) -> Result<Self, ServeError> {
        BoundAddress::plain(address, insecure)?.listen(app)
    }

    /// Starts to listen with TLS. A changed certificate is reloaded while the hub runs.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub async fn start_tls(app: App, address: SocketAddr, tls: Tls) -> Result<Self, ServeError> {
        BoundAddress::tls(address, tls)?.listen(app)
    }

    /// Returns the bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections and waits for requests in progress, at most [`Timeouts::drain`] (10 seconds by
    /// default).
    pub async fn drain(self) {
        self.stop.send_replace(true);
        // A panic of the task was already reported by the panic hook.
        let _ = self.task.await;
    }
}

async fn run(app: App, listener: TcpListener, mut stopped: watch::Receiver<bool>, tls: Option<Tls>) {
    let settings = app.settings();
    let (timeouts, connections) = (settings.timeouts, settings.limits.connections);
    let certificate_watch =
        tls.as_ref().map(|tls| tokio::spawn(tls.clone().watch(settings.durations.certificate_check)));
    let capacity = Arc::new(Semaphore::new(connections));
    let unauthenticated_max = settings.limits.unauthenticated_connections;
    let unauthenticated = UnauthenticatedConnections::new(unauthenticated_max);
    let rejections = Arc::new(Semaphore::new(reject::REJECTIONS_MAX));
    let (router, acceptor) = (app.router(), tls.as_ref().map(Tls::acceptor));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The client has disconnected already, or the process is out of file descriptors.
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let reject = |stream, refused| {
            // With a response while the rejection queue has capacity, otherwise by dropping it.
            if let Ok(permit) = Arc::clone(&rejections).try_acquire_owned() {
                let is_tls = acceptor.is_some();
                tokio::spawn(reject::reject_over_limit(stream, is_tls, refused, timeouts, permit));
            }
        };
        let Some(unauthenticated) = unauthenticated.try_add(peer.ip()) else {
            reject(stream, reject::too_many_unauthenticated(unauthenticated_max));
            continue;
        };
        let Ok(permit) = Arc::clone(&capacity).try_acquire_owned() else {
            reject(stream, reject::too_many_connections(connections));
            continue;
        };
        // Held by the connection and by the WebSocket it may be upgraded to, which outlives the request.
        let connection = Connection(Arc::new(ConnectionState {
            stopped: stopped.clone(),
            abort_signal: Notify::new(),
            peer: peer.ip(),
            is_tls: acceptor.is_some(),
            drain: timeouts.drain,
            read_budget: Arc::default(),
            unauthenticated,
            _permit: permit,
            _count: CountGuard::for_connection(&app),
        }));
        let router = router.clone();
        tokio::spawn(handshake_and_serve(router, stream, acceptor.clone(), timeouts, connection));
    }
    app.begin_shutdown();
    drop(listener);
    certificate_watch.inspect(JoinHandle::abort);
    // All permits are free once the last connection is closed.
    let all = u32::try_from(connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(timeouts.drain, capacity.acquire_many(all)).await;
}

/// A client connection. Requests, and streams and WebSockets that outlive their request, hold a clone.
#[derive(Clone)]
pub(crate) struct Connection(Arc<ConnectionState>);

struct ConnectionState {
    stopped: watch::Receiver<bool>,
    abort_signal: Notify,
    /// Address of the peer: the client, or a proxy in front of it.
    peer: IpAddr,
    is_tls: bool,
    drain: Duration,
    read_budget: Arc<ReadBudget>,
    /// Counts the connection until it is authenticated.
    unauthenticated: UnauthenticatedConnection,
    _permit: OwnedSemaphorePermit,
    _count: CountGuard,
}

impl Connection {
    /// Returns the address of the peer: the client, or a proxy in front of it.
    pub(crate) fn peer(&self) -> IpAddr {
        self.0.peer
    }

    /// Whether the connection uses TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.0.is_tls
    }

    /// Resolves when the hub begins to shut down.
    pub(crate) async fn shutting_down(&self) {
        // An error means that the sender was dropped: the hub has stopped.
        let _ = self.0.stopped.clone().wait_for(|stop| *stop).await;
    }

    /// Resolves when pending waits must end, halfway through the drain period, so that their responses can still be
    /// sent.
    pub(crate) async fn drain_deadline(&self) {
        self.shutting_down().await;
        tokio::time::sleep(self.0.drain / 2).await;
    }

    /// Records that a request or frame of this connection was authenticated.
    pub(crate) fn authenticated(&self) {
        self.0.unauthenticated.end();
    }

    /// Returns the limit of the bytes that are read from the connection.
    pub(crate) fn read_budget(&self) -> &ReadBudget {
        &self.0.read_budget
    }

    /// Closes the connection immediately, for a client that does not read.
    pub(crate) fn abort(&self) {
        self.0.abort_signal.notify_one();
    }
}

/// Performs the TLS handshake, if TLS is enabled, then serves the connection.
async fn handshake_and_serve(
    router: Router,
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    timeouts: Timeouts,
    connection: Connection,
) {
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return serve(router, WriteTimeout::new(stream, timeouts.write), timeouts, connection).await;
    };
    let handshake = async {
        if reject::is_plain_http(&stream).await {
            reject::reject_plain_http(stream, timeouts).await;
            return None;
        }
        // On failure the client has received a TLS alert.
        acceptor.accept(WriteTimeout::new(stream, timeouts.write)).await.ok()
    };
    let established = tokio::select! {
        established = tokio::time::timeout(timeouts.handshake, handshake) => established.ok().flatten(),
        // No request has been received yet, so nothing is lost.
        () = connection.shutting_down() => None,
    };
    if let Some(stream) = established {
        serve(router, stream, timeouts, connection).await;
    }
}

async fn serve<S>(router: Router, stream: S, timeouts: Timeouts, connection: Connection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(timeouts.headers).max_buf_size(HEADER_BYTES_MAX);
    let stream = LimitedStream::new(stream, Arc::clone(&connection.0.read_budget));
    let with_connection = connection.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(with_connection.clone());
        router.clone().call(request)
    });
    let http = builder.serve_connection(TokioIo::new(stream), service);
    let mut http = pin!(http.with_upgrades());
    let ended = async {
        // A broken connection is not an error of the hub: clients learn the outcome by retrying with the same key.
        tokio::select! {
            _ = &mut http => {}
            () = connection.shutting_down() => {
                http.as_mut().graceful_shutdown();
                let _ = http.await;
            }
        }
    };
    tokio::select! {
        () = ended => {}
        () = connection.0.abort_signal.notified() => {}
    }
}
