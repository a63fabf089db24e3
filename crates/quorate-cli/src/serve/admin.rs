//! The admin's token of a data directory: whoever owns the files gets in. The hub keeps one such token in a file. Where it
//! is missing or good no more (a directory that was restored, a file that was lost, a token that was revoked), the start makes a
//! new one and ends the old.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quorate_core::{AccessToken, Bearer, Commit, CreateToken, Op, Principal, Secret, TokenName, TokenRole};
use quorate_engine::Space;
use quorate_server::Style;

use crate::hub::ADMIN_TOKEN;
use crate::text;

/// What the hub calls the token that it makes by itself.
const NAME: &str = "first";

/// The file with the admin's token, which is good when this ends. `log_style` is that of the lines on stderr, if there are any.
pub(super) async fn token_file(
    data: &Path,
    space: &Space,
    log_style: Option<Style>,
) -> anyhow::Result<PathBuf> {
    let path = data.join(ADMIN_TOKEN);
    let tokens = space.tokens();
    let is_admins = |token: &AccessToken| token.bearer == Bearer::Holder(TokenRole::Admin);
    let found = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<Secret>().ok());
    let found = found.map(|secret| secret.digest());
    if tokens.list().iter().any(|token| Some(token.digest) == found && is_admins(token)) {
        return Ok(path);
    }
    let (secret, name) = (space.draw_secret(), TokenName::new(NAME)?);
    // One at a time: whoever has the file that is gone here does not get in with it. So a crash before the new file is
    // written does no harm either: the next start ends the token that nobody has, and makes another.
    let by_hub = |token: &AccessToken| token.name == name && token.created_by == Principal::System.to_text();
    let old = tokens.list().into_iter().filter(|token| is_admins(token) && by_hub(token));
    let mut ops: Vec<Op> = old.map(|token| Op::RevokeToken { token: token.id }).collect();
    ops.push(Op::CreateToken(CreateToken {
        digest: secret.digest(),
        bearer: Bearer::Holder(TokenRole::Admin),
        name,
        expires_at: None,
    }));
    space.commit(Commit::new(Principal::System, ops)).await?;
    write_secret(&path, &secret).with_context(|| format!("cannot write {}", path.display()))?;
    tracing::info!(file = %path.display(), "the admin's token is made");
    // To a person at a terminal, and never into what a machine keeps.
    if log_style == Some(Style::Plain) && io::stderr().is_terminal() {
        text::say(format!("it is {}", secret.reveal()));
    }
    Ok(path)
}

/// Writes the file at once or not at all.
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
