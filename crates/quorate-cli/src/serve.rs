//! `quorate serve`: runs a hub that agents connect to over the network.

mod admin_token;
mod integrity;
mod network;
mod observe;
mod timeouts;
mod webhooks;

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use quorate_engine::Engine;
use quorate_env::replace_file;
use quorate_server::{App, BoundAddress, JournalFormat, ServeError, Server, Settings, Tls};
use quorate_sqlite::{DirectoryLock, OpenError, Options, SqliteStore};
use quorate_store::{Clock as _, Entropy, StoreError, SystemClock};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use integrity::IntegrityChecks;

use crate::exit::{CommandError, STORAGE_FAILED, USAGE};
use crate::hub::READY_FILE;
use crate::{config, terminal};

/// Default port: QUOR on a phone keypad.
const PORT: u16 = 7867;

/// Arguments of `quorate serve`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate serve --data ./team

When the hub is ready, it prints one line of JSON to stdout, with its address and the path of the admin \
token. On SIGTERM, requests in progress are completed and the exit code is 0. Other exit codes: 64 usage, \
65 damaged data, 74 storage failure.")]
pub(crate) struct ServeArgs {
    /// Data directory; created if missing [env: QUORATE_DATA; default: quorate-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7867")]
    listen: SocketAddr,
    /// Short for --listen 127.0.0.1:PORT; 0 selects a free port.
    #[arg(long, conflicts_with = "listen")]
    port: Option<u16>,
    /// Accepted `Host` header, in addition to localhost; can be repeated.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Allow listening on other interfaces without TLS. Tokens can then be read from the network traffic.
    #[arg(long)]
    insecure_listen: bool,
    #[command(flatten)]
    webhooks: webhooks::WebhookArgs,
    #[command(flatten)]
    network: network::NetworkArgs,
    #[command(flatten)]
    timeouts: timeouts::TimeoutArgs,
    #[command(flatten)]
    check: integrity::IntegrityArgs,
    #[command(flatten)]
    observe: observe::ObserveArgs,
}

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    restrict_umask();
    let data = config::data_directory(args.data.as_deref())?;
    let clock = SystemClock::new();
    let (log_format, otlp) = (args.observe.install_journal(clock.clone())?, args.observe.otlp()?);
    let (tls, webhooks) = (args.network.tls()?, args.webhooks.read()?);
    // Validated before anything is created, so that a failed start leaves no directory and no token behind.
    let listen = args.port.map_or(args.listen, |port| (Ipv4Addr::LOCALHOST, port).into());
    let listener = Listener::new(listen, tls, args.insecure_listen)?;
    let checks = args.check.checks();
    let engines = recover(&data, args.timeouts.engine_options(), checks, &clock)?;
    checks.verify_newest(&engines).await?;
    let settings = Settings {
        hosts: args.host,
        timeouts: args.timeouts.timeouts(),
        limits: args.network.limits(),
        durations: args.timeouts.durations(),
        otlp,
        webhooks,
    };
    // Installed before the ready line is printed, because the reader may send a signal immediately.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let hub = RunningHub::start(&data, engines, settings, listener, Some(log_format)).await?;
    terminal::print(hub.ready.to_string());
    tracing::info!(http = hub.ready["http"].as_str(), url = hub.url(), "ready");
    let failed = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        failure = hub.engines.public.failure() => Some(failure),
        failure = hub.engines.private.failure() => Some(failure),
        // Writes on top of damaged data would be lost with it.
        damaged = checks.run_in_background(&hub.engines) => return Err(damaged.into()),
    };
    if let Some(failure) = failed {
        tracing::error!(error = %failure, "storage failed");
        if let StoreError::Corrupt(reason) = &failure {
            return Err(crate::verify::damaged(reason).into());
        }
        // The outcome of commits in progress is unknown, so this is not a clean shutdown.
        let hint = "check the disk, then restart the hub; everything acknowledged is durable".to_owned();
        return Err(CommandError { code: STORAGE_FAILED, message: failure.to_string(), hint }.into());
    }
    tracing::info!(reason = "signal received; completing requests in progress", "stopping");
    hub.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// A reserved socket and its scheme.
struct Listener {
    reserved: BoundAddress,
    scheme: &'static str,
}

impl Listener {
    fn new(listen: SocketAddr, tls: Option<Tls>, insecure: bool) -> anyhow::Result<Self> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let reserved = match tls {
            Some(tls) => BoundAddress::tls(listen, tls),
            None => BoundAddress::plain(listen, insecure),
        };
        Ok(Self { reserved: reserved.map_err(listen_error)?, scheme })
    }
}

/// A hub of this process that accepts connections.
pub(crate) struct RunningHub {
    engines: Engines,
    app: App,
    server: Server,
    ready_file: ReadyFile,
    /// The ready line.
    ready: Value,
}

impl RunningHub {
    async fn start(
        data: &Path,
        engines: Engines,
        settings: Settings,
        listener: Listener,
        log_format: Option<JournalFormat>,
    ) -> anyhow::Result<Self> {
        let Engines { public, private, .. } = &engines;
        let app = App::new(Arc::clone(public), Arc::clone(private), settings).await?;
        let space = public.space("default".parse()?).await?;
        let token_file = admin_token::token_file(data, &space, log_format).await?;
        let Listener { reserved, scheme } = listener;
        let server = reserved.listen(app.clone()).map_err(listen_error)?;
        let address = server.address().to_string();
        let mut ready = json!({
            "event": "ready",
            "http": address,
            "url": format!("{scheme}://{address}"),
            "data": data,
            "adminTokenFile": token_file,
            // Commands trust the file below only if this process holds the lock of the directory.
            "pid": std::process::id(),
        });
        if scheme == "https" {
            ready["https"] = address.into();
        }
        // Commands on this machine discover the hub by this file.
        let ready_file = ReadyFile::write(data, &ready.to_string());
        Ok(Self { engines, app, server, ready_file, ready })
    }

    /// Starts a hub for the duration of a command, on loopback only: on the default port, or else on a free one.
    pub(crate) async fn start_temporary(data: &Path) -> anyhow::Result<Self> {
        restrict_umask();
        let listener =
            Listener { reserved: BoundAddress::loopback(PORT).map_err(listen_error)?, scheme: "http" };
        let (clock, checks) = (SystemClock::new(), IntegrityChecks::default());
        let engines = recover(data, quorate_engine::Options::default(), checks, &clock)?;
        checks.verify_newest(&engines).await?;
        Self::start(data, engines, Settings::default(), listener, None).await
    }

    /// Returns the URL of the hub.
    pub(crate) fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap_or_default()
    }

    /// Completes requests in progress, and closes the data directory.
    pub(crate) async fn stop(self) {
        drop(self.ready_file);
        self.server.drain().await;
        self.app.flush_telemetry().await;
        self.engines.close().await;
    }
}

/// Sets the umask, so that new files are accessible only by their owner from the start.
pub(crate) fn restrict_umask() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// The main engine of a hub, and the private engine that stores conduct flags.
pub(crate) struct Engines {
    pub(crate) public: Arc<Engine>,
    private: Arc<Engine>,
    /// Whether each store was verified completely before it was opened.
    checked: [bool; 2],
}

/// One of the two stores.
struct StoreEngine<'a> {
    engine: &'a Engine,
    /// Prefix of its space names in reports.
    prefix: &'static str,
    checked: bool,
}

/// Prefixes of the space names of each store in reports.
const PREFIXES: [&str; 2] = ["", "quorate.private/"];

impl Engines {
    fn stores(&self) -> [StoreEngine<'_>; 2] {
        let store = |engine, n: usize| StoreEngine { engine, prefix: PREFIXES[n], checked: self.checked[n] };
        [store(&self.public, 0), store(&self.private, 1)]
    }

    pub(crate) async fn close(&self) {
        self.public.close().await;
        self.private.close().await;
    }
}

/// Verifies the data directory if it is small, opens it, and logs how long that took.
pub(crate) fn recover(
    data: &Path,
    options: quorate_engine::Options,
    checks: IntegrityChecks,
    clock: &Arc<SystemClock>,
) -> anyhow::Result<Engines> {
    let start_time = clock.now();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(data = %data.display(), version, "starting");
    let private_data = quorate_sqlite::private_directory(data);
    // Locked once, before anything is read, so that of several processes that start at once exactly one continues.
    let lock = DirectoryLock::acquire(data)?;
    let private_exists = quorate_sqlite::database_bytes(&private_data).is_some();
    let private_lock = private_exists.then(|| DirectoryLock::acquire(&private_data)).transpose()?;
    let checked = [
        checks.verify_all(&lock, PREFIXES[0])?,
        private_lock.as_ref().map_or(Ok(false), |lock| checks.verify_all(lock, PREFIXES[1]))?,
    ];
    let start = |options, lock| {
        Engine::start_with(options, clock.clone(), Entropy::system(), |context| {
            Ok::<_, OpenError>(SqliteStore::open_locked(lock, Options::default(), context)? as _)
        })
    };
    let public = start(options, lock)?;
    let private_lock = private_lock.map_or_else(|| DirectoryLock::acquire(&private_data), Ok)?;
    // No log output may depend on conduct flags, so their store logs nothing; `run` reports its failure.
    let private = tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), || {
        start(quorate_engine::Options::default(), private_lock)
    })?;
    // An existing directory may be accessible by other users.
    for directory in [data, &private_data] {
        fs::set_permissions(directory, Permissions::from_mode(0o700))
            .with_context(|| format!("cannot restrict the permissions of {}", directory.display()))?;
    }
    let ms = clock.now().mono.0.saturating_sub(start_time.mono.0);
    let spaces = public.store().spaces().len();
    tracing::info!(ms, spaces, "recovered");
    let engines = Engines { public, private, checked };
    engines.stores().iter().filter(|store| store.checked).for_each(|store| store.engine.mark_all_audited());
    Ok(engines)
}

/// The file by which commands discover a running hub; deleted when the hub stops. Without it, commands need the URL.
struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Replaces the file atomically: a script that waits for it never reads a part of it.
    fn write(data: &Path, line: &str) -> Self {
        let path = data.join(READY_FILE);
        if let Err(error) = replace_file(&path, format!("{line}\n").as_bytes(), None) {
            let file = path.display();
            tracing::warn!(%file, error = %error, "commands cannot discover this hub by its data directory");
        }
        Self(path)
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn listen_error(error: ServeError) -> anyhow::Error {
    let hint = match &error {
        ServeError::NotLoopback(_) => {
            "use --tls-cert and --tls-key, listen on 127.0.0.1, or use --insecure-listen on a trusted network"
        }
        ServeError::Listen { .. } => {
            "another hub may be running there: check with `quorate status`, or use another port (`--port 0` for any)"
        }
    };
    CommandError { code: USAGE, message: quorate_core::error_chain(&error), hint: hint.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    // Fails under: a file that is truncated and then filled, which a waiting script can read while it is empty.
    #[test]
    fn the_ready_file_is_replaced_atomically() {
        let data = tempfile::tempdir().expect("a directory");
        fs::write(data.path().join(READY_FILE), "before\n").expect("written");
        let mut opened = fs::File::open(data.path().join(READY_FILE)).expect("it is there");
        let ready = ReadyFile::write(data.path(), "after");
        let mut read = String::new();
        opened.read_to_string(&mut read).expect("read");
        assert_eq!(read, "before\n", "a reader that opened the file before still reads the old content");
        assert_eq!(fs::read_to_string(&ready.0).expect("read"), "after\n");
        drop(ready);
        assert_eq!(fs::read_dir(data.path()).expect("read").count(), 0, "nothing is left behind");
    }
}
