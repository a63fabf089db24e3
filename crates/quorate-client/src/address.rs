//! Where a hub is: `http://127.0.0.1:7867`, `https://hub.example`.

use std::net::IpAddr;

use hyper::Uri;
use quorate::{Code, Refused};

/// Where a hub is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) secure: bool,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads an address. `plain_anywhere` lets tokens travel unencrypted to other machines.
    pub(crate) fn parse(url: &str, plain_anywhere: bool) -> Result<Self, Refused> {
        let wrong = |why: &str| {
            Refused::new(Code::Invalid, format!("{url:?} is no address of a hub: {why}"))
                .hint("write it like http://127.0.0.1:7867 or https://hub.example")
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no http:// or https://"))?;
        let secure = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong("it begins neither with http:// nor with https://")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
            return Err(wrong("only a host and a port may follow"));
        }
        let (host, port) = split(authority).ok_or_else(|| wrong("the port is no number"))?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let address = Self { secure, host: host.to_owned(), port };
        if !secure && !plain_anywhere && !address.is_loopback() {
            return Err(Refused::new(
                Code::Invalid,
                format!("the token would travel unencrypted to {authority}, which is not this machine"),
            )
            .hint("use https, or allow it explicitly"));
        }
        Ok(address)
    }

    fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Host and port, as they stand in a `Host` header.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The address of a path and query.
    pub(crate) fn uri(&self, target: &str) -> Result<Uri, Refused> {
        let whole = quorate_http::absolute(self.secure, &self.authority(), target);
        whole.parse().map_err(|_| Refused::new(Code::Invalid, format!("{target:?} is no path of a hub")))
    }

    /// The whole address, for people.
    pub(crate) fn url(&self) -> String {
        quorate_http::absolute(self.secure, &self.authority(), "")
    }
}

fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    Some((host, port.map(str::parse).transpose().ok()?))
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_read() {
        let of = |url| Address::parse(url, false).map(|address| address.url());
        assert_eq!(of("http://127.0.0.1:7867").as_deref(), Ok("http://127.0.0.1:7867"));
        assert_eq!(of("http://[::1]:7867/").as_deref(), Ok("http://[::1]:7867"));
        assert_eq!(of("http://localhost").as_deref(), Ok("http://localhost:80"));
        assert_eq!(of("https://hub.example").as_deref(), Ok("https://hub.example:443"));
        for wrong in
            ["", "hub", "ftp://hub", "http://", "http://a:b", "http://u@127.0.0.1", "http://127.0.0.1/v1"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn i18_a_token_does_not_travel_unencrypted_unless_that_is_allowed() {
        let refused = Address::parse("http://hub.example", false).expect_err("refused");
        assert!(refused.detail.contains("unencrypted"), "{refused}");
        assert!(Address::parse("http://hub.example", true).is_ok());
        assert!(Address::parse("https://hub.example", false).is_ok());
    }
}
