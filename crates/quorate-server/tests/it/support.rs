//! A hub with a new data directory, and its clients.

pub(crate) mod openapi_check;
pub(crate) mod raw_http;
pub(crate) mod socket;

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use quorate::Hub as Library;
use quorate_core::{Bearer, Commit, Grants, Op, Policy, Principal, Timestamp, TokenName, TokenRole};
use quorate_engine::Space;
use quorate_server::{App, Settings};
use quorate_store::{Clock, Entropy, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct TestHub {
    pub(crate) app: App,
    pub(crate) admin: String,
    space: Space,
    _directory: TempDir,
}

/// A response.
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl TestResponse {
    /// Returns the body of a response with the expected status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        serde_json::from_str(&self.text).expect("JSON")
    }

    /// Returns the problem of a response with the expected status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        let response: Value = serde_json::from_str(&self.text).expect("a problem in JSON");
        assert_eq!((self.status, response["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert!(response["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{}", self.text);
        response
    }
}

async fn open_library(directory: &Path, clock: Arc<dyn Clock>, entropy: Arc<Entropy>) -> Library {
    let options = quorate::HubOptions { clock, entropy, ..quorate::HubOptions::default() };
    Library::open_with(directory, options).await.expect("a hub")
}

impl TestHub {
    pub(crate) async fn new() -> Self {
        Self::with_settings(Settings::default()).await
    }

    pub(crate) async fn with_settings(settings: Settings) -> Self {
        Self::with_clock(SystemClock::new(), settings).await
    }

    /// Opens a hub with a clock.
    pub(crate) async fn with_clock(clock: Arc<dyn Clock>, settings: Settings) -> Self {
        Self::open([Entropy::system(), Entropy::system()], clock, settings).await
    }

    /// Opens a deterministic hub.
    pub(crate) async fn with_seed(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self::open([Entropy::seeded(seed), Entropy::system()], clock, Settings::default()).await
    }

    /// Opens a hub with separate random sources for the public and the private store.
    pub(crate) async fn open(
        entropies: [Arc<Entropy>; 2],
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        Self::open_in(tempfile::tempdir().expect("a directory"), entropies, clock, settings).await
    }

    /// Closes the hub and opens it again.
    pub(crate) async fn reopen(self, clock: Arc<dyn Clock>) -> Self {
        self.space.engine().close().await;
        let Self { app, space, _directory: directory, .. } = self;
        drop((app, space));
        Self::open_in(directory, [Entropy::system(), Entropy::system()], clock, Settings::default()).await
    }

    async fn open_in(
        directory: TempDir,
        [entropy, private_entropy]: [Arc<Entropy>; 2],
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let library = open_library(&directory.path().join("data"), Arc::clone(&clock), entropy).await;
        let private = open_library(&directory.path().join("private"), clock, private_entropy).await;
        let space = library.space().expect("an embedded hub");
        let (admin, name) = (Bearer::Holder(TokenRole::Admin), TokenName::new("test").expect("a name"));
        let created = space.create_token(&Principal::System, admin, name, None, Grants::default()).await;
        let (_, secret) = created.expect("a token");
        let private = Arc::clone(private.space().expect("an embedded hub").engine());
        let app = App::new(Arc::clone(space.engine()), private, settings).await.expect("an app");
        Self { app, admin: secret.reveal().to_owned(), space: space.clone(), _directory: directory }
    }

    pub(crate) async fn register(&self, id: &str) -> String {
        self.register_with_capabilities(id, &[]).await
    }

    pub(crate) async fn register_with_capabilities(&self, id: &str, capabilities: &[&str]) -> String {
        let body = json!({"capabilities": capabilities});
        let created = self.put(&self.admin, &format!("/v1/agents/{id}"), &body).await.ok(201);
        created["token"].as_str().expect("a token").to_owned()
    }

    pub(crate) async fn register_in(&self, space: &str, id: &str) -> String {
        let request = self.request(&self.admin, "PUT", &format!("/v1/agents/{id}"));
        let created = self.send(request.header("quorate-space", space), "{}").await.ok(201);
        created["token"].as_str().expect("a token").to_owned()
    }

    pub(crate) async fn get_in_space(&self, token: &str, space: &str, path: &str) -> TestResponse {
        self.send(self.request(token, "GET", path).header("quorate-space", space), "").await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> TestResponse {
        self.send_text(token, "GET", path, "").await
    }

    pub(crate) async fn delete(&self, token: &str, path: &str) -> TestResponse {
        self.send_text(token, "DELETE", path, "").await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> TestResponse {
        self.send_text(token, "POST", path, &body.to_string()).await
    }

    pub(crate) async fn put(&self, token: &str, path: &str, body: &Value) -> TestResponse {
        self.send_text(token, "PUT", path, &body.to_string()).await
    }

    /// Creates a token.
    pub(crate) async fn create_token(&self, role: &str, name: &str) -> String {
        let created =
            self.post(&self.admin, "/v1/tokens", &json!({"role": role, "name": name})).await.ok(201);
        created["token"].as_str().expect("a token").to_owned()
    }

    /// Creates a token as `quorate token create --data` does, without a caller.
    pub(crate) async fn create_token_offline(&self, role: TokenRole, name: &str, expires_at: u64) -> String {
        let (bearer, name) = (Bearer::Holder(role), TokenName::new(name).expect("a name"));
        let (expires_at, grants) = (Some(Timestamp(expires_at)), Grants::default());
        let created = self.space.create_token(&Principal::System, bearer, name, expires_at, grants).await;
        created.expect("a token").1.reveal().to_owned()
    }

    /// Returns the id of the first token that matches.
    pub(crate) async fn token_id(&self, field: &str, value: &str) -> String {
        let tokens = self.get(&self.admin, "/v1/tokens?order=oldest").await.ok(200);
        let found = tokens["tokens"].as_array().expect("a list").iter().find(|token| token[field] == value);
        found.expect("such a token")["id"].as_str().expect("an id").to_owned()
    }

    /// Revokes the first token that matches.
    pub(crate) async fn revoke(&self, field: &str, value: &str) {
        let id = self.token_id(field, value).await;
        self.delete(&self.admin, &format!("/v1/tokens/{id}")).await.ok(200);
    }

    pub(crate) async fn post_with_key(
        &self,
        token: &str,
        key: &str,
        path: &str,
        body: &Value,
    ) -> TestResponse {
        let request = self.request(token, "POST", path).header("idempotency-key", key);
        self.send(request, &body.to_string()).await
    }

    pub(crate) async fn put_with_key(
        &self,
        token: &str,
        key: &str,
        path: &str,
        body: &Value,
    ) -> TestResponse {
        let request = self.request(token, "PUT", path).header("idempotency-key", key);
        self.send(request, &body.to_string()).await
    }

    pub(crate) async fn send_text(&self, token: &str, method: &str, path: &str, body: &str) -> TestResponse {
        self.send(self.request(token, method, path), body).await
    }

    /// Makes a call with additional headers.
    pub(crate) async fn with_headers(
        &self,
        token: &str,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> TestResponse {
        let request = self.request(token, method, path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.send(request, body).await
    }

    /// Sets the policy of the space.
    pub(crate) async fn set_policy(&self, policy: Policy) {
        let commit = Commit::new(Principal::System, vec![Op::SetPolicy(policy)]);
        self.space.commit(commit).await.expect("a policy");
    }

    pub(crate) fn request(&self, token: &str, method: &str, path: &str) -> axum::http::request::Builder {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        if token.is_empty() { request } else { request.header("authorization", format!("Bearer {token}")) }
    }

    pub(crate) async fn send(&self, request: axum::http::request::Builder, body: &str) -> TestResponse {
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        let (method, path) = (request.method().as_str().to_lowercase(), request.uri().path().to_owned());
        let response = self.app.handle(request).await;
        let status = response.status().as_u16();
        let content_type = response
            .headers()
            .get("content-type")
            .map(|content_type| content_type.to_str().expect("text").to_owned());
        if content_type.as_deref() == Some("text/event-stream") {
            // The stream does not end.
            return TestResponse { status, text: String::new() };
        }
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        openapi_check::check_response(&method, &path, status, content_type.as_deref(), &text);
        TestResponse { status, text }
    }
}
