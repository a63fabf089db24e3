//! What people read: plain off a terminal, with colour on one, and never with what an agent smuggled in.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

/// Prints a line of progress or advice on stderr.
pub(crate) fn say(line: impl AsRef<str>) {
    // Whoever reads may have gone; there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{}", line.as_ref());
}

/// Prints a line of data on stdout.
pub(crate) fn print(line: impl AsRef<str>) {
    let _ = writeln!(std::io::stdout().lock(), "{}", line.as_ref());
}

/// Prints an error: what, why, what next.
pub(crate) fn error(code: &str, what: &str, causes: &[String], hint: &str) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (red, plain) = if colour { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    let bracket = if code.is_empty() { String::new() } else { format!("[{code}]") };
    say(format!("{red}error{bracket}{plain}: {}", clean(what)));
    for cause in causes {
        say(format!("  = {}", clean(cause)));
    }
    if !hint.is_empty() {
        say(format!("help: {hint}"));
    }
    if !code.is_empty() {
        say(format!("      more: quorate explain {code}"));
    }
}

/// Text that an agent or a file may have written: escape codes become visible, so that they do nothing.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() && letter != '\n' && letter != '\t' {
            let _ = write!(cleaned, "\\u{{{:x}}}", letter as u32);
        } else {
            cleaned.push(letter);
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_codes_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[31mred\x07\nnext"), "a\\u{1b}[31mred\\u{7}\nnext");
        assert_eq!(clean("\u{9b}31m"), "\\u{9b}31m", "the one-character form too");
    }
}
