//! Parses the `--webhook` flags of `serve`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clap::Args;
use quorate_core::{Destination, Refused, SpaceName};
use quorate_server::{WEBHOOK_SECRET_BYTES_MAX, Webhook, Webhooks};

use crate::exit::{CommandError, USAGE};

#[derive(Args, Debug)]
pub(crate) struct WebhookArgs {
    /// Accept signed events at /v1/webhooks/NAME, and send them to an agent, topic:…, role:… or can:….
    /// NAME@SPACE selects another space. Can be repeated.
    #[arg(long = "webhook", value_name = "NAME=SECRET_FILE:DESTINATION")]
    webhooks: Vec<String>,
}

/// A parsed `--webhook` flag.
#[derive(Debug, PartialEq)]
struct WebhookFlag<'a> {
    name: &'a str,
    space: Option<&'a str>,
    file: &'a Path,
    to: &'a str,
}

impl<'a> WebhookFlag<'a> {
    /// Parses a flag. The destination may contain colons, the file name may not.
    fn parse(flag: &'a str) -> Option<Self> {
        let (name, rest) = flag.split_once('=')?;
        let (file, to) = rest.split_once(':')?;
        let (name, space) = match name.split_once('@') {
            Some((name, space)) => (name, Some(space)),
            None => (name, None),
        };
        let is_complete = ![name, file, to].iter().any(|part| part.is_empty());
        is_complete.then_some(Self { name, space, file: Path::new(file), to })
    }
}

impl WebhookArgs {
    /// Parses all flags and reads the secrets. Called before anything is created or opened.
    pub(crate) fn read(&self) -> anyhow::Result<Webhooks> {
        let webhooks = self.webhooks.iter().map(|flag| parse(flag)).collect::<anyhow::Result<_>>()?;
        Ok(Webhooks::new(webhooks).map_err(|refused| invalid_flag("--webhook", &refused))?)
    }
}

fn parse(flag: &str) -> anyhow::Result<Webhook> {
    let parts = WebhookFlag::parse(flag).ok_or_else(|| {
        let hint = "use NAME=SECRET_FILE:DESTINATION, such as github=github.secret:topic:github";
        CommandError::new(USAGE, format!("--webhook {flag}: invalid format"), hint)
    })?;
    let flag = format!("--webhook {}", parts.name);
    let invalid = |refused: Refused| invalid_flag(&flag, &refused);
    let to: Destination = parts.to.parse().map_err(invalid)?;
    let webhook = Webhook::new(parts.name, to, secret_in(parts.file, &flag)?).map_err(invalid)?;
    Ok(match parts.space {
        Some(space) => webhook.in_space(SpaceName::new(space).map_err(invalid)?),
        None => webhook,
    })
}

fn invalid_flag(flag: &str, refused: &Refused) -> CommandError {
    CommandError::new(USAGE, format!("{flag}: {}", refused.detail), refused.hint.clone())
}

/// Reads the secret from a file, without trailing whitespace.
fn secret_in(file: &Path, flag: &str) -> Result<Vec<u8>, CommandError> {
    let unreadable = |error: std::io::Error| {
        let message = format!("{flag}: cannot read the secret in {}: {error}", file.display());
        CommandError::new(USAGE, message, "create one: (umask 077; openssl rand -hex 32 > FILE)")
    };
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if metadata.len() > 2 * WEBHOOK_SECRET_BYTES_MAX as u64 || !metadata.is_file() {
        let message = format!("{flag}: {} is not a secret file", file.display());
        return Err(CommandError::new(USAGE, message, "use a regular file that contains only the secret"));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let fix = format!("chmod 600 {}", file.display());
        let mode = format!("{mode:03o}");
        tracing::warn!(file = %file.display(), mode, fix, "the secret of a webhook is readable by other users");
    }
    let mut secret = fs::read(file).map_err(unreadable)?;
    secret.truncate(secret.trim_ascii_end().len());
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::WebhookFlag;

    #[test]
    fn e1_webhook_flags_are_parsed() {
        let parts = |name, space, file, to| Some(WebhookFlag { name, space, file: Path::new(file), to });
        assert_eq!(WebhookFlag::parse("gh=a/b.secret:bob"), parts("gh", None, "a/b.secret", "bob"));
        assert_eq!(WebhookFlag::parse("gh=s:topic:github.push"), parts("gh", None, "s", "topic:github.push"));
        assert_eq!(
            WebhookFlag::parse("gh@team=s=t:can:review"),
            parts("gh", Some("team"), "s=t", "can:review")
        );
        for invalid in ["", "gh", "gh=", "gh=file", "gh=file:", "gh=:bob", "=file:bob", "gh:file=bob"] {
            assert_eq!(WebhookFlag::parse(invalid), None, "{invalid}");
        }
    }
}
