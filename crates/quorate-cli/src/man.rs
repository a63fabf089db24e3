//! `quorate man` and `quorate completions`, generated from the clap definitions.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use quorate_env::replace_file;

use crate::exit::{CommandError, NOT_FOUND};
use crate::{Cli, terminal};

/// Arguments of `quorate man`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate man msg send | man -l -

To write all pages: quorate man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Command to print the page of; by default the top-level page.
    command: Vec<String>,
    /// Write all pages to this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
    /// Print the names of the pages without writing them.
    #[arg(long, requires = "out")]
    dry_run: bool,
}

/// Arguments of `quorate completions`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate completions fish > ~/.config/fish/completions/quorate.fish

For bash, add this line to ~/.bashrc: source <(quorate completions bash)")]
pub(crate) struct CompletionsArgs {
    /// Shell to generate the script for.
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "quorate", &mut script);
    terminal::print(String::from_utf8_lossy(&script).trim_end());
}

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<()> {
    let mut root = Cli::command();
    // Sets the display name of each command to its full path, such as `quorate-msg-send`.
    root.build();
    if let Some(directory) = &args.out {
        let mut pages = Vec::new();
        collect(&root, &mut pages);
        if !args.dry_run {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("failed to create {}", directory.display()))?;
        }
        for command in &pages {
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            let file = directory.join(format!("{name}.1"));
            if !args.dry_run {
                replace_file(&file, &page(command)?, None)
                    .with_context(|| format!("failed to write {}", file.display()))?;
            }
            terminal::print(file.display().to_string());
        }
        let verb = if args.dry_run { "would write" } else { "wrote" };
        terminal::note(format!("{verb} {} pages", pages.len()));
        return Ok(());
    }
    let mut command = &root;
    for word in &args.command {
        let missing = || {
            let message = format!("unknown command {}", terminal::sanitize_line(&args.command.join(" ")));
            CommandError::new(NOT_FOUND, message, "run `quorate --help` to list the commands")
        };
        command = command.find_subcommand(word).ok_or_else(missing)?;
    }
    terminal::print(String::from_utf8(page(command)?)?.trim_end());
    Ok(())
}

fn collect<'a>(command: &'a Command, pages: &mut Vec<&'a Command>) {
    pages.push(command);
    let subcommands = command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help");
    subcommands.for_each(|subcommand| collect(subcommand, pages));
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    // The text after the options always begins with an example.
    Ok(String::from_utf8(page)?.replace(".SH EXTRA\n", ".SH EXAMPLES\n").into_bytes())
}
