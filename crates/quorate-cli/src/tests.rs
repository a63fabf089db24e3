//! The commands as a whole: every one is tagged and has an example, every write can be tried dry.

use clap::{Command, CommandFactory as _};

use crate::Cli;

/// Every command that is shown, with its path.
fn all(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        found.push((path.clone(), sub.clone()));
        all(sub, &path, found);
    }
}

fn commands() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    all(&Cli::command(), "quorate", &mut found);
    found
}

#[test]
fn the_commands_fit_together() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_is_tagged_and_has_an_example_that_is_its_own() {
    for (path, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.ends_with("[ro]") || about.ends_with("[rw]"), "{path} has no tag: {about}");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.starts_with("Example: quorate"), "{path} has no example: {after}");
        assert!(after.contains(&path), "the example of {path} shows another command: {after}");
    }
}

#[test]
fn every_write_can_be_tried_dry() {
    // These make things of their own and write over nothing, or are the hub itself.
    let free = ["serve", "demo", "bench"];
    for (path, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let leaf = command.get_subcommands().next().is_none();
        let name = path.trim_start_matches("quorate ");
        if leaf && about.ends_with("[rw]") && !free.contains(&name) {
            assert!(command.get_arguments().any(|one| one.get_id() == "dry_run"), "{path} has no --dry-run");
        }
    }
}

#[test]
fn every_command_that_prints_data_prints_json() {
    // These print what is no data: files, scripts, pages; or JSON anyway.
    let free = ["serve", "init", "explain", "completions", "man", "cert", "cert dev"];
    for (path, mut command) in commands() {
        let leaf = command.get_subcommands().next().is_none();
        let name = path.trim_start_matches("quorate ");
        if leaf && !free.contains(&name) {
            command.build();
            let root = path.split(' ').nth(1).unwrap_or_default();
            let noun = Cli::command().find_subcommand(root).cloned();
            let has = |command: &Command| command.get_arguments().any(|one| one.get_id() == "json");
            let prints = has(&command) || noun.is_some_and(|noun| has(&noun));
            assert!(prints || name.starts_with("audit"), "{path} has no --json");
        }
    }
}
