//! A TCP proxy that cuts connections after a number of bytes, in either direction, at arbitrary positions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct LossyProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    cutting: AtomicBool,
    /// Whether to drop the next bytes from the hub together with the connection.
    drop_next_response: AtomicBool,
    state: AtomicU64,
    cuts: AtomicU64,
}

impl LossyProxy {
    /// Starts a proxy in front of a hub. It cuts nothing until [`LossyProxy::cut`] is called.
    pub(crate) async fn new(upstream: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            upstream,
            cutting: AtomicBool::new(false),
            drop_next_response: AtomicBool::new(false),
            state: AtomicU64::new(seed),
            cuts: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(Arc::clone(&accepting), stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn cut(&self, cutting: bool) {
        self.shared.cutting.store(cutting, Ordering::SeqCst);
    }

    /// Drops the next response of the hub: the call takes effect, but the caller does not receive the response.
    pub(crate) fn lose_next_response(&self) {
        self.shared.drop_next_response.store(true, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Returns how many bytes the next connection carries: mostly few, but sometimes enough for a full frame of
    /// deliveries, because a frame that is always cut never arrives.
    fn budget(&self) -> u64 {
        let random =
            self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bytes_max = if random >> 61 == 0 { 30_000 } else { 6_000 };
        300 + (random >> 40) % bytes_max
    }
}

async fn relay(shared: Arc<Shared>, from: TcpStream) {
    let Ok(upstream) = TcpStream::connect(shared.upstream).await else { return };
    let _ = (from.set_nodelay(true), upstream.set_nodelay(true));
    let bytes_left = Arc::new(AtomicU64::new(shared.budget()));
    let (from_read, from_write) = from.into_split();
    let (to_read, to_write) = upstream.into_split();
    // When one direction ends, both sockets are dropped.
    tokio::select! {
        () = copy(&shared, &bytes_left, Origin::Caller, from_read, to_write) => {}
        () = copy(&shared, &bytes_left, Origin::Hub, to_read, from_write) => {}
    }
}

/// Origin of the copied bytes.
#[derive(PartialEq, Eq)]
enum Origin {
    Caller,
    Hub,
}

async fn copy(
    shared: &Shared,
    bytes_left: &AtomicU64,
    origin: Origin,
    mut read: OwnedReadHalf,
    mut write: OwnedWriteHalf,
) {
    let mut bytes = [0; 512];
    loop {
        let Ok(count @ 1..) = read.read(&mut bytes).await else { return };
        if origin == Origin::Hub && shared.drop_next_response.swap(false, Ordering::SeqCst) {
            shared.cuts.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let mut forwarded = count;
        if shared.cutting.load(Ordering::SeqCst) {
            let remaining =
                bytes_left.fetch_sub((count as u64).min(bytes_left.load(Ordering::SeqCst)), Ordering::SeqCst);
            forwarded = count.min(usize::try_from(remaining).unwrap_or(usize::MAX));
        }
        if write.write_all(&bytes[..forwarded]).await.is_err() {
            return;
        }
        if forwarded < count {
            shared.cuts.fetch_add(1, Ordering::SeqCst);
            return;
        }
    }
}
