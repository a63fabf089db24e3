//! Listening: connections in, requests to the app, and a clean end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::observe::Presence;
use crate::patience::Patient;
use crate::settings::{HEADER_BYTES_MAX, Patience};
use crate::tls::Tls;
use crate::turn_away;

/// How long to wait when no connection can be taken: out of descriptors, most likely, and only time brings some back.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// Connections that the system keeps for us until we take them.
const BACKLOG: u32 = 1_024;

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

/// An address that is bound and not yet listened on: connections are refused until the hub is ready.
pub struct Reserved {
    socket: TcpSocket,
    address: SocketAddr,
    tls: Option<Tls>,
    /// Listen on any free port if another process takes this one first.
    any_port: bool,
}

impl Reserved {
    /// An address without encryption. Port 0 is any that is free. `insecure` allows addresses that other machines can reach.
    ///
    /// # Errors
    /// When the address is not loopback, or cannot be used.
    pub fn plain(address: SocketAddr, insecure: bool) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() && !insecure {
            return Err(ServeError::NotLoopback(address));
        }
        Self::new(address, None)
    }

    /// Any address, with TLS. A certificate that changes is taken up while the hub runs.
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
        let at = |port| Self::new((Ipv4Addr::LOCALHOST, port).into(), None);
        let reserved = at(port).or_else(|_| at(0))?;
        Ok(Self { any_port: true, ..reserved })
    }

    fn new(address: SocketAddr, tls: Option<Tls>) -> Result<Self, ServeError> {
        let socket = bind(address).map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { socket, address, tls, any_port: false })
    }

    /// Lets the hub listen.
    ///
    /// # Errors
    /// When another process listens on the port by now.
    pub fn listen(self, app: App) -> Result<Listening, ServeError> {
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
        Ok(Listening { address, stop, task })
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a hub that has just stopped may still be in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// A hub that listens.
pub struct Listening {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Starts to listen without encryption. Port 0 is any that is free. `insecure` allows addresses that other machines
    /// can reach.
    ///
    /// # Errors
    /// When the address is not loopback, or cannot be used.
    pub async fn start(app: App, address: SocketAddr, insecure: bool) -> Result<Self, ServeError> {
        Reserved::plain(address, insecure)?.listen(app)
    }

    /// Starts to listen with TLS, on any address. A certificate that changes is taken up while the hub runs.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub async fn start_tls(app: App, address: SocketAddr, tls: Tls) -> Result<Self, ServeError> {
        Reserved::tls(address, tls)?.listen(app)
    }

    /// Where.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets the requests under way end, and returns then, within 10 seconds unless the
    /// settings say otherwise.
    pub async fn drain(self) {
        self.stop.send_replace(true);
        // A panic of the task was reported when it happened.
        let _ = self.task.await;
    }
}

async fn run(app: App, listener: TcpListener, mut stopped: watch::Receiver<bool>, tls: Option<Tls>) {
    let settings = app.settings();
    let (patience, connections) = (settings.patience, settings.limits.connections);
    let watched = tls.as_ref().map(|tls| tokio::spawn(tls.clone().watch(settings.times.certificate_look)));
    let room = Arc::new(Semaphore::new(connections));
    let door = Arc::new(Semaphore::new(turn_away::AT_THE_DOOR_MAX));
    let (router, acceptor) = (app.router(), tls.as_ref().map(Tls::acceptor));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // A caller that has gone already, or we are out of descriptors: the next one may be luckier.
                tracing::warn!(why = %error, "a connection could not be accepted");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            // Told so if there is somebody at the door who can; dropped if not.
            if let Ok(at_the_door) = Arc::clone(&door).try_acquire_owned() {
                let is_tls = acceptor.is_some();
                tokio::spawn(turn_away::full(stream, is_tls, connections, patience, at_the_door));
            }
            continue;
        };
        // Held by the connection, and by what it turns into: a WebSocket outlives the request that began it.
        let life = Life {
            stopped: stopped.clone(),
            cut: Arc::default(),
            peer: peer.ip(),
            is_tls: acceptor.is_some(),
            drain: patience.drain,
            _permit: Arc::new(permit),
            _presence: Arc::new(Presence::of_connection(&app)),
        };
        let router = router.clone().layer(Extension(life.clone()));
        tokio::spawn(greet(router, stream, acceptor.clone(), patience, life));
    }
    app.end();
    drop(listener);
    watched.inspect(JoinHandle::abort);
    // Until the last one has gone.
    let all = u32::try_from(connections).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(patience.drain, room.acquire_many(all)).await;
}

/// What a connection lives with. What goes on after a request was answered holds on to it.
#[derive(Clone)]
pub(crate) struct Life {
    stopped: watch::Receiver<bool>,
    cut: Arc<Notify>,
    /// Who is at the other end: a caller, or a proxy before many.
    pub(crate) peer: IpAddr,
    pub(crate) is_tls: bool,
    drain: Duration,
    _permit: Arc<OwnedSemaphorePermit>,
    _presence: Arc<Presence>,
}

impl Life {
    /// Ends when the hub is told to stop.
    pub(crate) async fn stopped(&mut self) {
        // If whoever could say so is gone, so is the hub.
        let _ = self.stopped.wait_for(|stop| *stop).await;
    }

    /// Ends when whoever only waits must let go, so that it can still be told before the hub is gone.
    pub(crate) async fn must_let_go(&mut self) {
        self.stopped().await;
        tokio::time::sleep(self.drain / 2).await;
    }

    /// Drops the connection as it is: nobody reads what is written to it.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }
}

/// Encrypts first, if that is asked for.
async fn greet(
    router: Router,
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    patience: Patience,
    life: Life,
) {
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return serve(router, Patient::within(stream, patience.reader), patience, life).await;
    };
    let handshake = async {
        if turn_away::speaks_plainly(&stream).await {
            turn_away::plain(stream, patience).await;
            return None;
        }
        // One that fails is the caller's affair; it was sent an alert.
        acceptor.accept(Patient::within(stream, patience.reader)).await.ok()
    };
    let mut stops = life.clone();
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(patience.handshake, handshake) => greeted.ok().flatten(),
        // Nothing was asked for yet, so nobody is let down.
        () = stops.stopped() => None,
    };
    if let Some(stream) = greeted {
        serve(router, stream, patience, life).await;
    }
}

async fn serve<S>(router: Router, stream: S, patience: Patience, mut life: Life)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(patience.headers).max_buf_size(HEADER_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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
