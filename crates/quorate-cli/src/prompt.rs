//! Lines that a person enters at the terminal, and text that they edit.

use std::io::BufRead as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use anyhow::Context as _;

use crate::exit::{CommandError, FAILED};

/// Lines from stdin. A line is read only when it is asked for, so that an editor can use the terminal in between.
pub(crate) struct Prompt {
    requests: mpsc::Sender<()>,
    lines: tokio::sync::mpsc::UnboundedReceiver<String>,
    /// Whether a line was asked for that has not arrived yet.
    is_reading: bool,
}

impl Prompt {
    /// Starts a detached thread, which ends with the process or at the end of stdin.
    pub(crate) fn new() -> Self {
        let (requests, asked) = mpsc::channel();
        let (sender, lines) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for () in asked {
                let mut line = String::new();
                let read = std::io::stdin().lock().read_line(&mut line);
                if !read.is_ok_and(|bytes| bytes > 0) || sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { requests, lines, is_reading: false }
    }

    /// Returns the next line without its end; `None` at the end of stdin. If the future is dropped, the line is not lost.
    pub(crate) async fn line(&mut self) -> Option<String> {
        if !self.is_reading {
            self.requests.send(()).ok()?;
            self.is_reading = true;
        }
        let line = self.lines.recv().await?;
        self.is_reading = false;
        Some(line.trim_end_matches(['\n', '\r']).to_owned())
    }
}

/// Opens a text in the user's editor; returns the edited text, or `None` if it is unchanged.
///
/// # Errors
/// If the editor cannot be started or fails.
pub(crate) async fn edit(text: &str) -> anyhow::Result<Option<String>> {
    let file = tempfile::Builder::new().prefix("quorate-").suffix(".txt").tempfile()?;
    std::fs::write(file.path(), text).context("failed to write the text for the editor")?;
    let path = file.path().to_owned();
    tokio::task::spawn_blocking(move || run_editor(&path)).await??;
    let edited = std::fs::read_to_string(file.path()).context("failed to read the edited text")?;
    Ok((edited != text).then_some(edited))
}

fn run_editor(file: &Path) -> anyhow::Result<()> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // The variable may contain options, as for git.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(file).status()?;
    if status.success() {
        return Ok(());
    }
    let message = format!("the editor {editor:?} failed: {status}");
    Err(CommandError::new(FAILED, message, "set another editor: export EDITOR=nano").into())
}
