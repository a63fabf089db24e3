//! Fuzzes the parsers of settings and playbooks with mutated files. Every file is either accepted, or rejected with its path,
//! the line and the reason; no parser panics or hangs. The cases are the same in every run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use quorate_agents::playbook::InputSource;

use crate::config::{ProcessContext, Settings};
use crate::exit::{CommandError, USAGE};
use crate::playbook::{AccessArgs, read_playbook};

/// Number of mutated files.
const CASES: usize = 1_500;
/// Longer than parsing a megabyte takes on any machine.
const TIMEOUT: Duration = Duration::from_secs(30);

const SETTINGS: &str = "\
url: https://hub.example:7867
data: team
token_file: token
space: default
ca_file: ca.pem
profile: staging
profiles:
  staging: { url: \"https://staging.example:7867\", space: 'other' }
  here:
    data: ./here
";
const PLAYBOOK: &str = "\
procedure: deliberation
subject: What do we do?
preset: contract
agents:
  clauses: { use: \"heuristic:clauses\", when: concerned }
  risks: { use: \"heuristic:risk\", prompt: prompt.md }
  model: { use: \"llm:groq/llama-3.3-70b-versatile\", key_env: KEY, replay: tape.jsonl }
  command: { use: \"cmd:cat -n\" }
providers:
  groq: { price_in: 0.05, price_out: 0.08, calls_per_minute: 30 }
rule: confidence
limits: { quorum: 2 }
approval:
  action: send the letter
  when: [do not sign]
  letter: |
    About {subject}: {recommendation}.
    {points}
  write: letter.txt
";
/// Fragments that YAML parsers stumble over.
const FRAGMENTS: &[&str] = &[
    "&a ",
    "*a",
    "<<: *a\n",
    "- &a [*a, *a]",
    "!!binary ",
    "!!str ",
    "!include x\n",
    "---\n",
    "...\n",
    "%YAML 9.9\n",
    "? ",
    ": ",
    "| ",
    ">-\n",
    "\t",
    "\r",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "\u{2028}",
    "\u{1b}[31m",
    "'",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    "@",
    "`",
    "~",
    "null",
    "true",
    "yes",
    ".nan",
    "-.inf",
    "1e999",
    "-1",
    "0x7f",
    "0o9",
    "18446744073709551616",
    "../../..",
    "heuristic:",
    "llm:",
    "cmd:",
    "when: always",
    "profiles:",
    "token: qrt_x\n",
];

/// The kind of file, and with it the parser.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Project,
    User,
    Playbook,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Project, Self::User, Self::Playbook];

    fn valid(self) -> &'static str {
        match self {
            Self::Project | Self::User => SETTINGS,
            Self::Playbook => PLAYBOOK,
        }
    }

    fn path(self, home: &Path) -> PathBuf {
        home.join(match self {
            Self::Project => "quorate.yaml",
            Self::User => ".config/quorate/config.yaml",
            Self::Playbook => "playbook.yaml",
        })
    }

    /// Reads a file as the command does.
    fn read(self, home: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path(home);
        fs::create_dir_all(path.parent().expect("it has a parent"))?;
        fs::write(&path, bytes)?;
        let result = match self {
            Self::Project | Self::User => {
                let variables = [("HOME".to_owned(), home.display().to_string())].into();
                let context = ProcessContext { variables, directory: home.to_owned() };
                Settings::load(Default::default(), &context).map(drop)
            }
            Self::Playbook => {
                let text = "The Provider's liability is unlimited. It renews each year.".to_owned();
                read_playbook(&path, InputSource::Text(text), AccessArgs::default()).map(drop)
            }
        };
        fs::remove_file(path)?;
        result
    }
}

/// A mutation of a file.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(Index, u8),
    Cut(Index, Index),
    Repeat(Index, Index, usize),
    Insert(Index, &'static str, usize),
    End(Index),
}

impl Mutation {
    fn any() -> BoxedStrategy<Self> {
        let at = any::<Index>;
        let count = || prop_oneof![8 => Just(1usize), 1 => 2..400usize];
        prop_oneof![
            2 => (at(), any::<u8>()).prop_map(|(at, mask)| Self::Flip(at, mask)),
            2 => (at(), at()).prop_map(|(from, length)| Self::Cut(from, length)),
            2 => (at(), at(), count()).prop_map(|(from, length, count)| Self::Repeat(from, length, count)),
            4 => (at(), select(FRAGMENTS), count())
                .prop_map(|(at, fragment, count)| Self::Insert(at, fragment, count)),
            1 => at().prop_map(Self::End),
        ]
        .boxed()
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        let position = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        let range = |from: &Index, length: &Index, bytes: &[u8]| {
            let from = position(from, bytes);
            from..from + length.index((bytes.len() - from).min(24) + 1)
        };
        match self {
            Self::Flip(at, mask) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= *mask;
            }
            Self::Flip(..) => {}
            Self::Cut(from, length) => drop(bytes.drain(range(from, length, bytes))),
            Self::Repeat(from, length, count) => {
                let range = range(from, length, bytes);
                let part = bytes[range.clone()].repeat(*count);
                bytes.splice(range.end..range.end, part);
            }
            Self::Insert(at, fragment, count) => {
                let at = position(at, bytes);
                bytes.splice(at..at, fragment.as_bytes().repeat(*count));
            }
            Self::End(at) => bytes.truncate(position(at, bytes)),
        }
    }
}

/// Parses files one after the other on a separate thread, so that a hang is noticed.
struct Reader {
    files: mpsc::Sender<(Kind, Vec<u8>)>,
    results: mpsc::Receiver<Result<(), String>>,
    _home: tempfile::TempDir,
}

impl Reader {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join("prompt.md"), "Look closely.").expect("written");
        let (files, received) = mpsc::channel::<(Kind, Vec<u8>)>();
        let (sender, results) = mpsc::channel();
        let directory = home.path().to_owned();
        thread::spawn(move || {
            for (kind, bytes) in received {
                let result =
                    kind.read(&directory, &bytes).map_err(|error| rejection(&directory, kind, &error));
                if sender.send(result).is_err() {
                    return;
                }
            }
        });
        Self { files, results, _home: home }
    }

    /// Parses a file; returns the error message if it is rejected.
    fn read(&self, kind: Kind, bytes: Vec<u8>) -> Result<(), String> {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(4_096)]).into_owned();
        self.files.send((kind, bytes)).expect("the reader panicked before");
        match self.results.recv_timeout(TIMEOUT) {
            Ok(result) => result,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{kind:?}: parsing does not end: {shown:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{kind:?}: the reader panicked: {shown:?}"),
        }
    }
}

/// Returns the message of a rejection, after checking that it names the file and the line, the reason, and a hint.
fn rejection(home: &Path, kind: Kind, error: &anyhow::Error) -> String {
    let command_error = error.downcast_ref::<CommandError>();
    let command_error =
        command_error.unwrap_or_else(|| panic!("{kind:?} fails without an exit code: {error:#}"));
    let message = &command_error.message;
    assert_eq!(command_error.code, USAGE, "{message}");
    assert!(!command_error.hint.is_empty(), "{message}");
    let path = kind.path(home).display().to_string();
    let (before, after) =
        message.split_once(&path).unwrap_or_else(|| panic!("{kind:?}: the file is missing: {message}"));
    let line =
        after.strip_prefix(':').is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    // A file that is too long has no offending line.
    assert!(line || after.starts_with(" is longer than "), "{kind:?}: the line is missing: {message}");
    assert!(before.len() + after.len() > 10, "{kind:?}: the reason is missing: {message}");
    assert!(message.len() < 4_096, "{kind:?}: the message has {} bytes", message.len());
    message.clone()
}

// Fails under: a parser that panics, hangs, or rejects a file without its path or line.
#[test]
fn i21_malformed_files_are_rejected_with_file_and_line() {
    let reader = Reader::new();
    for kind in Kind::ALL {
        reader.read(kind, kind.valid().into()).expect("a valid file is accepted");
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let case = (select(&Kind::ALL[..]), proptest::collection::vec(Mutation::any(), 1..=4));
    let (mut accepted, mut rejected) = (0, 0);
    for _ in 0..CASES {
        let (kind, mutations) = case.new_tree(&mut runner).expect("a case").current();
        let mut bytes = kind.valid().as_bytes().to_vec();
        mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        match reader.read(kind, bytes) {
            Ok(()) => accepted += 1,
            Err(_) => rejected += 1,
        }
    }
    // The mutations must be neither too destructive nor harmless.
    assert!(accepted > 50 && rejected > 50, "{accepted} accepted, {rejected} rejected");
}

// Fails under: a disabled limit of the YAML parser, or settings that are read completely before their size is checked.
#[test]
fn i21_yaml_bombs_are_rejected() {
    let reader = Reader::new();
    let deep =
        |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    let laughs: String = (1..=9)
        .map(|index| format!("  a{index}: &a{index} [{}]\n", vec![format!("*a{}", index - 1); 10].join(", ")))
        .collect();
    let laughs = format!("token:\n  a0: &a0 [{}]\n{laughs}", ["lol"; 10].join(", "));
    let steps: String = (0..400).map(|index| format!("{}a:\n", " ".repeat(index))).collect();
    let values = [
        deep("[", "]", 100_000),
        deep("{a: ", "}", 100_000),
        "[".repeat(500_000),
        "{? ".repeat(200_000),
        "- ".repeat(300_000),
        "!a ".repeat(300_000),
        "&a ".repeat(300_000),
        "x".repeat((1 << 20) + 1),
    ];
    for kind in Kind::ALL {
        let keys = match kind {
            Kind::Project | Kind::User => ["token", "profiles"],
            Kind::Playbook => ["agents", "conflicts"],
        };
        let bombs = keys.iter().flat_map(|key| values.iter().map(move |value| format!("{key}: {value}\n")));
        let bombs =
            bombs.chain([laughs.clone(), format!("token:\n{steps}"), format!("{}{laughs}", kind.valid())]);
        for bomb in bombs {
            let shown = bomb[..60.min(bomb.len())].to_owned();
            assert!(reader.read(kind, bomb.into()).is_err(), "{kind:?} accepts {shown}");
        }
    }
}
