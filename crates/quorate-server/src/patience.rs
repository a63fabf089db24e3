//! A connection that does not wait for ever: a caller that takes nothing for a while is cut off. What it was to be told
//! it can ask for again; nobody else waits for it.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes do not hang for ever.
pub(crate) struct Patient<S> {
    stream: S,
    within: Duration,
    /// Runs while a write waits.
    until: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Patient<S> {
    /// Fails a write when nothing is taken for so long.
    pub(crate) fn within(stream: S, within: Duration) -> Self {
        Self { stream, within, until: Box::pin(sleep(within)), waits: false }
    }

    /// What a write came to; one that waits for too long fails.
    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !self.waits {
            self.waits = true;
            self.until.set(sleep(self.within));
        }
        ready!(self.until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the caller takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::Patient;

    const TAKEN_WITHIN: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn i21_who_takes_nothing_is_cut_off() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = Patient::within(near, TAKEN_WITHIN);
        near.write_all(&[1; 8]).await.expect("there is room");
        let begun = tokio::time::Instant::now();
        let error = near.write_all(&[2; 8]).await.expect_err("nobody takes it");
        assert_eq!((error.kind(), begun.elapsed()), (ErrorKind::TimedOut, TAKEN_WITHIN));
        far.read_exact(&mut [0; 8]).await.expect("what was written before");
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_a_little_now_and_then_is_not() {
        let (near, mut far) = tokio::io::duplex(1);
        let mut near = Patient::within(near, Duration::from_secs(2));
        let sends = tokio::spawn(async move { near.write_all(&[3; 6]).await });
        let mut taken = [0; 1];
        for _ in 0..6 {
            tokio::time::advance(Duration::from_secs(1)).await;
            far.read_exact(&mut taken).await.expect("a byte");
        }
        sends.await.expect("no panic").expect("all was written");
    }
}
