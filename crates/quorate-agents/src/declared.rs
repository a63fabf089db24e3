//! An agent as a playbook declares it, ready to be asked.

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

/// Looks up a variable of the environment.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the agents of one playbook share. Cheap to clone.
#[derive(Clone)]
pub struct Surroundings {
    /// The directory of the playbook: where commands run, and what relative paths begin at.
    pub directory: PathBuf,
    /// Where keys come from.
    pub env: Env,
    /// How failed calls are repeated.
    pub retry: Retry,
    pub(crate) paces: Paces,
    pub(crate) post: Post,
}

impl Surroundings {
    /// Those of a playbook in this directory, with the environment of this process.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        // The parent of a bare file name is no path at all, and means here.
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

/// What a playbook says about an agent beside its `use:` line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// How to work, for models: it comes before what a question says.
    pub instructions: String,
    /// The variable that holds the key, if it is not the provider's own.
    pub key_env: Option<String>,
    /// Calls a minute, if not the provider's own limit. Agents of the same provider and address share it.
    pub calls_per_minute: Option<u32>,
    /// Tokens a minute.
    pub tokens_per_minute: Option<u64>,
    /// What tokens cost.
    pub price: Option<Price>,
    /// Where models' answers come from: they are asked, or asked and recorded, or played back.
    pub tape: Tape,
}

/// What tokens cost, in millionths of a currency for a million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Price {
    /// For a million tokens read.
    pub input_micros: u64,
    /// For a million tokens written.
    pub output_micros: u64,
}

impl Price {
    /// What so many tokens cost, in millionths.
    #[must_use]
    pub fn of(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        let all = u128::from(input_tokens) * u128::from(self.input_micros)
            + u128::from(output_tokens) * u128::from(self.output_micros);
        u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Whether models are asked, or their answers come from files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Tape {
    /// They are asked.
    #[default]
    Live,
    /// They are asked, and what they answer is kept in this directory.
    Record(PathBuf),
    /// They are not asked: the answers of this directory are given.
    Replay(PathBuf),
}

/// An agent, ready to be asked.
pub struct Agent {
    /// Its name in the playbook.
    pub name: String,
    /// How it was declared.
    pub declared: Use,
    pub(crate) work: Work,
}

/// How an agent does its work. A closed set: a new way to work is a new variant.
pub(crate) enum Work {
    Heuristic(Heuristic),
    Program(Program),
    Speaker(Speaker),
    Server(Server),
}

impl Agent {
    /// Makes an agent of its `use:` line. Nothing is started or sent yet.
    ///
    /// # Errors
    /// `INVALID`, with what is wrong with the line.
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

    /// Asks it. Giving up the future gives up the work: a process is ended, a connection closed.
    ///
    /// # Errors
    /// With what failed, where, and what to do next.
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
                    .hint("give it more time, or ask for less")
                    .after(Usage::calls(1)))
            }
        }
    }

    /// Where it works, for errors.
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
