//! `quorate init`: a file to begin with. Never writes over one.

use std::fs::OpenOptions;
use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;

use crate::config::PROJECT_FILE;
use crate::exit::{CONFLICT, Ended};
use crate::text;

/// What the file says, all of it but comments.
const TEMPLATE: &str = "\
# How commands in this directory and below reach their hub.
# Flags and QUORATE_* variables count more; ~/.config/quorate/config.yaml counts less.
# `quorate config explain` says what holds and why. An unknown key is an error.

# Where the hub keeps its data. A hub that runs there is found by itself, and so is
# its admin's token: `quorate serve` and `quorate status` need nothing else.
data: quorate-data

# A hub elsewhere instead. No token goes to an address that only this file names: everybody
# names it once, too (--url, QUORATE_URL, or ~/.config/quorate/config.yaml).
#url: https://hub.example:7867

# The file with the token, inside of this directory. Never the token itself; keep it out of git.
#token_file: .quorate-token

# In which space an admin acts.
#space: default

# Other hubs by name: quorate status --profile staging. Those of everybody's own, with their
# addresses and tokens, are in ~/.config/quorate/config.yaml.
#profiles:
#  staging:
#    url: https://staging.example:7867
#    token_file: .quorate-token-staging
";

/// Writes a commented quorate.yaml.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate init && quorate serve")]
pub(crate) struct InitArgs {
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
    /// Only print what would be written.
    #[arg(long, visible_alias = "stdout")]
    dry_run: bool,
}

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<()> {
    if args.dry_run {
        text::print(TEMPLATE.trim_end());
        text::say(format!("a dry run: {PROJECT_FILE} was not written"));
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
            let message = format!("{PROJECT_FILE} is there already; nothing was changed");
            let hint = "look at it with `quorate config explain`, or write over it with --force";
            return Err(Ended::new(CONFLICT, message, hint).into());
        }
        Err(error) => return Err(error).context(format!("failed to write {PROJECT_FILE}")),
    };
    file.write_all(TEMPLATE.as_bytes()).and_then(|()| file.sync_all()).context("failed to write")?;
    text::say(format!("wrote {PROJECT_FILE}"));
    text::say("next: quorate serve");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::TEMPLATE;
    use crate::config::{Settings, Surroundings};

    #[test]
    fn the_file_is_right_also_with_every_comment_turned_into_a_setting() {
        let place = tempfile::tempdir().expect("a directory");
        let home = place.path().display().to_string();
        let around = Surroundings {
            variables: BTreeMap::from([("HOME".to_owned(), home)]),
            directory: place.path().to_owned(),
        };
        let file = place.path().join("quorate.yaml");
        std::fs::write(&file, TEMPLATE).expect("written");
        assert!(Settings::load(BTreeMap::new(), &around).is_ok());
        // Prose begins with one blank, a setting with none or more.
        let is_prose = |line: &str| line.starts_with("# ") && !line.starts_with("#  ");
        let settings = TEMPLATE.lines().filter(|line| !is_prose(line));
        let all: Vec<&str> = settings.map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
        let all = all.join("\n");
        assert!(all.contains("\nprofiles:\n  staging:\n"), "{all}");
        std::fs::write(&file, &all).expect("written");
        let loaded = Settings::load(BTreeMap::new(), &around);
        assert!(loaded.is_ok(), "{all}\n{:?}", loaded.err());
    }
}
