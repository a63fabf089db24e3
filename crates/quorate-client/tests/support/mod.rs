//! A hub on a new data directory that listens on a real socket.
// Not every test binary needs all of it.
#![allow(dead_code)]

pub(crate) mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;

use quorate::Hub as Library;
use quorate_client::{Http, Options};
use quorate_core::{Bearer, Commit, CreateToken, Op, Principal, TokenName, TokenRole};
use quorate_server::{App, Listening, Settings};
use tempfile::TempDir;

pub(crate) struct Served {
    pub(crate) library: Library,
    pub(crate) listening: Listening,
    pub(crate) admin: String,
    directory: TempDir,
}

impl Served {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let library = Library::open(directory.path().join("data")).await.expect("a hub");
        let space = library.space().expect("a hub in this process");
        let secret = space.draw_secret();
        let create = CreateToken {
            digest: secret.digest(),
            bearer: Bearer::Holder(TokenRole::Admin),
            name: TokenName::new("test").expect("a name"),
            expires_at: None,
        };
        let commit = Commit::new(Principal::System, vec![Op::CreateToken(create)]);
        space.commit(commit).await.expect("a token");
        let app = App::new(Arc::clone(space.engine()), Settings::default()).await.expect("an app");
        let listening = Listening::start(app, ([127, 0, 0, 1], 0).into(), false).await.expect("an address");
        Self { library, listening, admin: secret.reveal().to_owned(), directory }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn http(&self) -> Http {
        Http::new(&self.url(), &self.admin, Options::default()).expect("an address")
    }

    /// Registers an agent; its token is the answer.
    pub(crate) async fn register(&self, id: &str) -> String {
        let made = self.http().put(&format!("/v1/agents/{id}")).json("{}").send().await.expect("an agent");
        let made: serde_json::Value = made.json().expect("JSON");
        made["token"].as_str().expect("a token").to_owned()
    }
}
