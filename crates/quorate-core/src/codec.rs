//! Binary encoding of records. The bytes are hashed, so the format is permanent: numbers never change, and a body is
//! decoded by the format byte of its record.
//!
//! A body consists of the number of payload parts, the length and digest of each, the number of effects, and the tag,
//! length and fields of each. Numbers are LEB128; texts and byte strings are length-prefixed.

mod approval_fingerprint;
mod effect;
pub mod fingerprint;
mod item;
mod message;
mod presence;
mod procedure_fingerprint;
mod result;
mod session;
mod snapshot_fingerprint;

use std::collections::HashMap;

use bytes::Bytes;

use crate::effect::{Body, Effect, Record};
use crate::ids::{DeliveryNo, Seq};
use crate::lookup::DeliveryEnd;
use crate::message::Payload;

pub use item::{read_item, write_item};
pub use presence::{read_presence, write_presence};
pub use result::{read_results, write_results};

/// The format written by this release.
pub const FORMAT: u8 = 1;

/// A decoding error: the bytes are corrupt, or written by a newer release.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot decode the body at byte {at}: expected {expected}")]
pub struct DecodeError {
    /// Byte offset of the error.
    pub at: usize,
    /// Description of the expected value.
    pub expected: &'static str,
}

/// Encodes a body. `parts` are the payload parts of the effects, in order.
#[must_use]
pub fn write_body(parts: &[Payload], effects: &[Effect]) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(96 + 64 * parts.len() + 48 * effects.len()));
    out.number(parts.len() as u64);
    for part in parts {
        out.number(part.bytes.len() as u64);
        out.0.extend_from_slice(&part.digest);
    }
    out.number(effects.len() as u64);
    let mut fields = Writer(Vec::with_capacity(128));
    for effect in effects {
        let tag = effect::write(&mut fields, effect);
        out.number(tag);
        out.bytes(&fields.0);
        fields.0.clear();
    }
    out.0
}

/// Decodes the body of a record, with its payload parts.
///
/// # Errors
/// If the bytes cannot be decoded by this release.
pub fn read_body(record: &Record) -> Result<Body, DecodeError> {
    read_with(record, |parts| split_payload(parts, &record.salts, &record.payload))
}

fn read_with(
    record: &Record,
    payloads_of: impl FnOnce(&[(u64, [u8; 32])]) -> Option<Vec<Payload>>,
) -> Result<Body, DecodeError> {
    if record.format != FORMAT {
        return Err(DecodeError { at: 0, expected: "a known format" });
    }
    let mut input = Reader::new(&record.body);
    let parts = read_parts(&mut input)?;
    let payloads = payloads_of(&parts)
        .ok_or(DecodeError { at: 0, expected: "salts and payload bytes of the stated lengths" })?;
    let count = input.count(2)?;
    let mut effects = Vec::with_capacity(count);
    for _ in 0..count {
        let tag = input.number()?;
        let mut fields = input.nested()?;
        effects.push(effect::read(tag, &mut fields, &payloads)?);
        fields.end()?;
    }
    input.end()?;
    Ok(Body { parts, effects })
}

/// Decodes the body of a record that was loaded without its payload: payloads have a digest, but no bytes.
///
/// # Errors
/// As [`read_body`].
pub fn read_without_payload(record: &Record) -> Result<Body, DecodeError> {
    let without_bytes =
        |(_, digest): &(u64, [u8; 32])| Payload { digest: *digest, ..Payload::unsealed(Bytes::new()) };
    read_with(record, |parts| Some(parts.iter().map(without_bytes).collect()))
}

/// Returns one payload part of a record; `None` if it does not exist.
///
/// # Errors
/// As [`read_body`].
pub fn payload_part(record: &Record, part: u32) -> Result<Option<Payload>, DecodeError> {
    let parts = part_table(&record.body)?;
    let payloads = split_payload(&parts, &record.salts, &record.payload);
    Ok(payloads.and_then(|payloads| payloads.into_iter().nth(part as usize)))
}

/// Returns the deliveries ended by the record with this body and sequence number.
///
/// # Errors
/// As [`read_body`].
pub fn ended_deliveries(body: &[u8], seq: Seq) -> Result<HashMap<DeliveryNo, DeliveryEnd>, DecodeError> {
    let mut input = Reader::new(body);
    read_parts(&mut input)?;
    let mut ends = HashMap::new();
    for _ in 0..input.count(2)? {
        let tag = input.number()?;
        let mut fields = input.nested()?;
        if effect::is_end(tag) {
            let effect = effect::read(tag, &mut fields, &[])?;
            ends.extend(effect.ended_deliveries().map(|(delivery, state, token, origin)| {
                (delivery, DeliveryEnd { state, token, seq, origin })
            }));
        }
    }
    Ok(ends)
}

/// Returns offset, length and digest of a payload part within the payload of its record; `None` if it does not exist.
/// Needs only the first [`parts_prefix`] bytes of the body.
///
/// # Errors
/// If the bytes cannot be decoded by this release.
pub fn locate_part(body: &[u8], part: u32) -> Result<Option<(u64, u64, [u8; 32])>, DecodeError> {
    let mut input = Reader::new(body);
    if input.number()? <= u64::from(part) {
        return Ok(None);
    }
    let mut start = 0u64;
    for _ in 0..part {
        start = start.saturating_add(input.number()?);
        input.array::<32>()?;
    }
    Ok(Some((start, input.number()?, input.array()?)))
}

/// Returns how many bytes of a body are needed to locate this part.
#[must_use]
pub fn parts_prefix(part: u32) -> u64 {
    // A number takes at most 10 bytes, a digest 32.
    10 + 42 * (u64::from(part) + 1)
}

/// Returns length and digest of each payload part, without decoding the effects.
///
/// # Errors
/// As [`read_body`].
pub fn part_table(body: &[u8]) -> Result<Vec<(u64, [u8; 32])>, DecodeError> {
    read_parts(&mut Reader::new(body))
}

fn read_parts(input: &mut Reader<'_>) -> Result<Vec<(u64, [u8; 32])>, DecodeError> {
    let count = input.count(33)?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        parts.push((input.number()?, input.array()?));
    }
    Ok(parts)
}

/// Splits the payload into its parts; `None` if the lengths do not add up.
fn split_payload(parts: &[(u64, [u8; 32])], salts: &[u8], payload: &Bytes) -> Option<Vec<Payload>> {
    let mut start = 0usize;
    let mut payloads = Vec::with_capacity(parts.len());
    if salts.len() != parts.len() * 16 {
        return None;
    }
    for ((length, digest), salt) in parts.iter().zip(salts.as_chunks::<16>().0) {
        let end = start.checked_add(usize::try_from(*length).ok()?)?;
        if end > payload.len() {
            return None;
        }
        payloads.push(Payload { bytes: payload.slice(start..end), salt: *salt, digest: *digest });
        start = end;
    }
    (start == payload.len()).then_some(payloads)
}

/// Encoder.
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn numbers(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.number(*value));
    }

    /// Writes the difference of two numbers, zigzag-encoded.
    pub(crate) fn difference(&mut self, from: u64, to: u64) {
        let delta = to.wrapping_sub(from) as i64;
        self.number((delta << 1 ^ delta >> 63) as u64);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: impl AsRef<str>) {
        self.bytes(text.as_ref().as_bytes());
    }

    /// Writes 0 for `None`, else the value plus 1.
    pub(crate) fn option(&mut self, value: Option<u64>) {
        self.number(value.map_or(0, |value| value.saturating_add(1)));
    }
}

/// Decoder.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn expected<T>(&self, expected: &'static str) -> Result<T, DecodeError> {
        Err(DecodeError { at: self.at, expected })
    }

    pub(crate) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.bytes.get(self.at) else { return self.expected("a number") };
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                return self.expected("a 64-bit number");
            }
            self.at += 1;
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        self.expected("a 64-bit number")
    }

    pub(crate) fn difference(&mut self, from: u64) -> Result<u64, DecodeError> {
        let delta = self.number()?;
        Ok(from.wrapping_add((delta >> 1) ^ (delta & 1).wrapping_neg()))
    }

    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, DecodeError> {
        let value = self.number()?;
        T::try_from(value).or_else(|_| self.expected("a smaller number"))
    }

    pub(crate) fn option(&mut self) -> Result<Option<u64>, DecodeError> {
        Ok(self.number()?.checked_sub(1))
    }

    /// Reads a count of values that take at least `size` bytes each. Bounded by the input, so that a corrupt count cannot
    /// cause a huge allocation.
    pub(crate) fn count(&mut self, size: usize) -> Result<usize, DecodeError> {
        let count: usize = self.narrow()?;
        if count.saturating_mul(size) > self.bytes.len() - self.at {
            return self.expected("a count within the remaining bytes");
        }
        Ok(count)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(found) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) else {
            return self.expected("a fixed number of bytes");
        };
        self.at += N;
        Ok(*found)
    }

    pub(crate) fn slice(&mut self) -> Result<&'a [u8], DecodeError> {
        let length: usize = self.narrow()?;
        let Some(found) = self.at.checked_add(length).and_then(|end| self.bytes.get(self.at..end)) else {
            return self.expected("as many bytes as the length states");
        };
        self.at += length;
        Ok(found)
    }

    pub(crate) fn nested(&mut self) -> Result<Reader<'a>, DecodeError> {
        Ok(Reader::new(self.slice()?))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.slice()?;
        std::str::from_utf8(bytes).or_else(|_| self.expected("UTF-8 text"))
    }

    /// Reads and validates an id.
    pub(crate) fn id<T: std::str::FromStr>(&mut self) -> Result<T, DecodeError> {
        let text = self.text()?;
        text.parse().or_else(|_| self.expected("an id"))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.is_done() { Ok(()) } else { self.expected("the end of the input") }
    }
}

#[cfg(test)]
mod tests;
