//! Recorded answers: a file for each question, named by the SHA-256 of what was asked. No key is ever part of either.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::remote::Remote;
use super::{Completing, Completion, Model, Prompt};
use crate::clock::Instant;
use crate::question::{Failure, Kind};

/// A model whose answers are kept in a directory.
pub(super) struct Taped {
    place: String,
    directory: PathBuf,
    /// Who is asked; nobody if answers are only played back.
    remote: Option<Arc<Remote>>,
}

/// A file of the directory.
#[derive(Serialize, Deserialize)]
struct Recording {
    /// What was asked, for people.
    asked: Value,
    said: Completion,
}

impl Taped {
    /// Asks and keeps.
    pub(super) fn record(place: String, to: PathBuf, remote: Arc<Remote>) -> Self {
        Self { place, directory: to, remote: Some(remote) }
    }

    /// Plays back.
    pub(super) fn replay(place: String, from: PathBuf) -> Self {
        Self { place, directory: from, remote: None }
    }

    async fn take(&self, prompt: &Prompt, until: Instant) -> Result<Completion, Failure> {
        let asked = serde_json::json!({ "model": self.place, "prompt": prompt });
        let file = self.directory.join(format!("{}.json", digest(&asked)));
        let Some(remote) = &self.remote else { return self.played(&file) };
        let said = remote.complete(prompt, until).await?;
        let recording = Recording { asked, said: said.clone() };
        keep(&file, &recording).map_err(|error| {
            let what = format!("the answer cannot be recorded in {}: {error}", file.display());
            Failure::new(Kind::Misdeclared, &self.place, what).hint("name a directory that can be written to")
        })?;
        Ok(said)
    }

    fn played(&self, file: &Path) -> Result<Completion, Failure> {
        let bytes = std::fs::read(file).map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("nothing is recorded for this question ({})", file.display())
                }
                _ => format!("{} cannot be read: {error}", file.display()),
            };
            Failure::new(Kind::NotRecorded, &self.place, what)
                .hint("the prompt, the input or the model has changed since; record again with `record:`")
        })?;
        let recording: Recording = serde_json::from_slice(&bytes).map_err(|error| {
            let what = format!("{} is no recording: {error}", file.display());
            Failure::new(Kind::NotRecorded, &self.place, what).hint("record it again with `record:`")
        })?;
        Ok(recording.said)
    }
}

impl Model for Taped {
    fn complete<'a>(&'a self, prompt: &'a Prompt, until: Instant) -> Completing<'a> {
        Box::pin(self.take(prompt, until))
    }
}

/// Objects have their keys in order, so the same question has the same digest.
fn digest(asked: &Value) -> String {
    let hash = Sha256::digest(asked.to_string().as_bytes());
    quorate_core::hex::encode(&hash[..16])
}

/// Written beside and moved into place: a reader never sees half a recording.
fn keep(file: &Path, recording: &Recording) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let beside = file.with_extension(format!("{}.part", std::process::id()));
    let mut text = serde_json::to_string_pretty(recording)?;
    text.push('\n');
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}
