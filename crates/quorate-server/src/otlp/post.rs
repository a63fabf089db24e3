//! One request to a collector.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Request, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::Otlp;

/// How long one request may take.
const POST_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of an answer that are looked at.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What came of it.
pub(super) enum Posted {
    /// Taken, but for so many.
    Taken { rejected: u64 },
    /// Not taken, and never will be.
    Refused(String),
    /// Not taken this time.
    Failed(String),
}

/// A collector that spans are sent to.
pub(super) struct Collector {
    host: String,
    port: u16,
    path: String,
    authority: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Collector {
    pub(super) fn new(otlp: &Otlp) -> Result<Self, String> {
        let uri: Uri = otlp.endpoint.parse().map_err(|_| format!("{:?} is no URL", otlp.endpoint))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "https is not spoken to collectors; run one on this machine, it may go on over TLS"
                        .into(),
                );
            }
            _ => return Err(format!("{:?} does not begin with http://", otlp.endpoint)),
        }
        let authority = uri.authority().ok_or_else(|| format!("{:?} names no host", otlp.endpoint))?;
        let read = |(name, value): &(String, String)| {
            let name: HeaderName =
                name.trim().parse().map_err(|_| format!("{name:?} is no name of a header"))?;
            // Without the value: it may be a key.
            let value =
                value.trim().parse().map_err(|_| format!("the value of the header {name} is none"))?;
            Ok::<_, String>((name, value))
        };
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            path: format!("{}/v1/traces", uri.path().trim_end_matches('/')),
            authority: authority.to_string(),
            headers: otlp.headers.iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    pub(super) async fn post(&self, body: String) -> Posted {
        match tokio::time::timeout(POST_WITHIN, self.try_post(body)).await {
            Ok(Ok(posted)) => posted,
            Ok(Err(why)) => Posted::Failed(why),
            Err(_) => Posted::Failed("no answer in time".into()),
        }
    }

    async fn try_post(&self, body: String) -> Result<Posted, String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| format!("cannot connect to {}: {error}", self.authority))?;
        let broke = |error: hyper::Error| format!("the connection to {} broke: {error}", self.authority);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broke)?;
        let connection = tokio::spawn(connection);
        let mut request = Request::post(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("quorate/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let answered = async {
            let response = sender.send_request(request).await.map_err(broke)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            Ok::<_, String>((status, body.map(|body| body.to_bytes()).unwrap_or_default()))
        };
        let answered = answered.await;
        connection.abort();
        let (status, body) = answered?;
        Ok(match status.as_u16() {
            200..=299 => Posted::Taken { rejected: rejected(&body) },
            408 | 429 | 502..=504 => Posted::Failed(format!("{} answered {status}", self.authority)),
            _ => Posted::Refused(format!("{} answered {status}", self.authority)),
        })
    }
}

/// How many spans the collector says that it did not take.
fn rejected(body: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    // 64-bit numbers are texts in this encoding; some write them as numbers.
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Collector, Otlp, rejected};

    #[test]
    fn an_endpoint_is_http_with_a_host() {
        let of = |endpoint: &str| Collector::new(&Otlp::new(endpoint));
        let found = of("http://localhost:4318/").expect("an endpoint");
        assert_eq!((found.host.as_str(), found.port, found.path.as_str()), ("localhost", 4318, "/v1/traces"));
        let found = of("http://[::1]/base").expect("an endpoint");
        assert_eq!((found.host.as_str(), found.port, found.path.as_str()), ("::1", 80, "/base/v1/traces"));
        for wrong in ["localhost:4318", "https://collector.example", "ftp://x", "/v1/traces", ""] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let mut keyed = Otlp::new("http://localhost:4318");
        keyed.headers.push(("api-key".into(), "se\ncret".into()));
        let said = Collector::new(&keyed).err().expect("no header");
        assert!(!said.contains("cret") && !format!("{keyed:?}").contains("cret"), "{said}");
    }

    #[test]
    fn what_a_collector_rejects_is_heard() {
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":"3"}}"#), 3);
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":2}}"#), 2);
        assert_eq!((rejected(b"{}"), rejected(b"")), (0, 0));
    }
}
