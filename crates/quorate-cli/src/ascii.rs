//! `--ascii`: signs as plain letters, for terminals, fonts and readers that have no others. Where people read, that goes for
//! the signs in what agents wrote, too, and letters stay; in JSON every letter that is not plain is escaped, which says
//! the same.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// From now on, everything that is printed.
pub(crate) fn turn_on() {
    ON.store(true, Ordering::Relaxed);
}

pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// A line as it is printed.
pub(crate) fn shown(line: &str) -> Cow<'_, str> {
    if is_on() { plain(line) } else { Cow::Borrowed(line) }
}

/// What stands at the end of a text that was cut: one column wide.
pub(crate) fn cut() -> char {
    if is_on() { '~' } else { '…' }
}

fn plain(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    for letter in line.chars() {
        match sign(letter) {
            Some(sign) => plain.push_str(sign),
            None => plain.push(letter),
        }
    }
    Cow::Owned(plain)
}

/// As wide as it was, so that columns stay columns; but for what stands in sentences.
fn sign(letter: char) -> Option<&'static str> {
    Some(match letter {
        '✓' => "+",
        '✗' => "x",
        '◆' => "?",
        '■' | '█' => "#",
        '▶' | '▸' => ">",
        '·' | '─' | '–' | '—' => "-",
        '░' => ".",
        '├' | '│' => "|",
        '└' => "`",
        'µ' => "u",
        '→' => "->",
        '…' => "...",
        '±' => "+-",
        '≤' => "<=",
        '≥' => ">=",
        '≠' => "!=",
        '×' => "x",
        // No quotes that mean something in JSON.
        '“' | '”' => "'",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn signs_become_letters_and_what_people_wrote_stays() {
        assert_eq!(plain("├─ ✓ build → café"), "|- + build -> café");
    }

    /// Every sign that our own text is made of.
    fn signs(directory: &Path, found: &mut String) {
        for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("one").path()) {
            if entry.is_dir() {
                signs(&entry, found);
            } else if entry.extension().is_some_and(|end| end == "rs") && !entry.ends_with("tests.rs") {
                let source = fs::read_to_string(&entry).expect("readable");
                let ours = source.split("#[cfg(test)]").next().unwrap_or_default();
                let code = ours.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.extend(code.flat_map(str::chars).filter(|letter| !letter.is_ascii()));
            }
        }
    }

    // Fails under: a new sign in what a command prints, without its plain letter.
    #[test]
    fn every_sign_of_ours_has_a_plain_letter() {
        let mut found = String::new();
        signs(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.contains('✓'), "the sources were read");
        let left: String = found.chars().filter(|letter| sign(*letter).is_none()).collect();
        assert_eq!(left, "", "these have no plain letter");
    }
}
