//! The admin token of a data directory, which gives the owner of the files access. The hub stores it in a file. If it is missing
//! or no longer valid (restored directory, lost file, revoked token), the hub creates a new one at startup and revokes the
//! old one.

use std::fs::{self, Permissions};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quorate_core::{
    AccessToken, Bearer, Commit, CreateToken, Grants, Op, Principal, Secret, TokenName, TokenRole,
};
use quorate_engine::Space;
use quorate_env::replace_file;
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
    restrict(&path).with_context(|| format!("cannot restrict the permissions of {}", path.display()))?;
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
        grants: Grants::default(),
    }));
    space.commit(Commit::new(Principal::System, ops)).await?;
    let line = format!("{}\n", secret.reveal());
    replace_file(&path, line.as_bytes(), Some(0o600))
        .with_context(|| format!("cannot write {}", path.display()))?;
    tracing::info!(file = %path.display(), "created the admin token");
    // Printed only to a terminal, never to a log that is stored.
    if log_format == Some(JournalFormat::Plain) && io::stderr().is_terminal() {
        terminal::note(format!("admin token: {}", secret.reveal()));
    }
    Ok(path)
}

/// Restricts the file to its owner, with a warning: it may have been copied by hand.
fn restrict(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let (file, mode) = (path.display(), format!("{mode:04o}"));
        tracing::warn!(
            %file,
            mode,
            "other users could read the admin token; restricted it. To replace the token, delete the file and restart"
        );
    }
    Ok(())
}
