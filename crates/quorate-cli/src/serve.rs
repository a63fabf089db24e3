//! `quorate serve`: a hub that others talk to over the network.

mod observe;
mod times;
mod wall;

use std::fs::{self, OpenOptions, Permissions};
use std::io::{IsTerminal as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use quorate_core::{Bearer, Commit, CreateToken, Op, Principal, Secret, TokenName, TokenRole};
use quorate_engine::{Engine, Space};
use quorate_server::{App, Journal, Level, Listening, ServeError, Settings, Tls};
use quorate_sqlite::{OpenError, Options, SqliteStore};
use quorate_store::{Chance, Clock as _, SystemClock};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Ended, STORAGE_FAILED, USAGE_OF_SERVE};
use crate::hub::{ADMIN_TOKEN, READY};
use crate::{config, text};

/// QUOR on a keypad.
const PORT: u16 = 7867;

/// Serves a hub.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate serve --data ./team

When it is ready it prints one line of JSON on stdout, with its address and the
file that holds the admin's token. SIGTERM lets requests under way end, then it
exits with 0. Exit codes: 64 usage, 65 damaged data, 74 storage failure.")]
pub(crate) struct ServeArgs {
    /// The data directory; made if there is none [env: QUORATE_DATA; default: quorate-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where to listen; port 0 is any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7867")]
    listen: SocketAddr,
    /// A name under which the hub may be called, besides localhost. May be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Listen where other machines can connect, without encryption: whoever sees the traffic sees the tokens.
    #[arg(long)]
    insecure_listen: bool,
    #[command(flatten)]
    wall: wall::WallArgs,
    #[command(flatten)]
    times: times::TimeArgs,
    #[command(flatten)]
    observe: observe::ObserveArgs,
}

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    close_to_others();
    let tls = args.wall.tls()?;
    let data = config::data_directory(args.data.as_deref())?;
    let clock = SystemClock::new();
    let (journal, otlp) = (args.observe.journal(clock.clone())?, args.observe.otlp()?);
    let engine = recover(&data, args.times.engine(), &clock, &journal)?;
    let settings = Settings {
        hosts: args.host,
        patience: args.times.patience(),
        limits: args.wall.limits(),
        times: args.times.times(),
        journal: journal.clone(),
        otlp,
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    // Before anything is announced: whoever reads the line may send a signal at once.
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let door = Door { listen: args.listen, or_else: None, tls, insecure: args.insecure_listen };
    let served = Served::start(&data, engine, settings, door, Told::Everything).await?;
    text::print(served.ready.to_string());
    journal.say(Level::Info, "ready", &[("http", json!(served.listening.address().to_string()))]);
    let failed = tokio::select! {
        _ = end.recv() => None,
        _ = interrupt.recv() => None,
        failure = served.engine.failure() => Some(failure),
    };
    if let Some(failure) = failed {
        journal.say(Level::Error, "storage failed", &[("why", json!(failure.to_string()))]);
        // Nothing more is acknowledged; what was under way is unknown, and a clean end would hide that.
        let hint = "look at the disk, then start the hub again: everything acknowledged is there".to_owned();
        return Err(Ended { code: STORAGE_FAILED, message: failure.to_string(), hint }.into());
    }
    journal.say(Level::Info, "stopping", &[("why", json!("told to; requests under way may end"))]);
    served.stop().await;
    journal.say(Level::Info, "stopped", &[]);
    Ok(())
}

/// Where to listen, and how.
struct Door {
    listen: SocketAddr,
    /// If somebody else listens there.
    or_else: Option<SocketAddr>,
    tls: Option<Tls>,
    insecure: bool,
}

/// Whether whoever starts a hub is told about its first token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Everything,
    Nothing,
}

/// A hub of this process that listens.
pub(crate) struct Served {
    engine: Arc<Engine>,
    app: App,
    listening: Listening,
    found_by: FoundBy,
    /// What it says when it is ready.
    ready: Value,
}

impl Served {
    async fn start(
        data: &Path,
        engine: Arc<Engine>,
        settings: Settings,
        door: Door,
        told: Told,
    ) -> anyhow::Result<Self> {
        let app = App::new(Arc::clone(&engine), settings).await?;
        let space = engine.space("default".parse()?).await?;
        let token_file = admin_token(data, &space, told).await?;
        let scheme = if door.tls.is_some() { "https" } else { "http" };
        let mut listening = match door.tls {
            Some(tls) => Listening::start_tls(app.clone(), door.listen, tls).await,
            None => Listening::start(app.clone(), door.listen, door.insecure).await,
        };
        if let (Err(ServeError::Listen { .. }), Some(other)) = (&listening, door.or_else) {
            listening = Listening::start(app.clone(), other, door.insecure).await;
        }
        let listening = listening.map_err(in_words)?;
        let ready = json!({
            "event": "ready",
            scheme: listening.address().to_string(),
            "url": format!("{scheme}://{}", listening.address()),
            "data": data,
            "adminTokenFile": token_file,
        });
        // For commands on this machine: they find the hub by its data directory.
        let found_by = FoundBy::write(data, &ready.to_string());
        Ok(Self { engine, app, listening, found_by, ready })
    }

    /// A hub for the time of a command, on this machine only: on the usual port, or on any that is free.
    pub(crate) async fn for_a_while(data: &Path) -> anyhow::Result<Self> {
        close_to_others();
        let clock = SystemClock::new();
        let engine = recover(data, quorate_engine::Options::default(), &clock, &Journal::default())?;
        let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let door = Door { listen: here(PORT), or_else: Some(here(0)), tls: None, insecure: false };
        Self::start(data, engine, Settings::default(), door, Told::Nothing).await
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap_or_default()
    }

    /// Lets requests under way end, and closes the data directory.
    pub(crate) async fn stop(self) {
        drop(self.found_by);
        self.listening.drain().await;
        self.app.settle().await;
        self.engine.close().await;
    }
}

/// Whatever is written from here on is closed to others from its first byte.
fn close_to_others() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Opens the data directory, and says how long that took.
fn recover(
    data: &Path,
    options: quorate_engine::Options,
    clock: &Arc<SystemClock>,
    journal: &Journal,
) -> anyhow::Result<Arc<Engine>> {
    let begun = clock.now();
    let version = env!("CARGO_PKG_VERSION");
    journal.say(Level::Info, "starting", &[("data", json!(data)), ("version", json!(version))]);
    let engine = Engine::start_with(options, clock.clone(), Chance::system(), |wiring| {
        Ok::<_, OpenError>(SqliteStore::open(data, Options::default(), wiring)? as _)
    })?;
    // One that was there before may have been open to others.
    fs::set_permissions(data, Permissions::from_mode(0o700))
        .with_context(|| format!("cannot close {} to others", data.display()))?;
    let ms = clock.now().mono.0.saturating_sub(begun.mono.0);
    let spaces = engine.store().spaces().len();
    journal.say(Level::Info, "recovered", &[("ms", json!(ms)), ("spaces", json!(spaces))]);
    Ok(engine)
}

/// The file by which commands find a hub that runs; gone when it stops. It is a convenience: without it they are told
/// where the hub is.
struct FoundBy(PathBuf);

impl FoundBy {
    fn write(data: &Path, line: &str) -> Self {
        let path = data.join(READY);
        if let Err(error) = fs::write(&path, format!("{line}\n")) {
            text::say(format!("commands will not find this hub by {}: {error}", data.display()));
        }
        Self(path)
    }
}

impl Drop for FoundBy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn in_words(error: ServeError) -> anyhow::Error {
    let hint = match &error {
        ServeError::NotLoopback(_) => {
            "give --tls-cert and --tls-key, listen on 127.0.0.1, or say --insecure-listen if the network is trusted"
        }
        ServeError::Listen { .. } => "another hub may run there; give another port, or 0 for any",
    };
    let causes = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
    Ended { code: USAGE_OF_SERVE, message: format!("{error}{causes}"), hint: hint.to_owned() }.into()
}

/// The file with the admin's token. At the first start both are made; the file first, so that a crash in between
/// leaves no token that nobody knows.
async fn admin_token(data: &Path, space: &Space, told: Told) -> anyhow::Result<PathBuf> {
    let path = data.join(ADMIN_TOKEN);
    if space.published().tokens.list().iter().any(|token| token.bearer == Bearer::Holder(TokenRole::Admin)) {
        return Ok(path);
    }
    let (secret, is_new) = match fs::read_to_string(&path) {
        Ok(text) => (text.trim().parse::<Secret>()?, false),
        Err(_) => (space.draw_secret(), true),
    };
    if is_new {
        write_secret(&path, &secret).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let create = CreateToken {
        digest: secret.digest(),
        bearer: Bearer::Holder(TokenRole::Admin),
        name: TokenName::new("first")?,
        expires_at: None,
    };
    space.commit(Commit::new(Principal::System, vec![Op::CreateToken(create)])).await?;
    if told == Told::Nothing {
        return Ok(path);
    }
    text::say(format!("the admin's token is in {}", path.display()));
    if std::io::stderr().is_terminal() {
        text::say(format!("it is {}", secret.reveal()));
    }
    Ok(path)
}

fn write_secret(path: &Path, secret: &Secret) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", secret.reveal())?;
    file.sync_all()?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
