//! A hub with TLS: trusted CAs, rejected certificates and their hints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate::{Code, Hub, Work};
use quorate_client::{ConnectOptions, Error, HttpClient, HttpOptions, connect_with};
use quorate_server::Tls;
use tempfile::TempDir;

use crate::support::{TestServer, certificate};

const SOON: Duration = Duration::from_secs(20);

async fn start_server(names: &[&str]) -> (TestServer, PathBuf, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = certificate(directory.path(), names);
    let server = TestServer::with(Some(Tls::load(&certificate, &key).expect("a certificate"))).await;
    (server, certificate, directory)
}

async fn connect(server: &TestServer, host: &str, ca_file: Option<&Path>) -> Result<Hub, Error> {
    let url = format!("https://{host}:{}", server.address().port());
    let http = HttpOptions { ca_file: ca_file.map(Path::to_owned), ..HttpOptions::default() };
    let options = ConnectOptions { http, retry_timeout: Duration::ZERO, ..ConnectOptions::default() };
    connect_with(&url, &server.admin, options).await
}

// Fails under: a WebSocket or an event stream that bypasses TLS; a certificate that is not verified.
#[tokio::test(flavor = "multi_thread")]
async fn d13_all_transports_use_tls() {
    let (server, certificate, _directory) = start_server(&["localhost"]).await;
    let hub = connect(&server, "localhost", Some(&certificate)).await.expect("it connects");
    let double = |work: Work<u64>| async move { Ok(work.payload * 2) };
    // Over a WebSocket, HTTP calls and the event stream.
    let bob = hub.agent("bob").on("double", double).run().await.expect("he runs");
    let alice = hub.agent("alice").join().await.expect("she joins");
    let reply = alice.ask("bob", "double", 21).timeout(SOON).await.expect("an answer");
    assert_eq!(reply.payload::<u64>().expect("a number"), 42);
    alice.memory().put("plan", "note", 1).await.expect("written");
    let mut watch = hub.memory().watch("", quorate::Seq(1));
    let change = tokio::time::timeout(SOON, watch.next()).await.expect("in time").expect("a change");
    assert_eq!(change.key.as_str(), "plan");
    bob.stop().await.expect("stopped");
    hub.close().await;
}

fn connect_error(connected: Result<Hub, Error>) -> Error {
    let error = connected.err().expect("it is not trusted");
    assert_eq!((error.code(), error.nothing_applied()), (Code::Unavailable, true), "{error}");
    error
}

// Fails under: a foreign certificate that is accepted; an error without a useful hint.
#[tokio::test(flavor = "multi_thread")]
async fn d13_a_wrong_certificate_is_rejected_with_a_hint() {
    let (server, certificate, _directory) = start_server(&["localhost"]).await;
    let unknown = connect_error(connect(&server, "localhost", None).await);
    assert!(unknown.to_string().contains("certificate is not accepted"), "{unknown}");
    assert!(
        unknown.hint().contains("--ca-file") && unknown.hint().contains("cert.pem"),
        "{}",
        unknown.hint()
    );
    let other_directory = tempfile::tempdir().expect("a directory");
    let (other, _) = crate::support::certificate(other_directory.path(), &["localhost"]);
    let forged = connect_error(connect(&server, "localhost", Some(&other)).await);
    assert!(forged.to_string().contains("certificate is not accepted"), "{forged}");
    let misnamed = connect_error(connect(&server, "127.0.0.1", Some(&certificate)).await);
    assert!(misnamed.hint().contains("--host"), "{misnamed}: {}", misnamed.hint());
    let missing = connect(&server, "localhost", Some(&other_directory.path().join("nowhere.pem"))).await;
    let missing = missing.err().expect("no such file");
    assert_eq!(missing.code(), Code::Invalid);
    assert!(missing.to_string().contains("nowhere.pem"), "{missing}");
    let empty = other_directory.path().join("empty.pem");
    std::fs::write(&empty, "no certificate").expect("written");
    assert_eq!(connect(&server, "localhost", Some(&empty)).await.err().expect("empty").code(), Code::Invalid);
}

// Fails under: a client that waits forever for a server without TLS, or blames the certificate.
#[tokio::test(flavor = "multi_thread")]
async fn d13_a_server_without_tls_is_reported_as_such() {
    let server = TestServer::new().await;
    let directory = tempfile::tempdir().expect("a directory");
    let (ca_file, _) = certificate(directory.path(), &["localhost"]);
    let url = format!("https://localhost:{}", server.address().port());
    let options = HttpOptions { ca_file: Some(ca_file), ..HttpOptions::default() };
    let http = HttpClient::new(&url, &server.admin, options).expect("an address");
    let error = http.get("/v1/info").send().await.expect_err("no TLS on this port");
    assert_eq!(error.code(), Code::Unavailable);
    assert!(
        error.to_string().contains("TLS handshake failed") && error.hint().contains("http://"),
        "{error}: {}",
        error.hint()
    );
}
