//! Wraps text at 80 columns.

use crate::terminal;

/// Width of a text report.
pub(super) const WIDTH: usize = 80;

/// Placeholder for a non-breaking space. Sanitized text does not contain it.
const NON_BREAKING: char = '\u{1}';

/// Wraps a text; the first line begins with `first`, the others are indented by its width.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut lines = String::new();
    for (index, line) in terminal::wrap(text, WIDTH.saturating_sub(indent)).iter().enumerate() {
        let prefix = if index == 0 { first.to_owned() } else { " ".repeat(indent) };
        lines.push_str(format!("{prefix}{line}").replace(NON_BREAKING, " ").trim_end());
        lines.push('\n');
    }
    lines
}

/// Makes the spaces of a text non-breaking.
pub(super) fn unbroken(text: &str) -> String {
    text.replace(' ', &NON_BREAKING.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a line that is one column too long, or a lost indent or word.
    #[test]
    fn lines_are_wrapped_and_indented() {
        let text = wrapped("  a  ", &"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().skip(1).all(|line| line.starts_with("     word")), "{text}");
        assert_eq!(text.matches("word").count(), 40);
        let long = "x".repeat(100);
        assert_eq!(wrapped("> ", &format!("a {long} b")), format!("> a\n  {long}\n  b\n"));
        assert_eq!(wrapped("nothing", ""), "nothing\n");
        let both = wrapped("", &format!("{} {}", "x".repeat(70), unbroken("stays together")));
        assert_eq!(both.lines().nth(1), Some("stays together"));
    }
}
