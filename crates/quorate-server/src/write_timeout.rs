//! Write timeout for connections: a client that reads nothing for a while is disconnected. It can repeat its request;
//! other clients are not affected.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Stream whose writes fail after a timeout.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Deadline of the pending write.
    deadline: Pin<Box<Sleep>>,
    is_pending: bool,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream. A write fails when the peer reads nothing for this long.
    pub(crate) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, deadline: Box::pin(sleep(timeout)), is_pending: false }
    }

    /// Applies the timeout to the result of a write.
    fn apply_timeout<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_pending = false;
            return written;
        }
        if !self.is_pending {
            self.is_pending = true;
            self.deadline.set(sleep(self.timeout));
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "write timed out: the peer is not reading")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.apply_timeout(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.apply_timeout(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.apply_timeout(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.apply_timeout(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::WriteTimeout;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn i21_a_write_to_a_stalled_peer_times_out() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = WriteTimeout::new(near, TIMEOUT);
        near.write_all(&[1; 8]).await.expect("the buffer has capacity");
        let start = tokio::time::Instant::now();
        let error = near.write_all(&[2; 8]).await.expect_err("the peer is not reading");
        assert_eq!((error.kind(), start.elapsed()), (ErrorKind::TimedOut, TIMEOUT));
        far.read_exact(&mut [0; 8]).await.expect("the bytes of the first write");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_does_not_time_out() {
        let (near, mut far) = tokio::io::duplex(1);
        let mut near = WriteTimeout::new(near, Duration::from_secs(2));
        let writer = tokio::spawn(async move { near.write_all(&[3; 6]).await });
        let mut received = [0; 1];
        for _ in 0..6 {
            tokio::time::advance(Duration::from_secs(1)).await;
            far.read_exact(&mut received).await.expect("a byte");
        }
        writer.await.expect("no panic").expect("all was written");
    }
}
