//! A hub with a new data directory that listens on a real socket.

pub(crate) mod lossy_proxy;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate::Hub as Library;
use quorate_client::{HttpClient, HttpOptions};
use quorate_core::{Bearer, Grants, Principal, TokenName, TokenRole};
use quorate_server::{App, Server, Settings, Tls};
use tempfile::TempDir;

pub(crate) struct TestServer {
    pub(crate) library: Library,
    pub(crate) server: Server,
    pub(crate) admin: String,
    _directory: TempDir,
}

/// Writes a self-signed certificate for these names and its key, as `quorate cert dev` does.
pub(crate) fn certificate(directory: &Path, names: &[&str]) -> (PathBuf, PathBuf) {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let created = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    fs::write(&certificate, created.cert.pem()).expect("it is written");
    fs::write(&key, created.signing_key.serialize_pem()).expect("it is written");
    (certificate, key)
}

impl TestServer {
    pub(crate) async fn new() -> Self {
        Self::with(None).await
    }

    /// Starts a hub, with TLS if a certificate is given.
    pub(crate) async fn with(tls: Option<Tls>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let library = Library::open(directory.path().join("data")).await.expect("a hub");
        let space = library.space().expect("an embedded hub");
        let (admin, name) = (Bearer::Holder(TokenRole::Admin), TokenName::new("test").expect("a name"));
        let created = space.create_token(&Principal::System, admin, name, None, Grants::default()).await;
        let (_, secret) = created.expect("a token");
        let private = Library::open(directory.path().join("private")).await.expect("a hub");
        let private = Arc::clone(private.space().expect("an embedded hub").engine());
        let app = App::new(Arc::clone(space.engine()), private, Settings::default()).await.expect("an app");
        let any_port = ([127, 0, 0, 1], 0).into();
        let server = match tls {
            Some(tls) => Server::start_tls(app, any_port, tls).await,
            None => Server::start(app, any_port, false).await,
        };
        let server = server.expect("an address");
        Self { library, server, admin: secret.reveal().to_owned(), _directory: directory }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn http(&self) -> HttpClient {
        HttpClient::new(&self.url(), &self.admin, HttpOptions::default()).expect("an address")
    }

    /// Registers an agent and returns its token.
    pub(crate) async fn register(&self, id: &str) -> String {
        let created = self.http().put(&format!("/v1/agents/{id}")).json("{}").send().await.expect("an agent");
        let created: serde_json::Value = created.json().expect("JSON");
        created["token"].as_str().expect("a token").to_owned()
    }
}
