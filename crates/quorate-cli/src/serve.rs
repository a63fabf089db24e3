//! `quorate serve`: a hub that others talk to over the network.

mod admin;
mod check;
mod observe;
mod times;
mod wall;
mod webhooks;

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use quorate_engine::Engine;
use quorate_server::{App, Listening, Reserved, ServeError, Settings, Style, Tls};
use quorate_sqlite::{OpenError, Options, SqliteStore};
use quorate_store::{Chance, Clock as _, SystemClock};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use check::Checks;

use crate::exit::{Ended, STORAGE_FAILED, USAGE};
use crate::hub::READY;
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
    /// Listen on 127.0.0.1 at this port; 0 is any that is free.
    #[arg(long, conflicts_with = "listen")]
    port: Option<u16>,
    /// A name under which the hub may be called, besides localhost. May be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Listen where other machines can connect, without encryption: whoever sees the traffic sees the tokens.
    #[arg(long)]
    insecure_listen: bool,
    #[command(flatten)]
    webhooks: webhooks::WebhookArgs,
    #[command(flatten)]
    wall: wall::WallArgs,
    #[command(flatten)]
    times: times::TimeArgs,
    #[command(flatten)]
    check: check::CheckArgs,
    #[command(flatten)]
    observe: observe::ObserveArgs,
}

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    close_to_others();
    let data = config::data_directory(args.data.as_deref())?;
    let clock = SystemClock::new();
    let (log_style, otlp) = (args.observe.install_journal(clock.clone())?, args.observe.otlp()?);
    let (tls, webhooks) = (args.wall.tls()?, args.webhooks.read()?);
    // Before anything is made or opened: what cannot be served leaves no directory and no token behind.
    let listen = args.port.map_or(args.listen, |port| (Ipv4Addr::LOCALHOST, port).into());
    let door = Door::new(listen, tls, args.insecure_listen)?;
    let checks = args.check.checks();
    let engines = recover(&data, args.times.engine(), checks, &clock)?;
    checks.newest(&engines).await?;
    let settings = Settings {
        hosts: args.host,
        patience: args.times.patience(),
        limits: args.wall.limits(),
        times: args.times.times(),
        otlp,
        webhooks,
    };
    // Before anything is announced: whoever reads the line may send a signal at once.
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let served = Served::start(&data, engines, settings, door, Some(log_style)).await?;
    text::print(served.ready.to_string());
    tracing::info!(http = served.ready["http"].as_str(), url = served.url(), "ready");
    let failed = tokio::select! {
        _ = end.recv() => None,
        _ = interrupt.recv() => None,
        failure = served.engines.public.failure() => Some(failure),
        failure = served.engines.private.failure() => Some(failure),
        // What goes on top of damaged data would be lost with it.
        damaged = checks.go_on(&served.engines) => return Err(damaged.into()),
    };
    if let Some(failure) = failed {
        tracing::error!(why = %failure, "storage failed");
        // Nothing more is acknowledged; what was under way is unknown, and a clean end would hide that.
        let hint = "look at the disk, then start the hub again: everything acknowledged is there".to_owned();
        return Err(Ended { code: STORAGE_FAILED, message: failure.to_string(), hint }.into());
    }
    tracing::info!(why = "told to; requests under way may end", "stopping");
    served.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Where to listen, and how.
struct Door {
    reserved: Reserved,
    scheme: &'static str,
}

impl Door {
    fn new(listen: SocketAddr, tls: Option<Tls>, insecure: bool) -> anyhow::Result<Self> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let reserved = match tls {
            Some(tls) => Reserved::tls(listen, tls),
            None => Reserved::plain(listen, insecure),
        };
        Ok(Self { reserved: reserved.map_err(in_words)?, scheme })
    }
}

/// A hub of this process that listens.
pub(crate) struct Served {
    engines: Engines,
    app: App,
    listening: Listening,
    found_by: FoundBy,
    /// What it says when it is ready.
    ready: Value,
}

impl Served {
    async fn start(
        data: &Path,
        engines: Engines,
        settings: Settings,
        door: Door,
        log_style: Option<Style>,
    ) -> anyhow::Result<Self> {
        let Engines { public, private, .. } = &engines;
        let app = App::new(Arc::clone(public), Arc::clone(private), settings).await?;
        let space = public.space("default".parse()?).await?;
        let token_file = admin::token_file(data, &space, log_style).await?;
        let Door { reserved, scheme } = door;
        let listening = reserved.listen(app.clone()).map_err(in_words)?;
        let address = listening.address().to_string();
        let mut ready = json!({
            "event": "ready",
            "http": address,
            "url": format!("{scheme}://{address}"),
            "data": data,
            "adminTokenFile": token_file,
            // Who holds the directory: only then does anybody believe the file below.
            "pid": std::process::id(),
        });
        if scheme == "https" {
            ready["https"] = address.into();
        }
        // For commands on this machine: they find the hub by its data directory.
        let found_by = FoundBy::write(data, &ready.to_string());
        Ok(Self { engines, app, listening, found_by, ready })
    }

    /// A hub for the time of a command, on this machine only: on the usual port, or on any that is free.
    pub(crate) async fn for_a_while(data: &Path) -> anyhow::Result<Self> {
        close_to_others();
        let door = Door { reserved: Reserved::loopback(PORT).map_err(in_words)?, scheme: "http" };
        let (clock, checks) = (SystemClock::new(), Checks::default());
        let engines = recover(data, quorate_engine::Options::default(), checks, &clock)?;
        checks.newest(&engines).await?;
        Self::start(data, engines, Settings::default(), door, None).await
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
        self.engines.close().await;
    }
}

/// Whatever is written from here on is closed to others from its first byte.
pub(crate) fn close_to_others() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// A hub's own engine, and the one that keeps its conduct flags.
pub(crate) struct Engines {
    pub(crate) public: Arc<Engine>,
    private: Arc<Engine>,
    /// Whether all of each was checked before it was opened.
    checked: [bool; 2],
}

/// One of the two stores.
struct Part<'a> {
    engine: &'a Engine,
    /// What its spaces are told by in reports.
    prefix: &'static str,
    checked: bool,
}

/// What the spaces of each store are told by.
const PREFIXES: [&str; 2] = ["", "quorate.private/"];

impl Engines {
    fn parts(&self) -> [Part<'_>; 2] {
        let part = |engine, n: usize| Part { engine, prefix: PREFIXES[n], checked: self.checked[n] };
        [part(&self.public, 0), part(&self.private, 1)]
    }

    pub(crate) async fn close(&self) {
        self.public.close().await;
        self.private.close().await;
    }
}

/// Checks the data directory if that is quick, opens it, and says how long that took.
pub(crate) fn recover(
    data: &Path,
    options: quorate_engine::Options,
    checks: Checks,
    clock: &Arc<SystemClock>,
) -> anyhow::Result<Engines> {
    let begun = clock.now();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(data = %data.display(), version, "starting");
    let private_data = quorate_sqlite::private_of(data);
    let checked = [checks.whole(data, PREFIXES[0])?, checks.whole(&private_data, PREFIXES[1])?];
    let start = |options, data: &Path| {
        Engine::start_with(options, clock.clone(), Chance::system(), |wiring| {
            Ok::<_, OpenError>(SqliteStore::open(data, Options::default(), wiring)? as _)
        })
    };
    let public = start(options, data)?;
    // Nothing that the hub reports may depend on conduct flags. That their store has failed is told by `run`.
    let private = tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
        start(quorate_engine::Options::default(), &private_data)
    })?;
    // One that was there before may have been open to others.
    for directory in [data, &private_data] {
        fs::set_permissions(directory, Permissions::from_mode(0o700))
            .with_context(|| format!("cannot close {} to others", directory.display()))?;
    }
    let ms = clock.now().mono.0.saturating_sub(begun.mono.0);
    let spaces = public.store().spaces().len();
    tracing::info!(ms, spaces, "recovered");
    let engines = Engines { public, private, checked };
    engines.parts().iter().filter(|part| part.checked).for_each(|part| part.engine.audited_whole());
    Ok(engines)
}

/// The file by which commands find a hub that runs; gone when it stops. It is a convenience: without it they are told
/// where the hub is.
struct FoundBy(PathBuf);

impl FoundBy {
    fn write(data: &Path, line: &str) -> Self {
        let path = data.join(READY);
        if let Err(error) = fs::write(&path, format!("{line}\n")) {
            let file = path.display();
            tracing::warn!(%file, why = %error, "commands will not find this hub by its directory");
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
        ServeError::Listen { .. } => {
            "another hub may run there: `quorate status` asks it; or give another port, `--port 0` for any"
        }
    };
    Ended { code: USAGE, message: quorate_core::error_chain(&error), hint: hint.to_owned() }.into()
}
