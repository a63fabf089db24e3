//! What every request goes through before anybody looks at its token: it must be meant for this hub (`Host`), and must
//! not come from a page that somebody else serves (`Origin`). Both keep a browser from being used against a hub on
//! the same machine.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use quorate_core::{Code, Refused};

use crate::app::App;
use crate::problem::Problem;

pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    match of_headers(request.headers(), &app.settings().hosts) {
        Ok(()) => next.run(request).await,
        Err(refused) => Problem::from(refused).into_response(),
    }
}

fn of_headers(headers: &HeaderMap, hosts: &[String]) -> Result<(), Refused> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_ours(host, hosts) {
        return Err(Refused::new(Code::Forbidden, format!("this hub is not called {host:?}"))
            .hint("call it by its address, or name the host when the hub is started"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
    // A page may talk to the hub that served it: same name, same port.
    if authority == Some(host) {
        return Ok(());
    }
    Err(Refused::new(Code::Forbidden, "a page of another origin may not talk to this hub")
        .hint("open the page that this hub serves, or call from a program"))
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
    use axum::http::{HeaderMap, HeaderValue, header};

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
        let of = |host, origin| of_headers(&headers(host, origin), &[]).is_ok();
        assert!(of("127.0.0.1:7867", None));
        assert!(of("127.0.0.1:7867", Some("http://127.0.0.1:7867")));
        assert!(!of("127.0.0.1:7867", Some("http://127.0.0.1:8080")));
        assert!(!of("127.0.0.1:7867", Some("https://evil.example")));
        assert!(!of("127.0.0.1:7867", Some("null")));
    }
}
