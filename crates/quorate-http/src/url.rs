//! URLs of servers: parsing and safe display.

use std::fmt;

use hyper::Uri;
use quorate_core::{Code, Refused};

/// An `http://` or `https://` URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// Whether it is https.
    pub secure: bool,
    /// Host name or IP address, without brackets.
    pub host: String,
    /// Port; the scheme's default if not given.
    pub port: u16,
    /// Path and query, at least `/`.
    pub target: String,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// `INVALID` if it is not a valid URL, or contains credentials: those would end up in logs.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let invalid = |problem: &str, hint: &str| {
            // The text may contain a password: only the part after it is displayed.
            let visible = text.rsplit('@').next().unwrap_or_default();
            Refused::new(Code::Invalid, format!("invalid URL `{visible}`: {problem}")).hint(hint)
        };
        let example = "use a complete URL such as `http://localhost:8080/v1`";
        let secure = match text.split_once("://").map(|(scheme, _)| scheme) {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid("it does not start with http:// or https://", example)),
        };
        let uri: Uri = text.parse().map_err(|_| invalid("it cannot be parsed", example))?;
        let authority = uri.authority().ok_or_else(|| invalid("the host is missing", example))?;
        if authority.as_str().contains('@') {
            return Err(invalid(
                "it contains a user name or password",
                "remove it; set `key_env:` to the environment variable that contains the key",
            ));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || authority.as_str().ends_with(':') {
            return Err(invalid("the host or port is missing", example));
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let target = uri.path_and_query().map_or("/", |path_and_query| path_and_query.as_str()).to_owned();
        Ok(Self { secure, host, port, target })
    }

    /// Returns this URL with a path appended.
    #[must_use]
    pub fn join(&self, path: &str) -> Self {
        let target = format!("{}{path}", self.target.trim_end_matches('/'));
        Self { target, ..self.clone() }
    }

    /// Whether the host is this machine (loopback).
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let ip = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    /// Host and port, without the scheme's default port.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default = if self.secure { 443 } else { 80 };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }
}

impl Url {
    /// The complete URL, for a request. Not for display: the query may contain a key.
    #[must_use]
    pub fn absolute(&self) -> String {
        crate::absolute_uri(self.secure, &self.authority(), &self.target)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        // Omits the query, which may contain a key.
        let path = self.target.split('?').next().unwrap_or_default();
        let path = if path == "/" { "" } else { path };
        write!(f, "{scheme}://{}{path}", self.authority())
    }
}
