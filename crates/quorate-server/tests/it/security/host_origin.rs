//! Host × Origin × transport: every request must be addressed to this hub and not come from a foreign website.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::tls;
use crate::support::raw_http::{ByteStream, connect_plain};
use crate::support::socket;

/// Possible values of the `Origin` header.
const ORIGINS: [&str; 9] = [
    "",
    "http://HOST",
    "https://HOST",
    "http://HOST.evil.example",
    "http://evil.example",
    "https://evil.example",
    "http://127.0.0.1:1",
    "null",
    "file://HOST",
];

/// Returns the status of a request. `HOST` in the origin is replaced by the requested host.
async fn status(wire: &mut impl ByteStream, path: &str, host: &str, origin: &str, token: &str) -> u16 {
    let mut lines = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n");
    if !origin.is_empty() {
        lines += &format!("origin: {}\r\n", origin.replace("HOST", host));
    }
    if path == "/v1/ws" {
        lines += "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                  sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    }
    wire.write_all(format!("{lines}\r\n").as_bytes()).await.expect("it is sent");
    let mut line = [0; 12];
    wire.read_exact(&mut line).await.expect("an answer");
    String::from_utf8_lossy(&line[9..]).parse().expect("a status")
}

/// The rule, restated: a local host name, and an origin with the same host and scheme as the hub.
fn expected_status(host: &str, origin: &str, is_tls: bool, ok_status: u16) -> u16 {
    let is_own_host =
        host.starts_with("localhost:") || host.starts_with("127.0.0.1:") || host.starts_with("[::1]:");
    let is_own_origin = match origin {
        "" | "https://HOST" => true,
        "http://HOST" => !is_tls,
        _ => false,
    };
    if is_own_host && is_own_origin { ok_status } else { 403 }
}

fn hosts(port: u16) -> Vec<String> {
    let names = ["localhost", "127.0.0.1", "[::1]", "evil.example", "127.0.0.1.evil.example", "10.0.0.1"];
    names.iter().map(|name| format!("{name}:{port}")).chain([String::new()]).collect()
}

const PATHS: [(&str, u16); 4] = [("/v1/info", 200), ("/v1/events", 200), ("/v1/ws", 101), ("/healthz", 200)];

#[tokio::test]
async fn i19_host_origin_and_transport_without_tls() {
    let server = socket::TestServer::new().await;
    let address = server.address();
    for (path, ok_status) in PATHS {
        for host in hosts(address.port()) {
            for origin in ORIGINS {
                let mut stream = connect_plain(address).await;
                let actual = status(&mut stream, path, &host, origin, &server.hub.admin).await;
                assert_eq!(
                    actual,
                    expected_status(&host, origin, false, ok_status),
                    "{path} at {host:?} from {origin:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn i19_host_origin_and_transport_with_tls() {
    let server = tls::TlsServer::new().await;
    for (path, ok_status) in PATHS {
        for host in hosts(server.listening.address().port()) {
            for origin in ORIGINS {
                let mut stream = server.connect().await;
                let actual = status(&mut stream, path, &host, origin, &server.hub.admin).await;
                assert_eq!(
                    actual,
                    expected_status(&host, origin, true, ok_status),
                    "{path} at {host:?} from {origin:?}"
                );
            }
        }
    }
}
