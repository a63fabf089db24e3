//! Parses playbooks: procedure, agents and limits. The YAML is strict: an unknown key is an error with its position.

mod agents;
mod approval;
mod error;
mod files;

use std::fmt;
use std::path::{Path, PathBuf};

use quorate_procedures::deliberation::{DeliberationLimits, Member, ProviderSpec, ScoreSpec, Spec};
use quorate_procedures::finding::Vocabulary;
use quorate_procedures::{conflict, tally};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use agents::{AgentEntry, Participants};

use crate::agent::{DeclaredAgent, EnvInheritance};
use crate::limits::{INPUT_BYTES_MAX, PLAYBOOK_BYTES_MAX};

pub use agents::provider_name;
pub use approval::ApprovalSpec;
pub use error::{PlaybookError, PlaybookPosition};
pub use files::{FileAccess, read_text};

/// A parsed and validated playbook.
#[derive(Debug)]
pub struct Playbook {
    /// Path of the file.
    pub path: PathBuf,
    /// Specification of the deliberation, with its input.
    pub spec: Spec,
    /// All declared agents, in file order. `spec.agents` lists those that take part.
    pub agents: Vec<DeclaredAgent>,
    /// Approval to request after the deliberation.
    pub approval: Option<ApprovalSpec>,
}

/// The agents of a playbook, for a worker. The playbook may have no procedure.
#[derive(Debug)]
pub struct PlaybookAgents {
    /// All declared agents, in file order.
    pub agents: Vec<DeclaredAgent>,
    /// Approval that its procedure requests.
    pub approval: Option<ApprovalSpec>,
}

/// Source of the input that agents read.
pub enum InputSource<'a> {
    /// The file that the playbook names.
    FromPlaybook,
    /// This file instead.
    File(&'a Path),
    /// This text instead.
    Text(String),
}

/// What a playbook and its programs may access.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlaybookAccess {
    /// Files that the playbook may name.
    pub files: FileAccess,
    /// Environment variables that its programs get in addition to those that they list.
    pub env_inheritance: EnvInheritance,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaybookIn {
    procedure: Option<Spanned<String>>,
    subject: Option<String>,
    preset: Option<Spanned<String>>,
    input: Option<Spanned<String>>,
    agents: Spanned<OrderedMap<AgentEntry>>,
    conflicts: Option<Vec<conflict::ConflictRule>>,
    rule: Option<tally::VotingRule>,
    tie_break: Option<tally::TieBreak>,
    vocabulary: Option<Vocabulary>,
    score: Option<ScoreSpec>,
    limits: Option<DeliberationLimits>,
    providers: Option<OrderedMap<Spanned<ProviderSpec>>>,
    approval: Option<Spanned<ApprovalSpec>>,
}

/// A mapping that keeps the file order.
struct OrderedMap<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMap<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = OrderedMap<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(OrderedMap(pairs))
            }
        }
        deserializer.deserialize_map(Pairs(std::marker::PhantomData))
    }
}

impl Playbook {
    /// Reads a playbook file; `input` can override its input.
    ///
    /// # Errors
    /// If the playbook, or a file that it names, cannot be read or is invalid.
    pub fn read(path: &Path, input: InputSource<'_>, access: PlaybookAccess) -> Result<Self, PlaybookError> {
        let text = read_text(path, PLAYBOOK_BYTES_MAX, "a playbook")?;
        Self::parse(path, &text, input, access)
    }

    /// Parses a playbook; `path` is used for errors and relative paths.
    ///
    /// # Errors
    /// See [`Playbook::read`].
    pub fn parse(
        path: &Path,
        playbook: &str,
        input: InputSource<'_>,
        access: PlaybookAccess,
    ) -> Result<Self, PlaybookError> {
        let file = PlaybookPath(path);
        let mut parsed = file.parse_yaml(playbook)?;
        file.require_procedure(&parsed)?;
        let text = file.input_text(input, parsed.input.as_ref(), access.files)?;
        let providers = file.providers(parsed.providers.take())?;
        let (line, entries) = (parsed.agents.referenced.line(), std::mem::take(&mut parsed.agents.value.0));
        let (agents, participants) = file.agents(entries, &providers, text.as_deref(), access)?;
        if participants.members.is_empty() && !agents.is_empty() {
            let message = "agents: nothing in the text concerns any of them";
            let hint = "use another input, or add `when: always` to an agent";
            return Err(file.error_at(line, message, hint));
        }
        let approval = parsed.approval.take();
        let input = text.map_or(Value::Null, |text| serde_json::json!({ "text": text }));
        let mut spec = file.spec(parsed, input, participants, agents.len())?;
        spec.providers = providers;
        file.check_spec(playbook, &spec)?;
        let approval = file.approval(approval, &spec)?;
        Ok(Self { path: path.to_owned(), spec, agents, approval })
    }
}

impl PlaybookAgents {
    /// Reads the agents of a playbook. Its input is not read: which agents take part in a procedure is decided when the
    /// procedure is started.
    ///
    /// # Errors
    /// If the playbook, or a file that it names, cannot be read or is invalid.
    pub fn read(path: &Path, access: PlaybookAccess) -> Result<Self, PlaybookError> {
        let text = read_text(path, PLAYBOOK_BYTES_MAX, "a playbook")?;
        let file = PlaybookPath(path);
        let mut parsed = file.parse_yaml(&text)?;
        let providers = file.providers(parsed.providers.take())?;
        let entries = std::mem::take(&mut parsed.agents.value.0);
        if entries.is_empty() {
            let hint = "declare an agent: `agents: { NAME: { use: \"cmd:COMMAND\" } }`";
            return Err(file.error_at(parsed.agents.referenced.line(), "agents: there is none", hint));
        }
        let (agents, participants) = file.agents(entries, &providers, None, access)?;
        if parsed.procedure.is_none() {
            return match parsed.approval {
                None => Ok(Self { agents, approval: None }),
                Some(approval) => {
                    let hint = "add `procedure: deliberation` and a `subject`";
                    let message = "approval: there is no procedure that could request it";
                    Err(file.error_at(approval.referenced.line(), message, hint))
                }
            };
        }
        file.require_procedure(&parsed)?;
        let approval = parsed.approval.take();
        let mut spec = file.spec(parsed, Value::Null, participants, agents.len())?;
        spec.providers = providers;
        file.check_spec(&text, &spec)?;
        Ok(Self { agents, approval: file.approval(approval, &spec)? })
    }
}

/// The path of a playbook, for errors with a position and for relative paths.
struct PlaybookPath<'a>(&'a Path);

impl PlaybookPath<'_> {
    fn parse_yaml(&self, playbook: &str) -> Result<PlaybookIn, PlaybookError> {
        let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
        serde_saphyr::from_str_with_options(playbook, options).map_err(|error| self.yaml_error(&error))
    }

    /// Checks that the playbook has a procedure of a known kind.
    fn require_procedure(&self, parsed: &PlaybookIn) -> Result<(), PlaybookError> {
        let hint = "use `procedure: deliberation`";
        match (&parsed.procedure, &parsed.subject) {
            (Some(procedure), _) if procedure.value != "deliberation" => {
                let message = format!("procedure: unknown procedure {:?}", procedure.value);
                Err(self.error_at(procedure.referenced.line(), &message, hint))
            }
            (Some(procedure), None) => {
                let message = "missing key \"subject\": a deliberation needs a question";
                Err(self.error_at(procedure.referenced.line(), message, "add `subject: QUESTION`"))
            }
            (Some(_), Some(_)) => Ok(()),
            (None, _) => {
                let message = "missing key \"procedure\": the playbook only declares agents";
                let hint = format!("{hint}, or start its agents with `quorate worker`");
                Err(self.error_at(1, message, &hint))
            }
        }
    }

    /// Builds the specification of the deliberation, without its providers.
    fn spec(
        &self,
        parsed: PlaybookIn,
        input: Value,
        participants: Participants,
        declared: usize,
    ) -> Result<Spec, PlaybookError> {
        let (subject, members) = (parsed.subject.unwrap_or_default(), participants.members);
        let mut spec = self.preset(parsed.preset, subject, input, members)?;
        spec.conflicts = parsed.conflicts.unwrap_or(spec.conflicts);
        spec.rule = parsed.rule.unwrap_or(spec.rule);
        spec.tie_break = parsed.tie_break;
        spec.vocabulary = parsed.vocabulary.unwrap_or(spec.vocabulary);
        spec.score = parsed.score.or(spec.score);
        spec.limits = parsed.limits.unwrap_or(spec.limits);
        spec.not_asked = participants.not_asked;
        // The quorum is limited to the agents that are asked.
        let member_count = u32::try_from(spec.agents.len()).unwrap_or(u32::MAX);
        spec.limits.quorum = spec
            .limits
            .quorum
            .map(|quorum| if quorum as usize <= declared { quorum.min(member_count) } else { quorum });
        Ok(spec)
    }

    fn preset(
        &self,
        preset: Option<Spanned<String>>,
        subject: String,
        input: Value,
        members: Vec<Member>,
    ) -> Result<Spec, PlaybookError> {
        match preset {
            None => Ok(Spec::new(subject, input, members)),
            Some(preset) if preset.value == "contract" => Ok(Spec::contract(subject, input, members)),
            Some(preset) => {
                let message = format!("preset: unknown preset {:?}", preset.value);
                let hint = "use `preset: contract`, or omit it";
                Err(self.error_at(preset.referenced.line(), &message, hint))
            }
        }
    }

    fn check_spec(&self, playbook: &str, spec: &Spec) -> Result<(), PlaybookError> {
        spec.check().map_err(|error| {
            let line = line_of(playbook, &error.path);
            self.error_at(line, &error.to_string(), "see docs/guides/deliberation.md for the settings")
        })
    }

    fn approval(
        &self,
        approval: Option<Spanned<ApprovalSpec>>,
        spec: &Spec,
    ) -> Result<Option<ApprovalSpec>, PlaybookError> {
        if let Some(approval) = &approval
            && let Err((message, hint)) = approval.value.check(spec)
        {
            return Err(self.error_at(approval.referenced.line(), &format!("approval.{message}"), &hint));
        }
        Ok(approval.map(|approval| approval.value))
    }

    /// Returns the directory of the playbook, which relative paths start from.
    fn directory(&self) -> &Path {
        self.0.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
    }
}

/// Reads the input of agents, which must be text and not empty.
///
/// # Errors
/// If the file cannot be read, is too long, empty, or not text.
pub fn read_input(path: &Path) -> Result<String, PlaybookError> {
    let text = read_text(path, INPUT_BYTES_MAX, "an input")?;
    if text.trim().is_empty() {
        let message = format!("{} is empty", path.display());
        return Err(PlaybookError::new(message, "pass a file with text: --input FILE"));
    }
    Ok(text)
}

/// Returns the line of the top-level key of a field path; 1 if it is not found.
fn line_of(playbook: &str, path: &str) -> u64 {
    let key = path.split(['.', '[']).next().unwrap_or_default();
    let has_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    playbook.lines().position(has_key).map_or(1, |index| index as u64 + 1)
}

#[cfg(test)]
mod tests;
