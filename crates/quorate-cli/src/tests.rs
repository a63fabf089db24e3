//! Consistency of all commands: each has an example, and a tag unless it has subcommands; each write has `--dry-run`, and every command that a hint or a
//! document mentions exists.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};

use crate::Cli;

/// Collects all visible commands with their paths.
fn collect(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help")
    {
        let path = format!("{path} {}", subcommand.get_name());
        found.push((path.clone(), subcommand.clone()));
        collect(subcommand, &path, found);
    }
}

fn commands() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    collect(&Cli::command(), "quorate", &mut found);
    found
}

#[test]
fn the_clap_definitions_are_valid() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_has_a_tag_and_its_own_example() {
    for (path, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let has_tag = about.ends_with("[ro]") || about.ends_with("[rw]");
        assert_eq!(
            has_tag,
            !command.has_subcommands(),
            "only a command without subcommands has a tag: {path}: {about}"
        );
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.starts_with("Example: quorate"), "{path} has no example: {after}");
        assert!(after.contains(&path), "the example of {path} shows another command: {after}");
    }
}

// Fails under: a help text that is wrapped in the source, and again by clap, which leaves lines of one word.
#[test]
fn help_texts_are_wrapped_once() {
    const COLUMNS: usize = 78;
    for (path, command) in commands() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for paragraph in after.split("\n\n") {
            let lines: Vec<&str> = paragraph.lines().collect();
            let is_example = |line: &str| line.starts_with([' ', '\t']) || line.starts_with("Example:");
            let is_layout = lines.iter().all(|line| is_example(line));
            assert!(is_layout || lines.len() == 1, "{path}: a paragraph is one line:\n{paragraph}");
            let is_wide = is_layout && lines.iter().any(|line| line.chars().count() > COLUMNS);
            assert!(!is_wide, "{path}: an example or table is wider than {COLUMNS} columns:\n{paragraph}");
        }
    }
}

#[test]
fn every_write_has_a_dry_run() {
    // These overwrite nothing, or are the hub itself.
    let exempt = ["serve", "demo", "bench"];
    for (path, command) in commands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let is_leaf = command.get_subcommands().next().is_none();
        let name = path.trim_start_matches("quorate ");
        if is_leaf && about.ends_with("[rw]") && !exempt.contains(&name) {
            assert!(command.get_arguments().any(|arg| arg.get_id() == "dry_run"), "{path} has no --dry-run");
        }
    }
}

#[test]
fn every_command_that_prints_data_prints_json() {
    // These print files, scripts or pages, or always print JSON.
    let exempt = ["serve", "init", "explain", "completions", "man", "cert", "cert dev"];
    for (path, mut command) in commands() {
        let is_leaf = command.get_subcommands().next().is_none();
        let name = path.trim_start_matches("quorate ");
        if is_leaf && !exempt.contains(&name) {
            command.build();
            let root = path.split(' ').nth(1).unwrap_or_default();
            let parent = Cli::command().find_subcommand(root).cloned();
            let has_json = |command: &Command| command.get_arguments().any(|arg| arg.get_id() == "json");
            let prints = has_json(&command) || parent.is_some_and(|parent| has_json(&parent));
            assert!(prints || name.starts_with("audit"), "{path} has no --json");
        }
    }
}

/// Collects the files of a directory with this suffix, except tests.
fn files(directory: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() && !entry.ends_with("tests") {
            files(&entry, suffix, found);
        } else if entry.to_string_lossy().ends_with(suffix) && !entry.ends_with("tests.rs") {
            found.push(entry);
        }
    }
}

/// Returns the words of each command in a line, after `quorate `.
fn mentioned_commands(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.match_indices("quorate ").filter_map(|(offset, word)| {
        // Not the end of a path or of another word.
        let before = line[..offset].chars().next_back();
        let rest = &line[offset + word.len()..];
        let is_word = before.is_none_or(|c| !c.is_alphanumeric() && !"/-_.".contains(c));
        let terminators = ['`', '"', ';', '|', '>', '&', '(', ')', ',', '\\', '→', '#'];
        let command = rest.split(terminators).next().unwrap_or_default();
        let words: Vec<&str> =
            command.split_whitespace().map(|word| word.trim_end_matches(['.', ':'])).collect();
        let first = words.first().and_then(|word| word.chars().next());
        // `quorate` is also a field of dialects; "quorate holds" describes it.
        let is_command = first.is_some_and(|c| c.is_ascii_lowercase()) && words[0] != "holds";
        (is_word && is_command).then_some(words)
    })
}

/// Returns the error of a mentioned command: an unknown subcommand or option.
fn find_error(root: &Command, words: &[&str]) -> Option<String> {
    let (mut command, mut known) = (root, vec![root]);
    let mut rest = words.iter();
    for word in rest.by_ref() {
        match command.find_subcommand(word) {
            Some(subcommand) => {
                command = subcommand;
                known.push(subcommand);
            }
            None if command.has_subcommands() && !word.starts_with("--") => {
                return Some(format!("unknown command {word}"));
            }
            None => break,
        }
        if !command.has_subcommands() {
            break;
        }
    }
    let flags = words.iter().filter_map(|word| word.strip_prefix("--")).map(|flag| {
        flag.split(['=', '\'', '{'])
            .next()
            .unwrap_or_default()
            .trim_end_matches(|c: char| !c.is_alphanumeric())
    });
    let is_known = |flag: &str| {
        let matches = |arg: &clap::Arg| {
            arg.get_long() == Some(flag) || arg.get_visible_aliases().is_some_and(|all| all.contains(&flag))
        };
        ["", "help", "version"].contains(&flag)
            || known.iter().any(|command| command.get_arguments().any(matches))
    };
    let mut flags = flags;
    flags.find(|flag| !is_known(flag)).map(|flag| format!("unknown option --{flag}"))
}

// Fails under: a hint, a help text or a document that mentions an unknown command or option.
#[test]
fn every_mentioned_command_exists() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut sources, mut pages) = (Vec::new(), vec![repository.join("README.md")]);
    files(&repository.join("crates"), ".rs", &mut sources);
    files(&repository.join("docs/errors"), ".md", &mut pages);
    files(&repository.join("docs/guides"), ".md", &mut pages);
    let mut root = Cli::command();
    root.build();
    let (mut seen, mut errors) = (0, Vec::new());
    let mut check = |file: &Path, line: &str| {
        for words in mentioned_commands(line) {
            seen += 1;
            errors.extend(
                find_error(&root, &words)
                    .map(|error| format!("{}: quorate {}: {error}", file.display(), words.join(" "))),
            );
        }
    };
    for file in sources {
        let text = fs::read_to_string(&file).expect("text");
        let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        lines.filter(|line| !line.starts_with("use ")).for_each(|line| check(&file, line));
    }
    for file in pages {
        let text = fs::read_to_string(&file).expect("text");
        // Code spans and code blocks are every second piece between backticks.
        let code = text.split('`').skip(1).step_by(2).chain(text.split("```").skip(1).step_by(2));
        code.flat_map(str::lines).for_each(|line| check(&file, line));
    }
    assert!(seen > 200, "only {seen} commands were found");
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn an_unknown_command_is_detected() {
    let mut root = Cli::command();
    root.build();
    let find_error = |line: &str| mentioned_commands(line).find_map(|words| find_error(&root, &words));
    assert_eq!(find_error("help: `quorate inbox purge bob`").as_deref(), Some("unknown command inbox"));
    assert_eq!(find_error("try quorate msg purge").as_deref(), Some("unknown command purge"));
    assert_eq!(find_error("quorate msg list --dead --all").as_deref(), Some("unknown option --all"));
    assert_eq!(find_error("quorate msg list --to {id} --data DIR, or what else"), None);
}
