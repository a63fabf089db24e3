//! Request bodies: JSON fields, in which content given by the user stays byte for byte.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use quorate_core::describe_json_error;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::exit::{CommandError, USAGE};

/// Builder of a JSON object.
#[derive(Default)]
pub(crate) struct JsonFields(Vec<(&'static str, Box<RawValue>)>);

impl JsonFields {
    /// Adds a field.
    ///
    /// # Errors
    /// If the value cannot be serialized.
    pub(crate) fn set(mut self, name: &'static str, value: impl Serialize) -> anyhow::Result<Self> {
        self.0.push((name, to_raw_value(&value)?));
        Ok(self)
    }

    /// Adds a field if it has a value.
    ///
    /// # Errors
    /// As [`JsonFields::set`].
    pub(crate) fn set_if_some(
        self,
        name: &'static str,
        value: Option<impl Serialize>,
    ) -> anyhow::Result<Self> {
        match value {
            Some(value) => self.set(name, value),
            None => Ok(self),
        }
    }

    /// Adds a list unless it is empty.
    ///
    /// # Errors
    /// As [`JsonFields::set`].
    pub(crate) fn list(self, name: &'static str, values: &[String]) -> anyhow::Result<Self> {
        if values.is_empty() { Ok(self) } else { self.set(name, values) }
    }

    pub(crate) fn to_json(&self) -> String {
        let fields: Vec<String> =
            self.0.iter().map(|(name, value)| format!("\"{name}\":{}", value.get())).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Options for content: text, JSON, or a file.
#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
pub(crate) struct ContentArgs {
    /// Content as text; - reads stdin.
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Content as JSON; stored byte for byte.
    #[arg(long, value_name = "JSON")]
    value: Option<String>,
    /// File with the content as JSON; - reads stdin.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ContentArgs {
    /// Creates content from JSON.
    pub(crate) fn json(value: Option<String>) -> Self {
        Self { text: None, value, file: None }
    }

    /// Returns the content, if any was given.
    ///
    /// # Errors
    /// If it is not valid JSON, or if the file cannot be read.
    pub(crate) fn read(self) -> anyhow::Result<Option<Box<RawValue>>> {
        match (self.text, self.value, self.file) {
            (Some(text), _, _) if text == "-" => {
                let text = read_file(Path::new("-"))?;
                // The final newline of `echo` is not part of the content.
                Ok(Some(to_raw_value(text.strip_suffix('\n').unwrap_or(&text))?))
            }
            (Some(text), _, _) => Ok(Some(to_raw_value(&text)?)),
            (_, Some(json), _) => parse(json, "--value").map(Some),
            (_, _, Some(file)) => parse(read_file(&file)?, &file.display().to_string()).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the content; the error calls it `name`.
    ///
    /// # Errors
    /// As [`ContentArgs::read`], and if none was given.
    pub(crate) fn required(self, name: &str) -> anyhow::Result<Box<RawValue>> {
        self.read()?.ok_or_else(|| {
            let hint = "pass TEXT (- reads stdin), --value JSON, or --file FILE with JSON";
            CommandError::new(USAGE, format!("missing {name}"), hint).into()
        })
    }
}

/// Reads a file; `-` is stdin.
pub(crate) fn read_file(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("failed to read stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))
}

fn parse(json: String, source: &str) -> anyhow::Result<Box<RawValue>> {
    RawValue::from_string(json.trim().to_owned()).map_err(|error| {
        let hint = "pass plain text without --value; a JSON string needs its own quotes: '\"like this\"'";
        CommandError::new(
            USAGE,
            format!("{source} is not valid JSON: {}", describe_json_error(&error.to_string())),
            hint,
        )
        .into()
    })
}
