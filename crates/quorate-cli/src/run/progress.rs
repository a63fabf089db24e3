//! Progress of a run on stderr, one line per phase: progress bars on a terminal, plain lines otherwise.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use quorate_store::{Clock as _, SystemClock};

use crate::terminal::{note, sanitize_line, wrap};

/// Maximum line width on a terminal.
const WIDTH: usize = 80;
/// Width of a progress bar.
const CELLS: usize = 16;

/// Interval of lines about the same phase, if they cannot be redrawn.
const PLAIN_INTERVAL_MS: u64 = 10_000;

/// Progress lines of a run.
pub(super) struct Progress {
    has_bars: bool,
    width: usize,
    clock: Arc<SystemClock>,
    /// Start of the current phase.
    phase_start_ms: u64,
    /// The line as last drawn.
    drawn: String,
    /// Time of the last line, if lines cannot be redrawn.
    printed_ms: u64,
}

impl Progress {
    /// Creates the progress output, depending on whether stderr is a terminal.
    pub(super) fn new() -> Self {
        let has_bars = io::stderr().is_terminal() && std::env::var_os("CI").is_none();
        let size = terminal_size::terminal_size_of(io::stderr());
        let width = size.map_or(WIDTH, |(width, _)| usize::from(width.0)).min(WIDTH);
        Self {
            has_bars,
            width,
            clock: SystemClock::new(),
            phase_start_ms: 0,
            drawn: String::new(),
            printed_ms: 0,
        }
    }

    /// Draws the current phase. If lines cannot be redrawn, prints one every few seconds, so that a run does not look stuck.
    pub(super) fn draw(&mut self, name: &str, (done, total): (usize, usize), detail: &str) {
        if !self.has_bars {
            let now = self.clock.now().mono.0;
            if now - self.printed_ms >= PLAIN_INTERVAL_MS {
                self.printed_ms = now;
                let elapsed = seconds(now - self.phase_start_ms);
                note(format!(
                    "{}  {}",
                    plain_line(name, &format!("{done}/{total}"), detail),
                    elapsed.trim_start()
                ));
            }
            return;
        }
        let line = self.line(name, (done, total), &count(done, total), detail);
        if line != self.drawn {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
            let _ = io::stderr().flush();
            self.drawn = line;
        }
    }

    /// Prints the final line of a phase and starts the next one.
    pub(super) fn end(&mut self, name: &str, (done, total): (usize, usize), detail: &str) {
        let now = self.clock.now().mono.0;
        let elapsed = seconds(now - self.phase_start_ms);
        (self.phase_start_ms, self.printed_ms) = (now, now);
        let count = if done == total { done.to_string() } else { format!("{done} of {total};") };
        if self.has_bars {
            let line = self.line(name, (done, total), &count, detail);
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
            note(format!("{}{elapsed}", fit(&line, self.width - elapsed.len() - 1)));
            self.drawn.clear();
        } else {
            note(format!("{}  {}", plain_line(name, &count, detail), elapsed.trim_start()));
        }
    }

    fn line(&self, name: &str, (done, total): (usize, usize), count: &str, detail: &str) -> String {
        let filled = (CELLS * done.min(total)).checked_div(total).unwrap_or(CELLS);
        let bar = "█".repeat(filled) + &"░".repeat(CELLS - filled);
        let line = format!(" {name:<11} {bar}  {count:<4} {}", sanitize_line(detail));
        line.chars().take(self.width - 1).collect()
    }
}

/// Prints a line without a progress bar, wrapped at the maximum width.
pub(super) fn note_line(name: &str, count: &str, detail: &str) {
    let prefix = plain_line(name, count, "");
    let columns = WIDTH.saturating_sub(prefix.chars().count());
    for (index, line) in wrap(&sanitize_line(detail), columns).iter().enumerate() {
        let prefix = if index == 0 { prefix.clone() } else { " ".repeat(prefix.chars().count()) };
        note(format!("{prefix}{line}"));
    }
}

/// Formats a line without a progress bar.
fn plain_line(name: &str, count: &str, detail: &str) -> String {
    let count = if count.is_empty() { String::new() } else { format!("{count:<4} ") };
    format!(" {name:<11} {count}{}", sanitize_line(detail))
}

/// Formats the count of a phase in progress.
fn count(done: usize, total: usize) -> String {
    if done == total { done.to_string() } else { format!("{done}/{total}") }
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
