//! Calls of a hub's HTTP interface: bounded in time and size, problems as the library's errors.

mod lines;
mod pool;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response};
use quorate::{Clock, Code, Error, Refused, Remote, SystemClock};
use serde::de::DeserializeOwned;

pub use lines::Lines;

use crate::address::Address;
use crate::dial::{Dial, passed};
use crate::problem;
use pool::Pool;

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

struct Inner {
    dial: Dial,
    pool: Arc<Pool>,
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
        let dial = Dial::new(address, options.ca_file, options.clock, options.connect_within)?;
        let pool = Arc::new(Pool::new(dial.clone(), options.connections_max));
        let (within, answer_bytes_max) = (options.within, options.answer_bytes_max);
        Ok(Self { inner: Arc::new(Inner { dial, pool, headers, within, answer_bytes_max }) })
    }

    /// The same door, for the bearer of another token.
    ///
    /// # Errors
    /// `INVALID` for what cannot be a token.
    pub fn bearing(&self, token: &str) -> Result<Self, Error> {
        let Inner { dial, pool, headers, within, answer_bytes_max } = &*self.inner;
        let (dial, pool, mut headers) = (dial.clone(), Arc::clone(pool), headers.clone());
        headers.insert(AUTHORIZATION, bearer(token)?);
        let (within, answer_bytes_max) = (*within, *answer_bytes_max);
        Ok(Self { inner: Arc::new(Inner { dial, pool, headers, within, answer_bytes_max }) })
    }

    pub(crate) fn dial(&self) -> Dial {
        self.inner.dial.clone()
    }

    /// The address of the hub.
    #[must_use]
    pub fn url(&self) -> String {
        self.inner.dial.address.url()
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
            () = passed(&*inner.dial.clock, within) => {
                let why = format!("it did not answer within {} ms", within.as_millis());
                Err(inner.away(&why, may_have_effect))
            }
        }
    }

    async fn exchange(self) -> Result<Answer, Error> {
        let (inner, may_have_effect) = (Arc::clone(&self.http.inner), self.method != Method::GET);
        let repeatable = self.repeatable;
        let request = self.build()?;
        let mut tried = self.once(request.clone()).await;
        if let Err(Broken::Midway(_)) = &tried
            && repeatable
        {
            tried = self.once(request).await;
        }
        match tried {
            Ok(answer) => answer.or_problem(&inner.dial.address.url()),
            Err(Broken::Before(error)) => Err(error),
            Err(Broken::Midway(why)) => Err(inner.away(&why, may_have_effect)),
        }
    }

    async fn once(&self, request: hyper::Request<Full<Bytes>>) -> Result<Answer, Broken> {
        let inner = &self.http.inner;
        let (response, connection) = inner.pool.send(request).await?;
        let answer = read(response, inner.answer_bytes_max).await?;
        // Only after the whole answer was read the connection is free for the next call.
        inner.pool.give_back(connection);
        Ok(answer)
    }

    /// Makes the call on a connection of its own, and gives the answer line by line as it comes: for `/v1/events`.
    ///
    /// # Errors
    /// As [`Request::send`].
    pub async fn lines(self) -> Result<Lines, Error> {
        let inner = Arc::clone(&self.http.inner);
        let request = self.build()?;
        let begun = tokio::select! {
            begun = inner.pool.send_alone(request) => begun,
            () = passed(&*inner.dial.clock, self.within) => {
                Err(Broken::Midway(format!("it did not answer within {} ms", self.within.as_millis())))
            }
        };
        let response = match begun {
            Ok(response) => response,
            Err(Broken::Before(error)) => return Err(error),
            Err(Broken::Midway(why)) => return Err(inner.away(&why, self.method != Method::GET)),
        };
        if response.status().is_success() {
            return Ok(Lines::new(response.into_body(), inner));
        }
        let answer = read(response, inner.answer_bytes_max).await;
        let answer = answer.map_err(|broken| match broken {
            Broken::Before(error) => error,
            Broken::Midway(why) => inner.away(&why, false),
        })?;
        Err(problem::of_answer(answer.status, &answer.body, &inner.dial.address.url()))
    }

    fn build(&self) -> Result<hyper::Request<Full<Bytes>>, Error> {
        let mut request = hyper::Request::builder().method(self.method.clone()).uri(&self.target);
        if let Some(headers) = request.headers_mut() {
            *headers = self.headers.clone()?;
        }
        let wrong = |_| Refused::new(Code::Invalid, format!("{:?} is no path of a hub", self.target));
        Ok(request.body(Full::new(self.body.clone())).map_err(wrong)?)
    }
}

/// How a call broke.
pub(crate) enum Broken {
    /// Before the hub could have taken it.
    Before(Error),
    /// When it may have taken it already.
    Midway(String),
}

impl Inner {
    fn away(&self, why: &str, may_have_effect: bool) -> Error {
        let url = self.dial.address.url();
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

async fn read(response: Response<Incoming>, max: usize) -> Result<Answer, Broken> {
    let (head, body) = response.into_parts();
    let body = match Limited::new(body, max).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let refused = Remote {
                code: Code::TooLarge,
                detail: format!("the answer is larger than {max} bytes"),
                hint: "ask for less at a time, with a limit".to_owned(),
                // The hub answered, so it did what was asked; only the answer was not read.
                nothing_applied: false,
            };
            return Err(Broken::Before(refused.into()));
        }
        Err(error) => return Err(Broken::Midway(format!("the answer broke off: {error}"))),
    };
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
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
