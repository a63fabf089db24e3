//! The admin token of a data directory, which gives the owner of the files access. The hub stores it in a file. If it is missing
//! or no longer valid (restored directory, lost file, revoked token), the hub creates a new one at startup and revokes the
//! old one.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quorate_core::{AccessToken, Bearer, Commit, CreateToken, Op, Principal, Secret, TokenName, TokenRole};
use quorate_engine::Space;
use quorate_server::JournalFormat;

use crate::hub::ADMIN_TOKEN_FILE;
use crate::terminal;

/// Name of the token that the hub creates.
const NAME: &str = "bootstrap";

/// Returns the path of the admin token, after creating a valid token if needed. `log_format` is the format of the log on
/// stderr, if there is one.
pub(super) async fn token_file(
    data: &Path,
    space: &Space,
    log_format: Option<JournalFormat>,
) -> anyhow::Result<PathBuf> {
    let path = data.join(ADMIN_TOKEN_FILE);
    let tokens = space.tokens();
    let is_admin = |token: &AccessToken| token.bearer == Bearer::Holder(TokenRole::Admin);
    let digest = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<Secret>().ok());
    let digest = digest.map(|secret| secret.digest());
    if tokens.list().iter().any(|token| Some(token.digest) == digest && is_admin(token)) {
        return Ok(path);
    }
    let (secret, name) = (space.generate_secret(), TokenName::new(NAME)?);
    // Earlier tokens of the hub are revoked in the same commit, so that a lost file cannot be used. If the process crashes
    // before the new file is written, the next start revokes the unused token and creates another.
    let is_by_hub =
        |token: &AccessToken| token.name == name && token.created_by == Principal::System.to_text();
    let old = tokens.list().into_iter().filter(|token| is_admin(token) && is_by_hub(token));
    let mut ops: Vec<Op> = old.map(|token| Op::RevokeToken { token: token.id }).collect();
    ops.push(Op::CreateToken(CreateToken {
        digest: secret.digest(),
        bearer: Bearer::Holder(TokenRole::Admin),
        name,
        expires_at: None,
        parent: None,
    }));
    space.commit(Commit::new(Principal::System, ops)).await?;
    write_secret(&path, &secret).with_context(|| format!("cannot write {}", path.display()))?;
    tracing::info!(file = %path.display(), "created the admin token");
    // Printed only to a terminal, never to a log that is stored.
    if log_format == Some(JournalFormat::Plain) && io::stderr().is_terminal() {
        terminal::note(format!("admin token: {}", secret.reveal()));
    }
    Ok(path)
}

/// Writes the file atomically, by renaming a temporary file.
fn write_secret(path: &Path, secret: &Secret) -> io::Result<()> {
    let partial = path.with_extension("partial");
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    writeln!(file, "{}", secret.reveal())?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
