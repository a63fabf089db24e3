//! Parts of an original: consecutive pieces with stable ids, so that everything that a summary leaves out can be expanded again.

use std::ops::Range;

use super::block::{Block, BlockKind, blocks};
use super::sentence::plain;

/// Reference to the complete original.
pub const FULL: &str = "full";

/// A longer part is split at the next block.
const PART_BYTES_MAX: usize = 6_000;
/// Maximum length of a label.
const LABEL_CHARS_MAX: usize = 26;

/// A part of an original text. The texts of all parts, concatenated, are the original.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<'a> {
    /// Heading or field name, shortened.
    pub label: String,
    /// Whether it is a large output: code, a log or a table.
    pub is_large_output: bool,
    /// Text of the part, byte for byte.
    pub text: &'a str,
}

/// Reason why a reference cannot be expanded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no part {reference}: the text has {}", describe(*.parts))]
pub struct UnknownPart {
    /// The reference as given.
    pub reference: String,
    /// Number of parts of the text.
    pub parts: usize,
}

fn describe(parts: usize) -> String {
    match parts {
        0 => format!("no parts; use {FULL}"),
        1 => format!("one part, T1, and {FULL}"),
        count => format!("the parts T1 to T{count}, and {FULL}"),
    }
}

/// Returns the text of a reference among the parts of a text.
///
/// # Errors
/// If there is no such part.
pub(super) fn expand<'a>(text: &'a str, parts: &[Part<'a>], reference: &str) -> Result<&'a str, UnknownPart> {
    let parts = &parts[range(parts.len(), reference)?];
    let offset = |part: &Part<'_>| part.text.as_ptr() as usize - text.as_ptr() as usize;
    Ok(match parts {
        [] => text,
        [first, ..] => {
            let length: usize = parts.iter().map(|part| part.text.len()).sum();
            &text[offset(first)..offset(first) + length]
        }
    })
}

/// Returns the indices of the parts that a reference names, of so many parts.
///
/// # Errors
/// If there is no such part.
pub(super) fn range(parts: usize, reference: &str) -> Result<Range<usize>, UnknownPart> {
    let name =
        reference.strip_prefix("[expand:").and_then(|name| name.strip_suffix(']')).unwrap_or(reference);
    if name == FULL {
        return Ok(0..parts);
    }
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    let number = |id: &str| -> Option<usize> {
        let digits =
            id.strip_prefix('T').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok().filter(|number| (1..=parts).contains(number))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first - 1..last),
        _ => Err(UnknownPart { reference: reference.to_owned(), parts }),
    }
}

/// Divides a text into parts: one for each section, and one for each large output in it.
pub(super) fn parts_of_text(text: &str) -> Vec<Part<'_>> {
    let mut starts: Vec<(usize, String, bool)> = Vec::new();
    let mut section = String::new();
    // Whether the current part consists of headings only, so that the next block belongs to it.
    let mut is_heading_only = false;
    for block in blocks(text) {
        let current = starts.last().map(|(start, _, is_output)| (*start, *is_output));
        let is_heading = matches!(block.kind, BlockKind::Heading { .. });
        if is_heading {
            section = shortened(&heading_text(&block));
        }
        let begins = match current {
            None => true,
            Some(_) if is_heading => !is_heading_only,
            Some(_) if block.is_large_output() => true,
            Some((start, is_output)) => is_output || block.start - start + block.text.len() > PART_BYTES_MAX,
        };
        if begins {
            let is_output = block.is_large_output();
            let label = if is_output { output_label(&block) } else { text_label(&section, &block) };
            starts.push((block.start, label, is_output));
        } else if is_heading && let Some(last) = starts.last_mut() {
            last.1.clone_from(&section);
        }
        is_heading_only = is_heading && (begins || is_heading_only);
    }
    cut(text, starts)
}

/// Cuts a text at the starts of its parts. The first part also has what precedes it.
fn cut(text: &str, starts: Vec<(usize, String, bool)>) -> Vec<Part<'_>> {
    if starts.is_empty() && !text.is_empty() {
        return vec![Part { label: shortened(text), is_large_output: false, text }];
    }
    let ends: Vec<usize> = starts.iter().skip(1).map(|(start, ..)| *start).chain([text.len()]).collect();
    let mut begin = 0;
    let mut parts = Vec::with_capacity(starts.len());
    for ((_, label, is_large_output), end) in starts.into_iter().zip(ends) {
        parts.push(Part { label, is_large_output, text: &text[begin..end] });
        begin = end;
    }
    parts
}

/// Text of a heading without its marks.
pub(super) fn heading_text(block: &Block<'_>) -> String {
    let line = block.text.trim().lines().next().unwrap_or_default();
    plain(line.trim_start_matches('#').trim_end_matches('#'))
}

fn text_label(section: &str, block: &Block<'_>) -> String {
    if section.is_empty() { shortened(&plain(block.text)) } else { section.to_owned() }
}

/// Describes a large output, such as `log, 25 lines`.
fn output_label(block: &Block<'_>) -> String {
    match block.kind {
        BlockKind::Table => format!("table, {} rows", block.line_count().saturating_sub(2)),
        BlockKind::Log => format!("log, {} lines", block.line_count()),
        _ if block.line_count() < 2 => format!("data, {} bytes", block.text.len()),
        _ => format!("code, {} lines", block.line_count().saturating_sub(2).max(1)),
    }
}

/// Shortens a text to a label, at a word.
pub(super) fn shortened(text: &str) -> String {
    let text = plain(&text[..text.floor_char_boundary(4 * LABEL_CHARS_MAX)]);
    if text.chars().count() <= LABEL_CHARS_MAX {
        return text;
    }
    let head: String = text.chars().take(LABEL_CHARS_MAX).collect();
    let end = head.rfind(' ').filter(|end| *end > 0).unwrap_or(head.len());
    format!("{}…", head[..end].trim_end_matches(|ch: char| !ch.is_alphanumeric()))
}
