//! `quorate init`: creates a commented `quorate.yaml`. Overwrites an existing file only with `--force`.

use std::fs::OpenOptions;
use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;

use crate::config::PROJECT_FILE;
use crate::exit::{CONFLICT, CommandError};
use crate::terminal;

/// Content of the file.
const TEMPLATE: &str = "\
# Connection settings for commands in this directory and below.
# Options and QUORATE_* variables override this file; it overrides ~/.config/quorate/config.yaml.
# `quorate config explain` prints each value and its source. Unknown keys are errors.

# Data directory of the hub. A hub running there and its admin token are discovered
# automatically: `quorate serve` and `quorate status` need no other setting.
data: quorate-data

# Or the URL of a remote hub. No token is sent to a URL that only this file sets: each user
# must set it as well (--url, QUORATE_URL, or ~/.config/quorate/config.yaml).
#url: https://hub.example:7867

# File with the access token, inside this directory. Keep it out of version control.
#token_file: .quorate-token

# Space to act in; requires an admin token of the space `default`.
#space: default

# Named profiles: quorate status --profile staging. Define personal profiles in
# ~/.config/quorate/config.yaml.
#profiles:
#  staging:
#    url: https://staging.example:7867
#    token_file: .quorate-token-staging
";

/// Arguments of `quorate init`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate init && quorate serve")]
pub(crate) struct InitArgs {
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Print the file instead of writing it.
    #[arg(long, visible_alias = "stdout")]
    dry_run: bool,
}

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<()> {
    if args.dry_run {
        terminal::print(TEMPLATE.trim_end());
        terminal::note(format!("dry run: {PROJECT_FILE} was not written"));
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.write(true);
    if args.force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = match options.open(PROJECT_FILE) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let message = format!("{PROJECT_FILE} already exists; nothing was changed");
            let hint = "inspect it with `quorate config explain`, or overwrite it with --force";
            return Err(CommandError::new(CONFLICT, message, hint).into());
        }
        Err(error) => return Err(error).context(format!("failed to write {PROJECT_FILE}")),
    };
    file.write_all(TEMPLATE.as_bytes()).and_then(|()| file.sync_all()).context("failed to write")?;
    terminal::note(format!("wrote {PROJECT_FILE}"));
    terminal::note("next: quorate serve");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::TEMPLATE;
    use crate::config::{ProcessContext, Settings};

    #[test]
    fn the_template_is_valid_with_and_without_the_commented_keys() {
        let directory = tempfile::tempdir().expect("a directory");
        let home = directory.path().display().to_string();
        let context = ProcessContext {
            variables: BTreeMap::from([("HOME".to_owned(), home)]),
            directory: directory.path().to_owned(),
        };
        let file = directory.path().join("quorate.yaml");
        std::fs::write(&file, TEMPLATE).expect("written");
        assert!(Settings::load(BTreeMap::new(), &context).is_ok());
        // Comments begin with one space after the `#`, commented keys with none or more.
        let is_prose = |line: &str| line.starts_with("# ") && !line.starts_with("#  ");
        let settings = TEMPLATE.lines().filter(|line| !is_prose(line));
        let all: Vec<&str> = settings.map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
        let all = all.join("\n");
        assert!(all.contains("\nprofiles:\n  staging:\n"), "{all}");
        std::fs::write(&file, &all).expect("written");
        let loaded = Settings::load(BTreeMap::new(), &context);
        assert!(loaded.is_ok(), "{all}\n{:?}", loaded.err());
    }
}
