//! Rust source file for the rules: the raw text, and the same text with comments and literals blanked out.
//!
//! Blanking preserves all byte positions, so a position in one text is valid in the other. This is not a parser: it only
//! finds comments, string and character literals, and matching brackets.

use std::collections::HashSet;
use std::ops::Range;

use super::File;

/// Rust source file.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) raw: String,
    /// `raw` with the inside of comments, strings and characters replaced by spaces.
    pub(crate) code: String,
    /// Whether the whole file is test code.
    pub(crate) is_test: bool,
    /// Byte ranges of modules and items under `#[cfg(test)]`.
    test_ranges: Vec<Range<usize>>,
}

/// Parses all Rust files. A module declared under `#[cfg(test)]` is test code, whatever its path.
pub(crate) fn parse_all(files: &[File]) -> Vec<Source> {
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut sources: Vec<Source> = rust.map(|file| Source::new(&file.path, &file.text)).collect();
    let modules: HashSet<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        source.is_test |= modules.contains(&source.path);
    }
    sources
}

impl Source {
    pub(crate) fn new(path: &str, raw: &str) -> Self {
        let code = blank(raw);
        let test_ranges = cfg_test_items(&code).into_iter().map(|item| item.range).collect();
        let in_tests = path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("/tests.rs");
        let is_test = in_tests || path.starts_with("crates/quorate-sim/");
        Self { path: path.to_owned(), raw: raw.to_owned(), code, is_test, test_ranges }
    }

    /// Whether the byte at this position is test code.
    pub(crate) fn is_test_at(&self, offset: usize) -> bool {
        self.is_test || self.test_ranges.iter().any(|range| range.contains(&offset))
    }

    /// Returns the line number, starting at 1, of the byte at this position.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        1 + self.code.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
    }

    /// Returns the possible paths of modules declared as `#[cfg(test)] mod name;`.
    fn test_modules(&self) -> Vec<String> {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let is_root = matches!(name, "lib" | "main" | "mod");
        let module_directory = if is_root { directory } else { stem };
        let names = cfg_test_items(&self.code).into_iter().filter_map(|item| item.file_module);
        names
            .flat_map(|name| {
                [format!("{module_directory}/{name}.rs"), format!("{module_directory}/{name}/mod.rs")]
            })
            .collect()
    }
}

struct TestItem {
    range: Range<usize>,
    /// Module name in `mod name;`.
    file_module: Option<String>,
}

fn cfg_test_items(code: &str) -> Vec<TestItem> {
    let mut items = Vec::new();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (start, _) in code.match_indices(attribute) {
            let attribute_end =
                closing_bracket(code, start + 1).map_or(start + attribute.len(), |end| end + 1);
            let Some(body) = body_or_end(code, attribute_end) else { continue };
            let item = code[attribute_end..body].trim();
            let name = item.rsplit_once("mod ").map(|(_, name)| name.trim().to_owned());
            let is_file = code.as_bytes()[body] == b';';
            let end = if is_file { body } else { closing_bracket(code, body).unwrap_or(code.len()) };
            items.push(TestItem { range: start..end, file_module: name.filter(|_| is_file) });
        }
    }
    items
}

/// Returns the position of the first `{` or `;` after `from` that is outside parentheses and brackets.
pub(crate) fn body_or_end(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' | b';' if depth == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

/// Returns the position of the bracket that closes the one at `open`.
pub(crate) fn closing_bracket(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the byte can be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Replaces comments and the content of literals with spaces. Newlines and all positions are preserved.
pub(crate) fn blank(raw: &str) -> String {
    let bytes = raw.as_bytes();
    let mut out = bytes.to_vec();
    let mut offset = 0;
    while offset < bytes.len() {
        let (blanked, next) = blank_at(bytes, offset);
        for byte in &mut out[blanked] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        offset = next;
    }
    // Literals and comments are replaced completely, so the result is valid UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the range to blank at this position (possibly empty), and the position to continue at.
fn blank_at(bytes: &[u8], offset: usize) -> (Range<usize>, usize) {
    let rest = &bytes[offset..];
    let starts_word = offset == 0 || !is_word(bytes[offset - 1]);
    if rest.starts_with(b"//") {
        let end = find(bytes, offset, b"\n").unwrap_or(bytes.len());
        return (offset..end, end);
    }
    if rest.starts_with(b"/*") {
        let end = comment_end(bytes, offset);
        return (offset..end, end);
    }
    if starts_word && let Some(range) = raw_string(bytes, offset) {
        return (range.clone(), range.end);
    }
    match rest[0] {
        b'"' => {
            let end = quoted_end(bytes, offset, b'"');
            (offset + 1..end, end + 1)
        }
        b'\'' if is_character(rest) => {
            let end = quoted_end(bytes, offset, b'\'');
            (offset + 1..end, end + 1)
        }
        _ => (offset..offset, offset + 1),
    }
}

/// Whether a character literal starts here, not a lifetime: an escape, or one character and a closing quote.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(first) => {
            let length = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            rest.get(1 + length) == Some(&b'\'')
        }
        None => false,
    }
}

fn quoted_end(bytes: &[u8], open: usize, quote: u8) -> usize {
    let mut offset = open + 1;
    while offset < bytes.len() && bytes[offset] != quote {
        offset += if bytes[offset] == b'\\' { 2 } else { 1 };
    }
    offset.min(bytes.len())
}

/// Returns the range of a raw string (`r"…"`, `r#"…"#`, `br"…"` or `cr"…"`) that starts here.
fn raw_string(bytes: &[u8], offset: usize) -> Option<Range<usize>> {
    let r_offset = if matches!(bytes[offset], b'b' | b'c') { offset + 1 } else { offset };
    if bytes.get(r_offset) != Some(&b'r') {
        return None;
    }
    let hashes = bytes[r_offset + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = r_offset + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut end_mark = vec![b'"'];
    end_mark.resize(1 + hashes, b'#');
    let end = find(bytes, open + 1, &end_mark).map_or(bytes.len(), |position| position + end_mark.len());
    Some(offset..end)
}

fn comment_end(bytes: &[u8], open: usize) -> usize {
    let (mut offset, mut depth) = (open, 0_usize);
    while offset < bytes.len() {
        if bytes[offset..].starts_with(b"/*") {
            depth += 1;
            offset += 2;
        } else if bytes[offset..].starts_with(b"*/") {
            depth -= 1;
            offset += 2;
            if depth == 0 {
                return offset;
            }
        } else {
            offset += 1;
        }
    }
    bytes.len()
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(needle.len()).position(|window| window == needle).map(|position| from + position)
}
