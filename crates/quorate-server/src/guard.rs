//! What every request goes through before anybody looks at its token: it must be meant for this hub (`Host`), and must
//! not come from a page that somebody else serves (`Origin`). Both keep a browser from being used against a hub on
//! the same machine.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use quorate_core::{Code, Refused};

use crate::app::App;
use crate::listen::Life;
use crate::problem::Problem;

pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_tls = request.extensions().get::<Life>().is_some_and(|life| life.is_tls);
    let meant = of_headers(request.headers(), request.uri(), &app.settings().hosts, is_tls);
    match meant.and_then(|()| of_path(request.uri().path())) {
        Ok(()) => next.run(request).await,
        Err(refused) => Problem::from(refused).into_response(),
    }
}

fn of_headers(headers: &HeaderMap, uri: &Uri, hosts: &[String], is_tls: bool) -> Result<(), Refused> {
    if headers.get_all(header::HOST).iter().count() > 1 || headers.get_all(header::ORIGIN).iter().count() > 1
    {
        return Err(Refused::new(Code::Invalid, "the request names its host or its origin twice"));
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // An address written out in full says the same thing as the header, or something is wrong.
    if !is_ours(host, hosts) || uri.authority().is_some_and(|authority| authority.as_str() != host) {
        return Err(Refused::new(Code::Forbidden, format!("this hub is not called {host:?}"))
            .hint("call it by its address, or name the host when the hub is started"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    // A page may talk to the hub that served it: same name, same port, and as safely. Without TLS here there may be a
    // proxy before us that has it.
    if let Some((scheme, authority)) = origin
        && authority == host
        && (scheme == "https" || scheme == "http" && !is_tls)
    {
        return Ok(());
    }
    Err(Refused::new(Code::Forbidden, "a page of another origin may not talk to this hub")
        .hint("open the page that this hub serves, or call from a program"))
}

/// What is escaped in a path must be text: names are.
fn of_path(path: &str) -> Result<(), Refused> {
    let mut rest = path.as_bytes();
    let mut plain = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let escaped = digits.filter(|_| *byte == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        plain.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    match std::str::from_utf8(&plain) {
        Ok(_) => Ok(()),
        Err(wrong) => Err(Refused::new(Code::Invalid, format!("the path is no text: {wrong}"))
            .hint("write names in UTF-8, and escape its bytes: /v1/agents/ren%C3%A9")),
    }
}

fn is_ours(host: &str, hosts: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        // An address with colons stands in brackets.
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        || hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    // Fails under: a path that is taken apart before anybody looked whether it is text.
    #[test]
    fn i21_a_path_is_text() {
        for good in ["/v1/agents/bob", "/v1/agents/ren%C3%A9", "/v1/%zz%", "/a%2Fb%3e"] {
            assert!(super::of_path(good).is_ok(), "{good}");
        }
        for bad in ["/v1/agents/%92", "/v1/%C3", "/%C3/%A9", "/%ff%fe"] {
            assert_eq!(super::of_path(bad).unwrap_err().code, quorate_core::Code::Invalid, "{bad}");
        }
    }

    use axum::http::{HeaderMap, HeaderValue, Uri, header};

    use super::{is_ours, of_headers};

    fn headers(host: &'static str, origin: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        origin.map(|origin| headers.insert(header::ORIGIN, HeaderValue::from_static(origin)));
        headers
    }

    #[test]
    fn only_names_of_this_hub_are_answered() {
        for host in ["localhost", "LOCALHOST:7867", "127.0.0.1:1", "127.8.9.1", "[::1]:7867", "[::1]"] {
            assert!(is_ours(host, &[]), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "10.0.0.1", "::1:80"]
        {
            assert!(!is_ours(host, &[]), "{host}");
        }
        assert!(is_ours("hub.example:443", &["hub.example".into()]));
    }

    #[test]
    fn only_pages_of_this_hub_are_answered() {
        let of =
            |host, origin| of_headers(&headers(host, origin), &Uri::from_static("/"), &[], false).is_ok();
        assert!(of("127.0.0.1:7867", None));
        assert!(of("127.0.0.1:7867", Some("http://127.0.0.1:7867")));
        assert!(!of("127.0.0.1:7867", Some("http://127.0.0.1:8080")));
        assert!(!of("127.0.0.1:7867", Some("https://evil.example")));
        assert!(!of("127.0.0.1:7867", Some("null")));
        assert!(!of("127.0.0.1:7867", Some("file://127.0.0.1:7867")));
        assert!(of("127.0.0.1:7867", Some("https://127.0.0.1:7867")), "a proxy before us may encrypt");
    }

    #[test]
    fn a_page_that_was_not_encrypted_does_not_talk_to_a_hub_that_is() {
        let of = |origin| {
            of_headers(&headers("localhost", Some(origin)), &Uri::from_static("/"), &[], true).is_ok()
        };
        assert!(of("https://localhost"));
        assert!(!of("http://localhost"));
    }

    #[test]
    fn a_host_is_named_once_and_in_one_way() {
        let mut twice = headers("localhost", None);
        let of = |headers: &HeaderMap, uri| of_headers(headers, &Uri::from_static(uri), &[], false).is_ok();
        assert!(of(&twice, "http://localhost/v1/info"));
        assert!(!of(&twice, "http://evil.example/v1/info"));
        twice.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!of(&twice, "/v1/info"));
    }
}
