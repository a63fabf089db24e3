//! HTTP client for the API of a hub, with bounded time and size. Problem responses become library errors.

mod response_lines;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response};
use quorate::{Clock, Code, Error, Refused, RemoteError, SystemClock};
use quorate_env::sleep;
use quorate_http::{CallLimits, Client, TrustRoots};
use serde::de::DeserializeOwned;

pub use response_lines::ResponseLines;

use crate::address::Address;
use crate::connect::{HubConnector, connect_error};
use crate::problem;

/// Options of the HTTP client.
#[derive(Clone)]
pub struct HttpOptions {
    /// Default timeout of a call.
    pub timeout: Duration,
    /// Timeout for opening a connection.
    pub connect_timeout: Duration,
    /// Maximum size of a response body, in bytes.
    pub response_bytes_max: usize,
    /// Maximum number of open connections. Further calls wait.
    pub connections_max: usize,
    /// For https: PEM file with the CA that signed the hub's certificate. Replaces the system's root certificates.
    pub ca_file: Option<PathBuf>,
    /// Allows sending tokens unencrypted to other machines.
    pub allow_unencrypted: bool,
    /// Space to act in, for admins. Defaults to the space of the token.
    pub space: Option<String>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            response_bytes_max: 64 << 20,
            connections_max: 8,
            ca_file: None,
            allow_unencrypted: false,
            space: None,
            clock: SystemClock::new(),
        }
    }
}

/// HTTP client for a hub. Cheap to clone.
#[derive(Clone)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    address: Address,
    clock: Arc<dyn Clock>,
    client: Client,
    headers: HeaderMap,
    timeout: Duration,
    response_bytes_max: usize,
}

impl HttpClient {
    /// Creates a client for a hub URL and an access token. Sends nothing yet.
    ///
    /// # Errors
    /// Returns `INVALID` for an invalid URL, token, space or CA file.
    pub fn new(url: &str, token: &str, options: HttpOptions) -> Result<Self, Error> {
        let address = Address::parse(url, options.allow_unencrypted)?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer(token)?);
        headers.insert(HOST, header_value("the host", &address.authority())?);
        if let Some(space) = &options.space {
            headers.insert(HeaderName::from_static("quorate-space"), header_value("the space", space)?);
        }
        let client = Client::new(quorate_http::ClientOptions {
            connect_timeout: options.connect_timeout,
            calls_max: options.connections_max,
            idle_max: options.connections_max,
            // Shorter than the hub's own keep-alive timeout.
            idle_timeout: Duration::from_secs(5),
            trust: trust(&address, options.ca_file.as_deref())?,
        });
        let HttpOptions { clock, timeout, response_bytes_max, .. } = options;
        Ok(Self { inner: Arc::new(Inner { address, clock, client, headers, timeout, response_bytes_max }) })
    }

    /// Returns a client for the same hub with another token.
    ///
    /// # Errors
    /// Returns `INVALID` for an invalid token.
    pub fn with_token(&self, token: &str) -> Result<Self, Error> {
        let mut inner = Inner::clone(&self.inner);
        inner.headers.insert(AUTHORIZATION, bearer(token)?);
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn connector(&self) -> HubConnector {
        let Inner { address, client, .. } = &*self.inner;
        HubConnector { address: address.clone(), connector: client.connector().clone() }
    }

    /// Returns the URL of the hub.
    #[must_use]
    pub fn url(&self) -> String {
        self.inner.address.url()
    }

    /// Starts a GET request for a path such as `/v1/agents`.
    pub fn get(&self, path: &str) -> HttpRequest {
        self.request(Method::GET, path)
    }

    /// Starts a POST request.
    pub fn post(&self, path: &str) -> HttpRequest {
        self.request(Method::POST, path)
    }

    /// Starts a PUT request.
    pub fn put(&self, path: &str) -> HttpRequest {
        self.request(Method::PUT, path)
    }

    /// Starts a DELETE request.
    pub fn delete(&self, path: &str) -> HttpRequest {
        self.request(Method::DELETE, path)
    }

    fn request(&self, method: Method, path: &str) -> HttpRequest {
        HttpRequest {
            http: self.clone(),
            // GET requests are idempotent; other methods become idempotent with a key.
            repeatable: method == Method::GET,
            method,
            target: path.to_owned(),
            headers: Ok(self.inner.headers.clone()),
            body: Bytes::new(),
            timeout: self.inner.timeout,
        }
    }
}

/// Builder for a request.
#[must_use = "nothing is sent until `send` or `lines` is called"]
pub struct HttpRequest {
    http: HttpClient,
    method: Method,
    target: String,
    headers: Result<HeaderMap, Refused>,
    body: Bytes,
    timeout: Duration,
    repeatable: bool,
}

impl HttpRequest {
    /// Adds a query parameter.
    pub fn query(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(&percent_encode(name));
        self.target.push('=');
        self.target.push_str(&percent_encode(&value.to_string()));
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let header_name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Refused::new(Code::Invalid, format!("invalid header name {name:?}")));
        let header = header_name.and_then(|header_name| Ok((header_name, header_value(name, value)?)));
        match (&mut self.headers, header) {
            (Ok(headers), Ok((name, value))) => drop(headers.insert(name, value)),
            (Ok(_), Err(refused)) => self.headers = Err(refused),
            (Err(_), _) => {}
        }
        self
    }

    /// Sets the idempotency key. Repeated with the same key, the call takes effect once and returns the same
    /// response.
    pub fn idempotency_key(mut self, key: &str) -> Self {
        self.repeatable = true;
        self.header("idempotency-key", key)
    }

    /// Sets a JSON body, sent as is.
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        self.body("application/json", body)
    }

    /// Sets the body and its content type.
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header(CONTENT_TYPE.as_str(), content_type)
    }

    /// Sets the timeout of the call. If the call asks the hub to wait, add that time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the request.
    ///
    /// A connection that the hub closed before it received the request is replaced transparently. An idempotent
    /// request (GET, or with a key) is retried once if the connection is lost.
    ///
    /// # Errors
    /// Returns the error of the hub as a library error, or `UNAVAILABLE` if the hub cannot be reached or does not
    /// respond. [`Error::nothing_applied`] is `false` if the request may have taken effect.
    pub async fn send(self) -> Result<HttpResponse, Error> {
        let inner = Arc::clone(&self.http.inner);
        let (timeout, may_have_effect) = (self.timeout, self.method != Method::GET);
        tokio::select! {
            response = self.exchange() => response,
            () = sleep(&*inner.clock, timeout) => {
                Err(inner.call_error(quorate_http::Error::TimedOut(timeout), may_have_effect))
            }
        }
    }

    async fn exchange(self) -> Result<HttpResponse, Error> {
        let (inner, may_have_effect) = (Arc::clone(&self.http.inner), self.method != Method::GET);
        let repeatable = self.repeatable;
        let request = self.build()?;
        let limits = CallLimits { timeout: self.timeout, bytes_max: inner.response_bytes_max };
        let mut result = inner.client.send(request.clone(), limits).await;
        if repeatable
            && let Err(quorate_http::Error::ConnectionLost(_) | quorate_http::Error::Incomplete(_)) = &result
        {
            result = inner.client.send(request, limits).await;
        }
        match result {
            Ok(response) => HttpResponse::from_response(response).error_for_status(&inner.address.url()),
            Err(error) => Err(inner.call_error(error, may_have_effect)),
        }
    }

    /// Sends the request on a connection of its own and streams the response line by line, for `/v1/events`.
    ///
    /// # Errors
    /// See [`HttpRequest::send`].
    pub async fn lines(self) -> Result<ResponseLines, Error> {
        let inner = Arc::clone(&self.http.inner);
        let request = self.build()?;
        let started = inner.client.stream(request, self.timeout).await;
        let response = started.map_err(|error| inner.call_error(error, self.method != Method::GET))?;
        if response.status().is_success() {
            return Ok(ResponseLines::new(response.into_body(), inner));
        }
        let response = quorate_http::read_body(response, inner.response_bytes_max).await;
        let response = HttpResponse::from_response(response.map_err(|error| inner.call_error(error, false))?);
        Err(problem::error_from_response(response.status, &response.body, &inner.address.url()))
    }

    fn build(&self) -> Result<hyper::Request<Full<Bytes>>, Error> {
        let uri = self.http.inner.address.uri(&self.target)?;
        let mut request = hyper::Request::builder().method(self.method.clone()).uri(uri);
        if let Some(headers) = request.headers_mut() {
            *headers = self.headers.clone()?;
        }
        let invalid = |_| Refused::new(Code::Invalid, format!("invalid path {:?}", self.target));
        Ok(request.body(Full::new(self.body.clone())).map_err(invalid)?)
    }
}

impl Inner {
    /// Converts the error of a call without a response.
    fn call_error(&self, error: quorate_http::Error, may_have_effect: bool) -> Error {
        match error {
            quorate_http::Error::Connect(error) => connect_error(&self.address, &error).into(),
            quorate_http::Error::Unsent(reason) => RemoteError {
                code: Code::Unavailable,
                detail: format!("the hub at {} closed the connection: {reason}", self.address.url()),
                hint: "check that the hub is running, then try again".to_owned(),
                nothing_applied: true,
            }
            .into(),
            quorate_http::Error::TooLarge(_) => RemoteError {
                code: Code::TooLarge,
                detail: error.to_string(),
                hint: "request fewer items, with a smaller `limit`".to_owned(),
                // The hub responded, so the call took effect; only the response was not read.
                nothing_applied: false,
            }
            .into(),
            quorate_http::Error::TimedOut(timeout) => {
                let reason = format!("no response within {} ms", timeout.as_millis());
                self.unavailable(&reason, may_have_effect)
            }
            quorate_http::Error::ConnectionLost(reason) => self.unavailable(&reason, may_have_effect),
            quorate_http::Error::Incomplete(_) => self.unavailable(&error.to_string(), may_have_effect),
        }
    }

    fn unavailable(&self, reason: &str, may_have_effect: bool) -> Error {
        let url = self.address.url();
        let hint = if may_have_effect {
            "the call may have taken effect: retry it with the same idempotency key"
        } else {
            "check that the hub is running, then try again"
        };
        RemoteError {
            code: Code::Unavailable,
            detail: format!("the hub at {url} is unavailable: {reason}"),
            hint: hint.to_owned(),
            nothing_applied: !may_have_effect,
        }
        .into()
    }
}

/// Successful response of a hub.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// Status code: 2xx or 3xx.
    pub status: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// Response body, unmodified.
    pub body: Bytes,
}

impl HttpResponse {
    fn from_response(response: Response<Bytes>) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// Deserializes the JSON body.
    ///
    /// # Errors
    /// Returns `UNAVAILABLE` if the body does not match the type, which means that the response is not from a hub of
    /// this version.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            RemoteError {
                code: Code::Unavailable,
                detail: format!("unexpected response body: {error}"),
                hint: "check the URL, and that the hub and this program have the same version".to_owned(),
                nothing_applied: false,
            }
            .into()
        })
    }

    /// Returns a header value, if it is present and valid text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn error_for_status(self, url: &str) -> Result<Self, Error> {
        if self.status < 400 {
            Ok(self)
        } else {
            Err(problem::error_from_response(self.status, &self.body, url))
        }
    }
}

/// Returns the trusted root certificates for an address.
#[cfg(feature = "tls")]
fn trust(address: &Address, ca_file: Option<&Path>) -> Result<TrustRoots, Refused> {
    let Some(file) = ca_file.filter(|_| address.secure) else { return Ok(TrustRoots::default()) };
    TrustRoots::from_pem_file(file).map_err(|reason| {
        let path = file.display();
        Refused::new(Code::Invalid, format!("failed to read the CA file {path}: {reason}"))
            .hint("pass a PEM file with the certificate of the CA that signed the hub's certificate")
    })
}

#[cfg(not(feature = "tls"))]
fn trust(address: &Address, _: Option<&Path>) -> Result<TrustRoots, Refused> {
    if address.secure {
        let refused = Refused::new(Code::Invalid, "this program was built without https support");
        return Err(refused.hint("enable the feature `tls` of quorate-client"));
    }
    Ok(TrustRoots::default())
}

fn bearer(token: &str) -> Result<HeaderValue, Refused> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| {
        Refused::new(Code::Invalid, "the token contains an invalid character")
            .hint("copy the token exactly as the hub returned it")
    })?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

fn header_value(name: &str, text: &str) -> Result<HeaderValue, Refused> {
    HeaderValue::from_str(text).map_err(|_| {
        Refused::new(Code::Invalid, format!("{name} contains a character that is not allowed in a header"))
    })
}

/// Percent-encodes text for a path segment or query. All bytes except ASCII letters, digits and `-._~` are encoded.
#[must_use]
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
