//! Terminal output: stdout, stderr, colours, and sanitizing of text from agents.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use quorate_core::Code;
use quorate_engine::Error;

use crate::ascii;
use crate::exit::error_with_code;

/// Prints a line of progress or advice to stderr.
pub(crate) fn note(line: impl AsRef<str>) {
    // An error here cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{}", ascii::rendered(line.as_ref()));
}

/// The first error of writing to stdout. It becomes the error of the command at its end: a command that prints in the middle of
/// its work should still finish that work.
static STDOUT_ERROR: OnceLock<io::Error> = OnceLock::new();

/// Same as [`note`], while a progress bar may be drawn: the line replaces it, and the bar is drawn again later.
pub(crate) fn note_over_progress(line: impl AsRef<str>) {
    let clear = if io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    let _ = writeln!(io::stderr().lock(), "{clear}{}", ascii::rendered(line.as_ref()));
}

/// Prints a line of data to stdout. Errors are reported by [`stdout_error`].
pub(crate) fn print(line: impl AsRef<str>) {
    keep_first_error(write_line(line.as_ref()));
}

/// Returns the first error of writing to stdout. A closed pipe is not an error.
pub(crate) fn stdout_error() -> Option<Error> {
    STDOUT_ERROR.get().map(|error| {
        output_error(
            error,
            "the command itself succeeded; free disk space or redirect stdout, then read the result again",
        )
    })
}

/// Converts an error of writing to stdout.
pub(crate) fn output_error(error: &io::Error, hint: impl Into<String>) -> Error {
    let code =
        if error.kind() == io::ErrorKind::StorageFull { Code::StorageFull } else { Code::StorageFailed };
    error_with_code(code, format!("failed to write to stdout: {}", reason(error)), hint)
}

/// Returns the message of an I/O error without the OS error number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn keep_first_error(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // Only the first error is kept.
        let _ = STDOUT_ERROR.set(error);
    }
}

fn write_line(line: &str) -> io::Result<()> {
    write(&ascii::rendered(line), "\n")
}

fn write(data: &str, end: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(data.as_bytes())?;
    out.write_all(end.as_bytes())?;
    out.flush()
}

/// Whether stdout is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Writes data to stdout unchanged, without a final newline.
pub(crate) fn write_raw(data: &str) {
    keep_first_error(write(data, ""));
}

/// Prints a line of data to stdout, for streaming commands. Returns whether the pipe is still open.
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn print_streaming(line: impl AsRef<str>) -> anyhow::Result<bool> {
    match write_line(line.as_ref()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(output_error(&error, "the output is incomplete; free disk space and run the command again")
                .into())
        }
    }
}

/// Prints a secret that cannot be printed again.
///
/// # Errors
/// If it cannot be written, also to a closed pipe; `hint` is how to get another.
pub(crate) fn print_secret(line: impl AsRef<str>, hint: impl Into<String>) -> anyhow::Result<()> {
    write_line(line.as_ref()).map_err(|error| output_error(&error, hint).into())
}

/// Prints an error with its causes and a hint; `has_page` is true if the page of the error code explains it.
pub(crate) fn print_error(code: &str, message: &str, causes: &[String], hint: &str, has_page: bool) {
    let (red, plain) = if colour(io::stderr().is_terminal()) { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let bracket = if code.is_empty() { String::new() } else { format!("[{code}]") };
    note(format!("{red}error{bracket}{plain}: {}", sanitize_error(message)));
    for cause in causes {
        note(format!("  = {}", sanitize_error(cause)));
    }
    if !hint.is_empty() {
        note(format!("help: {}", sanitize_error(hint).replace('\n', "\n      ")));
    }
    match hint {
        _ if !has_page => {}
        "" => note(format!("help: quorate explain {code}")),
        _ => note(format!("      more: quorate explain {code}")),
    }
}

/// Prints a warning with a hint to stderr.
pub(crate) fn print_warning(message: &str, hint: &str) {
    note(format!("warning: {}", sanitize_error(message)));
    note(format!("help: {}", sanitize_error(hint)));
}

/// Renders clap's help, with colours on a terminal.
pub(crate) fn styled(text: &clap::builder::StyledStr) -> String {
    if colour(stdout_is_terminal()) { text.ansi().to_string() } else { text.to_string() }
}

/// Meaning of a painted text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Plain,
    Heading,
    Strong,
    Good,
    Bad,
    Warning,
    Faint,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Heading => "36",
            Self::Strong => "1",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warning => "33",
            Self::Faint => "2",
        }
    }

    fn paint(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            style => format!("\x1b[{}m{text}\x1b[0m", style.code()),
        }
    }
}

/// Paints a part of a note, with colours if stderr is a terminal. The text must be sanitized already.
pub(crate) fn paint_note(style: Style, text: &str) -> String {
    if colour(io::stderr().is_terminal()) { style.paint(text) } else { text.to_owned() }
}

/// Paints a part of a line on stdout, with colours if stdout is a terminal. The text must be sanitized already.
pub(crate) fn paint(style: Style, text: &str) -> String {
    if colour(stdout_is_terminal()) { style.paint(text) } else { text.to_owned() }
}

/// Whether to use colours: on a terminal, unless `NO_COLOR` or `CI` is set.
fn colour(terminal: bool) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    terminal && !is_set("NO_COLOR") && !is_set("CI")
}

/// Sanitizes the text of an error, which may quote an access token that was passed in the wrong place.
pub(crate) fn sanitize_error(text: &str) -> String {
    sanitize(&quorate_core::redact_tokens(text))
}

/// Sanitizes text from an agent or a file: characters that would move the cursor, change colours, or hide or reorder text are
/// escaped.
pub(crate) fn sanitize(text: &str) -> String {
    let mut sanitized = String::with_capacity(text.len());
    for ch in text.chars() {
        if is_hostile(ch) && ch != '\n' && ch != '\t' {
            let _ = write!(sanitized, "\\u{{{:x}}}", ch as u32);
        } else {
            sanitized.push(ch);
        }
    }
    sanitized
}

/// Same as [`sanitize`], on one line.
pub(crate) fn sanitize_line(text: &str) -> String {
    sanitize(text).replace('\n', "\\n").replace('\t', " ")
}

/// Wraps text at this width; a longer word gets its own line.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Sanitizes JSON from agents, on one line. JSON requires control characters to be escaped, but not all that terminals interpret,
/// nor those between tokens. Those are escaped here as well, which gives equivalent JSON. With `--ascii`, so is every
/// non-ASCII character.
pub(crate) fn sanitize_json(json: &str) -> String {
    let mut sanitized = String::with_capacity(json.len());
    for ch in json.chars() {
        match ch {
            // Whitespace between tokens: within a string it is escaped already.
            '\n' | '\r' | '\t' => sanitized.push(' '),
            ch if is_hostile(ch) || (!ch.is_ascii() && ascii::is_enabled()) => {
                for unit in ch.encode_utf16(&mut [0; 2]) {
                    let _ = write!(sanitized, "\\u{unit:04x}");
                }
            }
            ch => sanitized.push(ch),
        }
    }
    sanitized
}

/// Whether a terminal would interpret the character, or render nothing.
fn is_hostile(ch: char) -> bool {
    ch.is_control() || quorate_core::is_hidden_in_text(ch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_codes_do_not_reach_the_terminal() {
        assert_eq!(sanitize("a\x1b[31mred\x07\nnext"), "a\\u{1b}[31mred\\u{7}\nnext");
        assert_eq!(sanitize("\u{9b}31m"), "\\u{9b}31m", "also the one-character form");
        assert_eq!(sanitize("pay \u{202e}001"), "pay \\u{202e}001", "also bidirectional overrides");
        assert_eq!(sanitize_line("a\nb\tc\r"), "a\\nb c\\u{d}");
        assert_eq!(sanitize("b\u{fe01}\u{2800}"), "b\\u{fe01}\\u{2800}", "also invisible characters");
        assert_eq!(sanitize("\u{26a0}\u{fe0f} 3"), "\u{26a0}\u{fe0f} 3", "but not the selector of an emoji");
    }

    #[test]
    fn sanitized_json_is_equivalent() {
        let raw = "{\"a\":\r\n\"\u{9b}2J \u{202e}x \u{e0041} \\u001b\",\t\"b\":\"é\"}";
        let sanitized = sanitize_json(raw);
        assert!(!sanitized.chars().any(is_hostile), "{sanitized}");
        let parse = |text| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(parse(raw), parse(&sanitized));
        assert!(sanitized.contains('é'), "visible characters stay");
    }
}
