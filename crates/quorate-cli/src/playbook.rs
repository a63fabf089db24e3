//! Playbooks: which procedure, which agents, which limits. Strict YAML: what nobody knows is an error with its place.

mod agents;
mod approval;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quorate_agents::Agent;
use quorate_procedures::deliberation::{Limits, Provider, Score, Spec};
use quorate_procedures::finding::Vocabulary;
use quorate_procedures::{conflict, count};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use agents::AgentIn;

use crate::config::nearest;
use crate::exit::{Ended, USAGE};

pub(crate) use agents::provider;
pub(crate) use approval::{Approval, is_file_name};

/// Larger than any that somebody writes.
const BYTES_MAX: u64 = 1 << 20;
/// The longest text that agents are given to read.
const INPUT_BYTES_MAX: u64 = 256 * 1024;

/// A playbook, read and checked.
#[derive(Debug)]
pub(crate) struct Playbook {
    /// Where it was read.
    pub(crate) path: PathBuf,
    /// What is deliberated; its input may come from elsewhere.
    pub(crate) spec: Spec,
    /// Everybody who is declared, in the order of the file. Who of them takes part, the spec says.
    pub(crate) agents: Vec<Agent>,
    /// What a person is asked for in the end.
    pub(crate) approval: Option<Approval>,
}

/// What agents are given to read.
pub(crate) enum Input<'a> {
    /// What the playbook names.
    Named,
    /// This file instead.
    File(&'a Path),
    /// This text instead.
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaybookIn {
    procedure: Spanned<String>,
    subject: String,
    preset: Option<Spanned<String>>,
    input: Option<Spanned<String>>,
    agents: Spanned<InOrder<AgentIn>>,
    conflicts: Option<Vec<conflict::Rule>>,
    rule: Option<count::Rule>,
    tie_break: Option<count::TieBreak>,
    words: Option<Vocabulary>,
    score: Option<Score>,
    limits: Option<Limits>,
    providers: Option<InOrder<Spanned<Provider>>>,
    approval: Option<Spanned<Approval>>,
}

/// A mapping in the order of the file.
struct InOrder<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = InOrder<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(InOrder(pairs))
            }
        }
        from.deserialize_map(Pairs(std::marker::PhantomData))
    }
}

impl Playbook {
    /// Reads a playbook; `input` stands in for what it names to read.
    pub(crate) fn read(path: &Path, input: Input<'_>) -> anyhow::Result<Self> {
        let text = read_text(path, BYTES_MAX, "a playbook")?;
        Self::of(path, &text, input)
    }

    /// The playbook in a text, as if it had been read there.
    pub(crate) fn of(path: &Path, playbook: &str, input: Input<'_>) -> anyhow::Result<Self> {
        let place = Place(path);
        let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
        let found: PlaybookIn =
            serde_saphyr::from_str_with_options(playbook, options).map_err(|error| place.wrong(&error))?;
        if found.procedure.value != "deliberation" {
            let what = format!("procedure: there is no {:?}", found.procedure.value);
            return Err(place.ended(found.procedure.referenced.line(), &what, "procedure: deliberation"));
        }
        let text = match (input, &found.input) {
            (Input::Text(text), _) => Some(text),
            (Input::File(given), _) => Some(read_input(given)?),
            (Input::Named, Some(named)) => Some(read_input(&place.directory().join(&named.value))?),
            (Input::Named, None) => None,
        };
        let providers = place.providers(found.providers.map(|said| said.0).unwrap_or_default())?;
        let (agents, taking) = place.agents(found.agents.value.0, &providers, text.as_deref())?;
        let (declared, members) = (agents.len(), taking.members);
        if members.is_empty() && declared > 0 {
            let what = "agents: nothing in the text concerns any of them";
            let hint = "give another text, or say `when: always` beside their `use`";
            return Err(place.ended(found.agents.referenced.line(), what, hint));
        }
        let input = text.map_or(Value::Null, |text| serde_json::json!({ "text": text }));
        let mut spec = match &found.preset {
            None => Spec::new(found.subject, input, members),
            Some(preset) if preset.value == "contract" => Spec::contract(found.subject, input, members),
            Some(preset) => {
                let what = format!("preset: there is no {:?}", preset.value);
                return Err(place.ended(preset.referenced.line(), &what, "preset: contract, or none"));
            }
        };
        spec.conflicts = found.conflicts.unwrap_or(spec.conflicts);
        spec.rule = found.rule.unwrap_or(spec.rule);
        spec.tie_break = found.tie_break;
        spec.words = found.words.unwrap_or(spec.words);
        spec.score = found.score.or(spec.score);
        spec.limits = found.limits.unwrap_or(spec.limits);
        spec.providers = providers;
        spec.not_asked = taking.not_asked;
        // The quorum is of those who are asked.
        let asked = u32::try_from(spec.agents.len()).unwrap_or(u32::MAX);
        spec.limits.quorum = spec
            .limits
            .quorum
            .map(|quorum| if quorum as usize <= declared { quorum.min(asked) } else { quorum });
        spec.check().map_err(|wrong| {
            let line = line_of(playbook, &wrong.path);
            place.ended(line, &wrong.to_string(), "docs/guides/deliberation.md has the settings")
        })?;
        if let Some(approval) = &found.approval
            && let Err((what, hint)) = approval.value.check(&spec)
        {
            return Err(place.ended(approval.referenced.line(), &format!("approval.{what}"), &hint));
        }
        let approval = found.approval.map(|approval| approval.value);
        Ok(Self { path: path.to_owned(), spec, agents, approval })
    }
}

/// A text that agents read; nothing else is one.
pub(crate) fn read_input(path: &Path) -> anyhow::Result<String> {
    let text = read_text(path, INPUT_BYTES_MAX, "what agents read")?;
    if text.trim().is_empty() {
        let what = format!("{} is empty: there is nothing to read", path.display());
        return Err(Ended::new(USAGE, what, "name a file with text in it: --input FILE").into());
    }
    Ok(text)
}

/// The line of the key at which a path begins; the first if it does not stand at the margin.
fn line_of(playbook: &str, path: &str) -> u64 {
    let key = path.split(['.', '[']).next().unwrap_or_default();
    let says = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    playbook.lines().position(says).map_or(1, |at| at as u64 + 1)
}

/// A text file, bounded whatever it really is.
pub(crate) fn read_text(path: &Path, most: u64, what: &str) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let reading = || format!("failed to read {}", path.display());
    let file = std::fs::File::open(path).with_context(reading)?;
    file.take(most + 1).read_to_end(&mut bytes).with_context(reading)?;
    if bytes.len() as u64 > most {
        let what = format!("{} is longer than {most} bytes, the most for {what}", path.display());
        return Err(Ended::new(USAGE, what, "give a shorter text, or a part of it").into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        let what = format!("{}:{line}: this is no text: byte {at} is not UTF-8", path.display());
        Ended::new(USAGE, what, "give plain text; a PDF or a document must be turned into text first").into()
    })
}

/// Says where in the file something is wrong.
struct Place<'a>(&'a Path);

impl Place<'_> {
    fn ended(&self, line: u64, what: &str, hint: &str) -> anyhow::Error {
        Ended::new(USAGE, format!("{}:{line}: {what}", self.0.display()), hint).into()
    }

    /// Where the playbook lies: what relative paths begin at.
    fn directory(&self) -> &Path {
        self.0.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
    }

    /// What YAML or its reader found wrong.
    fn wrong(&self, error: &serde_saphyr::Error) -> anyhow::Error {
        let error = error.without_snippet();
        let at =
            error.location().map_or_else(|| "1".to_owned(), |at| format!("{}:{}", at.line(), at.column()));
        let (what, hint) = match error {
            serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
                let hint = match nearest(field, expected.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("the keys are {}", expected.join(", ")),
                };
                (format!("{field:?} is no key"), hint)
            }
            other => (other.to_string(), "see docs/guides/your-first-playbook.md".to_owned()),
        };
        Ended::new(USAGE, format!("{}:{at}: {what}", self.0.display()), hint).into()
    }
}
