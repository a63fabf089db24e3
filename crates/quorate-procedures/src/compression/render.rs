//! A compressed context, and how it is rendered: as JSON for programs, as YAML for people and prompts.

use std::fmt::Write as _;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::tokens::count_o200k;

/// A context that was compressed to a budget of tokens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Compressed {
    /// Title and objective, or the most important sentences.
    pub summary: String,
    /// Findings, decisions and results in the order of the original, then the next action.
    pub key_points: Vec<String>,
    /// Where things are: `full` is the original, `T5` a large output in it, other names are references that the original had.
    #[serde(serialize_with = "in_order")]
    pub refs: Vec<(String, String)>,
    /// The parts of the original, each with the reference that expands it.
    pub expandable: Vec<String>,
    /// Tokens of the original.
    pub original_tokens: usize,
    /// Tokens of the compressed context: the larger of the JSON and the YAML form.
    pub tokens: usize,
}

fn in_order<S: Serializer>(refs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(refs.len()))?;
    for (name, place) in refs {
        map.serialize_entry(name, place)?;
    }
    map.end()
}

impl Compressed {
    /// Renders one line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Renders YAML, without the token counts.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut yaml = format!("summary: {}\n", scalar(&self.summary));
        write_list(&mut yaml, "key_points", &self.key_points);
        yaml.push_str("refs:\n");
        for (name, place) in &self.refs {
            let _ = writeln!(yaml, "  {}: {}", key(name), scalar(place));
        }
        write_list(&mut yaml, "expandable", &self.expandable);
        yaml
    }

    /// Share of the original that is transferred.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.tokens as f64 / self.original_tokens.max(1) as f64
    }

    /// Counts the tokens of both forms, and stores the larger count. The count is part of the JSON, so it is counted again until
    /// it is stable: a larger number never has fewer tokens.
    pub(super) fn measure(&mut self) -> usize {
        let yaml = count_o200k(&self.to_yaml());
        self.tokens = 0;
        loop {
            let tokens = yaml.max(count_o200k(&self.to_json()));
            if tokens == self.tokens {
                return tokens;
            }
            self.tokens = tokens;
        }
    }
}

fn write_list(yaml: &mut String, name: &str, items: &[String]) {
    let _ = writeln!(yaml, "{name}:{}", if items.is_empty() { " []" } else { "" });
    for item in items {
        let _ = writeln!(yaml, "- {}", scalar(item));
    }
}

/// A JSON string, which is also a YAML string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A YAML string: plain where YAML reads it as a string, else quoted.
fn scalar(text: &str) -> String {
    let has_indicator = text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']);
    // A plain scalar starts with a letter and has several words, so that it is no number, date, boolean or null.
    let is_plain = text.starts_with(char::is_alphabetic) && text.contains(' ') && !has_indicator;
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// A YAML key, quoted unless it is a plain word.
fn key(name: &str) -> String {
    let is_plain = name.starts_with(|ch: char| ch.is_ascii_alphabetic())
        && name.len() > 1
        && name.chars().all(|ch| ch.is_ascii_alphanumeric() || ch == '_');
    let is_word = ["true", "false", "null", "yes", "no", "on", "off"].contains(&name.to_lowercase().as_str());
    if is_plain && !is_word { name.to_owned() } else { quoted(name) }
}
