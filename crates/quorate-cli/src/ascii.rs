//! `--ascii`: replaces symbols by ASCII, for terminals, fonts and screen readers without them. In text output this includes
//! symbols in text from agents, while accented letters stay. In JSON every non-ASCII character is escaped, which is
//! equivalent JSON.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Enables ASCII output for the rest of the process.
pub(crate) fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

/// Returns a line as it is to be printed.
pub(crate) fn rendered(line: &str) -> Cow<'_, str> {
    if is_enabled() { plain(line) } else { Cow::Borrowed(line) }
}

/// Returns the mark for truncated text, one column wide.
pub(crate) fn ellipsis() -> char {
    if is_enabled() { '~' } else { '…' }
}

fn plain(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    for ch in line.chars() {
        match replacement(ch) {
            Some(ascii) => plain.push_str(ascii),
            None => plain.push(ch),
        }
    }
    Cow::Owned(plain)
}

/// Returns the replacement of a symbol. Symbols that occur in tables keep their width, so that columns stay aligned.
fn replacement(ch: char) -> Option<&'static str> {
    Some(match ch {
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
        // Not `"`, which has a meaning in JSON.
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
    fn symbols_are_replaced_and_letters_stay() {
        assert_eq!(plain("├─ ✓ build → café"), "|- + build -> café");
    }

    /// Collects every non-ASCII character of the sources.
    fn symbols(directory: &Path, found: &mut String) {
        for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("one").path()) {
            if entry.is_dir() {
                symbols(&entry, found);
            } else if entry.extension().is_some_and(|extension| extension == "rs")
                && !entry.ends_with("tests.rs")
            {
                let source = fs::read_to_string(&entry).expect("readable");
                let product_code = source.split("#[cfg(test)]").next().unwrap_or_default();
                let code = product_code.lines().filter(|line| !line.trim_start().starts_with("//"));
                found.extend(code.flat_map(str::chars).filter(|ch| !ch.is_ascii()));
            }
        }
    }

    // Fails under: a new symbol in the output of a command, without an ASCII replacement.
    #[test]
    fn every_symbol_has_an_ascii_replacement() {
        let mut found = String::new();
        symbols(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.contains('✓'), "the sources were read");
        let left: String = found.chars().filter(|ch| replacement(*ch).is_none()).collect();
        assert_eq!(left, "", "these have no replacement");
    }
}
