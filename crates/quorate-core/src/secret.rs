//! The secret of a token: `qrt_`, 256 random bits, and a checksum that tells a typo from a token that is not known.
//!
//! The random bits come in as an argument; nothing here draws any. Nothing here prints a secret but [`Secret::reveal`].

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::token::TokenDigest;

/// How every secret begins. The secret scanner knows it.
const PREFIX: &str = "qrt_";
/// Digits, in the order of their value.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Digits of 256 bits to the base 62.
const BITS_DIGITS: usize = 43;
/// Digits of 32 bits to the base 62.
const CHECK_DIGITS: usize = 6;

/// The secret of a token. Whoever has it is let in. Secrets are not compared with each other: their digests are.
#[derive(Clone)]
pub struct Secret {
    text: String,
}

/// Why a text is no secret. Says nothing of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoSecret {
    /// It does not look like a token at all.
    #[error("it is not a token: a token is qrt_ and 49 letters and digits")]
    Shape,
    /// It looks like one, but one that was never given out.
    #[error("the checksum of the token is wrong: a character is missing, changed or in another place")]
    Checksum,
}

impl Secret {
    /// The secret of these random bits.
    #[must_use]
    pub fn of_random(bits: [u8; 32]) -> Self {
        let mut text = String::with_capacity(PREFIX.len() + BITS_DIGITS + CHECK_DIGITS);
        text.push_str(PREFIX);
        push_digits::<BITS_DIGITS>(&mut text, bits);
        let check = checksum(&text);
        push_digits::<CHECK_DIGITS>(&mut text, check);
        Self { text }
    }

    /// The secret itself: to be shown once to whoever asked for it, and never written anywhere.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// What the hub knows it by: the SHA-256 of the text as it is shown.
    #[must_use]
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.text.as_bytes()).into())
    }
}

impl FromStr for Secret {
    type Err = NoSecret;

    fn from_str(text: &str) -> Result<Self, NoSecret> {
        let digits = text.strip_prefix(PREFIX).ok_or(NoSecret::Shape)?;
        let shaped =
            digits.len() == BITS_DIGITS + CHECK_DIGITS && digits.bytes().all(|b| DIGITS.contains(&b));
        if !shaped {
            return Err(NoSecret::Shape);
        }
        let (body, check) = text.split_at(PREFIX.len() + BITS_DIGITS);
        let mut right = String::with_capacity(CHECK_DIGITS);
        push_digits::<CHECK_DIGITS>(&mut right, checksum(body));
        if right == check { Ok(Self { text: text.to_owned() }) } else { Err(NoSecret::Checksum) }
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

/// 32 bits over what stands before them. Of its own making, so that it says nothing about the digest.
fn checksum(text: &str) -> [u8; 4] {
    let digest: [u8; 32] =
        Sha256::new_with_prefix(b"quorate.token.checksum\0").chain_update(text).finalize().into();
    let [a, b, c, d, ..] = digest;
    [a, b, c, d]
}

/// Writes a number, most significant byte first, as `N` digits to the base 62, most significant first.
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
