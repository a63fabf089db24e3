//! Progress of a run on stderr, one line per phase: progress bars on a terminal, plain lines otherwise.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use quorate_store::{Clock as _, SystemClock};

use crate::terminal::{note, sanitize_line, wrap};

/// Maximum line width on a terminal.
const WIDTH: usize = 80;
/// Width of a progress bar.
const CELLS: usize = 16;

/// Progress lines of a run.
pub(super) struct Progress {
    bars: bool,
    width: usize,
    clock: Arc<SystemClock>,
    /// Start of the current phase.
    since_ms: u64,
    /// The line as last drawn.
    drawn: String,
}

impl Progress {
    /// Creates the progress output, depending on whether stderr is a terminal.
    pub(super) fn new() -> Self {
        let bars = io::stderr().is_terminal() && std::env::var_os("CI").is_none();
        let size = terminal_size::terminal_size_of(io::stderr());
        let width = size.map_or(WIDTH, |(width, _)| usize::from(width.0)).min(WIDTH);
        Self { bars, width, clock: SystemClock::new(), since_ms: 0, drawn: String::new() }
    }

    /// Draws the current phase, if the line can be redrawn.
    pub(super) fn draw(&mut self, name: &str, (done, of): (usize, usize), detail: &str) {
        if !self.bars {
            return;
        }
        let line = self.line(name, (done, of), &count(done, of), detail);
        if line != self.drawn {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
            let _ = io::stderr().flush();
            self.drawn = line;
        }
    }

    /// Prints the final line of a phase and starts the next one.
    pub(super) fn end(&mut self, name: &str, (done, of): (usize, usize), detail: &str) {
        let now = self.clock.now().mono.0;
        let elapsed = seconds(now - self.since_ms);
        self.since_ms = now;
        let count = if done == of { done.to_string() } else { format!("{done} of {of};") };
        if self.bars {
            let line = self.line(name, (done, of), &count, detail);
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
            note(format!("{}{elapsed}", fit(&line, self.width - elapsed.len() - 1)));
            self.drawn.clear();
        } else {
            note(format!("{}  {}", plain_line(name, &count, detail), elapsed.trim_start()));
        }
    }

    fn line(&self, name: &str, (done, of): (usize, usize), count: &str, detail: &str) -> String {
        let filled = (CELLS * done.min(of)).checked_div(of).unwrap_or(CELLS);
        let bar = "█".repeat(filled) + &"░".repeat(CELLS - filled);
        let line = format!(" {name:<11} {bar}  {count:<4} {}", sanitize_line(detail));
        line.chars().take(self.width - 1).collect()
    }
}

/// Prints a line without a progress bar, wrapped at the maximum width.
pub(crate) fn note_line(name: &str, count: &str, detail: &str) {
    let lead = plain_line(name, count, "");
    let columns = WIDTH.saturating_sub(lead.chars().count());
    for (index, line) in wrap(&sanitize_line(detail), columns).iter().enumerate() {
        let lead = if index == 0 { lead.clone() } else { " ".repeat(lead.chars().count()) };
        note(format!("{lead}{line}"));
    }
}

/// Formats a line without a progress bar.
fn plain_line(name: &str, count: &str, detail: &str) -> String {
    let count = if count.is_empty() { String::new() } else { format!("{count:<4} ") };
    format!(" {name:<11} {count}{}", sanitize_line(detail))
}

/// Formats the count of a phase in progress.
fn count(done: usize, of: usize) -> String {
    if done == of { done.to_string() } else { format!("{done}/{of}") }
}

fn seconds(ms: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let seconds = ms as f64 / 1_000.0;
    format!("{seconds:>6.1} s")
}

/// Pads or truncates a line to this width.
fn fit(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return format!("{line:<columns$}");
    }
    let kept: String = line.chars().take(columns.saturating_sub(2)).collect();
    format!("{:<columns$}", format!("{} …", kept.trim_end_matches([' ', ','])))
}
