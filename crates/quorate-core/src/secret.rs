//! Secrets of access tokens: `qrt_`, 256 random bits, and a checksum that distinguishes a typo from an unknown token.
//!
//! The random bits are passed in as an argument. Only [`Secret::reveal`] exposes a secret.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::access_token::TokenDigest;

/// Prefix of every secret, recognised by the secret scanner.
const PREFIX: &str = "qrt_";
/// Base-62 digits.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Number of base-62 digits for 256 bits.
const BITS_DIGITS: usize = 43;
/// Number of base-62 digits for 32 bits.
const CHECK_DIGITS: usize = 6;

/// The secret of an access token. Not comparable: compare digests instead.
#[derive(Clone)]
pub struct Secret {
    text: String,
}

/// The reason why a text is not a valid secret. Does not contain the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidSecret {
    /// It does not have the form of a secret.
    #[error("invalid access token: expected qrt_ followed by 49 letters and digits")]
    Format,
    /// It has the form of a secret, but the checksum does not match.
    #[error("invalid access token: the checksum does not match, so it was mistyped or truncated")]
    Checksum,
}

impl Secret {
    /// Creates a secret from random bits.
    #[must_use]
    pub fn from_random(bits: [u8; 32]) -> Self {
        let mut text = String::with_capacity(PREFIX.len() + BITS_DIGITS + CHECK_DIGITS);
        text.push_str(PREFIX);
        push_digits::<BITS_DIGITS>(&mut text, bits);
        let check = checksum(&text);
        push_digits::<CHECK_DIGITS>(&mut text, check);
        Self { text }
    }

    /// Returns the secret, to be displayed once to the requester and never stored.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Returns the SHA-256 of the text, which is all that the hub stores.
    #[must_use]
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.text.as_bytes()).into())
    }
}

impl FromStr for Secret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, InvalidSecret> {
        let digits = text.strip_prefix(PREFIX).ok_or(InvalidSecret::Format)?;
        let well_formed =
            digits.len() == BITS_DIGITS + CHECK_DIGITS && digits.bytes().all(|b| DIGITS.contains(&b));
        if !well_formed {
            return Err(InvalidSecret::Format);
        }
        let (body, check) = text.split_at(PREFIX.len() + BITS_DIGITS);
        let mut expected = String::with_capacity(CHECK_DIGITS);
        push_digits::<CHECK_DIGITS>(&mut expected, checksum(body));
        if expected == check { Ok(Self { text: text.to_owned() }) } else { Err(InvalidSecret::Checksum) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(qrt_…)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("qrt_…")
    }
}

/// Fewest characters after the prefix that are taken for a part of a secret: errors may quote the beginning of a text.
const REDACTED_CHARS_MIN: usize = 8;

/// Replaces each access token, whole or in part, with `qrt_[redacted]`. For the text of errors, which quote the caller's
/// input: a token that was sent in the wrong place must not be repeated.
#[must_use]
pub fn redact_tokens(text: &str) -> Cow<'_, str> {
    let mut redacted = String::new();
    let mut rest = text;
    while let Some((before, after)) = split_at_token(rest) {
        redacted.push_str(before);
        redacted.push_str("qrt_[redacted]");
        rest = after;
    }
    if redacted.is_empty() {
        return Cow::Borrowed(text);
    }
    redacted.push_str(rest);
    Cow::Owned(redacted)
}

/// Returns the text before and after the first token.
fn split_at_token(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let is_prefix = |at: &usize| bytes[*at..].get(..4).is_some_and(|part| part.eq_ignore_ascii_case(b"qrt_"));
    let mut prefixes = (0..bytes.len()).filter(|at| bytes[*at] | 0x20 == b'q').filter(is_prefix);
    prefixes.find_map(|start| {
        let digits = bytes[start + 4..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        // All bounds are next to ASCII characters.
        (digits >= REDACTED_CHARS_MIN).then(|| (&text[..start], &text[start + 4 + digits..]))
    })
}

/// A 32-bit checksum of the preceding text. Domain-separated, so that it reveals nothing about the digest.
fn checksum(text: &str) -> [u8; 4] {
    let digest: [u8; 32] =
        Sha256::new_with_prefix(b"quorate.token.checksum\0").chain_update(text).finalize().into();
    let [a, b, c, d, ..] = digest;
    [a, b, c, d]
}

/// Appends a big-endian number as `N` base-62 digits, most significant first.
fn push_digits<const N: usize>(text: &mut String, mut number: impl AsMut<[u8]>) {
    let mut digits = [0; N];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0;
        for byte in number.as_mut() {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 62) as u8;
            rest = value % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    text.extend(digits.map(char::from));
}

#[cfg(test)]
mod tests;
