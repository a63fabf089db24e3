//! HTTP requests to the collector.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use bytes::Bytes;
use http_body_util::Full;
use quorate_http::{Client, ClientOptions, Error, Url};
use serde_json::Value;

use super::OtlpSettings;

/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of response bytes to parse.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Outcome of an export request.
pub(super) enum ExportOutcome {
    /// Accepted, except for this many spans.
    Accepted { rejected: u64 },
    /// Rejected permanently; do not retry.
    Rejected(String),
    /// Failed; retry later.
    Failed(String),
}

/// A trace collector.
pub(super) struct Collector {
    url: Url,
    headers: HeaderMap,
    client: Client,
}

impl Collector {
    pub(super) fn new(otlp: &OtlpSettings) -> Result<Self, String> {
        let base = Url::parse(&otlp.endpoint).map_err(|refused| refused.detail)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &otlp.headers {
            let name: HeaderName =
                name.trim().parse().map_err(|_| format!("invalid header name {name:?}"))?;
            // Omit the value: it may be an API key.
            let mut value: HeaderValue =
                value.trim().parse().map_err(|_| format!("invalid value of header {name}"))?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = concat!("quorate/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        let path = base.target.split('?').next().unwrap_or_default().to_owned();
        let url = Url { target: path, ..base }.join("/v1/traces");
        // A new connection per request: a restarted collector causes no errors.
        Ok(Self { url, headers, client: Client::new(ClientOptions::default()) })
    }

    pub(super) async fn send(&self, body: String) -> ExportOutcome {
        let posted = tokio::time::timeout(REQUEST_TIMEOUT, self.try_post(body)).await;
        posted.unwrap_or_else(|_| ExportOutcome::Failed("no response in time".into()))
    }

    async fn try_post(&self, body: String) -> ExportOutcome {
        let authority = self.url.authority();
        let mut request = match Request::post(self.url.absolute()).body(Full::new(Bytes::from(body))) {
            Ok(request) => request,
            Err(error) => return ExportOutcome::Rejected(error.to_string()),
        };
        *request.headers_mut() = self.headers.clone();
        let response = match self.client.stream(request, REQUEST_TIMEOUT).await {
            Ok(response) => response,
            Err(Error::Connect(error)) => {
                return ExportOutcome::Failed(format!("cannot connect to {authority}: {error}"));
            }
            Err(error) => return ExportOutcome::Failed(format!("{authority}: {error}")),
        };
        let status = response.status();
        match status.as_u16() {
            200..=299 => {
                // Accepted, even if the response body is too long or truncated.
                let body =
                    quorate_http::read_body(response, RESPONSE_BYTES_MAX).await.map(|read| read.into_body());
                ExportOutcome::Accepted { rejected: rejected(&body.unwrap_or_default()) }
            }
            408 | 429 | 502..=504 => ExportOutcome::Failed(format!("{authority} answered {status}")),
            _ => ExportOutcome::Rejected(format!("{authority} answered {status}")),
        }
    }
}

/// Returns the number of rejected spans in the response.
fn rejected(body: &[u8]) -> u64 {
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let rejected = &response["partialSuccess"]["rejectedSpans"];
    // OTLP/JSON encodes 64-bit integers as strings; some collectors send numbers.
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Collector, OtlpSettings, rejected};

    #[test]
    fn an_endpoint_is_http_or_https_with_a_host() {
        let traces_url = |endpoint: &str| {
            Collector::new(&OtlpSettings::new(endpoint)).map(|collector| collector.url.absolute())
        };
        assert_eq!(traces_url("http://localhost:4318/").as_deref(), Ok("http://localhost:4318/v1/traces"));
        assert_eq!(traces_url("http://[::1]/base").as_deref(), Ok("http://[::1]/base/v1/traces"));
        assert_eq!(
            traces_url("https://collector.example").as_deref(),
            Ok("https://collector.example/v1/traces")
        );
        for endpoint in
            ["localhost:4318", "ftp://x", "/v1/traces", "", "http://name:secret@collector.example"]
        {
            assert!(traces_url(endpoint).is_err(), "{endpoint}");
        }
        let mut settings = OtlpSettings::new("http://localhost:4318");
        settings.headers.push(("api-key".into(), "se\ncret".into()));
        let error = Collector::new(&settings).err().expect("an invalid header");
        assert!(!error.contains("cret") && !format!("{settings:?}").contains("cret"), "{error}");
    }

    #[test]
    fn rejected_spans_are_parsed() {
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":"3"}}"#), 3);
        assert_eq!(rejected(br#"{"partialSuccess":{"rejectedSpans":2}}"#), 2);
        assert_eq!((rejected(b"{}"), rejected(b"")), (0, 0));
    }
}
