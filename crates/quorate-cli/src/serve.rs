//! `quorate serve`: a hub that others talk to over the network.

mod times;
mod wall;

use std::fs::{self, OpenOptions, Permissions};
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use quorate_core::{Bearer, Commit, CreateToken, Op, Principal, Secret, TokenName, TokenRole};
use quorate_engine::{Engine, Space};
use quorate_server::{App, Listening, ServeError, Settings};
use quorate_sqlite::{OpenError, Options, SqliteStore};
use quorate_store::{Chance, SystemClock};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Ended, STORAGE_FAILED, USAGE_OF_SERVE};
use crate::hub::{ADMIN_TOKEN, READY};
use crate::{config, text};

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
}

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    // Whatever is written from here on is closed to others from its first byte.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let tls = args.wall.tls()?;
    let data = config::data_directory(args.data.as_deref())?;
    let mut opened = None;
    let (clock, chance) = (SystemClock::new(), Chance::system());
    let engine = Engine::start_with(args.times.engine(), clock, chance, |wiring| {
        let store = SqliteStore::open(&data, Options::default(), wiring)?;
        opened = Some(Arc::clone(&store));
        Ok::<_, OpenError>(store as _)
    })?;
    // One that was there before may have been open to others.
    fs::set_permissions(&data, Permissions::from_mode(0o700))
        .with_context(|| format!("cannot close {} to others", data.display()))?;
    let settings = Settings {
        hosts: args.host,
        patience: args.times.patience(),
        limits: args.wall.limits(),
        times: args.times.times(),
    };
    let app = App::new(Arc::clone(&engine), settings).await?;
    let space = engine.space("default".parse()?).await?;
    let token_file = admin_token(&data, &space).await?;
    // Before anything is announced: whoever reads the line may send a signal at once.
    let (mut end, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening = match tls {
        Some(tls) => Listening::start_tls(app, args.listen, tls).await,
        None => Listening::start(app, args.listen, args.insecure_listen).await,
    };
    let listening = listening.map_err(in_words)?;
    let ready = json!({
        "event": "ready",
        scheme: listening.address().to_string(),
        "url": format!("{scheme}://{}", listening.address()),
        "data": data,
        "adminTokenFile": token_file,
    });
    // For commands on this machine: they find the hub by its data directory.
    let found_by = FoundBy::write(&data, &ready.to_string());
    text::print(ready.to_string());
    let failed = tokio::select! {
        _ = end.recv() => None,
        _ = interrupt.recv() => None,
        failure = engine.failure() => Some(failure),
    };
    if let Some(failure) = failed {
        // Nothing more is acknowledged; what was under way is unknown, and a clean end would hide that.
        let hint = "look at the disk, then start the hub again: everything acknowledged is there".to_owned();
        return Err(Ended { code: STORAGE_FAILED, message: failure.to_string(), hint }.into());
    }
    drop(found_by);
    text::say("stopping: requests under way may end");
    listening.drain().await;
    engine.close().await;
    Ok(())
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
async fn admin_token(data: &Path, space: &Space) -> anyhow::Result<PathBuf> {
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
