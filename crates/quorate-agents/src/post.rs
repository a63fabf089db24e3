//! POST over HTTP and HTTPS: one connection a call, bounded in time and size, redirects not followed.

mod url;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{
    ACCEPT, CONTENT_TYPE, DATE, HOST, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::limits;
use crate::question::{Failure, Kind, quote};

pub use url::Url;

/// Makes calls. Cheap to clone; the authorities of the machine are read at the first https call.
#[derive(Clone, Default)]
pub(crate) struct Post {
    tls: Arc<OnceLock<TlsConnector>>,
}

/// What a server answered, whatever it was.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Post {
    /// Sends JSON and reads the answer, at most so many bytes of it.
    pub(crate) async fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Vec<u8>,
        bytes_max: usize,
    ) -> Result<Answer, Failure> {
        let stream = self.connect(url).await?;
        let broke = |error: hyper::Error| {
            Failure::new(Kind::Unreachable, url.to_string(), format!("the connection broke: {error}"))
                .hint("see whether the server is well, then try again")
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broke)?;
        let request = request(url, headers, body)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broke)?;
            read(url, response, bytes_max).await
        };
        // The connection lives exactly as long as the call: whoever gives up the call, gives up the connection.
        tokio::pin!(connection, exchange);
        tokio::select! {
            answer = &mut exchange => answer,
            ended = &mut connection => {
                if let Err(error) = ended {
                    return Err(broke(error));
                }
                exchange.await
            }
        }
    }

    /// Connects, and says how that went.
    async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>, Failure> {
        let away =
            |what: String, hint: &str| Failure::new(Kind::Unreachable, url.to_string(), what).hint(hint);
        let tcp = match tokio::time::timeout(limits::CONNECT_WITHIN, TcpStream::connect(url.address())).await
        {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                let what = format!("nothing is listening on {}:{}", url.host, url.port);
                return Err(away(what, "start the server, or mend the address in the `use:` line"));
            }
            Ok(Err(error)) => {
                let what = format!("cannot be reached: {error}");
                return Err(away(what, "check the address and the network"));
            }
            Err(_) => {
                let what = format!("no connection within {} s", limits::CONNECT_WITHIN.as_secs());
                return Err(away(what, "check the address and the network"));
            }
        };
        tcp.set_nodelay(true).map_err(|error| away(error.to_string(), "try again"))?;
        if !url.secure {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(url.host.clone())
            .map_err(|_| away("is no name that a certificate could bear".into(), "mend the address"))?;
        let tls = self.tls()?;
        let stream = tls.connect(name, tcp).await.map_err(|error| {
            let hint = "for an authority of your own, name its PEM file in SSL_CERT_FILE";
            away(format!("its certificate or its TLS is not accepted: {error}"), hint)
        })?;
        Ok(Box::new(stream))
    }

    /// Connects and hangs up: whether somebody is there.
    pub(crate) async fn reach(&self, url: &Url) -> Result<(), Failure> {
        self.connect(url).await.map(drop)
    }

    fn tls(&self) -> Result<TlsConnector, Failure> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls.clone());
        }
        let mut roots = RootCertStore::empty();
        // What cannot be read of the machine's store is not trusted, which is the safe side.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::new(Kind::Misdeclared, "TLS", format!("cannot be used: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(self.tls.get_or_init(|| TlsConnector::from(Arc::new(config))).clone())
    }
}

fn request(url: &Url, mut headers: HeaderMap, body: Vec<u8>) -> Result<Request<Full<Bytes>>, Failure> {
    let wrong = |what: String| Failure::new(Kind::Misdeclared, url.to_string(), what);
    let host = HeaderValue::try_from(url.authority()).map_err(|_| wrong("is no address".into()))?;
    headers.insert(HOST, host);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("quorate/", env!("CARGO_PKG_VERSION"))));
    let mut request = Request::post(url.target.as_str())
        .body(Full::from(body))
        .map_err(|error| wrong(format!("cannot be asked: {error}")))?;
    *request.headers_mut() = headers;
    Ok(request)
}

async fn read(
    url: &Url,
    response: Response<hyper::body::Incoming>,
    bytes_max: usize,
) -> Result<Answer, Failure> {
    let status = response.status();
    let headers = response.headers();
    if status.is_redirection() {
        let to = headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
        let what = format!("answers {} and sends us to {}", status.as_u16(), quote(to));
        return Err(Failure::new(Kind::Refused, url.to_string(), what)
            .hint("redirects are not followed; if you trust that address, write it in the `use:` line"));
    }
    let retry_after = retry_after(headers);
    let body = Limited::new(response.into_body(), bytes_max).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            let what = format!("answers more than the {bytes_max} bytes that are read");
            Failure::new(Kind::TooLong, url.to_string(), what).hint("have it answer more briefly")
        } else {
            let what = format!("the answer broke off: {error}");
            Failure::new(Kind::Broken, url.to_string(), what).hint("try again; look at the server's own log")
        }
    })?;
    Ok(Answer { status: status.as_u16(), retry_after, body: body.to_bytes() })
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
