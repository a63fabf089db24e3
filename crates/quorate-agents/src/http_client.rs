//! HTTP client: POST of JSON to models and HTTP agents. Failures are worded for the author of the `use:` value.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, Uri};
use quorate_http::{CallLimits, Client, ClientOptions, ConnectError, Error};

use crate::limits;
use crate::question::{AgentFailure, FailureKind, quote};

pub use quorate_http::Url;

/// HTTP client. Cheap to clone; the trusted certificates of the machine are loaded at the first https call.
#[derive(Clone)]
pub(crate) struct HttpClient(Client);

impl Default for HttpClient {
    fn default() -> Self {
        // Calls take seconds, and the server may close an idle connection at any time, so connections are not reused.
        let options = ClientOptions {
            connect_timeout: limits::CONNECT_TIMEOUT,
            idle_max: 0,
            ..ClientOptions::default()
        };
        Self(Client::new(options))
    }
}

/// Response of a server, with any status.
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

impl HttpClient {
    /// Sends JSON and reads at most `bytes_max` bytes of the response.
    pub(crate) async fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
        bytes_max: usize,
    ) -> Result<HttpResponse, AgentFailure> {
        let call_limits = CallLimits { timeout: limits::CALL_TIMEOUT, bytes_max };
        let result = self.0.send(request(url, headers, body)?, call_limits).await;
        read(url, result.map_err(|error| failure(url, error))?)
    }

    /// Connects and disconnects, to check that the server is listening.
    pub(crate) async fn check_reachable(&self, url: &Url) -> Result<(), AgentFailure> {
        let connected = self.0.connector().connect(uri(url)?).await;
        connected.map(drop).map_err(|error| unreachable(url, &error))
    }
}

fn uri(url: &Url) -> Result<Uri, AgentFailure> {
    url.absolute().parse().map_err(|_| {
        AgentFailure::new(FailureKind::Misdeclared, url.to_string(), "is not a valid URL".to_owned())
    })
}

fn failure(url: &Url, error: Error) -> AgentFailure {
    let failure_of =
        |kind, message: String, hint: &str| AgentFailure::new(kind, url.to_string(), message).hint(hint);
    match error {
        Error::Connect(error) => unreachable(url, &error),
        Error::Unsent(_) | Error::ConnectionLost(_) => {
            failure_of(FailureKind::Unreachable, error.to_string(), "check the server, then try again")
        }
        Error::Incomplete(_) => {
            failure_of(FailureKind::Broken, error.to_string(), "try again; check the server's log")
        }
        Error::TooLarge(max) => {
            let message = format!("the response exceeds the limit of {max} bytes");
            failure_of(FailureKind::TooLong, message, "make it return a shorter answer")
        }
        Error::TimedOut(_) => failure_of(FailureKind::Unreachable, error.to_string(), "check the server"),
    }
}

fn unreachable(url: &Url, error: &ConnectError) -> AgentFailure {
    let network = "check the URL and the network";
    let (message, hint) = match error {
        ConnectError::Refused => {
            let message = format!("nothing is listening on {}:{}", url.host, url.port);
            (message, "start the server, or fix the URL in `use:`")
        }
        ConnectError::TimedOut(within) => (format!("no connection within {} s", within.as_secs()), network),
        ConnectError::Certificate(_) | ConnectError::Tls(_) => {
            let message = format!("TLS or certificate error: {error}");
            (message, "to trust a private certificate authority, set SSL_CERT_FILE to its PEM file")
        }
        ConnectError::Io(_) => (format!("cannot connect: {error}"), network),
    };
    AgentFailure::new(FailureKind::Unreachable, url.to_string(), message).hint(hint)
}

fn request(url: &Url, mut headers: HeaderMap, body: Vec<u8>) -> Result<Request<Full<Bytes>>, AgentFailure> {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("quorate/", env!("CARGO_PKG_VERSION"))));
    let mut request = Request::post(uri(url)?).body(Full::from(body)).map_err(|error| {
        AgentFailure::new(FailureKind::Misdeclared, url.to_string(), format!("invalid request: {error}"))
    })?;
    *request.headers_mut() = headers;
    Ok(request)
}

fn read(url: &Url, response: Response<Bytes>) -> Result<HttpResponse, AgentFailure> {
    let status = response.status();
    let headers = response.headers();
    if status.is_redirection() {
        let location = headers.get(LOCATION).and_then(|location| location.to_str().ok()).unwrap_or("nowhere");
        let message = format!("responded with {} and a redirect to {}", status.as_u16(), quote(location));
        return Err(AgentFailure::new(FailureKind::Refused, url.to_string(), message)
            .hint("redirects are not followed; if you trust that URL, use it in `use:`"));
    }
    let retry_after = retry_after(headers);
    Ok(HttpResponse { status: status.as_u16(), retry_after, body: response.into_body() })
}

/// Parses the time to wait from the retry headers: a delay, or a point in time relative to the server's clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    if let Some(ms) = headers.get("retry-after-ms").and_then(|ms| ms.to_str().ok()?.trim().parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let time = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp());
    let now = time(headers.get(DATE)?.to_str().ok()?.trim())?;
    Some(Duration::try_from(time(value)?.duration_since(now)).unwrap_or_default())
}

/// Converts an error status to a failure that quotes the server's message.
pub(crate) fn status_failure(target: &str, response: &HttpResponse, message: &str) -> AgentFailure {
    let status = response.status;
    let (kind, hint) = match status {
        401 | 403 => (FailureKind::NoKey, "check the key and its permissions"),
        404 => (FailureKind::Refused, "check the URL and the name of the model"),
        408 | 429 => (FailureKind::RateLimited, "lower the rate limits of the provider, or wait"),
        413 => (FailureKind::Refused, "send less, or use a model with a larger context"),
        500..=599 => (FailureKind::Overloaded, "the server has a problem; try again later"),
        _ => (FailureKind::Refused, "read the server's message; it may not support this request"),
    };
    let description = match message {
        "" => format!("responded with {status}"),
        message => format!("responded with {status}: {}", quote(message)),
    };
    let mut failure = AgentFailure::new(kind, target, description).hint(hint);
    failure.retry_after = response.retry_after;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_parsed_in_all_formats() {
        let parse = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            retry_after(&headers)
        };
        assert_eq!(parse(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(parse(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(parse(&[("retry-after-ms", "40"), ("retry-after", "7")]), Some(Duration::from_millis(40)));
        let date = ("date", "Mon, 16 Nov 2026 09:00:00 GMT");
        assert_eq!(
            parse(&[date, ("retry-after", "Mon, 16 Nov 2026 09:00:09 GMT")]),
            Some(Duration::from_secs(9))
        );
        assert_eq!(parse(&[date, ("retry-after", "Mon, 16 Nov 2026 08:00:00 GMT")]), Some(Duration::ZERO));
        for headers in [&[("retry-after", "soon")][..], &[("retry-after", "-4")], &[]] {
            assert_eq!(parse(headers), None);
        }
    }
}
