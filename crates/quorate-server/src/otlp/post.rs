//! One request to a collector.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use bytes::Bytes;
use http_body_util::Full;
use quorate_http::{Client, Error, Options, Url};
use serde_json::Value;

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
    url: Url,
    headers: HeaderMap,
    client: Client,
}

impl Collector {
    pub(super) fn new(otlp: &Otlp) -> Result<Self, String> {
        let base = Url::parse(&otlp.endpoint).map_err(|refused| refused.detail)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &otlp.headers {
            let name: HeaderName =
                name.trim().parse().map_err(|_| format!("{name:?} is no name of a header"))?;
            // Without the value: it may be a key.
            let mut value: HeaderValue =
                value.trim().parse().map_err(|_| format!("the value of the header {name} is none"))?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = concat!("quorate/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        let path = base.target.split('?').next().unwrap_or_default().to_owned();
        let url = Url { target: path, ..base }.below("/v1/traces");
        // One at a time, on a connection of its own: a collector that is started again is not noticed.
        Ok(Self { url, headers, client: Client::new(Options::default()) })
    }

    pub(super) async fn post(&self, body: String) -> Posted {
        let posted = tokio::time::timeout(POST_WITHIN, self.try_post(body)).await;
        posted.unwrap_or_else(|_| Posted::Failed("no answer in time".into()))
    }

    async fn try_post(&self, body: String) -> Posted {
        let authority = self.url.authority();
        let mut request = match Request::post(self.url.absolute()).body(Full::new(Bytes::from(body))) {
            Ok(request) => request,
            Err(error) => return Posted::Refused(error.to_string()),
        };
        *request.headers_mut() = self.headers.clone();
        let response = match self.client.stream(request, POST_WITHIN).await {
            Ok(response) => response,
            Err(Error::Connect(error)) => {
                return Posted::Failed(format!("cannot connect to {authority}: {error}"));
            }
            Err(error) => return Posted::Failed(format!("{authority}: {error}")),
        };
        let status = response.status();
        match status.as_u16() {
            200..=299 => {
                // Taken, even if the rest of the answer is too long or breaks off.
                let body = quorate_http::read(response, ANSWER_BYTES_MAX).await.map(|read| read.into_body());
                Posted::Taken { rejected: rejected(&body.unwrap_or_default()) }
            }
            408 | 429 | 502..=504 => Posted::Failed(format!("{authority} answered {status}")),
            _ => Posted::Refused(format!("{authority} answered {status}")),
        }
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
    fn an_endpoint_is_http_or_https_with_a_host() {
        let of = |endpoint: &str| Collector::new(&Otlp::new(endpoint)).map(|found| found.url.absolute());
        assert_eq!(of("http://localhost:4318/").as_deref(), Ok("http://localhost:4318/v1/traces"));
        assert_eq!(of("http://[::1]/base").as_deref(), Ok("http://[::1]/base/v1/traces"));
        assert_eq!(of("https://collector.example").as_deref(), Ok("https://collector.example/v1/traces"));
        for wrong in ["localhost:4318", "ftp://x", "/v1/traces", "", "http://name:secret@collector.example"] {
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
