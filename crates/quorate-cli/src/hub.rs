//! Connection of a command to a hub: which hub, which token, and the errors if it cannot be reached.

mod acting_agent;
mod claim;
mod request_body;
mod resolve_id;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quorate_client::{Error, HttpClient, HttpOptions, HttpRequest, HttpResponse, ResponseLines};
use quorate_core::{Code, Refused, Secret};
use quorate_store::Entropy;
use serde_json::Value;

use crate::config::{Key, Origin, ProcessContext, Setting, Settings};
use crate::exit::{CommandError, INTERRUPTED, NOT_FOUND, USAGE};
use crate::output::{self, OutputArgs};
use crate::terminal;
use quorate_core::hex;

pub(crate) use acting_agent::ActingAgentArgs;
pub(crate) use claim::{CallWaits, ClaimArgs};
pub(crate) use quorate_client::percent_encode;
pub(crate) use request_body::{ContentArgs, JsonFields, read_file};
pub(crate) use resolve_id::{Resource, match_id, no_items};
pub(crate) use target::{HubTarget, running_hub_url};

/// File in the data directory of a running hub, with the line that it printed when it was ready.
pub(crate) const READY_FILE: &str = "ready.json";
/// File in the data directory with the admin token that the hub creates.
pub(crate) const ADMIN_TOKEN_FILE: &str = "admin-token";

/// Environment variable with the epoch of the agent, as printed by `quorate agent register`. It is no setting: the epoch
/// belongs to one run of a program, so no file or option has it.
pub(crate) const EPOCH_VARIABLE: &str = "QUORATE_EPOCH";
/// Header with the epoch.
const EPOCH_HEADER: &str = "quorate-epoch";
/// Timeout of a call, in addition to the time that the hub waits.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Help of `--data` in commands that embed a hub if none is running.
pub(crate) const EMBEDDED_DATA_HELP: &str =
    "Data directory; uses the hub that runs on it, or an embedded hub if none does [env: QUORATE_DATA]";

/// Options that select the hub and the credentials.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct HubArgs {
    /// URL of the hub [env: QUORATE_URL].
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Data directory; connects to the hub that runs on it [env: QUORATE_DATA].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// File with the access token [env: QUORATE_TOKEN_FILE; the token itself: QUORATE_TOKEN].
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Access token; visible to other users of the machine and in the shell history.
    #[arg(long, global = true, value_name = "TOKEN", hide = true, conflicts_with = "token_file")]
    token: Option<String>,
    /// Space to act in; requires an admin token of the space `default` [env: QUORATE_SPACE].
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
    /// Returns the settings given by options.
    pub(crate) fn flags(&self) -> std::collections::BTreeMap<Key, Setting> {
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
        let setting = |flag, value| Setting { value, origin: Origin::Flag(flag) };
        all.into_iter().filter_map(|(key, flag, value)| Some((key, setting(flag, value?)))).collect()
    }

    /// Creates a client for the configured hub. Sends nothing yet.
    ///
    /// # Errors
    /// If the hub or the token cannot be determined.
    pub(crate) fn open(&self) -> anyhow::Result<Hub> {
        let settings = Settings::load(self.flags(), &ProcessContext::read()?)?;
        let (url, (token, token_source), options) = self.endpoint(&settings)?;
        let ca_file = options.ca_file.clone();
        Ok(Hub {
            http: HttpClient::new(&url, token.reveal(), options)?,
            token_source,
            ca_file,
            epoch: epoch_from_env()?,
            output: OutputArgs::default(),
        })
    }

    /// Same as [`HubArgs::open`], for commands that write: dry runs are printed in this format.
    ///
    /// # Errors
    /// As [`HubArgs::open`].
    pub(crate) fn open_with_output(&self, output: &OutputArgs) -> anyhow::Result<Hub> {
        Ok(Hub { output: output.clone(), ..self.open()? })
    }

    /// Returns the URL of the hub, the token with its source, and the client options.
    fn endpoint(&self, settings: &Settings) -> anyhow::Result<(String, (Secret, String), HttpOptions)> {
        if self.token.is_some() {
            terminal::print_warning(
                "--token exposes the token to other users of this machine and in the shell history",
                "use --token-file FILE or QUORATE_TOKEN, and revoke this token with `quorate token revoke`",
            );
        }
        let target = HubTarget::resolve(settings, self.data.as_deref())?;
        if !target.url.starts_with("http://") && !target.url.starts_with("https://") {
            let message = format!(
                "invalid hub URL {}: the scheme must be http or https",
                terminal::sanitize_line(&target.url)
            );
            return Err(CommandError::new(
                USAGE,
                message,
                "use a URL such as http://127.0.0.1:7867 or https://hub.example",
            )
            .into());
        }
        let token = target.token(settings)?;
        let options = HttpOptions {
            space: settings.get(Key::Space).map(|space| space.value.clone()),
            ca_file: target.ca_file(settings)?,
            allow_unencrypted: is_true(settings.get(Key::InsecureHttp))?,
            ..HttpOptions::default()
        };
        Ok((target.url, token, options))
    }

    /// Returns the configured data directory, if no hub is running there and no URL has precedence.
    fn offline_directory(&self, settings: &Settings) -> Option<PathBuf> {
        let data = self.data.clone().unwrap_or_else(|| settings.data());
        let has_url = matches!(settings.first_set([Key::Url, Key::Data]), Some((Key::Url, _)));
        (!has_url && running_hub_url(&data).is_none()).then_some(data)
    }

    /// Returns the configured data directory, if it has data, no hub is running there, and no URL has precedence.
    pub(crate) fn offline_data(&self) -> anyhow::Result<Option<PathBuf>> {
        let settings = Settings::load(self.flags(), &ProcessContext::read()?)?;
        Ok(self.offline_directory(&settings).filter(|data| data.join("quorate.db").exists()))
    }

    /// Same as [`HubArgs::open_library`], for reading: a missing data directory is an error and is not created.
    pub(crate) async fn open_for_reading(&self) -> anyhow::Result<quorate::Hub> {
        let settings = Settings::load(self.flags(), &ProcessContext::read()?)?;
        if let Some(data) = self.offline_directory(&settings).filter(|data| !data.exists()) {
            let message = format!("the data directory {} does not exist", data.display());
            let hint = "set the data directory with --data DIR, or the hub with --url URL";
            return Err(CommandError::new(NOT_FOUND, message, hint).into());
        }
        self.open_library().await
    }

    /// Opens a hub of the library, for commands that run agents: the configured or discovered hub, or else an embedded hub on
    /// the data directory.
    pub(crate) async fn open_library(&self) -> anyhow::Result<quorate::Hub> {
        let settings = Settings::load(self.flags(), &ProcessContext::read()?)?;
        if let Some(data) = self.offline_directory(&settings) {
            return Ok(quorate::Hub::open(&data).await?);
        }
        Ok(self.connect(&settings).await?.0)
    }

    /// Connects to the configured or discovered hub, and returns its URL as well. Never embeds a hub.
    pub(crate) async fn connect_library(&self) -> anyhow::Result<(quorate::Hub, String)> {
        self.connect(&Settings::load(self.flags(), &ProcessContext::read()?)?).await
    }

    async fn connect(&self, settings: &Settings) -> anyhow::Result<(quorate::Hub, String)> {
        let (url, (token, _), http) = self.endpoint(settings)?;
        let options = quorate_client::ConnectOptions { http, ..quorate_client::ConnectOptions::default() };
        let hub = quorate_client::connect_with(&url, token.reveal(), options).await?;
        Ok((hub, url))
    }

    /// Returns the URL of the hub now: one that runs on a data directory may have been restarted at another address.
    pub(crate) fn current_url(&self) -> anyhow::Result<String> {
        let settings = Settings::load(self.flags(), &ProcessContext::read()?)?;
        Ok(HubTarget::resolve(&settings, self.data.as_deref())?.url)
    }
}

fn is_true(setting: Option<&Setting>) -> anyhow::Result<bool> {
    match setting.map(|setting| setting.value.as_str()) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let message = format!("invalid insecure_http: {}", terminal::sanitize_line(other));
            Err(CommandError::new(USAGE, message, "use true or false").into())
        }
    }
}

/// Reads the epoch of the agent from the environment.
fn epoch_from_env() -> anyhow::Result<Option<String>> {
    let Some(epoch) = std::env::var_os(EPOCH_VARIABLE).filter(|epoch| !epoch.is_empty()) else {
        return Ok(None);
    };
    match epoch.to_str().filter(|epoch| epoch.parse::<u64>().is_ok()) {
        Some(epoch) => Ok(Some(epoch.to_owned())),
        None => {
            let value = terminal::sanitize_line(&epoch.to_string_lossy());
            let message = format!("invalid {EPOCH_VARIABLE}: {value:?} is not an epoch");
            let hint =
                format!("export {EPOCH_VARIABLE}=$(quorate agent register), or unset {EPOCH_VARIABLE}");
            Err(CommandError::new(USAGE, message, hint).into())
        }
    }
}

/// An authenticated client of a hub.
pub(crate) struct Hub {
    http: HttpClient,
    /// File, flag or variable that the token comes from.
    token_source: String,
    /// Epoch of the agent. Calls are refused if the agent has registered again since.
    epoch: Option<String>,
    /// CA certificate of the hub, if one is configured.
    ca_file: Option<PathBuf>,
    /// Output format of dry runs.
    output: OutputArgs,
}

/// HTTP method of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Method {
    Post,
    Put,
    Delete,
}

impl Method {
    fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Paging flags of a list.
#[derive(Args, Clone, Debug)]
pub(crate) struct PageArgs {
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cursor printed with the previous page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl PageArgs {
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
pub(crate) struct OrderedPageArgs {
    #[command(flatten)]
    page: PageArgs,
    /// Order of creation.
    #[arg(long, value_name = "ORDER", default_value = "newest", value_parser = ["newest", "oldest"])]
    order: String,
}

impl OrderedPageArgs {
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

    pub(crate) fn ca_file(&self) -> Option<PathBuf> {
        self.ca_file.clone()
    }

    /// Returns the hub without the epoch of the environment, to begin a new one.
    pub(crate) fn without_epoch(self) -> Self {
        Self { epoch: None, ..self }
    }

    /// Adds the epoch to a request.
    fn with_epoch(&self, request: HttpRequest) -> HttpRequest {
        match &self.epoch {
            Some(epoch) => request.header(EPOCH_HEADER, epoch),
            None => request,
        }
    }

    fn get_request(&self, path: &str, query: Query<'_>) -> HttpRequest {
        with_query(self.with_epoch(self.http.get(path)), query)
    }

    /// Sends a request and returns the response with its headers.
    async fn send(&self, request: HttpRequest) -> anyhow::Result<HttpResponse> {
        until_interrupted(async { request.send().await.map_err(|error| self.with_token_source(error)) }).await
    }

    /// Adds the source of the token to an authentication error, since the hub does not know it.
    fn with_token_source(&self, error: Error) -> anyhow::Error {
        let Some(refused) = error.refusal().filter(|refused| refused.code == Code::Unauthenticated) else {
            return error.into();
        };
        let hint = format!(
            "the token was read from {}; to create another one on the hub's machine:\nquorate token create --role ROLE --name NAME",
            self.token_source
        );
        Error::from(Refused::new(refused.code, refused.detail.clone()).hint(hint)).into()
    }

    /// Sends a GET request and returns the body.
    pub(crate) async fn get(&self, path: &str, query: Query<'_>) -> anyhow::Result<String> {
        self.get_waiting(path, query, Duration::ZERO).await
    }

    /// Same as [`Hub::get`], for a call in which the hub waits up to this long.
    pub(crate) async fn get_waiting(
        &self,
        path: &str,
        query: Query<'_>,
        wait: Duration,
    ) -> anyhow::Result<String> {
        body_of(&self.send(self.get_request(path, query).timeout(CALL_TIMEOUT + wait)).await?)
    }

    /// Sends a GET request and returns the response with its headers.
    pub(crate) async fn get_response(&self, path: &str) -> anyhow::Result<HttpResponse> {
        self.send(self.get_request(path, &[])).await
    }

    /// Sends a GET request and parses the body.
    pub(crate) async fn get_json(&self, path: &str, query: Query<'_>) -> anyhow::Result<Value> {
        output::parse_response(&self.get(path, query).await?)
    }

    /// Sends a GET request and streams the lines of the response.
    pub(crate) async fn lines(&self, path: &str, query: Query<'_>) -> anyhow::Result<ResponseLines> {
        let request = self.get_request(path, query);
        until_interrupted(async { request.lines().await.map_err(|error| self.with_token_source(error)) })
            .await
    }

    /// Sends a request to an agent and waits for its answer, for at most `timeout`. The request is cancelled if the command
    /// ends before.
    pub(crate) async fn request(&self, body: String, timeout: Duration) -> anyhow::Result<String> {
        let request = self.with_epoch(self.http.post("/v1/request")).timeout(CALL_TIMEOUT + timeout);
        body_of(&self.send(request.json(body)).await?)
    }

    /// Sends a write with an idempotency key. A dry run only prints the request and returns `None`.
    pub(crate) async fn write(
        &self,
        dry_run: DryRunArgs,
        call: (Method, &str),
        body: Option<String>,
    ) -> anyhow::Result<Option<String>> {
        self.write_waiting(dry_run, call, body, Duration::ZERO).await
    }

    /// Same as [`Hub::write`], for a call in which the hub waits up to this long.
    pub(crate) async fn write_waiting(
        &self,
        dry_run: DryRunArgs,
        (method, path): (Method, &str),
        body: Option<String>,
        wait: Duration,
    ) -> anyhow::Result<Option<String>> {
        if dry_run.dry_run {
            print_dry_run(&self.output, method.as_str(), path, body.as_deref());
            return Ok(None);
        }
        let request = match method {
            Method::Post => self.http.post(path),
            Method::Put => self.http.put(path),
            Method::Delete => self.http.delete(path),
        };
        // A retry after a broken connection carries the same key, so it has no second effect.
        let request = self
            .with_epoch(request)
            .idempotency_key(&format!("cli-{}", hex::encode(&Entropy::system().bytes_16())))
            .timeout(CALL_TIMEOUT + wait);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        body_of(&self.send(request).await?).map(Some)
    }
}

/// Prints the request that a dry run does not send; as one document in JSON formats.
pub(crate) fn print_dry_run(output: &OutputArgs, method: &str, path: &str, body: Option<&str>) {
    terminal::note("dry run: no request was sent");
    if output.is_json() {
        let (path, body) = (Value::from(path), body.unwrap_or("null"));
        let request = format!("{{\"dryRun\":true,\"method\":\"{method}\",\"path\":{path},\"body\":{body}}}");
        terminal::print(terminal::sanitize_json(&request));
        return;
    }
    terminal::print(format!("{method} {path}"));
    body.iter().for_each(|body| terminal::print(terminal::sanitize_json(body)));
}

/// The `--dry-run` flag of commands that write.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DryRunArgs {
    /// Print the request without sending it.
    #[arg(long)]
    dry_run: bool,
}

impl DryRunArgs {
    pub(crate) fn new(dry_run: bool) -> Self {
        Self { dry_run }
    }

    pub(crate) fn is_set(self) -> bool {
        self.dry_run
    }
}

fn with_query(request: HttpRequest, query: Query<'_>) -> HttpRequest {
    let present = query.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    present.fold(request, |request, (name, value)| request.query(name, value))
}

fn body_of(response: &HttpResponse) -> anyhow::Result<String> {
    Ok(String::from_utf8(response.body.to_vec())?)
}

/// Runs a future until ^C, which ends the command with its own exit code.
pub(crate) async fn until_interrupted<T>(
    future: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        // Polled first, so that the signal handler is installed before anything is printed.
        biased;
        _ = tokio::signal::ctrl_c() => Err(CommandError::new(INTERRUPTED, "interrupted", "").into()),
        result = future => result,
    }
}
