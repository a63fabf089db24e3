//! Progress of a run on stderr, one line per phase: progress bars on a terminal, plain lines otherwise.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use quorate_store::{Clock as _, SystemClock};

use crate::terminal::{note, sanitize_line, wrap};

/// Maximum line width on a terminal.
const WIDTH: usize = 80;
/// Column of the details of a phase.
const INDENT: usize = 13;
/// Width of a progress bar.
const CELLS: usize = 16;

/// Interval of lines about the same phase, if they cannot be redrawn.
const PLAIN_INTERVAL_MS: u64 = 10_000;

/// A phase that has ended.
pub(super) struct EndedPhase {
    pub(super) name: &'static str,
    /// How much was done, of how much.
    pub(super) count: (usize, usize),
    pub(super) detail: String,
    pub(super) elapsed_ms: u64,
}

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
        let line = bar_line(name, (done, total), &count(done, total), detail);
        let line: String = line.chars().take(self.width - 1).collect();
        if line != self.drawn {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
            let _ = io::stderr().flush();
            self.drawn = line;
        }
    }

    /// Returns the duration of the current phase and starts the next one.
    pub(super) fn lap(&mut self) -> u64 {
        let now = self.clock.now().mono.0;
        let elapsed_ms = now - self.phase_start_ms;
        (self.phase_start_ms, self.printed_ms) = (now, now);
        elapsed_ms
    }

    /// Prints the final line of a phase.
    pub(super) fn end(&mut self, ended: &EndedPhase) {
        let EndedPhase { name, count: (done, total), detail, elapsed_ms } = ended;
        let elapsed = seconds(*elapsed_ms);
        let count = if done == total { done.to_string() } else { format!("{done} of {total};") };
        if self.has_bars {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
            let columns = self.width - elapsed.len() - 1;
            let (line, below) = fit(&bar_line(name, (*done, *total), &count, ""), detail, columns);
            note(format!("{line:<columns$}{elapsed}"));
            below.iter().for_each(note);
            self.drawn.clear();
        } else {
            note(format!("{}  {}", plain_line(name, &count, detail), elapsed.trim_start()));
        }
    }
}

fn bar_line(name: &str, (done, total): (usize, usize), count: &str, detail: &str) -> String {
    let filled = (CELLS * done.min(total)).checked_div(total).unwrap_or(CELLS);
    let bar = "█".repeat(filled) + &"░".repeat(CELLS - filled);
    format!(" {name:<11} {bar}  {count:<4} {}", sanitize_line(detail))
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

/// Appends the detail of a phase to its line if it fits this width; otherwise it is wrapped below.
fn fit(line: &str, detail: &str, columns: usize) -> (String, Vec<String>) {
    let detail = sanitize_line(detail);
    if line.chars().count() + detail.chars().count() <= columns {
        return (format!("{line}{detail}"), Vec::new());
    }
    let below = wrap(&detail, WIDTH - INDENT).into_iter().map(|line| format!("{:INDENT$}{line}", ""));
    (line.trim_end().to_owned(), below.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a detail that is cut, or wider than the terminal.
    #[test]
    fn n17_a_detail_that_does_not_fit_is_wrapped_below() {
        let (line, detail) = (" findings ███  5    ", "clauses, compliance");
        assert_eq!(fit(line, detail, 39), (format!("{line}{detail}"), Vec::new()));
        assert_eq!(fit(line, detail, 38), (" findings ███  5".into(), vec![format!("{:13}{detail}", "")]));
        let (_, below) = fit(line, &"financial_analyst, ".repeat(10), 38);
        assert!(below.len() > 2 && below.iter().all(|line| line.chars().count() <= WIDTH), "{below:?}");
    }
}
