//! Recorded answers: one file per request, named by the first 128 bits of the SHA-256 of model and prompt. Neither contains an API key.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::provider_model::ProviderModel;
use super::{Completion, CompletionFuture, Model, Prompt};
use crate::clock::Instant;
use crate::question::{AgentFailure, FailureKind};

/// A model whose answers are recorded in a directory.
pub(super) struct RecordedModel {
    label: String,
    directory: PathBuf,
    /// The model to call; `None` in replay mode.
    remote: Option<Arc<ProviderModel>>,
}

/// A recording file.
#[derive(Serialize, Deserialize)]
struct Recording {
    /// The question, for human readers.
    #[serde(rename = "asked")]
    question: Value,
    #[serde(rename = "said")]
    completion: Completion,
}

impl RecordedModel {
    /// Calls the model and records its answers.
    pub(super) fn record(label: String, directory: PathBuf, remote: Arc<ProviderModel>) -> Self {
        Self { label, directory, remote: Some(remote) }
    }

    /// Returns recorded answers without calling a model.
    pub(super) fn replay(label: String, directory: PathBuf) -> Self {
        Self { label, directory, remote: None }
    }

    async fn complete_recorded(
        &self,
        prompt: &Prompt,
        deadline: Instant,
    ) -> Result<Completion, AgentFailure> {
        let question = serde_json::json!({ "model": self.label, "prompt": prompt });
        let file = self.directory.join(format!("{}.json", digest(&question)));
        let Some(remote) = &self.remote else { return self.replayed(&file) };
        let completion = remote.complete(prompt, deadline).await?;
        let recording = Recording { question, completion: completion.clone() };
        write(&file, &recording).map_err(|error| {
            let message = format!("cannot record the answer in {}: {error}", file.display());
            AgentFailure::new(FailureKind::Misdeclared, &self.label, message)
                .hint("choose a writable directory")
        })?;
        Ok(completion)
    }

    fn replayed(&self, file: &Path) -> Result<Completion, AgentFailure> {
        let bytes = std::fs::read(file).map_err(|error| {
            let message = match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("no recording for this question ({})", file.display())
                }
                _ => format!("cannot read {}: {error}", file.display()),
            };
            AgentFailure::new(FailureKind::NotRecorded, &self.label, message)
                .hint("the prompt, the input or the model has changed since the recording; record again with `record:`")
        })?;
        let recording: Recording = serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("{} is not a valid recording: {error}", file.display());
            AgentFailure::new(FailureKind::NotRecorded, &self.label, message)
                .hint("record it again with `record:`")
        })?;
        Ok(recording.completion)
    }
}

impl Model for RecordedModel {
    fn complete<'a>(&'a self, prompt: &'a Prompt, deadline: Instant) -> CompletionFuture<'a> {
        Box::pin(self.complete_recorded(prompt, deadline))
    }
}

/// Digest of a question. Object keys are sorted, so equal questions have equal digests.
fn digest(question: &Value) -> String {
    let hash = Sha256::digest(question.to_string().as_bytes());
    quorate_core::hex::encode(&hash[..16])
}

/// Writes a temporary file and renames it, so that a reader never sees a partial recording. Neither step follows a symbolic
/// link.
fn write(file: &Path, recording: &Recording) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mut text = serde_json::to_string_pretty(recording)?;
    text.push('\n');
    let (temporary, mut created) = create_temporary(file)?;
    let written = created.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&temporary, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Creates a file next to another one, under a name that nothing has: not a link, and not the file of another call.
fn create_temporary(file: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0..TEMPORARY_NAMES_MAX {
        let path = file.with_extension(format!("{}-{number}.part", std::process::id()));
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|created| (path, created)),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many temporary files: delete the `.part` files"))
}

/// Maximum number of temporary files of one recording.
const TEMPORARY_NAMES_MAX: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a temporary file that is opened through a symbolic link.
    #[cfg(unix)]
    #[test]
    fn s14_a_recording_follows_no_symbolic_link() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, file) = (directory.path().join("victim"), directory.path().join("ab12.json"));
        std::fs::write(&victim, "precious").unwrap();
        for name in ["ab12.json".to_owned(), format!("ab12.{}.part", std::process::id())] {
            std::os::unix::fs::symlink(&victim, directory.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink(&victim, file.with_extension(format!("{}-0.part", std::process::id())))
            .unwrap();
        let completion = Completion {
            text: "yes".to_owned(),
            input_tokens: 1,
            output_tokens: 1,
            cut: false,
            calls: 1,
            notes: Vec::new(),
        };
        let recording = Recording { question: Value::Null, completion };
        for _ in 0..2 {
            write(&file, &recording).unwrap();
            assert!(std::fs::symlink_metadata(&file).unwrap().is_file());
            assert!(std::fs::read_to_string(&file).unwrap().contains("\"said\""));
        }
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4, "no temporary file is left");
    }
}
