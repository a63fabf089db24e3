//! Addresses of hubs, such as `http://127.0.0.1:7867` or `https://hub.example`.

use std::net::IpAddr;

use hyper::Uri;
use quorate::{Code, Refused};

/// Address of a hub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) secure: bool,
    /// DNS name or IP address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Parses a URL. `allow_unencrypted` allows sending tokens unencrypted to other machines.
    pub(crate) fn parse(url: &str, allow_unencrypted: bool) -> Result<Self, Refused> {
        let invalid = |reason: &str| {
            Refused::new(Code::Invalid, format!("invalid hub URL {url:?}: {reason}"))
                .hint("use a URL such as http://127.0.0.1:7867 or https://hub.example")
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("the scheme is missing"))?;
        let secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(invalid("the scheme must be http or https")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
            return Err(invalid("only a host and a port are allowed after the scheme"));
        }
        let (host, port) = split(authority).map_err(invalid)?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let address = Self { secure, host: host.to_owned(), port };
        if !secure && !allow_unencrypted && !address.is_loopback() {
            return Err(Refused::new(
                Code::Invalid,
                format!("the token would travel unencrypted to {authority}, which is not this machine"),
            )
            .hint("use https, or set HttpOptions::allow_unencrypted"));
        }
        Ok(address)
    }

    fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Returns host and port in the format of a `Host` header.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns the URI of a path and query.
    pub(crate) fn uri(&self, target: &str) -> Result<Uri, Refused> {
        let uri = quorate_http::absolute_uri(self.secure, &self.authority(), target);
        uri.parse().map_err(|_| Refused::new(Code::Invalid, format!("invalid path {target:?}")))
    }

    /// Returns the URL for messages and logs.
    pub(crate) fn url(&self) -> String {
        quorate_http::absolute_uri(self.secure, &self.authority(), "")
    }
}

/// Splits an authority into host and port.
fn split(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the closing ] of the IPv6 address is missing")?;
            match after.strip_prefix(':') {
                None if !after.is_empty() => return Err("expected : and a port after ]"),
                port => (host, port),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = port.map(str::parse).transpose().map_err(|_| "the port must be a number from 0 to 65535")?;
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn urls_are_parsed() {
        let parse = |url| Address::parse(url, false).map(|address| address.url());
        assert_eq!(parse("http://127.0.0.1:7867").as_deref(), Ok("http://127.0.0.1:7867"));
        assert_eq!(parse("http://[::1]:7867/").as_deref(), Ok("http://[::1]:7867"));
        assert_eq!(parse("http://localhost").as_deref(), Ok("http://localhost:80"));
        assert_eq!(parse("https://hub.example").as_deref(), Ok("https://hub.example:443"));
        for invalid in
            ["", "hub", "ftp://hub", "http://", "http://a:b", "http://u@127.0.0.1", "http://127.0.0.1/v1"]
        {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }

    // Fails under: an error in the host reported as an error of the port; a port after `]` without a colon that is
    // ignored.
    #[test]
    fn an_invalid_host_or_port_is_named() {
        for (url, reason) in [
            ("http://[::1:7867", "the closing ] of the IPv6 address is missing"),
            ("http://[::1]7867", "expected : and a port after ]"),
            ("http://:80", "the host is missing"),
            ("http://[]:80", "the host is missing"),
            ("http://localhost:70000", "the port must be a number from 0 to 65535"),
            ("http://[::1]:", "the port must be a number from 0 to 65535"),
        ] {
            let refused = Address::parse(url, false).expect_err(url);
            assert!(refused.detail.ends_with(reason), "{refused}");
        }
    }

    #[test]
    fn i18_unencrypted_connections_to_other_machines_are_refused_by_default() {
        let refused = Address::parse("http://hub.example", false).expect_err("refused");
        assert!(refused.detail.contains("unencrypted"), "{refused}");
        assert!(Address::parse("http://hub.example", true).is_ok());
        assert!(Address::parse("https://hub.example", false).is_ok());
    }
}
