//! An agent as declared in a playbook, ready to answer questions.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use quorate_contracts::Heuristic;
use quorate_core::{Code, DeclarationDigest, Refused};

use crate::api_key::ApiKeySource;
use crate::clock;
use crate::command::{CommandAgent, environment};
use crate::declaration;
use crate::heuristic;
use crate::http_agent::HttpAgent;
use crate::http_client::HttpClient;
use crate::llm::ModelAgent;
use crate::question::{AgentFailure, AgentQuestion, AgentReply, FailureKind, PartialSink, Usage};
use crate::rate_limit::RateLimiters;
use crate::retry::CallRetryPolicy;
use crate::use_spec::UseSpec;

/// Looks up an environment variable.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Context shared by the agents of a playbook. Cheap to clone.
#[derive(Clone)]
pub struct AgentContext {
    /// Directory of the playbook: working directory of commands and base of relative paths.
    pub directory: PathBuf,
    /// Source of API keys.
    pub env: EnvLookup,
    /// Environment variables of this process, of which programs get a part.
    pub variables: Arc<Vec<(OsString, OsString)>>,
    /// Which of them programs get in addition to those that they list.
    pub env_inheritance: EnvInheritance,
    /// Variables with the API keys of the playbook's agents. Programs do not inherit them.
    pub key_variables: Vec<String>,
    /// Retry policy of failed calls.
    pub retry: CallRetryPolicy,
    pub(crate) rate_limiters: RateLimiters,
    pub(crate) http: HttpClient,
}

impl AgentContext {
    /// Creates the context of a playbook in this directory, with the environment of this process.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        // The parent of a bare file name is an empty path, which means the current directory.
        let directory = Some(directory.into()).filter(|path| !path.as_os_str().is_empty());
        Self {
            directory: directory.unwrap_or_else(|| ".".into()),
            env: Arc::new(|name| std::env::var(name).ok()),
            variables: Arc::new(std::env::vars_os().collect()),
            env_inheritance: EnvInheritance::default(),
            key_variables: Vec::new(),
            retry: CallRetryPolicy::default(),
            rate_limiters: RateLimiters::default(),
            http: HttpClient::default(),
        }
    }
}

/// Environment variables that a program gets in addition to those that its declaration lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EnvInheritance {
    /// An allowlist: paths, locale, proxies and certificates.
    #[default]
    Allowlist,
    /// All except for Quorate's own variables and API keys.
    All,
}

/// Access to a hub for a program that is an agent of it.
pub struct HubAccess {
    /// URL of the hub.
    pub url: String,
    /// Access token of the agent.
    pub token: String,
    /// CA certificate of the hub, if it is not a public one.
    pub ca_file: Option<PathBuf>,
}

/// Settings of an agent in a playbook, in addition to `use:`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentSettings {
    /// Instructions for models; they precede those of a question.
    pub instructions: String,
    /// Environment variable of the API key, if it is not the provider's default.
    pub key_env: Option<String>,
    /// Calls per minute, if it is not the provider's default. Agents of the same provider and URL share the limit.
    pub calls_per_minute: Option<u32>,
    /// Tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Token prices.
    pub price: Option<TokenPrice>,
    /// Whether answers of models are live, recorded or replayed.
    pub record_mode: RecordMode,
    /// Names of environment variables that a program gets.
    pub env: Vec<String>,
    /// Whether a program gets access to the hub, see [`DeclaredAgent::grant_hub_access`].
    pub hub: bool,
    /// Types of tasks that the agent works on.
    pub tasks: Vec<String>,
}

/// Token prices, in millionths of a currency per million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenPrice {
    /// Price of a million input tokens.
    pub input_micros: u64,
    /// Price of a million output tokens.
    pub output_micros: u64,
}

impl TokenPrice {
    /// Computes the cost of a number of tokens, in millionths.
    #[must_use]
    pub fn cost(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        let total = u128::from(input_tokens) * u128::from(self.input_micros)
            + u128::from(output_tokens) * u128::from(self.output_micros);
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Whether models are called, or their answers come from files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RecordMode {
    /// Models are called.
    #[default]
    Live,
    /// Models are called, and their answers are recorded in this directory.
    Record(PathBuf),
    /// Models are not called: the answers recorded in this directory are returned.
    Replay(PathBuf),
}

/// An agent, ready to answer questions.
pub struct DeclaredAgent {
    /// Name of the agent in the playbook.
    pub name: String,
    /// Parsed `use:` value.
    pub declared: UseSpec,
    /// Whether its program expects access to the hub.
    pub needs_hub_access: bool,
    /// Types of tasks that it works on, in addition to answering requests.
    pub tasks: Vec<String>,
    /// Digest of the declaration.
    pub declaration: DeclarationDigest,
    pub(crate) runner: AgentRunner,
}

/// Implementation of an agent. A closed set: a new implementation is a new variant.
pub(crate) enum AgentRunner {
    Heuristic(Heuristic),
    Command(CommandAgent),
    Model(ModelAgent),
    Http(HttpAgent),
}

impl DeclaredAgent {
    /// Creates an agent from its `use:` value. Nothing is started or sent yet.
    ///
    /// # Errors
    /// `INVALID`, if the value cannot be parsed.
    pub fn declare(
        name: &str,
        line: &str,
        settings: &AgentSettings,
        context: &AgentContext,
    ) -> Result<Self, Refused> {
        let named = |mut refused: Refused| {
            refused.detail = format!("agent `{name}`: {}", refused.detail);
            refused
        };
        let declared = UseSpec::parse(line).map_err(named)?;
        check_program_settings(&declared, settings).map_err(named)?;
        check_tasks(&declared, &settings.tasks).map_err(named)?;
        let runner = match &declared {
            UseSpec::Heuristic(heuristic) => AgentRunner::Heuristic(*heuristic),
            UseSpec::Command(argv) => {
                AgentRunner::Command(CommandAgent::new(argv.clone(), settings, context))
            }
            UseSpec::Http(url) => {
                let key = ApiKeySource::new(settings.key_env.clone(), false, context);
                AgentRunner::Http(HttpAgent::new(url.clone(), key, context))
            }
            UseSpec::Model { provider, model, base } => {
                AgentRunner::Model(ModelAgent::new(*provider, model, base.as_ref(), settings, context))
            }
        };
        let declaration = declaration::digest(line, &declared, settings, &context.directory);
        let (name, tasks) = (name.to_owned(), settings.tasks.clone());
        Ok(Self { name, declared, needs_hub_access: settings.hub, tasks, declaration, runner })
    }

    /// Passes the address of the hub and an access token to the program, as environment variables, from its next start on.
    /// Replaces those passed before. Without effect for other agents.
    pub fn grant_hub_access(&self, access: HubAccess) {
        if let AgentRunner::Command(command) = &self.runner {
            command.grant_hub_access(&self.name, access);
        }
    }

    /// Asks the agent. Dropping the future cancels the work: a process is terminated, a connection closed.
    ///
    /// # Errors
    /// The failure, with its location and a hint.
    pub async fn answer(&self, question: &AgentQuestion) -> Result<AgentReply, AgentFailure> {
        self.answer_in_parts(question, &|_| {}).await
    }

    /// Same as [`DeclaredAgent::answer`]; passes the partial results that the agent reports before its answer to `on_partial`.
    ///
    /// # Errors
    /// See [`DeclaredAgent::answer`].
    pub async fn answer_in_parts(
        &self,
        question: &AgentQuestion,
        on_partial: PartialSink<'_>,
    ) -> Result<AgentReply, AgentFailure> {
        let deadline = clock::now() + question.timeout;
        let work = async {
            match &self.runner {
                AgentRunner::Heuristic(built_in) => heuristic::answer(*built_in, question),
                AgentRunner::Command(command) => command.answer(question, deadline, on_partial).await,
                AgentRunner::Model(model) => model.answer(question, deadline).await,
                AgentRunner::Http(server) => server.answer(question, deadline).await,
            }
        };
        match tokio::time::timeout_at(deadline, work).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("no answer within {} ms", clock::millis(question.timeout));
                Err(AgentFailure::new(FailureKind::TimedOut, self.label(), message)
                    .hint("increase the timeout, or ask for less")
                    .with_usage(Usage::calls(1)))
            }
        }
    }

    /// Label of the agent, for errors.
    pub(crate) fn label(&self) -> String {
        match &self.runner {
            AgentRunner::Heuristic(heuristic) => format!("heuristic:{}", heuristic.name()),
            AgentRunner::Command(command) => command.label(),
            AgentRunner::Model(model) => model.label.clone(),
            AgentRunner::Http(server) => server.url.to_string(),
        }
    }
}

/// Checks the settings that only programs have.
fn check_program_settings(declared: &UseSpec, settings: &AgentSettings) -> Result<(), Refused> {
    let setting = match (settings.env.is_empty(), settings.hub) {
        (true, false) => return Ok(()),
        (false, _) => "env",
        (true, true) => "hub",
    };
    if matches!(declared, UseSpec::Command(_)) {
        return environment::check_names(&settings.env);
    }
    let detail = format!("{setting}: only programs have an environment");
    Err(Refused::new(Code::Invalid, detail).hint("omit it, or declare a program with `use: cmd:COMMAND`"))
}

/// Checks that the agent can work on tasks.
fn check_tasks(declared: &UseSpec, tasks: &[String]) -> Result<(), Refused> {
    match declared {
        UseSpec::Heuristic(_) if !tasks.is_empty() => {
            let detail = "tasks: heuristics only answer requests, with the actions `analyse` and `discuss`";
            Err(Refused::new(Code::Invalid, detail)
                .hint("omit it, or declare a program with `use: cmd:COMMAND`"))
        }
        _ => Ok(()),
    }
}

impl fmt::Debug for DeclaredAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeclaredAgent").field("name", &self.name).field("declared", &self.declared).finish()
    }
}
