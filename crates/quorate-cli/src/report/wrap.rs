//! Texts in lines of 80 columns.

/// As wide as a report on a terminal.
pub(super) const WIDTH: usize = 80;

/// A text in lines: the first after `first`, the others after as many spaces. A word that is wider than a line gets one of its own.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    hanging(first, &indent, text)
}

/// As [`wrapped`], with what stands before the other lines.
pub(super) fn hanging(first: &str, others: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let (mut width, mut empty) = (first.chars().count(), true);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let letters = word.chars().count();
        let gap = usize::from(!empty);
        if !empty && width + gap + letters > WIDTH {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = others.to_owned();
            (width, empty) = (others.chars().count(), true);
        }
        if !empty {
            line.push(' ');
            width += 1;
        }
        line.push_str(word);
        width += letters;
        empty = false;
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines.replace(TIED, " ")
}

/// What stands for a space that no line ends at.
const TIED: char = '\u{a0}';

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
        assert_eq!(hanging("> ", "  ", &format!("a {long} b")), format!("> a\n  {long}\n  b\n"));
        assert_eq!(wrapped("nothing", ""), "nothing\n");
        let both = wrapped("", &format!("{} {}", "x".repeat(70), unbroken("stays together")));
        assert_eq!(both.lines().nth(1), Some("stays together"));
    }
}
