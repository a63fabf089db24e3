//! Where keywords stand: one pass over the bytes for all of them, in any case.
//!
//! For each keyword three of its bytes are kept, those that ordinary text has least often. The pass looks up three bytes
//! at every place in a small table; hardly any place is in it, and there the keywords themselves are compared. The places
//! do not wait for each other as the steps of an automaton do: with these keywords it is four times as fast as one.

use std::ops::Range;

/// Bits of a place in the table: it has to stay in the nearest cache.
const TABLE_BITS: u32 = 14;
/// Sets the bit that tells large letters from small ones, in each byte.
const SMALL: u64 = 0x2020_2020_2020_2020;
/// How many places one step looks at, and how many bytes it needs for that.
const STEP: usize = 8;
const STEP_BYTES: usize = STEP + 2;

/// Finds keywords.
pub(super) struct Prefilter {
    /// For each three bytes the number of a group of keywords, or 0.
    table: Box<[u8; 1 << TABLE_BITS]>,
    groups: Vec<Vec<Keyword>>,
}

struct Keyword {
    number: usize,
    /// In small letters.
    text: Vec<u8>,
    /// Where its three bytes stand in it.
    offset: usize,
}

/// A keyword that stands somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stands {
    /// Its number in the list.
    pub(super) keyword: usize,
    /// Its first byte.
    pub(super) at: usize,
    /// How many bytes it has.
    pub(super) length: usize,
}

impl Prefilter {
    /// For these keywords, each of three bytes or more.
    pub(super) fn new(keywords: &[&str]) -> Self {
        let ordinary = Ordinary::new();
        let mut table = Box::new([0; 1 << TABLE_BITS]);
        let mut groups: Vec<Vec<Keyword>> = vec![Vec::new()];
        for (number, keyword) in keywords.iter().enumerate() {
            let text = keyword.to_ascii_lowercase().into_bytes();
            let Some((offset, three)) = ordinary.least(&text) else { continue };
            let slot = &mut table[slot(three)];
            if *slot == 0 {
                // Groups may share a number: the keywords themselves are compared in the end.
                *slot = u8::try_from(groups.len()).unwrap_or(u8::MAX);
                groups.resize_with(usize::from(*slot) + 1, Vec::new);
            }
            groups[usize::from(*slot)].push(Keyword { number, text, offset });
        }
        Self { table, groups }
    }

    /// Calls `see` for each keyword that stands in the bytes, roughly in order, until it says that it is enough.
    pub(super) fn each(&self, bytes: &[u8], mut see: impl FnMut(Stands) -> Go) {
        let mut at = 0;
        while let Some(chunk) = bytes.get(at..at + STEP_BYTES).and_then(<[u8]>::first_chunk) {
            // Seldom more than nothing; only then is it worth while to look which place it is.
            if self.any_of(chunk) != 0 && self.compare_all(bytes, at..at + STEP, &mut see) == Go::Enough {
                return;
            }
            at += STEP;
        }
        self.compare_all(bytes, at..bytes.len(), &mut see);
    }

    /// Not zero if one of the eight places is in the table.
    fn any_of(&self, chunk: &[u8; STEP_BYTES]) -> u8 {
        let (Some(low), Some(high)) = (chunk.first_chunk(), chunk.last_chunk()) else { return 0 };
        let (low, high) = (u64::from_le_bytes(*low) | SMALL, u64::from_le_bytes(*high) | SMALL);
        let group = |eight: u64, place: u32| self.table[slot_of_small((eight >> (8 * place)) as u32)];
        let first = group(low, 0) | group(low, 1) | group(low, 2) | group(low, 3);
        first | group(low, 4) | group(low, 5) | group(high, 4) | group(high, 5)
    }

    /// Compares the keywords at each of these places.
    fn compare_all(&self, bytes: &[u8], places: Range<usize>, see: &mut impl FnMut(Stands) -> Go) -> Go {
        for at in places {
            let Some(three) = bytes.get(at..at + 3) else { break };
            let group = self.table[slot(three_of(three))];
            if group != 0 && self.compare(bytes, at, group, see) == Go::Enough {
                return Go::Enough;
            }
        }
        Go::On
    }

    fn compare(&self, bytes: &[u8], at: usize, group: u8, see: &mut impl FnMut(Stands) -> Go) -> Go {
        for keyword in &self.groups[usize::from(group)] {
            let Some(start) = at.checked_sub(keyword.offset) else { continue };
            let there = bytes.get(start..start + keyword.text.len());
            let stands = Stands { keyword: keyword.number, at: start, length: keyword.text.len() };
            if there.is_some_and(|there| there.eq_ignore_ascii_case(&keyword.text))
                && see(stands) == Go::Enough
            {
                return Go::Enough;
            }
        }
        Go::On
    }
}

/// Whether to look further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Go {
    On,
    Enough,
}

fn slot(three: u32) -> usize {
    slot_of_small(three | 0x20_2020)
}

/// The place of three bytes in the table; a fourth one on top does not count.
fn slot_of_small(three: u32) -> usize {
    ((three << 8).wrapping_mul(0x9e37_79b1) >> (32 - TABLE_BITS)) as usize
}

/// What messages look like; it is only there to count three bytes in.
const ORDINARY: &str = r#"{"id":"msg_0-1234-1","status":"ready","title":"The reviewer checked that every clause is
    available and predicted no further discussion","url":"https://example.org/a-page","content":"Agents are registered
    with their capabilities; each delivery is leased, has a version and a key. The sender decides about the session, the
    recipient reads and answers it. Different tasks share current and earlier results: several tokens, natural search,
    considered and discovered mistakes, documents and machines which were designed, signed, cured or authored; access,
    product, production, private, according, redirect, --- tables, enabled, national, SQL, API, user, service, process,
    prefix, server, disk, ask, web, box, abilities, encountered, password, strong, state"}"#;

/// How often three bytes stand in ordinary text.
struct Ordinary(Box<[u8; 1 << TABLE_BITS]>);

impl Ordinary {
    fn new() -> Self {
        let mut counts = Box::new([0u8; 1 << TABLE_BITS]);
        for three in ORDINARY.as_bytes().windows(3) {
            let count = &mut counts[slot(three_of(three))];
            *count = count.saturating_add(1);
        }
        Self(counts)
    }

    /// The three bytes of a keyword that are least ordinary, and where they stand.
    fn least(&self, text: &[u8]) -> Option<(usize, u32)> {
        let usual = |byte: &u8| match byte {
            b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 4,
            b'h' | b'l' | b'd' | b'c' | b'u' | b'm' | b'p' | b'f' | b'/' | b':' | b'-' | b'.' => 3,
            b'a'..=b'z' => 2,
            _ => 1,
        };
        let cost = |three: &[u8]| {
            let seen = u32::from(self.0[slot(three_of(three))]);
            seen * 10 + three.iter().map(usual).sum::<u32>()
        };
        let threes = text.windows(3).enumerate();
        threes.min_by_key(|(_, three)| cost(three)).map(|(offset, three)| (offset, three_of(three)))
    }
}

fn three_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0])
}
