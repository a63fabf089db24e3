//! Connections to a hub: TCP, and TLS over it where the address says https.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorate::{Clock, Code, Error, Remote};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::address::Address;

/// Bytes in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Makes connections to one hub.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) address: Address,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long making a connection may take.
    within: Duration,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl Dial {
    pub(crate) fn new(
        address: Address,
        ca_file: Option<PathBuf>,
        clock: Arc<dyn Clock>,
        within: Duration,
    ) -> Result<Self, Error> {
        #[cfg(feature = "tls")]
        let tls = address.secure.then(|| crate::tls::Tls::new(&address, ca_file.as_deref())).transpose()?;
        #[cfg(not(feature = "tls"))]
        if address.secure {
            let refused = quorate::Refused::new(Code::Invalid, "this program was built without https");
            let refused = refused.hint("turn on the feature `tls` of quorate-client");
            return Err((refused, ca_file).0.into());
        }
        Ok(Self {
            address,
            clock,
            within,
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// Connects.
    ///
    /// # Errors
    /// `UNAVAILABLE` if the hub is not there.
    pub(crate) async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let within = self.within;
        let connected = tokio::select! {
            connected = self.open() => connected,
            () = passed(&*self.clock, within) => Err(std::io::ErrorKind::TimedOut.into()),
        };
        connected.map_err(|error| self.away(&error).into())
    }

    async fn open(&self) -> std::io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.connect(stream).await;
        }
        Ok(Box::new(stream))
    }

    fn away(&self, error: &std::io::Error) -> Remote {
        let url = self.address.url();
        let (why, hint) = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                ("nothing listens there".to_owned(), "start it with `quorate serve`, or check the address")
            }
            std::io::ErrorKind::TimedOut => {
                let ms = self.within.as_millis();
                (format!("no connection within {ms} ms"), "check the address and the network, then try again")
            }
            #[cfg(feature = "tls")]
            std::io::ErrorKind::InvalidData => crate::tls::refused(error),
            _ => (error.to_string(), "check the address and the network, then try again"),
        };
        Remote {
            code: Code::Unavailable,
            detail: format!("the hub at {url} cannot be reached: {why}"),
            hint: hint.to_owned(),
            nothing_applied: true,
        }
    }
}

/// Ends when that much time has passed.
pub(crate) async fn passed(clock: &dyn Clock, wait: Duration) {
    let mut now = clock.now();
    let until = now.plus(wait).mono;
    while now.mono < until {
        clock.pass(Duration::from_millis(until.0 - now.mono.0)).await;
        now = clock.now();
    }
}
