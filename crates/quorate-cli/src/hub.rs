//! How a command reaches a hub: which one, with which token, and what is said when it does not answer.

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

/// What a hub that runs wrote into its data directory: the line with which it said that it is ready.
pub(crate) const READY: &str = "ready.json";
/// The file with the token that everything begins with.
pub(crate) const ADMIN_TOKEN: &str = "admin-token";

/// Which hub, and as whom.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Which hub")]
pub(crate) struct HubArgs {
    /// Where the hub is [env: QUORATE_URL].
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    /// Its data directory: a hub that runs there is found by itself [env: QUORATE_DATA].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The file with the token [env: QUORATE_TOKEN_FILE; the token itself: QUORATE_TOKEN].
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The token itself: everybody on this machine can see it, and the shell remembers it.
    #[arg(long, global = true, value_name = "TOKEN", hide = true, conflicts_with = "token_file")]
    token: Option<String>,
    /// In which space an admin acts [env: QUORATE_SPACE].
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) space: Option<String>,
    /// For https: who signed the hub's certificate [env: QUORATE_CA_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Let the token travel unencrypted to another machine.
    #[arg(long, global = true)]
    insecure_http: bool,
    /// Which of the profiles of quorate.yaml counts [env: QUORATE_PROFILE].
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
}

impl HubArgs {
    /// What the flags say.
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
        let said = |flag, value| Said { value, origin: Origin::Flag(flag) };
        all.into_iter().filter_map(|(key, flag, value)| Some((key, said(flag, value?)))).collect()
    }

    /// The hub that is meant. Nothing is sent yet.
    ///
    /// # Errors
    /// When it is not clear which one, or as whom.
    pub(crate) fn open(&self) -> anyhow::Result<Hub> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        let (url, (token, token_from), options) = self.way(&settings)?;
        Ok(Hub { http: Http::new(&url, token.reveal(), options)?, token_from, shape: Shape::default() })
    }

    /// As [`HubArgs::open`], for what may write: a dry run is told in this shape.
    ///
    /// # Errors
    /// As [`HubArgs::open`].
    pub(crate) fn open_as(&self, shape: &Shape) -> anyhow::Result<Hub> {
        Ok(Hub { shape: shape.clone(), ..self.open()? })
    }

    /// The way to the hub that is meant: its address, the token and where that is from, and how calls are made.
    fn way(&self, settings: &Settings) -> anyhow::Result<(String, (Secret, String), Options)> {
        if self.token.is_some() {
            text::warn(
                "a token in a flag is seen by everybody on this machine, and the shell remembers it",
                "use --token-file FILE or QUORATE_TOKEN, and revoke this one: quorate token revoke",
            );
        }
        let place = Place::find(settings, self.data.as_deref())?;
        if !place.url.starts_with("http://") && !place.url.starts_with("https://") {
            let message = format!("{} is no address of a hub", text::clean_line(&place.url));
            return Err(Ended::new(
                USAGE,
                message,
                "write it like http://127.0.0.1:7867 or https://hub.example",
            )
            .into());
        }
        let token = place.token(settings)?;
        let options = Options {
            space: settings.get(Key::Space).map(|said| said.value.clone()),
            ca_file: place.ca_file(settings)?,
            plain_anywhere: is_true(settings.get(Key::InsecureHttp))?,
            ..Options::default()
        };
        Ok((place.url, token, options))
    }

    /// The data directory that is meant, if no hub runs there and none was named.
    fn at_rest(&self, settings: &Settings) -> Option<PathBuf> {
        let data = self.data.clone().unwrap_or_else(|| settings.data());
        let named = matches!(settings.first_of([Key::Url, Key::Data]), Some((Key::Url, _)));
        (!named && runs(&data).is_none()).then_some(data)
    }

    /// The data directory that is meant, if it holds data, no hub runs there and none was named.
    pub(crate) fn resting(&self) -> anyhow::Result<Option<PathBuf>> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        Ok(self.at_rest(&settings).filter(|data| data.join("quorate.db").exists()))
    }

    /// As [`HubArgs::library`], to look only: a directory that is not there is not made.
    pub(crate) async fn looking(&self) -> anyhow::Result<quorate::Hub> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        if let Some(data) = self.at_rest(&settings).filter(|data| !data.exists()) {
            let message = format!("no hub runs on {}, and there is no such directory", data.display());
            let hint = "say where the data is: --data DIR; or which hub: --url URL";
            return Err(Ended::new(NOT_FOUND, message, hint).into());
        }
        self.library().await
    }

    /// The library's hub, for what runs agents: the one that was named or that runs on the data directory, else one of
    /// this process on that directory.
    pub(crate) async fn library(&self) -> anyhow::Result<quorate::Hub> {
        let settings = Settings::load(self.said(), &Surroundings::read()?)?;
        if let Some(data) = self.at_rest(&settings) {
            return Ok(quorate::Hub::open(&data).await?);
        }
        let (url, (token, _), http) = self.way(&settings)?;
        let settings = quorate_client::Settings { http, ..quorate_client::Settings::default() };
        Ok(quorate_client::connect_with(&url, token.reveal(), settings).await?)
    }
}

fn is_true(said: Option<&Said>) -> anyhow::Result<bool> {
    match said.map(|said| said.value.as_str()) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let message = format!("insecure_http: {} is neither true nor false", text::clean_line(other));
            Err(Ended::new(USAGE, message, "say true or false").into())
        }
    }
}

/// A hub, reached as somebody.
pub(crate) struct Hub {
    http: Http,
    /// Which file, flag or variable the token was taken from.
    token_from: String,
    /// How a dry run is told.
    shape: Shape,
}

/// How to call.
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

/// Which part of a list.
#[derive(Args, Clone, Debug)]
pub(crate) struct Page {
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Where to go on, as the page before said.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

impl Page {
    pub(crate) fn limit(&self) -> Option<String> {
        Some(self.limit.to_string())
    }

    /// Whether a list of this length may go on.
    pub(crate) fn is_full(&self, length: usize) -> bool {
        length >= self.limit as usize
    }

    pub(crate) fn cursor(&self) -> Option<String> {
        self.cursor.clone()
    }
}

/// Which part of a list by creation.
#[derive(Args, Clone, Debug)]
pub(crate) struct Listing {
    #[command(flatten)]
    page: Page,
    /// The order, by creation.
    #[arg(long, value_name = "ORDER", default_value = "newest", value_parser = ["newest", "oldest"])]
    order: String,
}

impl Listing {
    /// The parameters of a call for it, after those that choose the items.
    pub(crate) fn query<'a>(&self, which: &[(&'a str, Option<String>)]) -> Vec<(&'a str, Option<String>)> {
        let page = [
            ("order", Some(self.order.clone())),
            ("limit", self.page.limit()),
            ("cursor", self.page.cursor()),
        ];
        which.iter().cloned().chain(page).collect()
    }
}

/// What stands behind the question mark; what is not there is left out.
pub(crate) type Query<'a> = &'a [(&'a str, Option<String>)];

impl Hub {
    pub(crate) fn url(&self) -> String {
        self.http.url()
    }

    /// The hub knows not where the token was taken from, which is the first thing to look at if it is no good.
    fn told(&self, error: Error) -> anyhow::Error {
        let Some(refused) = error.refused().filter(|refused| refused.code == Code::Unauthenticated) else {
            return error.into();
        };
        let hint = format!(
            "the token was taken from {}; on the machine of the hub, another one is made by\nquorate token create --role ROLE --name NAME",
            self.token_from
        );
        Error::from(Refused::new(refused.code, refused.detail.clone()).hint(hint)).into()
    }

    /// What the hub answers.
    pub(crate) async fn get(&self, path: &str, query: Query<'_>) -> anyhow::Result<String> {
        let request = with_query(self.http.get(path), query);
        let answer =
            unless_interrupted(async { request.send().await.map_err(|error| self.told(error)) }).await?;
        body_of(&answer)
    }

    /// The whole answer, with its headers.
    pub(crate) async fn answer(&self, path: &str) -> anyhow::Result<Answer> {
        let request = self.http.get(path);
        unless_interrupted(async { request.send().await.map_err(|error| self.told(error)) }).await
    }

    /// What the hub answers, to look into.
    pub(crate) async fn look(&self, path: &str, query: Query<'_>) -> anyhow::Result<Value> {
        shape::read(&self.get(path, query).await?)
    }

    /// Lines as they come.
    pub(crate) async fn lines(&self, path: &str, query: Query<'_>) -> anyhow::Result<Lines> {
        let request = with_query(self.http.get(path), query);
        unless_interrupted(async { request.lines().await.map_err(|error| self.told(error)) }).await
    }

    /// Asks an agent, and waits for its answer.
    pub(crate) async fn ask(&self, question: String) -> anyhow::Result<String> {
        let request = self.http.post("/v1/request").json(question);
        let answer =
            unless_interrupted(async { request.send().await.map_err(|error| self.told(error)) }).await?;
        body_of(&answer)
    }

    /// Changes something, once. A dry run says what would be asked for, and asks for nothing: then there is no answer.
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
        // Under a key of its own, so that a broken connection makes no second effect.
        let request = request.key(&format!("cli-{}", hex::encode(&Chance::system().sixteen())));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer =
            unless_interrupted(async { request.send().await.map_err(|error| self.told(error)) }).await?;
        body_of(&answer).map(Some)
    }
}

/// What a dry run says: the call that would be made; for a program, one document.
pub(crate) fn tell_dry_run(shape: &Shape, method: &str, path: &str, body: Option<&str>) {
    text::say("a dry run: nothing was asked for");
    if shape.is_json() {
        let (path, body) = (Value::from(path), body.unwrap_or("null"));
        let call = format!("{{\"dryRun\":true,\"method\":\"{method}\",\"path\":{path},\"body\":{body}}}");
        text::print(text::clean_json(&call));
        return;
    }
    text::print(format!("{method} {path}"));
    body.iter().for_each(|body| text::print(text::clean_json(body)));
}

/// Of everything that writes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DryRun {
    /// Only say what would be asked of the hub.
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

/// Ends with its own code when somebody presses ^C.
pub(crate) async fn unless_interrupted<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        // First, so that somebody listens for the keys before anything was printed.
        biased;
        _ = tokio::signal::ctrl_c() => Err(Ended::new(INTERRUPTED, "interrupted", "").into()),
        done = work => done,
    }
}
