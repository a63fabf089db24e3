//! Raw HTTP over plain and TLS sockets, for tests that inspect bytes, and certificates for them.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Upper bound of every wait in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A bidirectional byte stream.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// A response.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl RawResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns a header by its lowercase name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        let response = self.json();
        assert_eq!((self.status, response["code"].as_str()), (status, Some(code)), "{self:?}");
        response
    }
}

/// Formats a request. `more` contains additional header lines, each with its line end.
pub(crate) fn format_request(method: &str, path: &str, more: &str, body: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\n{more}content-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn bearer_header(token: &str) -> String {
    format!("host: localhost\r\nauthorization: Bearer {token}\r\n")
}

/// Sends a request and reads the response; keeps the connection open.
pub(crate) async fn call(stream: &mut impl ByteStream, request: &str) -> RawResponse {
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    read_response(stream).await.expect("an answer")
}

/// Reads the next response; `None` if the connection ends first.
pub(crate) async fn read_response(stream: &mut impl ByteStream) -> Option<RawResponse> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let next = tokio::time::timeout(TIMEOUT, stream.read_u8()).await.expect("in time");
        head.push(next.ok()?);
    }
    let head = String::from_utf8(head).expect("text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut response = RawResponse { status, head, body: String::new() };
    let length = response.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    tokio::time::timeout(TIMEOUT, stream.read_exact(&mut body)).await.expect("in time").ok()?;
    response.body = String::from_utf8(body).expect("text");
    Some(response)
}

/// Whether the peer closed the connection, cleanly or not.
pub(crate) async fn is_closed(stream: &mut impl ByteStream) -> bool {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut rest)).await;
    read.is_ok() && rest.is_empty()
}

pub(crate) async fn connect_plain(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("a connection")
}

/// A certificate for `localhost`, stored in files.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    pub(crate) fn new(directory: &Path) -> Self {
        let certificate = Self { certificate: directory.join("cert.pem"), key: directory.join("key.pem") };
        certificate.renew();
        certificate
    }

    /// Replaces it by another certificate in the same files.
    pub(crate) fn renew(&self) {
        let generated = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        fs::write(&self.key, generated.signing_key.serialize_pem()).expect("it is written");
        fs::write(&self.certificate, generated.cert.pem()).expect("it is written");
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).expect("a certificate")
    }

    /// Connects and trusts only this certificate.
    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der()).expect("a root");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await
    }
}
