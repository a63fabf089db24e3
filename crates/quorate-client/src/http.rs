//! Calls of a hub's HTTP interface: bounded in time and size, problems as the library's errors.

mod lines;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response};
use quorate::{Clock, Code, Error, Refused, Remote, SystemClock};
use quorate_env::sleep;
use quorate_http::{Client, Limits, Trust};
use serde::de::DeserializeOwned;

pub use lines::Lines;

use crate::address::Address;
use crate::dial::{Dial, away};
use crate::problem;

/// How to call a hub.
#[derive(Clone)]
pub struct Options {
    /// How long a call may take in all, unless it says otherwise.
    pub within: Duration,
    /// How long making a connection may take.
    pub connect_within: Duration,
    /// How large an answer may be, in bytes.
    pub answer_bytes_max: usize,
    /// How many connections are open at a time; further calls wait for one.
    pub connections_max: usize,
    /// For https: a PEM file with the authority that signed the hub's certificate, instead of those of the machine.
    pub ca_file: Option<PathBuf>,
    /// Lets tokens travel unencrypted to other machines.
    pub plain_anywhere: bool,
    /// The space, for admins who act in another than that of their token.
    pub space: Option<String>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            within: Duration::from_secs(30),
            connect_within: Duration::from_secs(5),
            answer_bytes_max: 64 << 20,
            connections_max: 8,
            ca_file: None,
            plain_anywhere: false,
            space: None,
            clock: SystemClock::new(),
        }
    }
}

/// A hub's HTTP interface. Cheap to clone.
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    address: Address,
    clock: Arc<dyn Clock>,
    client: Client,
    headers: HeaderMap,
    within: Duration,
    answer_bytes_max: usize,
}

impl Http {
    /// A door to the hub at this address, for the bearer of this token. Nothing is sent yet.
    ///
    /// # Errors
    /// `INVALID` for an address or a token that cannot be one.
    pub fn new(url: &str, token: &str, options: Options) -> Result<Self, Error> {
        let address = Address::parse(url, options.plain_anywhere)?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer(token)?);
        headers.insert(HOST, header_value("the address", &address.authority())?);
        if let Some(space) = &options.space {
            headers.insert(HeaderName::from_static("quorate-space"), header_value("the space", space)?);
        }
        let client = Client::new(quorate_http::Options {
            connect_within: options.connect_within,
            calls_max: options.connections_max,
            idle_max: options.connections_max,
            // Less than a hub waits for the next request.
            idle_within: Duration::from_secs(5),
            trust: trust(&address, options.ca_file.as_deref())?,
        });
        let Options { clock, within, answer_bytes_max, .. } = options;
        Ok(Self { inner: Arc::new(Inner { address, clock, client, headers, within, answer_bytes_max }) })
    }

    /// The same door, for the bearer of another token.
    ///
    /// # Errors
    /// `INVALID` for what cannot be a token.
    pub fn bearing(&self, token: &str) -> Result<Self, Error> {
        let mut inner = Inner::clone(&self.inner);
        inner.headers.insert(AUTHORIZATION, bearer(token)?);
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn dial(&self) -> Dial {
        let Inner { address, client, .. } = &*self.inner;
        Dial { address: address.clone(), connector: client.connector().clone() }
    }

    /// The address of the hub.
    #[must_use]
    pub fn url(&self) -> String {
        self.inner.address.url()
    }

    /// A GET of a path like `/v1/agents`.
    pub fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
    }

    /// A POST.
    pub fn post(&self, path: &str) -> Request {
        self.request(Method::POST, path)
    }

    /// A PUT.
    pub fn put(&self, path: &str) -> Request {
        self.request(Method::PUT, path)
    }

    /// A DELETE.
    pub fn delete(&self, path: &str) -> Request {
        self.request(Method::DELETE, path)
    }

    fn request(&self, method: Method, path: &str) -> Request {
        Request {
            http: self.clone(),
            // What is safe to repeat by its method; a key makes the others so.
            repeatable: method == Method::GET,
            method,
            target: path.to_owned(),
            headers: Ok(self.inner.headers.clone()),
            body: Bytes::new(),
            within: self.inner.within,
        }
    }
}

/// A call that is about to be made.
#[must_use = "nothing is sent before `send` or `lines`"]
pub struct Request {
    http: Http,
    method: Method,
    target: String,
    headers: Result<HeaderMap, Refused>,
    body: Bytes,
    within: Duration,
    repeatable: bool,
}

impl Request {
    /// Adds `name=value` to the query.
    pub fn query(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(&segment(name));
        self.target.push('=');
        self.target.push_str(&segment(&value.to_string()));
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let named = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Refused::new(Code::Invalid, format!("{name:?} is no name of a header")));
        let header = named.and_then(|named| Ok((named, header_value(name, value)?)));
        match (&mut self.headers, header) {
            (Ok(headers), Ok((name, value))) => drop(headers.insert(name, value)),
            (Ok(_), Err(refused)) => self.headers = Err(refused),
            (Err(_), _) => {}
        }
        self
    }

    /// Under this idempotency key: repeated with it, the call has one effect and one answer.
    pub fn key(mut self, key: &str) -> Self {
        self.repeatable = true;
        self.header("idempotency-key", key)
    }

    /// A body of JSON, as it is to be sent.
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        self.body("application/json", body)
    }

    /// A body of some kind.
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header(CONTENT_TYPE.as_str(), content_type)
    }

    /// How long it may take in all. Whoever asks the hub to wait adds that time.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Makes the call. A connection that broke before the hub took the call is replaced without a word; what may be
    /// repeated (a GET, a call with a key) is repeated once.
    ///
    /// # Errors
    /// What the hub refused, as the library would say it; `UNAVAILABLE` if it cannot be reached or does not answer:
    /// [`Error::nothing_applied`] says whether the call may have had an effect.
    pub async fn send(self) -> Result<Answer, Error> {
        let inner = Arc::clone(&self.http.inner);
        let (within, may_have_effect) = (self.within, self.method != Method::GET);
        tokio::select! {
            answer = self.exchange() => answer,
            () = sleep(&*inner.clock, within) => {
                Err(inner.failed(quorate_http::Error::TimedOut(within), may_have_effect))
            }
        }
    }

    async fn exchange(self) -> Result<Answer, Error> {
        let (inner, may_have_effect) = (Arc::clone(&self.http.inner), self.method != Method::GET);
        let repeatable = self.repeatable;
        let request = self.build()?;
        let limits = Limits { within: self.within, bytes_max: inner.answer_bytes_max };
        let mut tried = inner.client.send(request.clone(), limits).await;
        if repeatable && let Err(quorate_http::Error::Broken(_) | quorate_http::Error::Incomplete(_)) = &tried
        {
            tried = inner.client.send(request, limits).await;
        }
        match tried {
            Ok(response) => Answer::of(response).or_problem(&inner.address.url()),
            Err(error) => Err(inner.failed(error, may_have_effect)),
        }
    }

    /// Makes the call on a connection of its own, and gives the answer line by line as it comes: for `/v1/events`.
    ///
    /// # Errors
    /// As [`Request::send`].
    pub async fn lines(self) -> Result<Lines, Error> {
        let inner = Arc::clone(&self.http.inner);
        let request = self.build()?;
        let begun = inner.client.stream(request, self.within).await;
        let response = begun.map_err(|error| inner.failed(error, self.method != Method::GET))?;
        if response.status().is_success() {
            return Ok(Lines::new(response.into_body(), inner));
        }
        let response = quorate_http::read(response, inner.answer_bytes_max).await;
        let answer = Answer::of(response.map_err(|error| inner.failed(error, false))?);
        Err(problem::of_answer(answer.status, &answer.body, &inner.address.url()))
    }

    fn build(&self) -> Result<hyper::Request<Full<Bytes>>, Error> {
        let uri = self.http.inner.address.uri(&self.target)?;
        let mut request = hyper::Request::builder().method(self.method.clone()).uri(uri);
        if let Some(headers) = request.headers_mut() {
            *headers = self.headers.clone()?;
        }
        let wrong = |_| Refused::new(Code::Invalid, format!("{:?} is no path of a hub", self.target));
        Ok(request.body(Full::new(self.body.clone())).map_err(wrong)?)
    }
}

impl Inner {
    /// A call that has no answer.
    fn failed(&self, error: quorate_http::Error, may_have_effect: bool) -> Error {
        match error {
            quorate_http::Error::Connect(error) => away(&self.address, &error).into(),
            quorate_http::Error::Unsent(why) => Remote {
                code: Code::Unavailable,
                detail: format!("the hub at {} closed the connection: {why}", self.address.url()),
                hint: "check that the hub runs, then try again".to_owned(),
                nothing_applied: true,
            }
            .into(),
            quorate_http::Error::TooLarge(_) => Remote {
                code: Code::TooLarge,
                detail: error.to_string(),
                hint: "ask for less at a time, with a limit".to_owned(),
                // The hub answered, so it did what was asked; only the answer was not read.
                nothing_applied: false,
            }
            .into(),
            quorate_http::Error::TimedOut(within) => {
                let why = format!("it did not answer within {} ms", within.as_millis());
                self.away(&why, may_have_effect)
            }
            quorate_http::Error::Broken(why) => self.away(&why, may_have_effect),
            quorate_http::Error::Incomplete(_) => self.away(&error.to_string(), may_have_effect),
        }
    }

    fn away(&self, why: &str, may_have_effect: bool) -> Error {
        let url = self.address.url();
        let hint = if may_have_effect {
            "whether it took effect is unknown: repeat the call with the same idempotency key"
        } else {
            "check that the hub runs, then try again"
        };
        Remote {
            code: Code::Unavailable,
            detail: format!("the hub at {url} is out of reach: {why}"),
            hint: hint.to_owned(),
            nothing_applied: !may_have_effect,
        }
        .into()
    }
}

/// An answer of a hub that is no problem.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status: 2xx, or 3xx.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
}

impl Answer {
    fn of(response: Response<Bytes>) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// The body, read as JSON.
    ///
    /// # Errors
    /// `UNAVAILABLE` if it is not of that shape: then it does not come from a hub of this release.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Remote {
                code: Code::Unavailable,
                detail: format!("the answer is not of the shape that was expected: {error}"),
                hint: "check the address, and that the hub is of the same release as this program".to_owned(),
                nothing_applied: false,
            }
            .into()
        })
    }

    /// A header, if it is there and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn or_problem(self, url: &str) -> Result<Self, Error> {
        if self.status < 400 { Ok(self) } else { Err(problem::of_answer(self.status, &self.body, url)) }
    }
}

/// Whose certificates are accepted for an address.
#[cfg(feature = "tls")]
fn trust(address: &Address, ca_file: Option<&Path>) -> Result<Trust, Refused> {
    let Some(file) = ca_file.filter(|_| address.secure) else { return Ok(Trust::default()) };
    Trust::file(file).map_err(|why| {
        let shown = file.display();
        Refused::new(Code::Invalid, format!("no certificate authority can be read from {shown}: {why}"))
            .hint("name a PEM file with the certificate that signed the hub's")
    })
}

#[cfg(not(feature = "tls"))]
fn trust(address: &Address, _: Option<&Path>) -> Result<Trust, Refused> {
    if address.secure {
        let refused = Refused::new(Code::Invalid, "this program was built without https");
        return Err(refused.hint("turn on the feature `tls` of quorate-client"));
    }
    Ok(Trust::default())
}

fn bearer(token: &str) -> Result<HeaderValue, Refused> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| {
        Refused::new(Code::Invalid, "the token holds a sign that no token has")
            .hint("take it from the file or the answer in which the hub gave it, as it stands there")
    })?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

fn header_value(what: &str, text: &str) -> Result<HeaderValue, Refused> {
    HeaderValue::from_str(text)
        .map_err(|_| Refused::new(Code::Invalid, format!("{what} holds a sign that no header may hold")))
}

/// A text as it stands in a path or a query: all but letters, digits and `-._~` as `%XX`.
#[must_use]
pub fn segment(text: &str) -> String {
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
