//! Validates `Host` and `Origin` before authentication: the request must be addressed to this hub and
//! must not come from a web page of another origin. Protects a hub on localhost from DNS rebinding and cross-site
//! requests.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{HeaderMap, Uri, header};
use quorate_core::{Code, Refused};

use crate::app::App;
use crate::listen::Connection;

/// Refuses a request that is addressed to another host or comes from another origin.
pub(crate) fn check_host_and_origin(app: &App, request: &Request) -> Result<(), Refused> {
    let is_tls = request.extensions().get::<Connection>().is_some_and(Connection::is_tls);
    check_headers(request.headers(), request.uri(), &app.settings().hosts, is_tls)?;
    check_path(request.uri().path())
}

fn check_headers(headers: &HeaderMap, uri: &Uri, hosts: &[String], is_tls: bool) -> Result<(), Refused> {
    if headers.get_all(header::HOST).iter().count() > 1 || headers.get_all(header::ORIGIN).iter().count() > 1
    {
        return Err(Refused::new(Code::Invalid, "the request has more than one Host or Origin header"));
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // The authority of an absolute request target must match the header.
    if !is_own_host(host, hosts) || uri.authority().is_some_and(|authority| authority.as_str() != host) {
        return Err(Refused::new(Code::Forbidden, format!("unknown host {host:?}"))
            .hint("use the address of the hub, or add the host name to its configuration"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    // Same origin: host and port match. If the hub itself does not use TLS, an https origin is accepted as well: a
    // proxy in front of the hub may terminate TLS.
    if let Some((scheme, authority)) = origin
        && authority == host
        && (scheme == "https" || scheme == "http" && !is_tls)
    {
        return Ok(());
    }
    Err(Refused::new(Code::Forbidden, "cross-origin requests are not allowed")
        .hint("use the web UI served by this hub, or a client outside the browser"))
}

/// Checks that the percent-decoded path is valid UTF-8.
fn check_path(path: &str) -> Result<(), Refused> {
    let mut rest = path.as_bytes();
    let mut plain = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let escaped = digits.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    match std::str::from_utf8(&plain) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refused::new(Code::Invalid, format!("the path is not valid UTF-8: {error}"))
            .hint("percent-encode names as UTF-8: /v1/agents/ren%C3%A9")),
    }
}

fn is_own_host(host: &str, hosts: &[String]) -> bool {
    let Some(name) = parse_host(host) else { return false };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Returns the name or address in `NAME`, `NAME:PORT`, `[IPV6]` or `[IPV6]:PORT`; `None` for anything else.
fn parse_host(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        // An IPv6 address without brackets has more than one colon, so that its rest is not a port.
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    // `u16::from_str` accepts a leading `+`.
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    port.is_none_or(is_port).then_some(name)
}

#[cfg(test)]
mod tests {
    // Fails under: path segments that are decoded before the whole path is known to be UTF-8.
    #[test]
    fn i21_a_path_is_utf8() {
        for path in ["/v1/agents/bob", "/v1/agents/ren%C3%A9", "/v1/%zz%", "/a%2Fb%3e"] {
            assert!(super::check_path(path).is_ok(), "{path}");
        }
        for path in ["/v1/agents/%92", "/v1/%C3", "/%C3/%A9", "/%ff%fe"] {
            assert_eq!(super::check_path(path).unwrap_err().code, quorate_core::Code::Invalid, "{path}");
        }
    }

    use axum::http::{HeaderMap, HeaderValue, Uri, header};

    use super::{check_headers, is_own_host};

    fn headers(host: &'static str, origin: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
        headers
    }

    #[test]
    fn only_hosts_of_this_hub_are_accepted() {
        for host in ["localhost", "LOCALHOST:7867", "127.0.0.1:1", "127.8.9.1", "[::1]:7867", "[::1]"] {
            assert!(is_own_host(host, &[]), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "10.0.0.1", "::1:80"]
        {
            assert!(!is_own_host(host, &[]), "{host}");
        }
        assert!(is_own_host("hub.example:443", &["hub.example".into()]));
    }

    // Fails under: text after the closing bracket or in place of the port that is ignored.
    #[test]
    fn i19_host_is_a_name_and_an_optional_port() {
        for host in ["localhost:0", "localhost:65535", "[0:0:0:0:0:0:0:1]:80"] {
            assert!(is_own_host(host, &[]), "{host}");
        }
        let invalid = [
            "[::1]evil",
            "[::1]evil.example:80",
            "[::1]:evil",
            "[::1]:",
            "[::1",
            "[127.0.0.1]",
            "[localhost]",
            "localhost:evil",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "localhost:80@evil.example",
            "evil@localhost",
            "localhost ",
        ];
        for host in invalid {
            assert!(!is_own_host(host, &["localhost".into(), "::1".into()]), "{host}");
        }
    }

    #[test]
    fn only_same_origin_pages_are_accepted() {
        let is_allowed =
            |host, origin| check_headers(&headers(host, origin), &Uri::from_static("/"), &[], false).is_ok();
        assert!(is_allowed("127.0.0.1:7867", None));
        assert!(is_allowed("127.0.0.1:7867", Some("http://127.0.0.1:7867")));
        assert!(!is_allowed("127.0.0.1:7867", Some("http://127.0.0.1:8080")));
        assert!(!is_allowed("127.0.0.1:7867", Some("https://evil.example")));
        assert!(!is_allowed("127.0.0.1:7867", Some("null")));
        assert!(!is_allowed("127.0.0.1:7867", Some("file://127.0.0.1:7867")));
        assert!(
            is_allowed("127.0.0.1:7867", Some("https://127.0.0.1:7867")),
            "a proxy in front may terminate TLS"
        );
    }

    #[test]
    fn an_http_origin_is_refused_by_a_tls_hub() {
        let is_allowed = |origin| {
            check_headers(&headers("localhost", Some(origin)), &Uri::from_static("/"), &[], true).is_ok()
        };
        assert!(is_allowed("https://localhost"));
        assert!(!is_allowed("http://localhost"));
    }

    #[test]
    fn host_header_and_request_target_must_agree() {
        let mut own = headers("localhost", None);
        let is_allowed =
            |headers: &HeaderMap, uri| check_headers(headers, &Uri::from_static(uri), &[], false).is_ok();
        assert!(is_allowed(&own, "http://localhost/v1/info"));
        assert!(!is_allowed(&own, "http://evil.example/v1/info"));
        own.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!is_allowed(&own, "/v1/info"));
    }
}
