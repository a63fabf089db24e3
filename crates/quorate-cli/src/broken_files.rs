//! Files from outside are broken in many ways: settings and playbooks are read, or refused with the file, the line and what
//! is wrong. Nothing falls over, and nothing goes on for ever. The same cases in every run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::config::{Settings, Surroundings};
use crate::exit::{Ended, USAGE};
use crate::playbook::{Input, Playbook};

/// How often a good file is broken.
const CASES: usize = 1_500;
/// No file of a megabyte takes this long, on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

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
  groq: { price_in: 0.05, price_out: 0.08, calls_a_minute: 30 }
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
/// What readers of YAML trip over.
const WORDS: &[&str] = &[
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

/// Which reader a file is for.
#[derive(Clone, Copy, Debug)]
enum What {
    Project,
    User,
    Playbook,
}

impl What {
    const ALL: [Self; 3] = [Self::Project, Self::User, Self::Playbook];

    fn good(self) -> &'static str {
        match self {
            Self::Project | Self::User => SETTINGS,
            Self::Playbook => PLAYBOOK,
        }
    }

    fn place(self, home: &Path) -> PathBuf {
        home.join(match self {
            Self::Project => "quorate.yaml",
            Self::User => ".config/quorate/config.yaml",
            Self::Playbook => "playbook.yaml",
        })
    }

    /// Reads a file as the command does.
    fn read(self, home: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let place = self.place(home);
        fs::create_dir_all(place.parent().expect("it lies somewhere"))?;
        fs::write(&place, bytes)?;
        let read = match self {
            Self::Project | Self::User => {
                let variables = [("HOME".to_owned(), home.display().to_string())].into();
                let around = Surroundings { variables, directory: home.to_owned() };
                Settings::load(Default::default(), &around).map(drop)
            }
            Self::Playbook => {
                let text = "The Provider's liability is unlimited. It renews each year.".to_owned();
                Playbook::read(&place, Input::Text(text)).map(drop)
            }
        };
        fs::remove_file(place)?;
        read
    }
}

/// One way to break a file.
#[derive(Clone, Debug)]
enum Break {
    Flip(Index, u8),
    Cut(Index, Index),
    Repeat(Index, Index, usize),
    Insert(Index, &'static str, usize),
    End(Index),
}

impl Break {
    fn any() -> BoxedStrategy<Self> {
        let at = any::<Index>;
        let often = || prop_oneof![8 => Just(1usize), 1 => 2..400usize];
        prop_oneof![
            2 => (at(), any::<u8>()).prop_map(|(at, with)| Self::Flip(at, with)),
            2 => (at(), at()).prop_map(|(from, length)| Self::Cut(from, length)),
            2 => (at(), at(), often()).prop_map(|(from, length, often)| Self::Repeat(from, length, often)),
            4 => (at(), select(WORDS), often()).prop_map(|(at, word, often)| Self::Insert(at, word, often)),
            1 => at().prop_map(Self::End),
        ]
        .boxed()
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        let range = |from: &Index, length: &Index, bytes: &[u8]| {
            let from = place(from, bytes);
            from..from + length.index((bytes.len() - from).min(24) + 1)
        };
        match self {
            Self::Flip(at, with) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= *with;
            }
            Self::Flip(..) => {}
            Self::Cut(from, length) => drop(bytes.drain(range(from, length, bytes))),
            Self::Repeat(from, length, often) => {
                let range = range(from, length, bytes);
                let part = bytes[range.clone()].repeat(*often);
                bytes.splice(range.end..range.end, part);
            }
            Self::Insert(at, word, often) => {
                let at = place(at, bytes);
                bytes.splice(at..at, word.as_bytes().repeat(*often));
            }
            Self::End(at) => bytes.truncate(place(at, bytes)),
        }
    }
}

/// Reads files one after the other on a thread of its own, so that one that is never done is noticed.
struct Reader {
    give: mpsc::Sender<(What, Vec<u8>)>,
    take: mpsc::Receiver<Result<(), String>>,
    _home: tempfile::TempDir,
}

impl Reader {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join("prompt.md"), "Look closely.").expect("written");
        let (give, given) = mpsc::channel::<(What, Vec<u8>)>();
        let (told, take) = mpsc::channel();
        let at = home.path().to_owned();
        thread::spawn(move || {
            for (what, bytes) in given {
                let read = what.read(&at, &bytes).map_err(|error| refusal(&at, what, &error));
                if told.send(read).is_err() {
                    return;
                }
            }
        });
        Self { give, take, _home: home }
    }

    /// Whether it was read, or how it was refused.
    fn read(&self, what: What, bytes: Vec<u8>) -> Result<(), String> {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(4_096)]).into_owned();
        self.give.send((what, bytes)).expect("the reader fell over before");
        match self.take.recv_timeout(PATIENCE) {
            Ok(read) => read,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what:?} is not read to its end: {shown:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{what:?}: the reader fell over: {shown:?}"),
        }
    }
}

/// A refusal as people see it. It must say in which file and line, what is wrong, and what to do.
fn refusal(home: &Path, what: What, error: &anyhow::Error) -> String {
    let ended = error.downcast_ref::<Ended>();
    let ended = ended.unwrap_or_else(|| panic!("{what:?} fails, instead of being refused: {error:#}"));
    let said = &ended.message;
    assert_eq!(ended.code, USAGE, "{said}");
    assert!(!ended.hint.is_empty(), "{said}");
    let place = what.place(home).display().to_string();
    let (before, after) = said.split_once(&place).unwrap_or_else(|| panic!("{what:?}: which file? {said}"));
    let line =
        after.strip_prefix(':').is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    // What is too long is so in no line of it.
    assert!(line || after.starts_with(" is longer than "), "{what:?}: which line? {said}");
    assert!(before.len() + after.len() > 10, "{what:?}: what is wrong? {said}");
    assert!(said.len() < 4_096, "{what:?}: {} bytes of refusal", said.len());
    said.clone()
}

// Fails under: a reader that panics, runs without end, or refuses without its file or its line.
#[test]
fn i21_files_that_are_broken_are_refused_by_file_and_line() {
    let reader = Reader::new();
    for what in What::ALL {
        reader.read(what, what.good().into()).expect("a good file is read");
    }
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let case = (select(&What::ALL[..]), proptest::collection::vec(Break::any(), 1..=4));
    let (mut read, mut refused) = (0, 0);
    for _ in 0..CASES {
        let (what, breaks) = case.new_tree(&mut runner).expect("a case").current();
        let mut bytes = what.good().as_bytes().to_vec();
        breaks.iter().for_each(|one| one.apply(&mut bytes));
        match reader.read(what, bytes) {
            Ok(()) => read += 1,
            Err(_) => refused += 1,
        }
    }
    // What is refused at the first byte shows little, and so does what breaks nothing.
    assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
}

// Fails under: a limit of the reader of YAML turned off, or settings that are read whole before they are measured.
#[test]
fn i21_files_that_are_bombs_are_refused() {
    let reader = Reader::new();
    let deep =
        |open: &str, close: &str, often: usize| format!("{}1{}", open.repeat(often), close.repeat(often));
    let laughs: String = (1..=9)
        .map(|at| format!("  a{at}: &a{at} [{}]\n", vec![format!("*a{}", at - 1); 10].join(", ")))
        .collect();
    let laughs = format!("token:\n  a0: &a0 [{}]\n{laughs}", ["lol"; 10].join(", "));
    let steps: String = (0..400).map(|at| format!("{}a:\n", " ".repeat(at))).collect();
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
    for what in What::ALL {
        let keys = match what {
            What::Project | What::User => ["token", "profiles"],
            What::Playbook => ["agents", "conflicts"],
        };
        let bombs = keys.iter().flat_map(|key| values.iter().map(move |value| format!("{key}: {value}\n")));
        let bombs =
            bombs.chain([laughs.clone(), format!("token:\n{steps}"), format!("{}{laughs}", what.good())]);
        for bomb in bombs {
            let shown = bomb[..60.min(bomb.len())].to_owned();
            assert!(reader.read(what, bomb.into()).is_err(), "{what:?} takes {shown}");
        }
    }
}
