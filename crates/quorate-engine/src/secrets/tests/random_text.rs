//! Seeded random text for examples. It uses plain alphabets and is independent of the rules.

use std::sync::Arc;

use quorate_store::Entropy;

pub(super) const DIGITS: &str = "0123456789";
pub(super) const HEX: &str = "0123456789abcdef";
pub(super) const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
pub(super) const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
pub(super) const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
pub(super) const BASE32_LOWER: &str = "abcdefghijklmnopqrstuvwxyz234567";
pub(super) const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
pub(super) const BASE62: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub(super) const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
pub(super) const URL64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Seeded random generator.
pub(super) struct RandomText(Arc<Entropy>);

impl RandomText {
    pub(super) fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    /// Returns a number less than `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let [a, b, c, d, ..] = self.0.bytes_16();
        u32::from_be_bytes([a, b, c, d]) as usize % end
    }

    /// Returns a number from `low` to `high`, inclusive.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    /// Returns random characters of an alphabet.
    pub(super) fn text(&mut self, alphabet: &str, length: usize) -> String {
        let characters = alphabet.as_bytes();
        (0..length).map(|_| char::from(characters[self.below(characters.len())])).collect()
    }

    pub(super) fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|length| self.text(HEX, length)).join("-")
    }

    /// Returns random bytes in padded Base64.
    pub(super) fn base64(&mut self, bytes: usize) -> String {
        let text = self.text(BASE64, (bytes * 8).div_ceil(6));
        let padding = "=".repeat((4 - text.len() % 4) % 4);
        text + &padding
    }

    /// Returns the text as the content of a JSON string, without quotes.
    pub(super) fn quoted(text: &str) -> String {
        let quoted = serde_json::to_string(text).expect("text is JSON");
        quoted[1..quoted.len() - 1].to_owned()
    }
}
