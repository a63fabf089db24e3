//! Parses playbooks: procedure, agents and limits. The YAML is strict: an unknown key is an error with its position.

mod agents;
mod approval;
mod files;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use quorate_agents::{DeclaredAgent, EnvInheritance};
use quorate_procedures::deliberation::{DeliberationLimits, ProviderSpec, ScoreSpec, Spec};
use quorate_procedures::finding::Vocabulary;
use quorate_procedures::{conflict, tally};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use agents::AgentEntry;
use files::FileAccess;

use crate::config::closest_match;
use crate::exit::{CommandError, USAGE};

pub(crate) use agents::provider_name;
pub(crate) use approval::{Approval, is_file_name};

/// Size limit of a playbook.
const BYTES_MAX: u64 = 1 << 20;
/// Size limit of the input that agents read.
const INPUT_BYTES_MAX: u64 = 256 * 1024;

/// A parsed and validated playbook.
#[derive(Debug)]
pub(crate) struct Playbook {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Specification of the deliberation, with its input.
    pub(crate) spec: Spec,
    /// All declared agents, in file order. `spec.agents` lists those that take part.
    pub(crate) agents: Vec<DeclaredAgent>,
    /// Approval to request after the deliberation.
    pub(crate) approval: Option<Approval>,
}

/// Source of the input that agents read.
pub(crate) enum InputSource<'a> {
    /// The file that the playbook names.
    FromPlaybook,
    /// This file instead.
    File(&'a Path),
    /// This text instead.
    Text(String),
}

/// Options that give a playbook and its programs more access.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct AccessArgs {
    #[command(flatten)]
    programs: ProgramArgs,
    /// Allow the playbook to name files outside its directory.
    #[arg(long)]
    allow_outside_files: bool,
}

/// Options of the programs that are declared with `cmd:`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ProgramArgs {
    /// Pass all environment variables to `cmd:` agents, except for QUORATE_* and API keys.
    #[arg(long)]
    inherit_env: bool,
}

impl ProgramArgs {
    pub(crate) fn env_inheritance(self) -> EnvInheritance {
        if self.inherit_env { EnvInheritance::All } else { EnvInheritance::Allowlist }
    }
}

impl AccessArgs {
    fn files(self) -> FileAccess {
        if self.allow_outside_files { FileAccess::Anywhere } else { FileAccess::BelowPlaybook }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaybookIn {
    procedure: Spanned<String>,
    subject: String,
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
    approval: Option<Spanned<Approval>>,
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
    pub(crate) fn read(path: &Path, input: InputSource<'_>, access: AccessArgs) -> anyhow::Result<Self> {
        let text = read_text(path, BYTES_MAX, "a playbook")?;
        Self::parse(path, &text, input, access)
    }

    /// Parses a playbook; `path` is used for errors and relative paths.
    pub(crate) fn parse(
        path: &Path,
        playbook: &str,
        input: InputSource<'_>,
        access: AccessArgs,
    ) -> anyhow::Result<Self> {
        let file = PlaybookPath(path);
        let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
        let parsed: PlaybookIn = serde_saphyr::from_str_with_options(playbook, options)
            .map_err(|error| file.yaml_error(&error))?;
        if parsed.procedure.value != "deliberation" {
            let message = format!("procedure: unknown procedure {:?}", parsed.procedure.value);
            return Err(file.error_at(
                parsed.procedure.referenced.line(),
                &message,
                "use `procedure: deliberation`",
            ));
        }
        let text = file.input_text(input, parsed.input.as_ref(), access)?;
        let providers = file.providers(parsed.providers.map(|providers| providers.0).unwrap_or_default())?;
        let (agents, participants) =
            file.agents(parsed.agents.value.0, &providers, text.as_deref(), access)?;
        let (declared, members) = (agents.len(), participants.members);
        if members.is_empty() && declared > 0 {
            let message = "agents: nothing in the text concerns any of them";
            let hint = "use another input, or add `when: always` to an agent";
            return Err(file.error_at(parsed.agents.referenced.line(), message, hint));
        }
        let input = text.map_or(Value::Null, |text| serde_json::json!({ "text": text }));
        let mut spec = match &parsed.preset {
            None => Spec::new(parsed.subject, input, members),
            Some(preset) if preset.value == "contract" => Spec::contract(parsed.subject, input, members),
            Some(preset) => {
                let message = format!("preset: unknown preset {:?}", preset.value);
                return Err(file.error_at(
                    preset.referenced.line(),
                    &message,
                    "use `preset: contract`, or omit it",
                ));
            }
        };
        spec.conflicts = parsed.conflicts.unwrap_or(spec.conflicts);
        spec.rule = parsed.rule.unwrap_or(spec.rule);
        spec.tie_break = parsed.tie_break;
        spec.vocabulary = parsed.vocabulary.unwrap_or(spec.vocabulary);
        spec.score = parsed.score.or(spec.score);
        spec.limits = parsed.limits.unwrap_or(spec.limits);
        spec.providers = providers;
        spec.not_asked = participants.not_asked;
        // The quorum is limited to the agents that are asked.
        let member_count = u32::try_from(spec.agents.len()).unwrap_or(u32::MAX);
        spec.limits.quorum = spec
            .limits
            .quorum
            .map(|quorum| if quorum as usize <= declared { quorum.min(member_count) } else { quorum });
        spec.check().map_err(|error| {
            let line = line_of(playbook, &error.path);
            file.error_at(line, &error.to_string(), "see docs/guides/deliberation.md for the settings")
        })?;
        if let Some(approval) = &parsed.approval
            && let Err((message, hint)) = approval.value.check(&spec)
        {
            return Err(file.error_at(approval.referenced.line(), &format!("approval.{message}"), &hint));
        }
        let approval = parsed.approval.map(|approval| approval.value);
        Ok(Self { path: path.to_owned(), spec, agents, approval })
    }
}

/// Reads the input of agents, which must be text and not empty.
pub(crate) fn read_input(path: &Path) -> anyhow::Result<String> {
    let text = read_text(path, INPUT_BYTES_MAX, "an input")?;
    if text.trim().is_empty() {
        let message = format!("{} is empty", path.display());
        return Err(CommandError::new(USAGE, message, "pass a file with text: --input FILE").into());
    }
    Ok(text)
}

/// Returns the line of the top-level key of a field path; 1 if it is not found.
fn line_of(playbook: &str, path: &str) -> u64 {
    let key = path.split(['.', '[']).next().unwrap_or_default();
    let has_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    playbook.lines().position(has_key).map_or(1, |index| index as u64 + 1)
}

/// Reads a text file up to a size limit. The error calls the file `kind`.
pub(crate) fn read_text(path: &Path, bytes_max: u64, kind: &str) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let context = || format!("failed to read {}", path.display());
    let file = std::fs::File::open(path).with_context(context)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes).with_context(context)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("{} is longer than {bytes_max} bytes, the limit for {kind}", path.display());
        return Err(CommandError::new(USAGE, message, "shorten the file, or use a part of it").into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count();
        let message = format!("{}:{line}: not a text file: byte {offset} is not valid UTF-8", path.display());
        CommandError::new(USAGE, message, "use plain text; convert a PDF or other document to text first")
            .into()
    })
}

/// The path of a playbook, for errors with a position and for relative paths.
struct PlaybookPath<'a>(&'a Path);

impl PlaybookPath<'_> {
    fn error_at(&self, line: u64, message: &str, hint: &str) -> anyhow::Error {
        CommandError::new(USAGE, format!("{}:{line}: {message}", self.0.display()), hint).into()
    }

    /// Returns the directory of the playbook, which relative paths start from.
    fn directory(&self) -> &Path {
        self.0.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
    }

    /// Converts an error of the YAML parser.
    fn yaml_error(&self, error: &serde_saphyr::Error) -> anyhow::Error {
        let error = error.without_snippet();
        let location = error
            .location()
            .map_or_else(|| "1".to_owned(), |location| format!("{}:{}", location.line(), location.column()));
        let (message, hint) = match error {
            serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                let hint = match closest_match(field, expected.iter().copied()) {
                    Some(closest) => format!("did you mean {closest:?}?"),
                    None => format!("the keys are {}", expected.join(", ")),
                };
                (format!("unknown key {field:?}"), hint)
            }
            other => (other.to_string(), "see docs/guides/your-first-playbook.md".to_owned()),
        };
        CommandError::new(USAGE, format!("{}:{location}: {message}", self.0.display()), hint).into()
    }
}
