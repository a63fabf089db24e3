//! Phases of a run as lines on stderr: with bars that fill on a terminal, plain elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;

use quorate_store::{Clock as _, SystemClock};

use crate::text::{clean_line, say};

/// Columns of a line on a terminal, if it has that many.
const WIDTH: usize = 80;
/// Cells of a bar.
const CELLS: usize = 16;

/// The lines of a run, one below the other.
pub(super) struct Progress {
    bars: bool,
    width: usize,
    clock: Arc<SystemClock>,
    /// When the phase under way began.
    since_ms: u64,
    /// The line that is being drawn.
    drawn: String,
}

impl Progress {
    /// Lines for whoever reads stderr.
    pub(super) fn new() -> Self {
        let bars = io::stderr().is_terminal() && std::env::var_os("CI").is_none();
        let size = terminal_size::terminal_size_of(io::stderr());
        let width = size.map_or(WIDTH, |(width, _)| usize::from(width.0)).min(WIDTH);
        Self { bars, width, clock: SystemClock::new(), since_ms: 0, drawn: String::new() }
    }

    /// Draws a phase that is under way. Only where it can be drawn over.
    pub(super) fn draw(&mut self, name: &str, (done, of): (usize, usize), detail: &str) {
        if !self.bars {
            return;
        }
        let line = self.line(name, (done, of), detail);
        if line != self.drawn {
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
            let _ = io::stderr().flush();
            self.drawn = line;
        }
    }

    /// The last line of a phase; the next one begins.
    pub(super) fn end(&mut self, name: &str, (done, of): (usize, usize), detail: &str) {
        let now = self.clock.now().mono.0;
        let taken = seconds(now - self.since_ms);
        self.since_ms = now;
        if self.bars {
            let line = self.line(name, (done, of), detail);
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
            say(format!("{}{taken}", fit(&line, self.width - taken.len() - 1)));
            self.drawn.clear();
        } else {
            say(format!("{}  {}", plain_line(name, &count(done, of), detail), taken.trim_start()));
        }
    }

    fn line(&self, name: &str, (done, of): (usize, usize), detail: &str) -> String {
        let filled = (CELLS * done.min(of)).checked_div(of).unwrap_or(CELLS);
        let bar = "█".repeat(filled) + &"░".repeat(CELLS - filled);
        let line = format!(" {name:<11} {bar}  {:<4} {}", count(done, of), clean_line(detail));
        line.chars().take(self.width - 1).collect()
    }
}

/// A line of a run where no bars are.
pub(crate) fn plain_line(name: &str, count: &str, detail: &str) -> String {
    let count = if count.is_empty() { String::new() } else { format!("{count:<4} ") };
    format!(" {name:<11} {count}{}", clean_line(detail))
}

fn count(done: usize, of: usize) -> String {
    if done == of { done.to_string() } else { format!("{done}/{of}") }
}

fn seconds(ms: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let seconds = ms as f64 / 1_000.0;
    format!("{seconds:>6.1} s")
}

/// Exactly as many columns.
fn fit(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return format!("{line:<columns$}");
    }
    let kept: String = line.chars().take(columns.saturating_sub(2)).collect();
    format!("{:<columns$}", format!("{} …", kept.trim_end_matches([' ', ','])))
}
