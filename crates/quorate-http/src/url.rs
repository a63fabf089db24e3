//! Addresses: what is called, and how it is shown.

use std::fmt;

use hyper::Uri;
use quorate_core::{Code, Refused};

/// An `http://` or `https://` address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Whether it is https.
    pub secure: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port, named or not.
    pub port: u16,
    /// Path and query; at least `/`.
    pub target: String,
}

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// `INVALID`, with what is wrong. An address with a password in it is refused: it would end in logs.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let invalid = |what: &str, hint: &str| {
            // The text may hold a password: only what stands behind it is repeated.
            let shown = text.rsplit('@').next().unwrap_or_default();
            Refused::new(Code::Invalid, format!("`{shown}` {what}")).hint(hint)
        };
        let example = "write it in full, as in `http://localhost:8080/v1`";
        let secure = match text.split_once("://").map(|(scheme, _)| scheme) {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid("is no http address", example)),
        };
        let uri: Uri = text.parse().map_err(|_| invalid("is no address", example))?;
        let authority = uri.authority().ok_or_else(|| invalid("names no host", example))?;
        if authority.as_str().contains('@') {
            return Err(invalid(
                "comes with a user or a password",
                "leave it out; `key_env:` names a variable with the key",
            ));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || authority.as_str().ends_with(':') {
            return Err(invalid("names no host or no port", example));
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let target = uri.path_and_query().map_or("/", |both| both.as_str()).to_owned();
        Ok(Self { secure, host, port, target })
    }

    /// The address of something below this one.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let target = format!("{}{path}", self.target.trim_end_matches('/'));
        Self { target, ..self.clone() }
    }

    /// Whether what is sent there stays on this machine.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Host and port, without the port that the scheme has anyway.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

impl Url {
    /// The whole address, as a request wants it. Not for people: a query may hold a key.
    #[must_use]
    pub fn absolute(&self) -> String {
        crate::absolute(self.secure, &self.authority(), &self.target)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        // A query may hold a key: people see the path alone.
        let path = self.target.split('?').next().unwrap_or_default();
        let path = if path == "/" { "" } else { path };
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}
