//! Pauses between the phases of a run, until the person at the terminal presses Enter.

use crate::prompt::Prompt;
use crate::terminal::{Style, note, paint_note};

/// Pauses of a run.
pub(crate) struct Pauses {
    /// `None` if there are no pauses.
    prompt: Option<Prompt>,
    is_paused: bool,
}

impl Pauses {
    /// Creates pauses for a person at the terminal.
    pub(crate) fn interactive() -> Self {
        Self { prompt: Some(Prompt::new()), is_paused: false }
    }

    /// Creates pauses that never pause.
    pub(crate) fn none() -> Self {
        Self { prompt: None, is_paused: false }
    }

    pub(crate) fn are_enabled(&self) -> bool {
        self.prompt.is_some()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Begins a pause, if there are pauses.
    pub(super) fn begin(&mut self) {
        if self.prompt.is_some() {
            note(paint_note(
                Style::Faint,
                "                              Enter continues, s skips the pauses",
            ));
            self.is_paused = true;
        }
    }

    /// Waits until the current pause ends. After `s`, or at the end of stdin, there are no more pauses. If the future is dropped,
    /// the pause continues.
    pub(super) async fn wait(&mut self) {
        if let Some(prompt) = &mut self.prompt
            && self.is_paused
        {
            let line = prompt.line().await;
            if line.is_none_or(|line| line.trim() == "s") {
                self.prompt = None;
            }
        }
        self.is_paused = false;
    }

    /// Pauses, if there are pauses.
    pub(crate) async fn pause(&mut self) {
        self.begin();
        self.wait().await;
    }
}
