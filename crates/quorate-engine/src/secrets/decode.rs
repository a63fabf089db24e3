//! Decoding of a text to the form that a human reader sees: without escapes and terminal control sequences. JSON
//! serializers escape differently (`\/`, `\u002B`, Python's `\u201c`, .NET's `\u0022`), and logs contain color codes;
//! both hide word boundaries. A decoded text is scanned and dropped; matches are mapped back to the original bytes.
//!
//! Decoded are `\uXXXX` with surrogate pairs, `\u{X}`, `\UXXXXXXXX`, `\xXX`, `\/`, `\a`, `\v`, octal `\033`, `\0` and
//! `\e`, each after any number of backslashes, so that JSON within JSON hides nothing. The short escapes `\n`, `\r`, `\t`, `\b`, `\f` and
//! `\"` are kept: the patterns handle them, and most texts contain no others and need no decoding.

use std::ops::Range;

const NUL: u8 = 0;
const BEL: u8 = 0x07;
const VT: u8 = 0x0b;
const ESC: u8 = 0x1b;
/// First byte of a C1 control character in UTF-8.
const C1: u8 = 0xc2;
/// Second byte of the C1 control characters that start a control sequence, and start and end a control string.
const CSI: u8 = 0x9b;
const OSC: u8 = 0x9d;
const ST: u8 = 0x9c;
const STRING_TERMINATOR: [u8; 2] = [C1, ST];
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Decoded text with its mapping to the original.
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    /// In order. The bytes between two edits are unchanged.
    edits: Vec<Edit>,
}

/// Original bytes and their replacement.
struct Edit {
    decoded: Range<usize>,
    original: Range<usize>,
}

/// Replacement of a terminal control sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ControlCodes {
    /// A separator: `done\e[32mghp_…` is two words.
    Separate,
    /// Nothing, except for a letter at its end that could start a word: `ghp_\e[1m…` is one word, partly highlighted.
    Join,
    /// Nothing at all.
    Remove,
}

/// Whether a byte is a control character that separates nothing on a terminal: all but tab, newline, form feed and carriage
/// return.
fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | VT | 0x0e..=0x1f | 0x7f)
}

/// Whether decoding can change the text. Can return false positives.
pub(super) fn is_needed(bytes: &[u8]) -> bool {
    let has_controls = || {
        bytes.iter().any(|byte| is_control(*byte))
            || memchr::memchr_iter(C1, bytes).any(|at| matches!(bytes.get(at + 1), Some(&(CSI | OSC))))
    };
    let is_escape =
        |at| matches!(bytes.get(at + 1), Some(b'u' | b'U' | b'/' | b'x' | b'e' | b'a' | b'v' | b'0'..=b'3'));
    memchr::memchr_iter(b'\\', bytes).any(is_escape) || has_controls()
}

impl Decoded {
    /// Decodes the escapes. The terminator of a control string (`\e\`) becomes its single-character form, because its
    /// backslash, which JSON doubles, could also start the next escape.
    pub(super) fn decode_escapes(original: &[u8]) -> Self {
        let mut text = Self { bytes: Vec::with_capacity(original.len()), edits: Vec::new() };
        let mut at = 0;
        while let Some(found) = memchr::memchr(b'\\', &original[at..]) {
            let found = at + found;
            if original[at..found].ends_with(&[ESC]) {
                text.bytes.extend_from_slice(&original[at..found - 1]);
                at = text.replace(found - 1..found + 1, &STRING_TERMINATOR);
                continue;
            }
            // Each level of JSON doubles the backslashes of an escape; additional ones before it are literal.
            let run = backslashes(&original[found..]);
            let own = 1 << run.trailing_zeros();
            let escape = found + run - own;
            text.bytes.extend_from_slice(&original[at..escape]);
            let start = text.bytes.len();
            at = match unescape(&original[escape..], &mut text.bytes) {
                Some(length) => {
                    let mut end = escape + length;
                    if text.bytes[start..] == [ESC] && backslashes(&original[end..]) >= 2 * own {
                        text.bytes.truncate(start);
                        text.bytes.extend(STRING_TERMINATOR);
                        end += 2 * own;
                    }
                    text.edits.push(Edit { decoded: start..text.bytes.len(), original: escape..end });
                    end
                }
                None => {
                    text.bytes.extend_from_slice(&original[escape..escape + own]);
                    escape + own
                }
            };
        }
        text.bytes.extend_from_slice(&original[at..]);
        text
    }

    /// Appends a replacement of original bytes. Returns their end.
    fn replace(&mut self, original: Range<usize>, replacement: &[u8]) -> usize {
        let (start, end) = (self.bytes.len(), original.end);
        self.bytes.extend_from_slice(replacement);
        self.edits.push(Edit { decoded: start..self.bytes.len(), original });
        end
    }

    /// Whether there are control characters or terminal control sequences.
    pub(super) fn has_control_codes(&self) -> bool {
        self.bytes.iter().any(|byte| is_control(*byte))
            || memchr::memchr_iter(C1, &self.bytes)
                .any(|at| matches!(self.bytes.get(at + 1), Some(&(CSI | OSC | ST))))
    }

    /// Whether there are NUL characters.
    pub(super) fn has_nul(&self) -> bool {
        memchr::memchr(NUL, &self.bytes).is_some()
    }

    /// Removes all NUL characters.
    pub(super) fn remove_nul(original: &[u8]) -> Self {
        Self::remove_nul_where(original, |_| true)
    }

    /// Removes the NUL characters that interrupt the start of a control sequence.
    pub(super) fn remove_nul_after_escape(original: &[u8]) -> Self {
        let mut follows_escape = false;
        Self::remove_nul_where(original, |before| {
            // Only an ESC or another removed NUL is before it.
            follows_escape = before == [ESC] || before.is_empty() && follows_escape;
            follows_escape
        })
    }

    /// Removes the NUL characters for which this returns true. It gets the byte before each, or nothing if that is a NUL too.
    fn remove_nul_where(original: &[u8], mut is_removed: impl FnMut(&[u8]) -> bool) -> Self {
        let mut text = Self { bytes: Vec::with_capacity(original.len()), edits: Vec::new() };
        let mut at = 0;
        for nul in memchr::memchr_iter(NUL, original) {
            let before = &original[nul.saturating_sub(1)..nul];
            if is_removed(if before == [NUL] { b"" } else { before }) {
                text.bytes.extend_from_slice(&original[at..nul]);
                at = text.replace(nul..nul + 1, b"");
            }
        }
        text.bytes.extend_from_slice(&original[at..]);
        text
    }

    /// Replaces terminal control sequences and other control characters.
    pub(super) fn replace_control_codes(original: &[u8], codes: ControlCodes) -> Self {
        let mut text = Self { bytes: Vec::with_capacity(original.len()), edits: Vec::new() };
        let mut at = 0;
        while at < original.len() {
            let Some(length) = control_length(&original[at..], codes) else {
                text.bytes.push(original[at]);
                at += 1;
                continue;
            };
            // A lone ESC always separates: it is unknown whether the next byte belongs to it.
            let is_lone_escape = length == 1 && original[at] == ESC;
            let is_separator = match codes {
                ControlCodes::Separate => true,
                ControlCodes::Join => is_lone_escape,
                ControlCodes::Remove => false,
            };
            at = text.replace(at..at + length, if is_separator { b" " } else { b"" });
        }
        text
    }

    /// Maps a non-empty decoded range to the original. Partially covered replacements are included completely;
    /// removed bytes at either end are excluded.
    pub(super) fn to_original(&self, decoded: Range<usize>) -> Range<usize> {
        let start = match self.edit_at(decoded.start) {
            Some(edit) if decoded.start < edit.decoded.end => edit.original.start,
            Some(edit) => edit.original.end + (decoded.start - edit.decoded.end),
            None => decoded.start,
        };
        let end = match self.edit_at(decoded.end - 1) {
            Some(edit) if decoded.end - 1 < edit.decoded.end => edit.original.end,
            Some(edit) => edit.original.end + (decoded.end - edit.decoded.end),
            None => decoded.end,
        };
        start..end
    }

    /// Returns the last edit that starts at or before this decoded byte.
    fn edit_at(&self, decoded: usize) -> Option<&Edit> {
        let after = self.edits.partition_point(|edit| edit.decoded.start <= decoded);
        self.edits[..after].last()
    }
}

/// Decodes the escape at the start of a text that begins with a backslash. Returns its length; `None` if it is not an
/// escape.
fn unescape(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let mut at = backslashes(text);
    let mut is_escaped_backslash = false;
    // An escaped backslash can start the next escape, as in `\u005cu0067`.
    while let Some((BACKSLASH, length)) = code_point(&text[at..]) {
        is_escaped_backslash = true;
        at += length;
        at += backslashes(&text[at..]);
    }
    let rest = &text[at..];
    if let Some((code, length)) = code_point(rest) {
        push(code, out);
        return Some(at + length);
    }
    match rest {
        [b'/', ..] => {
            out.push(b'/');
            Some(at + 1)
        }
        [b'e', ..] => {
            out.push(ESC);
            Some(at + 1)
        }
        [b'a', ..] => {
            out.push(BEL);
            Some(at + 1)
        }
        [b'v', ..] => {
            out.push(VT);
            Some(at + 1)
        }
        _ if is_escaped_backslash => {
            out.push(b'\\');
            Some(at)
        }
        _ => None,
    }
}

const BACKSLASH: u32 = b'\\' as u32;

fn backslashes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'\\').count()
}

/// Parses the code point of a numeric escape, after its backslash. Returns it with the length of the escape.
fn code_point(text: &[u8]) -> Option<(u32, usize)> {
    match text {
        [b'u', b'{', rest @ ..] => {
            let digits = rest.iter().take(7).position(|byte| *byte == b'}')?;
            Some((number(&rest[..digits], 16)?, digits + 3))
        }
        [b'u', rest @ ..] => utf16(rest),
        [b'U', rest @ ..] => Some((number(rest.get(..8)?, 16)?, 9)),
        [b'x', rest @ ..] => Some((number(rest.get(..2)?, 16)?, 3)),
        [b'0'..=b'3', b'0'..=b'7', b'0'..=b'7', ..] => Some((number(&text[..3], 8)?, 3)),
        [b'0', b'0'..=b'9', ..] => None,
        [b'0', ..] => Some((0, 1)),
        _ => None,
    }
}

/// Parses four digits after `\u`, or a surrogate pair; the length includes the `u`. A lone surrogate becomes the
/// replacement character.
fn utf16(text: &[u8]) -> Option<(u32, usize)> {
    let unit = number(text.get(..4)?, 16)?;
    if !(0xd800..0xe000).contains(&unit) {
        return Some((unit, 5));
    }
    let run = backslashes(&text[4..]);
    let low = match &text[4 + run..] {
        [b'u', digits @ ..] if run > 0 && unit < 0xdc00 => {
            digits.get(..4).and_then(|digits| number(digits, 16))
        }
        _ => None,
    };
    match low.filter(|low| (0xdc00..0xe000).contains(low)) {
        Some(low) => Some((0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00), 5 + run + 5)),
        None => Some((u32::from(REPLACEMENT), 5)),
    }
}

/// Parses a number that consists only of digits.
fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u32::from_str_radix(digits, radix).ok()
}

/// Appends a character. Newlines and tabs become their short escapes, which the patterns treat alike in all texts.
fn push(code: u32, out: &mut Vec<u8>) {
    match code {
        0x09 => out.extend_from_slice(b"\\t"),
        0x0a => out.extend_from_slice(b"\\n"),
        0x0d => out.extend_from_slice(b"\\r"),
        _ => {
            let character = char::from_u32(code).unwrap_or(REPLACEMENT);
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// Returns the length of the terminal control sequence (ECMA-48) or control character at the start of a text, if there is
/// one. Some sequences end with a letter that could also start a word, such as `\ec` and `\e[ q`. They are matched only up
/// to that letter with [`ControlCodes::Join`], so that one of the views contains the word. A control string, such as a
/// hyperlink, can itself contain a secret: [`ControlCodes::Separate`] matches only its start.
fn control_length(text: &[u8], codes: ControlCodes) -> Option<usize> {
    let is_whole = codes != ControlCodes::Join;
    let is_separate = codes == ControlCodes::Separate;
    match text {
        [ESC, b'[', rest @ ..] | [C1, CSI, rest @ ..] => {
            let parameters = count(rest, 0x30..0x40);
            let intermediates = if is_whole { count(&rest[parameters..], 0x20..0x30) } else { 0 };
            let end = parameters + intermediates;
            Some(2 + end + count(&rest[end..], 0x40..0x7f).min(1))
        }
        [ESC, b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] | [C1, OSC, rest @ ..]
            if !is_separate && string_length(rest).is_some() =>
        {
            string_length(rest).map(|length| 2 + length)
        }
        [C1, OSC | ST, ..] => Some(2),
        // `\e(B` and the like select a character set.
        [ESC, first @ b' '..=b'/', rest @ ..] if is_whole || matches!(first, b'('..=b'+') => {
            let intermediates = count(rest, 0x20..0x30);
            Some(2 + intermediates + count(&rest[intermediates..], 0x30..0x7f).min(1))
        }
        [ESC, b'#', b'3'..=b'8', ..] => Some(3),
        [ESC, b'0'..=b'~', ..] if is_whole => Some(2),
        [byte, ..] if is_control(*byte) => Some(1),
        _ => None,
    }
}

/// Returns the length of a control string with its terminator, after its introducer; `None` if it is not terminated.
fn string_length(text: &[u8]) -> Option<usize> {
    for at in memchr::memchr3_iter(BEL, ESC, C1, text) {
        match &text[at..] {
            [BEL, ..] => return Some(at + 1),
            [C1, ST, ..] => return Some(at + 2),
            // Another control character ends the string without a terminator.
            [ESC, ..] | [C1, 0x80..=0x9f, ..] => return None,
            _ => {}
        }
    }
    None
}

/// Returns the number of leading bytes within a range.
fn count(text: &[u8], range: Range<u8>) -> usize {
    text.iter().take_while(|byte| range.contains(byte)).count()
}
