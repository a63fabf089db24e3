//! Connection of a command to a hub: which hub, which token, and the errors if it cannot be reached.

mod body;
mod ids;
mod place;

use std::path::PathBuf;

use clap::Args;
use quorate_client::{Answer, Error, Http, Lines, Options, Request};
use quorate_core::{Code, Refused, Secret};
use quorate_store::Chance;
use serde_json::Value;

use crate::config::{Key, Origin, Said, Settings, Surroundings};
use crate::exit::{Ended, INTERRUPTED, NOT_FOUND, USAGE};
use crate::shape::{self, Shape};
use crate::text;
use quorate_core::hex;

pub(crate) use body::{Content, Fields, read_file};
pub(crate) use ids::{Noun, meant, none_yet};
pub(crate) use place::{Place, runs};
pub(crate) use quorate_client::segment;

/// File in the data directory of a running hub, with the line that it printed when it was ready.
pub(crate) const READY: &str = "ready.json";
/// File in the data directory with the admin token that the hub creates.
pub(crate) const ADMIN_TOKEN: &str = "admin-token";

/// Flags that select the hub and the credentials.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct HubArgs {
    /// URL of the hub [env: QUORATE_URL].
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Data directory of the hub; a hub running there is discovered [env: QUORATE_DATA].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// File with the access token [env: QUORATE_TOKEN_FILE; the token itself: QUORATE_TOKEN].
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Access token; visible to other users of the machine and in the shell history.
    #[arg(long, global = true, value_name = "TOKEN", hide = true, conflicts_with = "token_file")]
    token: Option<String>,
    /// Space to act in, for admins [env: QUORATE_SPACE].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) space: Option<String>,
    /// CA certificate of the hub, for https [env: QUORATE_CA_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Allow sending the token unencrypted to another machine.
    #[arg(long, global = true)]
    insecure_http: bool,
    /// Profile of quorate.yaml to use [env: QUORATE_PROFILE].
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
}

impl HubArgs {
    /// Returns the settings given by flags.
    pub(crate) fn said(&self) -> std::collections::BTreeMap<Key, Said> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let all = [
            (Key::Url, "--url", self.url.clone()),
            (Key::Data, "--data", path(&self.data)),
            (Key::Token, "--token", self.token.clone()),
            (Key::TokenFile, "--token-file", path(&self.token_file)),
            (Key::Space, "--space", self.space.clone()),
            (Key::CaFile, "--ca-file", path(&self.ca_file)),
            (Key::InsecureHttp, "--insecure-http", self.insecure_http.then(|| "true".to_owned())),
            (Key::Profile, "--profile", self.profile.clone()),
        ];
        let setting = |flag, value| Said { value, origin: Origin::Flag(flag) };
        all.into_iter().filter_map(|(key, flag, value)| Some((key, setting(flag, value?)))).collect()
    }

    /// Creates a client for the configured hub. Sends nothing yet.
    ///
    /// # Errors
    /// If the hub or the token cannot be determined.
    pub(crate) fn open(&self) -> anyhow::Result<Hub> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        let (url, (token, token_from), options) = self.endpoint(&settings)?;
        Ok(Hub { http: Http::new(&url, token.reveal(), options)?, token_from, shape: Shape::default() })
    }

    /// Same as [`HubArgs::open`], for commands that write: dry runs are printed in this format.
    ///
    /// # Errors
    /// As [`HubArgs::open`].
    pub(crate) fn open_as(&self, shape: &Shape) -> anyhow::Result<Hub> {
        Ok(Hub { shape: shape.clone(), ..self.open()? })
    }

    /// Returns the URL of the hub, the token with its source, and the client options.
    fn endpoint(&self, settings: &Settings) -> anyhow::Result<(String, (Secret, String), Options)> {
        if self.token.is_some() {
            text::warn(
                "--token exposes the token to other users of this machine and in the shell history",
                "use --token-file FILE or QUORATE_TOKEN, and revoke this token with `quorate token revoke`",
            );
        }
        let target = Place::find(settings, self.data.as_deref())?;
        if !target.url.starts_with("http://") && !target.url.starts_with("https://") {
            let message = format!(
                "invalid hub URL {}: the scheme must be http or https",
                text::clean_line(&target.url)
            );
            return Err(Ended::new(
                USAGE,
                message,
                "use a URL such as http://127.0.0.1:7867 or https://hub.example",
            )
            .into());
        }
        let token = target.token(settings)?;
        let options = Options {
            space: settings.get(Key::Space).map(|space| space.value.clone()),
            ca_file: target.ca_file(settings)?,
            plain_anywhere: is_true(settings.get(Key::InsecureHttp))?,
            ..Options::default()
        };
        Ok((target.url, token, options))
    }

    /// Returns the configured data directory, if no hub is running there and no URL has precedence.
    fn offline_directory(&self, settings: &Settings) -> Option<PathBuf> {
        let data = self.data.clone().unwrap_or_else(|| settings.data());
        let has_url = matches!(settings.first_of([Key::Url, Key::Data]), Some((Key::Url, _)));
        (!has_url && runs(&data).is_none()).then_some(data)
    }

    /// Returns the configured data directory, if it has data, no hub is running there, and no URL has precedence.
    pub(crate) fn resting(&self) -> anyhow::Result<Option<PathBuf>> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        Ok(self.offline_directory(&settings).filter(|data| data.join("quorate.db").exists()))
    }

    /// Same as [`HubArgs::library`], for reading: a missing data directory is an error and is not created.
    pub(crate) async fn looking(&self) -> anyhow::Result<quorate::Hub> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        if let Some(data) = self.offline_directory(&settings).filter(|data| !data.exists()) {
            let message = format!("the data directory {} does not exist", data.display());
            let hint = "set the data directory with --data DIR, or the hub with --url URL";
            return Err(Ended::new(NOT_FOUND, message, hint).into());
        }
        self.library().await
    }

    /// Opens a hub of the library, for commands that run agents: the configured or discovered hub, or else an embedded hub on
    /// the data directory.
    pub(crate) async fn library(&self) -> anyhow::Result<quorate::Hub> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        if let Some(data) = self.offline_directory(&settings) {
            return Ok(quorate::Hub::open(&data).await?);
        }
        let (url, (token, _), http) = self.endpoint(&settings)?;
        let settings = quorate_client::Settings { http, ..quorate_client::Settings::default() };
        Ok(quorate_client::connect_with(&url, token.reveal(), settings).await?)
    }
}

fn is_true(setting: Option<&Said>) -> anyhow::Result<bool> {
    match setting.map(|setting| setting.value.as_str()) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let message = format!("invalid insecure_http: {}", text::clean_line(other));
            Err(Ended::new(USAGE, message, "use true or false").into())
        }
    }
}

/// An authenticated client of a hub.
pub(crate) struct Hub {
    http: Http,
    /// File, flag or variable that the token comes from.
    token_from: String,
    /// Output format of dry runs.
    shape: Shape,
}

/// HTTP method of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Method {
    Post,
    Put,
    Delete,
}

impl Method {
    fn word(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Paging flags of a list.
#[derive(Args, Clone, Debug)]
pub(crate) struct Page {
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cursor printed with the previous page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Page {
    pub(crate) fn limit(&self) -> Option<String> {
        Some(self.limit.to_string())
    }

    /// Whether a page of this length is full, so that more items may follow.
    pub(crate) fn is_full(&self, length: usize) -> bool {
        length >= self.limit as usize
    }

    pub(crate) fn cursor(&self) -> Option<String> {
        self.cursor.clone()
    }
}

/// Paging flags of a list ordered by creation.
#[derive(Args, Clone, Debug)]
pub(crate) struct Listing {
    #[command(flatten)]
    page: Page,
    /// Order of creation.
    #[arg(long, value_name = "ORDER", default_value = "newest", value_parser = ["newest", "oldest"])]
    order: String,
}

impl Listing {
    /// Returns the query parameters: the filters, then order and paging.
    pub(crate) fn query<'a>(&self, filters: &[(&'a str, Option<String>)]) -> Vec<(&'a str, Option<String>)> {
        let page = [
            ("order", Some(self.order.clone())),
            ("limit", self.page.limit()),
            ("cursor", self.page.cursor()),
        ];
        filters.iter().cloned().chain(page).collect()
    }
}

/// Query parameters; those without a value are omitted.
pub(crate) type Query<'a> = &'a [(&'a str, Option<String>)];

impl Hub {
    pub(crate) fn url(&self) -> String {
        self.http.url()
    }

    /// Adds the source of the token to an authentication error, since the hub does not know it.
    fn with_token_source(&self, error: Error) -> anyhow::Error {
        let Some(refused) = error.refused().filter(|refused| refused.code == Code::Unauthenticated) else {
            return error.into();
        };
        let hint = format!(
            "the token was read from {}; to create another one on the hub's machine:\nquorate token create --role ROLE --name NAME",
            self.token_from
        );
        Error::from(Refused::new(refused.code, refused.detail.clone()).hint(hint)).into()
    }

    /// Sends a GET request and returns the body.
    pub(crate) async fn get(&self, path: &str, query: Query<'_>) -> anyhow::Result<String> {
        let request = with_query(self.http.get(path), query);
        let answer =
            unless_interrupted(async { request.send().await.map_err(|error| self.with_token_source(error)) })
                .await?;
        body_of(&answer)
    }

    /// Sends a GET request and returns the response with its headers.
    pub(crate) async fn answer(&self, path: &str) -> anyhow::Result<Answer> {
        let request = self.http.get(path);
        unless_interrupted(async { request.send().await.map_err(|error| self.with_token_source(error)) })
            .await
    }

    /// Sends a GET request and parses the body.
    pub(crate) async fn look(&self, path: &str, query: Query<'_>) -> anyhow::Result<Value> {
        shape::read(&self.get(path, query).await?)
    }

    /// Sends a GET request and streams the lines of the response.
    pub(crate) async fn lines(&self, path: &str, query: Query<'_>) -> anyhow::Result<Lines> {
        let request = with_query(self.http.get(path), query);
        unless_interrupted(async { request.lines().await.map_err(|error| self.with_token_source(error)) })
            .await
    }

    /// Sends a request to an agent and waits for its response.
    pub(crate) async fn ask(&self, question: String) -> anyhow::Result<String> {
        let request = self.http.post("/v1/request").json(question);
        let answer =
            unless_interrupted(async { request.send().await.map_err(|error| self.with_token_source(error)) })
                .await?;
        body_of(&answer)
    }

    /// Sends a write with an idempotency key. A dry run only prints the request and returns `None`.
    pub(crate) async fn change(
        &self,
        dry_run: DryRun,
        (method, path): (Method, &str),
        body: Option<String>,
    ) -> anyhow::Result<Option<String>> {
        if dry_run.dry_run {
            tell_dry_run(&self.shape, method.word(), path, body.as_deref());
            return Ok(None);
        }
        let request = match method {
            Method::Post => self.http.post(path),
            Method::Put => self.http.put(path),
            Method::Delete => self.http.delete(path),
        };
        // A retry after a broken connection carries the same key, so it has no second effect.
        let request = request.key(&format!("cli-{}", hex::encode(&Chance::system().sixteen())));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer =
            unless_interrupted(async { request.send().await.map_err(|error| self.with_token_source(error)) })
                .await?;
        body_of(&answer).map(Some)
    }
}

/// Prints the request that a dry run does not send; as one document in JSON formats.
pub(crate) fn tell_dry_run(shape: &Shape, method: &str, path: &str, body: Option<&str>) {
    text::say("dry run: no request was sent");
    if shape.is_json() {
        let (path, body) = (Value::from(path), body.unwrap_or("null"));
        let call = format!("{{\"dryRun\":true,\"method\":\"{method}\",\"path\":{path},\"body\":{body}}}");
        text::print(text::clean_json(&call));
        return;
    }
    text::print(format!("{method} {path}"));
    body.iter().for_each(|body| text::print(text::clean_json(body)));
}

/// The `--dry-run` flag of commands that write.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DryRun {
    /// Print the request without sending it.
    #[arg(long)]
    dry_run: bool,
}

impl DryRun {
    pub(crate) fn new(dry_run: bool) -> Self {
        Self { dry_run }
    }

    pub(crate) fn is_set(self) -> bool {
        self.dry_run
    }
}

fn with_query(request: Request, query: Query<'_>) -> Request {
    let present = query.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    present.fold(request, |request, (name, value)| request.query(name, value))
}

fn body_of(answer: &Answer) -> anyhow::Result<String> {
    Ok(String::from_utf8(answer.body.to_vec())?)
}

/// Runs a future until ^C, which ends the command with its own exit code.
pub(crate) async fn unless_interrupted<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        // Polled first, so that the signal handler is installed before anything is printed.
        biased;
        _ = tokio::signal::ctrl_c() => Err(Ended::new(INTERRUPTED, "interrupted", "").into()),
        done = work => done,
    }
}
