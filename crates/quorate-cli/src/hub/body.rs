//! What is sent: fields in JSON, in which the content that somebody gave stays as it was given.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use quorate_core::misread;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::exit::{Ended, USAGE};

/// An object in JSON, field by field.
#[derive(Default)]
pub(crate) struct Fields(Vec<(&'static str, Box<RawValue>)>);

impl Fields {
    /// Adds a field.
    ///
    /// # Errors
    /// For what cannot be JSON.
    pub(crate) fn set(mut self, name: &'static str, value: impl Serialize) -> anyhow::Result<Self> {
        self.0.push((name, to_raw_value(&value)?));
        Ok(self)
    }

    /// Adds a field if there is something to say.
    ///
    /// # Errors
    /// As [`Fields::set`].
    pub(crate) fn maybe(self, name: &'static str, value: Option<impl Serialize>) -> anyhow::Result<Self> {
        match value {
            Some(value) => self.set(name, value),
            None => Ok(self),
        }
    }

    /// Adds a list if it holds anything.
    ///
    /// # Errors
    /// As [`Fields::set`].
    pub(crate) fn list(self, name: &'static str, values: &[String]) -> anyhow::Result<Self> {
        if values.is_empty() { Ok(self) } else { self.set(name, values) }
    }

    pub(crate) fn to_json(&self) -> String {
        let fields: Vec<String> =
            self.0.iter().map(|(name, value)| format!("\"{name}\":{}", value.get())).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Content, in one of three ways.
#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
pub(crate) struct Content {
    /// The content as text; - is the standard input.
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// The content as JSON; it goes on byte for byte.
    #[arg(long, value_name = "JSON")]
    value: Option<String>,
    /// A file with the content as JSON; - is the standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Content {
    /// Content that can only be JSON.
    pub(crate) fn json(value: Option<String>) -> Self {
        Self { text: None, value, file: None }
    }

    /// The content, if any was given.
    ///
    /// # Errors
    /// For what is no JSON, and for a file that cannot be read.
    pub(crate) fn read(self) -> anyhow::Result<Option<Box<RawValue>>> {
        match (self.text, self.value, self.file) {
            (Some(text), _, _) if text == "-" => {
                let text = read_file(Path::new("-"))?;
                // `echo` ends its line; that end is not what was said.
                Ok(Some(to_raw_value(text.strip_suffix('\n').unwrap_or(&text))?))
            }
            (Some(text), _, _) => Ok(Some(to_raw_value(&text)?)),
            (_, Some(json), _) => parse(json, "--value").map(Some),
            (_, _, Some(file)) => parse(read_file(&file)?, &file.display().to_string()).map(Some),
            _ => Ok(None),
        }
    }

    /// The content.
    ///
    /// # Errors
    /// As [`Content::read`], and when there is none.
    pub(crate) fn needed(self) -> anyhow::Result<Box<RawValue>> {
        self.read()?.ok_or_else(|| {
            let hint =
                "give it as TEXT (- is the standard input), as --value JSON, or as --file FILE (JSON, too)";
            Ended::new(USAGE, "there is no content", hint).into()
        })
    }
}

/// A file; `-` is the standard input.
pub(crate) fn read_file(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("failed to read the standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))
}

fn parse(json: String, from: &str) -> anyhow::Result<Box<RawValue>> {
    RawValue::from_string(json.trim().to_owned()).map_err(|error| {
        let hint = "text goes without --value; JSON texts have quotes of their own: '\"like this\"'";
        Ended::new(USAGE, format!("{from} is no JSON: {}", misread(&error.to_string())), hint).into()
    })
}
