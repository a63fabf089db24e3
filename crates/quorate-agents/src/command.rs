//! Agents that are programs: one JSON object on stdin, the answer on stdout. Before it, a program may print partial results, each
//! a line `{"partial": …}`.
//!
//! No shell is involved. The program runs in the directory of the playbook with a part of the environment
//! (`environment.rs`), in a process group of its own that is terminated as a whole. A program that leaves its group on
//! purpose (`setsid`) is not tracked. This is no sandbox: the program has the permissions of the user.

pub(crate) mod environment;
mod process_group;
mod run;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use crate::agent::{AgentContext, AgentSettings, HubAccess};
use crate::answer_schema::{self, AnswerSchema, InvalidAnswer};
use crate::clock::Instant;
use crate::question::{AgentFailure, AgentQuestion, AgentReply, FailureKind, PartialSink, Usage};

/// An agent that is a program.
pub(crate) struct CommandAgent {
    argv: Vec<String>,
    directory: PathBuf,
    /// The environment of the program, without access to the hub.
    variables: Vec<(OsString, OsString)>,
    /// Variables for access to the hub; empty without it.
    hub_variables: RwLock<Vec<(OsString, OsString)>>,
}

impl CommandAgent {
    pub(crate) fn new(argv: Vec<String>, settings: &AgentSettings, context: &AgentContext) -> Self {
        let variables = environment::select(context, &settings.env);
        Self { argv, directory: context.directory.clone(), variables, hub_variables: RwLock::default() }
    }

    /// Passes the address of the hub and the agent's credentials to the program.
    pub(crate) fn grant_hub_access(&self, agent: &str, access: HubAccess) {
        let ca_file = access.ca_file.map(|file| ("QUORATE_CA_FILE", file.into_os_string()));
        let variables = [
            ("QUORATE_URL", access.url.into()),
            ("QUORATE_TOKEN", access.token.into()),
            ("QUORATE_AGENT", agent.into()),
        ];
        let variables = variables.into_iter().chain(ca_file);
        let variables = variables.map(|(name, value): (&str, OsString)| (name.into(), value)).collect();
        *self.hub_variables.write().unwrap_or_else(PoisonError::into_inner) = variables;
    }

    /// Label of the agent, for errors.
    pub(crate) fn label(&self) -> String {
        format!("cmd:{}", shell_words::join(&self.argv))
    }

    /// Runs the program; if the answer does not match the schema, runs it once more with the error.
    pub(crate) async fn answer(
        &self,
        question: &AgentQuestion,
        deadline: Instant,
        on_partial: PartialSink<'_>,
    ) -> Result<AgentReply, AgentFailure> {
        let schema = AnswerSchema::new(question.schema.as_ref())?;
        let mut usage = Usage::default();
        let mut question_json = crate::question_json::question_to_json(question, None);
        for last in [false, true] {
            usage.calls += 1;
            let run = self.run(&question_json, deadline, on_partial).await;
            let text = run.map_err(|failure| failure.with_usage(usage))?;
            if text.trim().is_empty() {
                let message = "exited successfully but wrote nothing to stdout";
                return Err(AgentFailure::new(FailureKind::SchemaMismatch, self.label(), message)
                    .hint("write the answer to stdout, as JSON or as text")
                    .with_usage(usage));
            }
            let invalid = match schema.parse(&text) {
                Ok(valid) => {
                    return Ok(AgentReply {
                        body: valid.body,
                        usage,
                        notes: valid.note.into_iter().collect(),
                    });
                }
                Err(invalid) => invalid,
            };
            if matches!(invalid, InvalidAnswer::NotJson) && (last || !schema.is_present()) {
                let notes = vec!["answered in plain text: confidence unknown".to_owned()];
                return Ok(AgentReply { body: answer_schema::text_answer(&text), usage, notes });
            }
            if last {
                return Err(crate::question_json::schema_mismatch(&self.label(), &invalid).with_usage(usage));
            }
            question_json = crate::question_json::question_to_json(question, Some((&invalid, &text)));
        }
        unreachable!("the last attempt returns")
    }

    /// Finds the executable file.
    ///
    /// # Errors
    /// If it does not exist or is not executable.
    pub(crate) fn find_executable(&self) -> Result<PathBuf, AgentFailure> {
        let name = &self.argv[0];
        let found = if name.contains('/') {
            Some(self.directory.join(name)).filter(|path| is_executable(path))
        } else {
            let path = self.variables.iter().find(|(variable, _)| variable == "PATH");
            let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
            std::env::split_paths(&path)
                .map(|directory| directory.join(name))
                .find(|path| is_executable(path))
        };
        found.ok_or_else(|| {
            let (message, hint) = if name.contains('/') {
                (
                    format!("`{name}` is not an executable file in {}", self.directory.display()),
                    "fix the path, or make the file executable",
                )
            } else {
                (format!("`{name}` not found on PATH"), "install it, or use its full path")
            };
            AgentFailure::new(FailureKind::NotFound, self.label(), message).hint(hint)
        })
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
