//! An agent as declared in a playbook, ready to answer questions.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use quorate_contracts::Heuristic;
use quorate_core::Refused;

use crate::clock;
use crate::command::Program;
use crate::http::Server;
use crate::key::Key;
use crate::llm::Speaker;
use crate::pace::Paces;
use crate::post::Post;
use crate::question::{Failure, Kind, Question, Reply, Usage};
use crate::reader;
use crate::retry::Retry;
use crate::use_line::Use;

/// Looks up an environment variable.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Context shared by the agents of a playbook. Cheap to clone.
#[derive(Clone)]
pub struct Surroundings {
    /// Directory of the playbook: working directory of commands and base of relative paths.
    pub directory: PathBuf,
    /// Source of API keys.
    pub env: Env,
    /// Retry policy of failed calls.
    pub retry: Retry,
    pub(crate) paces: Paces,
    pub(crate) post: Post,
}

impl Surroundings {
    /// Creates the context of a playbook in this directory, with the environment of this process.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        // The parent of a bare file name is an empty path, which means the current directory.
        let directory = Some(directory.into()).filter(|path| !path.as_os_str().is_empty());
        Self {
            directory: directory.unwrap_or_else(|| ".".into()),
            env: Arc::new(|name| std::env::var(name).ok()),
            retry: Retry::default(),
            paces: Paces::default(),
            post: Post::default(),
        }
    }
}

/// Settings of an agent in a playbook, in addition to `use:`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Instructions for models; they precede those of a question.
    pub instructions: String,
    /// Environment variable of the API key, if it is not the provider's default.
    pub key_env: Option<String>,
    /// Calls per minute, if it is not the provider's default. Agents of the same provider and URL share the limit.
    pub calls_per_minute: Option<u32>,
    /// Tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Token prices.
    pub price: Option<Price>,
    /// Whether answers of models are live, recorded or replayed.
    pub tape: Tape,
}

/// Token prices, in millionths of a currency per million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Price {
    /// Price of a million input tokens.
    pub input_micros: u64,
    /// Price of a million output tokens.
    pub output_micros: u64,
}

impl Price {
    /// Computes the cost of a number of tokens, in millionths.
    #[must_use]
    pub fn of(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        let all = u128::from(input_tokens) * u128::from(self.input_micros)
            + u128::from(output_tokens) * u128::from(self.output_micros);
        u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Whether models are called, or their answers come from files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Tape {
    /// Models are called.
    #[default]
    Live,
    /// Models are called, and their answers are recorded in this directory.
    Record(PathBuf),
    /// Models are not called: the answers recorded in this directory are returned.
    Replay(PathBuf),
}

/// An agent, ready to answer questions.
pub struct Agent {
    /// Name of the agent in the playbook.
    pub name: String,
    /// Parsed `use:` value.
    pub declared: Use,
    pub(crate) work: Work,
}

/// Implementation of an agent. A closed set: a new implementation is a new variant.
pub(crate) enum Work {
    Heuristic(Heuristic),
    Program(Program),
    Speaker(Speaker),
    Server(Server),
}

impl Agent {
    /// Creates an agent from its `use:` value. Nothing is started or sent yet.
    ///
    /// # Errors
    /// `INVALID`, if the value cannot be parsed.
    pub fn declare(
        name: &str,
        line: &str,
        settings: &Settings,
        surroundings: &Surroundings,
    ) -> Result<Self, Refused> {
        let declared = Use::parse(line).map_err(|mut refused| {
            refused.detail = format!("agent `{name}`: {}", refused.detail);
            refused
        })?;
        let work = match &declared {
            Use::Heuristic(heuristic) => Work::Heuristic(*heuristic),
            Use::Command(argv) => Work::Program(Program::new(argv.clone(), &surroundings.directory)),
            Use::Http(url) => {
                let key = Key::new(settings.key_env.clone(), false, surroundings);
                Work::Server(Server::new(url.clone(), key, surroundings))
            }
            Use::Model { provider, model, base } => {
                Work::Speaker(Speaker::new(*provider, model, base.as_ref(), settings, surroundings))
            }
        };
        Ok(Self { name: name.to_owned(), declared, work })
    }

    /// Asks the agent. Dropping the future cancels the work: a process is terminated, a connection closed.
    ///
    /// # Errors
    /// The failure, with its location and a hint.
    pub async fn answer(&self, question: &Question) -> Result<Reply, Failure> {
        let until = clock::now() + question.within;
        let work = async {
            match &self.work {
                Work::Heuristic(built_in) => reader::answer(*built_in, question),
                Work::Program(program) => program.answer(question, until).await,
                Work::Speaker(speaker) => speaker.answer(question, until).await,
                Work::Server(server) => server.answer(question, until).await,
            }
        };
        match tokio::time::timeout_at(until, work).await {
            Ok(answered) => answered,
            Err(_) => {
                let what = format!("no answer within {} ms", clock::millis(question.within));
                Err(Failure::new(Kind::TimedOut, self.place(), what)
                    .hint("increase the timeout, or ask for less")
                    .after(Usage::calls(1)))
            }
        }
    }

    /// Label of the agent, for errors.
    pub(crate) fn place(&self) -> String {
        match &self.work {
            Work::Heuristic(heuristic) => format!("heuristic:{}", heuristic.name()),
            Work::Program(program) => program.place(),
            Work::Speaker(speaker) => speaker.place.clone(),
            Work::Server(server) => server.url.to_string(),
        }
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("name", &self.name).field("declared", &self.declared).finish()
    }
}
