//! Texts in lines of 80 columns.

use crate::text;

/// As wide as a report on a terminal.
pub(super) const WIDTH: usize = 80;

/// What stands for a space that no line ends at. Text that was cleaned has none.
const TIED: char = '\u{1}';

/// A text in lines: the first after `first`, the others after as many spaces.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut lines = String::new();
    for (at, line) in text::wrap(text, WIDTH.saturating_sub(indent)).iter().enumerate() {
        let before = if at == 0 { first.to_owned() } else { " ".repeat(indent) };
        lines.push_str(format!("{before}{line}").replace(TIED, " ").trim_end());
        lines.push('\n');
    }
    lines
}

/// A text that stays in one line.
pub(super) fn unbroken(text: &str) -> String {
    text.replace(' ', &TIED.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails under: a line that is one too long, an indent that is lost, a long word that is lost.
    #[test]
    fn lines_end_before_the_edge() {
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
