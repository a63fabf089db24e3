//! Hints for terminal users. The hub's hints are written for API clients; where one names an HTTP call or a header, it is
//! replaced by the equivalent command. Hints that apply to both are passed through.

use clap::CommandFactory as _;
use quorate_core::Code;

use crate::Cli;

/// Commands with a `list` subcommand.
const LISTABLE: [&str; 13] = [
    "agent",
    "approval",
    "budget",
    "deliberation",
    "flag",
    "lock",
    "memory",
    "msg",
    "procedure",
    "request",
    "session",
    "task",
    "token",
];

/// Substrings of hints that only an HTTP client can follow.
const HTTP_ONLY: [&str; 7] =
    ["/v1/", "openapi", "Quorate-", "Authorization", "header", "register", "the resources of this kind"];

/// Hint for an agent that is not registered.
const REGISTER_HINT: &str =
    "list agents with `quorate agent list`, or register one with `quorate agent add NAME`";

/// The arguments of this process, to derive hints from: command, subcommand and operands.
pub(crate) struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Reads the arguments of this process.
    pub(crate) fn from_env() -> Self {
        Self::new(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
    }

    fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self { words: words.into_iter().collect() }
    }

    /// Returns the word at a position, counting only the words before the first option.
    fn word(&self, index: usize) -> Option<&str> {
        let is_operand = |word: &&String| !word.starts_with('-');
        self.words.iter().take_while(is_operand).nth(index).map(String::as_str)
    }

    fn has(&self, option: &str) -> bool {
        self.words.iter().any(|word| word == option || word.starts_with(&format!("{option}=")))
    }

    /// Returns the options that select the hub and the token, each after a space, for another command.
    pub(crate) fn connection_options(&self) -> String {
        const VALUED: [&str; 6] = ["--url", "--data", "--token-file", "--space", "--ca-file", "--profile"];
        let mut options = String::new();
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            if VALUED.contains(&name) || name == "--insecure-http" {
                options.push_str(&format!(" {}", shell_quoted(word)));
                if VALUED.contains(&word.as_str())
                    && let Some(value) = words.next()
                {
                    options.push_str(&format!(" {}", shell_quoted(value)));
                }
            }
        }
        options
    }

    /// Returns this command again, without the options `dropped` and their values, followed by `added`.
    pub(crate) fn again_with(&self, dropped: &[&str], added: &str) -> String {
        let mut command = "quorate".to_owned();
        let mut words = self.words.iter();
        while let Some(word) = words.next() {
            if dropped.contains(&word.as_str()) {
                words.next();
            } else if !dropped.iter().any(|option| word.starts_with(&format!("{option}="))) {
                command.push_str(&format!(" {}", shell_quoted(word)));
            }
        }
        quorate_core::redact_tokens(&format!("{command} {added}")).into_owned()
    }

    /// Returns the command without operands, such as `quorate memory get`.
    pub(crate) fn command(&self) -> String {
        let (mut command, mut path) = (&Cli::command(), "quorate".to_owned());
        for word in self.words.iter().filter(|word| !word.starts_with('-')) {
            let Some(sub) = command.find_subcommand(word) else { break };
            path = format!("{path} {}", sub.get_name());
            command = sub;
        }
        path
    }
}

/// Quotes a word for a shell, if it needs quotes.
fn shell_quoted(word: &str) -> String {
    let is_plain = |ch: char| ch.is_ascii_alphanumeric() || "-_./:=@%+,".contains(ch);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns the hint to print for a refused request.
pub(crate) fn terminal_hint(code: Code, message: &str, hint: &str, command_line: &CommandLine) -> String {
    if message.contains("would travel unencrypted") {
        return "use https, or allow plain HTTP with --insecure-http".to_owned();
    }
    if code == Code::StaleEpoch {
        return "stop this process: another one registered the agent later; to take over:\nexport QUORATE_EPOCH=$(quorate agent register)"
            .to_owned();
    }
    if message == "agent is missing" {
        return "name the agent: --agent AGENT, or use the token of an agent: --token-file FILE".to_owned();
    }
    if code == Code::NotFound
        && command_line.word(0) == Some("msg")
        && command_line.word(1) == Some("redrive")
    {
        return "run `quorate msg list --dead` to list dead letters".to_owned();
    }
    if !hint.is_empty() && !HTTP_ONLY.iter().any(|term| hint.contains(term)) {
        return hint.replace("`why`", &format!("`{}`", why_command(message, command_line)));
    }
    let noun = command_line.word(0).unwrap_or_default();
    match code {
        _ if message.contains("space") && command_line.has("--space") => {
            "omit --space, or name an existing space; `quorate verify` lists the spaces of a data directory"
                .to_owned()
        }
        Code::Invalid => format!("see `{} --help` for the accepted values", command_line.command()),
        Code::UnknownRecipient => {
            REGISTER_HINT.to_owned()
        }
        Code::NotFound if noun == "memory" && message.contains("never existed") => {
            "run `quorate memory list` to list the keys".to_owned()
        }
        Code::NotFound
            if noun == "memory" && (command_line.has("--version") || command_line.has("--to-version")) =>
        {
            format!("run `quorate memory log {}` to list its versions", command_line.word(2).unwrap_or("KEY"))
        }
        // The acting agent is not registered.
        Code::NotFound | Code::Unauthenticated if hint.contains("register") => {
            REGISTER_HINT.to_owned()
        }
        Code::NotFound if LISTABLE.contains(&noun) => format!("run `quorate {noun} list` to list them"),
        Code::Unauthenticated => {
            "create a token on the hub's machine with `quorate token create`, and pass it with --token-file FILE"
                .to_owned()
        }
        // No command matches: an HTTP hint is better than none.
        _ => hint.to_owned(),
    }
}

/// Returns the command that explains the state of the message or task that an error names.
fn why_command(message: &str, command_line: &CommandLine) -> String {
    let mut words = message.split(|ch: char| ch.is_whitespace() || ch == ',' || ch == ':');
    match (words.find(|word| word.starts_with("msg_")), command_line.word(0)) {
        (Some(id), _) => format!("quorate msg why {id}"),
        (None, Some("task")) => format!("quorate task why {}", command_line.word(2).unwrap_or("ID")),
        (None, _) => "quorate msg why ID".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint_for(line: &str, code: Code, message: &str, hint: &str) -> String {
        terminal_hint(code, message, hint, &CommandLine::new(line.split(' ').map(str::to_owned)))
    }

    // Fails under: a printed command that lacks an option, has one twice, or that a shell splits.
    #[test]
    fn a_command_is_printed_again_with_other_options() {
        let words = ["run", "my play.yaml", "--approve", "later", "--data=team", "--out", "it's"];
        let line = CommandLine::new(words.map(str::to_owned));
        let expected = "quorate run 'my play.yaml' --data=team --out 'it'\\''s' --resume x";
        assert_eq!(line.again_with(&["--approve", "--resume"], "--resume x"), expected);
        assert_eq!(line.connection_options(), " --data=team");
        let line = CommandLine::new(["run", "p", "--url", "http://h", "--insecure-http"].map(str::to_owned));
        assert_eq!(line.connection_options(), " --url http://h --insecure-http");
    }

    // Fails under: an HTTP hint that is passed on, or a general hint that is not.
    #[test]
    fn hints_name_commands_instead_of_http_calls() {
        let history = "GET /v1/context/k/history shows what there was";
        let memory_hint = |line: &str| hint_for(line, Code::NotFound, "k has no version 9", history);
        assert_eq!(
            memory_hint("memory get k --version 9"),
            "run `quorate memory log k` to list its versions"
        );
        assert_eq!(memory_hint("memory get k"), "run `quorate memory list` to list them");
        let openapi = "see GET /v1/openapi.json for the shape of every call";
        let invalid = hint_for("task add sum --priority huge", Code::Invalid, "no priority", openapi);
        assert_eq!(invalid, "see `quorate task add --help` for the accepted values");
        assert_eq!(
            hint_for("status", Code::Invalid, "no", openapi),
            "see `quorate status --help` for the accepted values"
        );
        let space = hint_for(
            "status --space proj",
            Code::NotFound,
            "there is no space proj",
            "leave the header Quorate-Space out",
        );
        assert!(space.starts_with("omit --space"), "{space}");
        let unencrypted = hint_for(
            "status",
            Code::Invalid,
            "the token would travel unencrypted to h",
            "use https, or allow it explicitly",
        );
        assert!(unencrypted.contains("--insecure-http"), "{unencrypted}");
        assert_eq!(
            hint_for("agent remove bob", Code::NotFound, "no bob", "register it first"),
            REGISTER_HINT
        );
        assert_eq!(
            hint_for(
                "request send",
                Code::Timeout,
                "no answer from bob to msg_0-9-0 within 100 ms",
                "check with `why`"
            ),
            "check with `quorate msg why msg_0-9-0`"
        );
        let stale = "stale epoch 1: agent bob has registered again and is at epoch 8";
        let stale =
            hint_for("task claim", Code::StaleEpoch, stale, "stop this instance, or register it again");
        assert!(stale.contains("quorate agent register"), "{stale}");
        assert_eq!(hint_for("task show x", Code::Conflict, "it is done", "start another"), "start another");
    }
}
