//! Keyword search: one case-insensitive pass over the bytes for all keywords.
//!
//! For each keyword, its rarest trigram in ordinary text is stored. The pass looks up the trigram at every position
//! in a small table. Hardly any position matches, and only there the keywords themselves are compared. The lookups
//! are independent of each other, unlike the steps of an automaton: for these keywords this is four times as fast.

use std::ops::Range;

/// Bits of a table index: the table has to fit into the L1 cache.
const TABLE_BITS: u32 = 14;
/// Sets the lowercase bit of ASCII letters in each byte.
const LOWERCASE: u64 = 0x2020_2020_2020_2020;
/// Number of positions per step, and number of bytes needed for them.
const STEP: usize = 8;
const STEP_BYTES: usize = STEP + 2;

/// Finds keywords.
pub(super) struct Prefilter {
    /// For each trigram, the number of a group of keywords, or 0.
    table: Box<[u8; 1 << TABLE_BITS]>,
    groups: Vec<Vec<Keyword>>,
}

struct Keyword {
    number: usize,
    /// Lowercase.
    text: Vec<u8>,
    /// Offset of its trigram.
    offset: usize,
}

/// Occurrence of a keyword.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeywordMatch {
    /// Index of the keyword.
    pub(super) keyword: usize,
    /// Offset of the first byte.
    pub(super) at: usize,
    /// Length in bytes.
    pub(super) length: usize,
}

impl Prefilter {
    /// Creates a prefilter for these keywords, each of at least three bytes.
    pub(super) fn new(keywords: &[&str]) -> Self {
        let counts = TrigramCounts::new();
        let mut table = Box::new([0; 1 << TABLE_BITS]);
        let mut groups: Vec<Vec<Keyword>> = vec![Vec::new()];
        for (number, keyword) in keywords.iter().enumerate() {
            let text = keyword.to_ascii_lowercase().into_bytes();
            let Some((offset, trigram)) = counts.rarest(&text) else { continue };
            let slot = &mut table[slot(trigram)];
            if *slot == 0 {
                // Groups can share a number, since the keywords themselves are compared in the end.
                *slot = u8::try_from(groups.len()).unwrap_or(u8::MAX);
                groups.resize_with(usize::from(*slot) + 1, Vec::new);
            }
            groups[usize::from(*slot)].push(Keyword { number, text, offset });
        }
        Self { table, groups }
    }

    /// Calls `visit` for each occurrence of a keyword, roughly in order, until it returns [`ScanControl::Stop`].
    pub(super) fn for_each_match(&self, bytes: &[u8], mut visit: impl FnMut(KeywordMatch) -> ScanControl) {
        let mut at = 0;
        while let Some(chunk) = bytes.get(at..at + STEP_BYTES).and_then(<[u8]>::first_chunk) {
            // Rarely non-zero; only then determine the position.
            if self.any_of(chunk) != 0
                && self.compare_all(bytes, at..at + STEP, &mut visit) == ScanControl::Stop
            {
                return;
            }
            at += STEP;
        }
        self.compare_all(bytes, at..bytes.len(), &mut visit);
    }

    /// Returns a non-zero value if one of the eight positions is in the table.
    fn any_of(&self, chunk: &[u8; STEP_BYTES]) -> u8 {
        let (Some(low), Some(high)) = (chunk.first_chunk(), chunk.last_chunk()) else { return 0 };
        let (low, high) = (u64::from_le_bytes(*low) | LOWERCASE, u64::from_le_bytes(*high) | LOWERCASE);
        let group = |word: u64, position: u32| self.table[slot_of_lowercase((word >> (8 * position)) as u32)];
        let first = group(low, 0) | group(low, 1) | group(low, 2) | group(low, 3);
        first | group(low, 4) | group(low, 5) | group(high, 4) | group(high, 5)
    }

    /// Compares the keywords at each of these positions.
    fn compare_all(
        &self,
        bytes: &[u8],
        positions: Range<usize>,
        visit: &mut impl FnMut(KeywordMatch) -> ScanControl,
    ) -> ScanControl {
        for at in positions {
            let Some(trigram) = bytes.get(at..at + 3) else { break };
            let group = self.table[slot(trigram_of(trigram))];
            if group != 0 && self.compare(bytes, at, group, visit) == ScanControl::Stop {
                return ScanControl::Stop;
            }
        }
        ScanControl::Continue
    }

    fn compare(
        &self,
        bytes: &[u8],
        at: usize,
        group: u8,
        visit: &mut impl FnMut(KeywordMatch) -> ScanControl,
    ) -> ScanControl {
        for keyword in &self.groups[usize::from(group)] {
            let Some(start) = at.checked_sub(keyword.offset) else { continue };
            let candidate = bytes.get(start..start + keyword.text.len());
            let occurrence = KeywordMatch { keyword: keyword.number, at: start, length: keyword.text.len() };
            if candidate.is_some_and(|candidate| candidate.eq_ignore_ascii_case(&keyword.text))
                && visit(occurrence) == ScanControl::Stop
            {
                return ScanControl::Stop;
            }
        }
        ScanControl::Continue
    }
}

/// Whether to continue the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScanControl {
    Continue,
    Stop,
}

fn slot(trigram: u32) -> usize {
    slot_of_lowercase(trigram | 0x20_2020)
}

/// Returns the table index of a lowercase trigram. The fourth byte is ignored.
fn slot_of_lowercase(trigram: u32) -> usize {
    ((trigram << 8).wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS)) as usize
}

/// Typical message text, used to count trigrams.
const ORDINARY_TEXT: &str = r#"{"id":"msg_0-1234-1","status":"ready","title":"The reviewer checked that every clause is
    available and predicted no further discussion","url":"https://example.org/a-page","content":"Agents are registered
    with their capabilities; each delivery is leased, has a version and a key. The sender decides about the session, the
    recipient reads and answers it. Different tasks share current and earlier results: several tokens, natural search,
    considered and discovered mistakes, documents and machines which were designed, signed, cured or authored; access,
    product, production, private, according, redirect, --- tables, enabled, national, SQL, API, user, service, process,
    prefix, server, disk, ask, web, box, abilities, encountered, password, strong, state"}"#;

/// Frequencies of trigrams in ordinary text.
struct TrigramCounts(Box<[u8; 1 << TABLE_BITS]>);

impl TrigramCounts {
    fn new() -> Self {
        let mut counts = Box::new([0u8; 1 << TABLE_BITS]);
        for trigram in ORDINARY_TEXT.as_bytes().windows(3) {
            let count = &mut counts[slot(trigram_of(trigram))];
            *count = count.saturating_add(1);
        }
        Self(counts)
    }

    /// Returns the rarest trigram of a keyword and its offset.
    fn rarest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let weight = |byte: &u8| match byte {
            b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 4,
            b'h' | b'l' | b'd' | b'c' | b'u' | b'm' | b'p' | b'f' | b'/' | b':' | b'-' | b'.' => 3,
            b'a'..=b'z' => 2,
            _ => 1,
        };
        let cost = |trigram: &[u8]| {
            let count = u32::from(self.0[slot(trigram_of(trigram))]);
            count * 10 + trigram.iter().map(weight).sum::<u32>()
        };
        let trigrams = text.windows(3).enumerate();
        trigrams
            .min_by_key(|(_, trigram)| cost(trigram))
            .map(|(offset, trigram)| (offset, trigram_of(trigram)))
    }
}

fn trigram_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])
}
