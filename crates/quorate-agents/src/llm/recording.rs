//! Recorded answers: one file per request, named by the first 128 bits of the SHA-256 of model and prompt. Neither contains an API key.

use std::io;
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

/// Writes a temporary file and renames it, so that a reader never sees a partial recording.
fn write(file: &Path, recording: &Recording) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let temporary = file.with_extension(format!("{}.part", std::process::id()));
    let mut text = serde_json::to_string_pretty(recording)?;
    text.push('\n');
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, file)
}
