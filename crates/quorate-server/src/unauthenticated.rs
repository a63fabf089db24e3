//! Limits of connections that are not authenticated yet: their number per address, and the bytes that the hub reads from
//! a WebSocket before its `hello`. The WebSocket library has one size limit for all frames of a connection, so the first
//! one is limited below it, in the byte stream.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::rate_limit::network_of;

/// Maximum size of a sign-in and of the first WebSocket frame.
pub(crate) const UNAUTHENTICATED_BYTES_MAX: usize = 4 * 1024;

type Counts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// Number of unauthenticated connections of each network.
pub(crate) struct UnauthenticatedConnections {
    /// 0: no limit.
    max: usize,
    counts: Counts,
}

/// Counts a connection until it is authenticated or closed.
pub(crate) struct UnauthenticatedConnection {
    network: IpAddr,
    is_counted: AtomicBool,
    counts: Counts,
}

impl UnauthenticatedConnections {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, counts: Counts::default() }
    }

    /// Counts a connection; `None` if its network has reached the limit.
    pub(crate) fn try_add(&self, peer: IpAddr) -> Option<UnauthenticatedConnection> {
        let network = network_of(peer);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(network).or_default();
        if self.max > 0 && *count >= self.max {
            return None;
        }
        *count += 1;
        let counts = Arc::clone(&self.counts);
        Some(UnauthenticatedConnection { network, is_counted: AtomicBool::new(true), counts })
    }
}

impl UnauthenticatedConnection {
    /// Stops counting the connection.
    pub(crate) fn end(&self) {
        // The first check avoids a write to shared memory on every request.
        if !self.is_counted.load(Ordering::Relaxed) || !self.is_counted.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.end();
    }
}

/// Number of bytes that may still be read from a stream.
pub(crate) struct ReadBudget {
    remaining: AtomicU64,
    exceeded: Notify,
}

const UNLIMITED: u64 = u64::MAX;

impl Default for ReadBudget {
    fn default() -> Self {
        Self { remaining: AtomicU64::new(UNLIMITED), exceeded: Notify::new() }
    }
}

impl ReadBudget {
    /// Limits the stream to about this many bytes from now on: a read that begins within the limit is not cut.
    pub(crate) fn limit(&self, bytes: usize) {
        self.remaining.store(bytes as u64, Ordering::Relaxed);
    }

    /// Ends the limit, unless it is exceeded.
    pub(crate) fn lift(&self) {
        self.remaining.store(UNLIMITED, Ordering::Relaxed);
    }

    /// Allows this many bytes more. The reader has to be polled again if the limit was exceeded.
    pub(crate) fn extend(&self, bytes: usize) {
        let remaining = self.remaining.load(Ordering::Relaxed);
        if remaining != UNLIMITED {
            self.remaining.store(remaining.saturating_add(bytes as u64), Ordering::Relaxed);
        }
    }

    /// Whether nothing more is read from the stream.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.remaining.load(Ordering::Relaxed) == 0
    }

    /// Resolves when the limit is exceeded. The stream is not read any further.
    pub(crate) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }
}

/// A stream with a budget of bytes to read.
pub(crate) struct LimitedStream<S> {
    stream: S,
    budget: Arc<ReadBudget>,
}

impl<S> LimitedStream<S> {
    pub(crate) fn new(stream: S, budget: Arc<ReadBudget>) -> Self {
        Self { stream, budget }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let remaining = self.budget.remaining.load(Ordering::Relaxed);
        if remaining == UNLIMITED {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        if remaining == 0 {
            self.budget.exceeded.notify_one();
            return Poll::Pending;
        }
        let filled = buffer.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = (buffer.filled().len() - filled) as u64;
        self.budget.remaining.store(remaining.saturating_sub(read), Ordering::Relaxed);
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
