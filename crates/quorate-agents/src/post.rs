//! POST of JSON to models and to agents behind an address, with failures for whoever wrote the `use:` line.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, Uri};
use quorate_http::{Client, ConnectError, Error, Limits, Options};

use crate::limits;
use crate::question::{Failure, Kind, quote};

pub use quorate_http::Url;

/// Makes calls. Cheap to clone; the authorities of the machine are read at the first https call.
#[derive(Clone)]
pub(crate) struct Post(Client);

impl Default for Post {
    fn default() -> Self {
        // A call takes seconds, and a kept connection may be closed by the server at any moment: each has its own.
        let options = Options { connect_within: limits::CONNECT_WITHIN, idle_max: 0, ..Options::default() };
        Self(Client::new(options))
    }
}

/// What a server answered, whatever it was.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

impl Post {
    /// Sends JSON and reads the answer, at most so many bytes of it.
    pub(crate) async fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
        bytes_max: usize,
    ) -> Result<Answer, Failure> {
        let bounds = Limits { within: limits::CALL_WITHIN, bytes_max };
        let sent = self.0.send(request(url, headers, body)?, bounds).await;
        read(url, sent.map_err(|error| failure(url, error))?)
    }

    /// Connects and hangs up: whether somebody is there.
    pub(crate) async fn reach(&self, url: &Url) -> Result<(), Failure> {
        let connected = self.0.connector().connect(uri(url)?).await;
        connected.map(drop).map_err(|error| unreachable(url, &error))
    }
}

fn uri(url: &Url) -> Result<Uri, Failure> {
    url.absolute()
        .parse()
        .map_err(|_| Failure::new(Kind::Misdeclared, url.to_string(), "is no address".to_owned()))
}

fn failure(url: &Url, error: Error) -> Failure {
    let of = |kind, what: String, hint: &str| Failure::new(kind, url.to_string(), what).hint(hint);
    match error {
        Error::Connect(error) => unreachable(url, &error),
        Error::Unsent(_) | Error::Broken(_) => {
            of(Kind::Unreachable, error.to_string(), "see whether the server is well, then try again")
        }
        Error::Incomplete(_) => {
            of(Kind::Broken, error.to_string(), "try again; look at the server's own log")
        }
        Error::TooLarge(max) => {
            let what = format!("answers more than the {max} bytes that are read");
            of(Kind::TooLong, what, "have it answer more briefly")
        }
        Error::TimedOut(_) => of(Kind::Unreachable, error.to_string(), "see whether the server is well"),
    }
}

fn unreachable(url: &Url, error: &ConnectError) -> Failure {
    let network = "check the address and the network";
    let (what, hint) = match error {
        ConnectError::Refused => {
            let what = format!("nothing is listening on {}:{}", url.host, url.port);
            (what, "start the server, or mend the address in the `use:` line")
        }
        ConnectError::TimedOut(within) => (format!("no connection within {} s", within.as_secs()), network),
        ConnectError::Certificate(_) | ConnectError::Tls(_) => {
            let what = format!("its certificate or its TLS is not accepted: {error}");
            (what, "for an authority of your own, name its PEM file in SSL_CERT_FILE")
        }
        ConnectError::Io(_) => (format!("cannot be reached: {error}"), network),
    };
    Failure::new(Kind::Unreachable, url.to_string(), what).hint(hint)
}

fn request(url: &Url, mut headers: HeaderMap, body: Vec<u8>) -> Result<Request<Full<Bytes>>, Failure> {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("quorate/", env!("CARGO_PKG_VERSION"))));
    let mut request = Request::post(uri(url)?).body(Full::from(body)).map_err(|error| {
        Failure::new(Kind::Misdeclared, url.to_string(), format!("cannot be asked: {error}"))
    })?;
    *request.headers_mut() = headers;
    Ok(request)
}

fn read(url: &Url, response: Response<Bytes>) -> Result<Answer, Failure> {
    let status = response.status();
    let headers = response.headers();
    if status.is_redirection() {
        let to = headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
        let what = format!("answers {} and sends us to {}", status.as_u16(), quote(to));
        return Err(Failure::new(Kind::Refused, url.to_string(), what)
            .hint("redirects are not followed; if you trust that address, write it in the `use:` line"));
    }
    let retry_after = retry_after(headers);
    Ok(Answer { status: status.as_u16(), retry_after, body: response.into_body() })
}

/// When to come again: in seconds, or at a time by the server's own clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    if let Some(ms) = headers.get("retry-after-ms").and_then(|ms| ms.to_str().ok()?.trim().parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let said = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = said.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let time = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp());
    let now = time(headers.get(DATE)?.to_str().ok()?.trim())?;
    Some(Duration::try_from(time(said)?.duration_since(now)).unwrap_or_default())
}

/// What a status that is no success means, with the other side's own words.
pub(crate) fn status_failure(place: &str, answer: &Answer, said: &str) -> Failure {
    let status = answer.status;
    let (kind, hint) = match status {
        401 | 403 => (Kind::NoKey, "check the key and what it may do"),
        404 => (Kind::Refused, "check the address and the name of the model"),
        408 | 429 => (Kind::RateLimited, "lower the limits per minute of the provider, or wait"),
        413 => (Kind::Refused, "send less, or take a model that reads more"),
        500..=599 => (Kind::Overloaded, "the other side has a problem of its own; try again later"),
        _ => (Kind::Refused, "read what it says; the request may not suit this server"),
    };
    let what = match said {
        "" => format!("answers {status}"),
        said => format!("answers {status}: {}", quote(said)),
    };
    let mut failure = Failure::new(kind, place, what).hint(hint);
    failure.retry_after = answer.retry_after;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_each_of_its_forms() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            retry_after(&headers)
        };
        assert_eq!(of(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(of(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(of(&[("retry-after-ms", "40"), ("retry-after", "7")]), Some(Duration::from_millis(40)));
        let date = ("date", "Mon, 16 Nov 2026 09:00:00 GMT");
        assert_eq!(
            of(&[date, ("retry-after", "Mon, 16 Nov 2026 09:00:09 GMT")]),
            Some(Duration::from_secs(9))
        );
        assert_eq!(of(&[date, ("retry-after", "Mon, 16 Nov 2026 08:00:00 GMT")]), Some(Duration::ZERO));
        for none in [&[("retry-after", "soon")][..], &[("retry-after", "-4")], &[]] {
            assert_eq!(of(none), None);
        }
    }
}
