//! Distributed tracing of messages by W3C Trace Context.
//!
//! Every durable message is a span. Its id is derived from data that the log contains anyway, so nothing is stored for it:
//! the salted digest of the payload is random, and the position in the log is unique. A message sent within a trace
//! carries the `traceparent` of its parent span; one without starts a new trace.

use std::fmt;
use std::str::FromStr;

use crate::hex;
use crate::ids::{DeliveryNo, MessageId};
use crate::message::Message;

/// Id of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TraceId(pub [u8; 16]);

/// Id of a span within a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpanId(pub [u8; 8]);

/// A span and its trace: the content of `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceContext {
    /// Trace id.
    pub trace: TraceId,
    /// Span id.
    pub span: SpanId,
    /// W3C trace flags.
    pub flags: u8,
}

/// The W3C flag `sampled`.
const SAMPLED: u8 = 1;

/// The text is not a valid trace context or trace id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not in W3C Trace Context format")]
pub struct InvalidTraceContext;

impl TraceContext {
    /// The parent span of a message, if its `traceparent` is valid.
    #[must_use]
    pub fn parent_of(message: &Message) -> Option<Self> {
        message.traceparent.as_deref().and_then(|text| text.parse().ok())
    }

    /// The span of a durable message; `None` for an ephemeral one.
    #[must_use]
    pub fn of_message(id: MessageId, message: &Message) -> Option<Self> {
        if !message.payload.is_sealed() {
            return None;
        }
        let digest = &message.payload.digest;
        let span = SpanId(mix(to_u64(&digest[16..24]), id.seq.0, u64::from(id.n)));
        Some(match Self::parent_of(message) {
            Some(parent) => Self { span, ..parent },
            None => Self { trace: TraceId(to_array(&digest[..16])), span, flags: SAMPLED },
        })
    }

    /// The span of a delivery of the message with this span.
    #[must_use]
    pub fn delivery_span(&self, delivery: DeliveryNo) -> SpanId {
        SpanId(mix(u64::from_be_bytes(self.span.0), delivery.0, 0))
    }
}

/// Deterministically mixes its arguments into eight random-looking bytes. Never all zero, which is not a valid span id.
fn mix(seed: u64, a: u64, b: u64) -> [u8; 8] {
    // The finaliser of splitmix64: a bijection in which every output bit depends on every input bit.
    let mut x = seed ^ a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)).max(1).to_be_bytes()
}

fn to_u64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn to_array(bytes: &[u8]) -> [u8; 16] {
    let mut array = [0; 16];
    array.copy_from_slice(bytes);
    array
}

/// Decodes hexadecimal digits in lower case, as the standard requires.
fn lower_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    hex::decode(text).filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()))
}

impl FromStr for TraceId {
    type Err = InvalidTraceContext;
    fn from_str(text: &str) -> Result<Self, InvalidTraceContext> {
        lower_hex(text).filter(|bytes| *bytes != [0; 16]).map(Self).ok_or(InvalidTraceContext)
    }
}

impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    /// Parses `00-TRACE-SPAN-FLAGS`. Later versions may append fields; version 255 is invalid.
    fn from_str(text: &str) -> Result<Self, InvalidTraceContext> {
        let mut parts = text.split('-');
        let mut next = || parts.next().ok_or(InvalidTraceContext);
        let [version] = lower_hex::<1>(next()?).ok_or(InvalidTraceContext)?;
        let trace = next()?.parse()?;
        let span =
            lower_hex(next()?).filter(|bytes| *bytes != [0; 8]).map(SpanId).ok_or(InvalidTraceContext)?;
        let [flags] = lower_hex::<1>(next()?).ok_or(InvalidTraceContext)?;
        let ends = parts.next().is_none();
        if version == 255 || (version == 0 && !ends) {
            return Err(InvalidTraceContext);
        }
        Ok(Self { trace, span, flags })
    }
}

/// Writes all digits with one call: this runs for every delivery.
fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; 2 * size_of::<TraceId>()];
    for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
        digits.copy_from_slice(&hex::digits(*byte));
    }
    f.write_str(std::str::from_utf8(&text[..2 * bytes.len()]).map_err(|_| fmt::Error)?)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{TraceContext, TraceId};
    use crate::codec::fingerprint;
    use crate::destination::Destination;
    use crate::ids::{DeliveryNo, Generation, MessageId, Seq};
    use crate::message::{Message, Payload};

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn message(salt: u8) -> Message {
        Message::new(Destination::Broadcast, "go", Payload::seal(Bytes::from_static(b"1"), [salt; 16]))
    }

    fn id(seq: u64, n: u32) -> MessageId {
        MessageId { generation: Generation(0), seq: Seq(seq), n }
    }

    #[test]
    fn d11_trace_context_is_parsed_by_the_standard() {
        let parsed = GIVEN.parse::<TraceContext>().expect("the example of the standard");
        assert_eq!(parsed.to_string(), GIVEN);
        let later = format!("cc{}-what-comes-later", &GIVEN[2..]);
        assert!(later.parse::<TraceContext>().is_ok());
        for invalid in [
            "",
            "00",
            &GIVEN.to_uppercase(),
            &format!("{GIVEN}-more"),
            &format!("ff{}", &GIVEN[2..]),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
        ] {
            assert!(invalid.parse::<TraceContext>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn d11_a_message_is_a_span_of_its_trace() {
        let alone = TraceContext::of_message(id(1, 0), &message(1)).expect("a span");
        let within = Message { traceparent: Some(GIVEN.into()), ..message(1) };
        let span = TraceContext::of_message(id(1, 0), &within).expect("a span");
        assert_eq!((span.trace.to_string().as_str(), span.span), (&GIVEN[3..35], alone.span));
        // Its own span, not that of its parent, and a different one at every position, even for the same payload.
        assert_ne!(span.to_string(), GIVEN);
        assert_ne!(alone.span, TraceContext::of_message(id(1, 1), &message(1)).expect("a span").span);
        assert_ne!(alone.span, TraceContext::of_message(id(2, 0), &message(1)).expect("a span").span);
        assert_ne!(alone.trace, TraceContext::of_message(id(1, 0), &message(2)).expect("a span").trace);
        assert_ne!(alone.span, alone.delivery_span(DeliveryNo(1)));
        assert_eq!(alone.trace.to_string().parse(), Ok::<TraceId, super::InvalidTraceContext>(alone.trace));
        let ephemeral = Message { payload: Payload::unsealed(Bytes::new()), ..message(1) };
        assert_eq!(TraceContext::of_message(id(1, 0), &ephemeral), None);
    }

    #[test]
    fn i3_a_replayed_message_may_have_another_span() {
        let within = Message { traceparent: Some(GIVEN.into()), ..message(1) };
        assert_eq!(fingerprint::of_message(&message(1)), fingerprint::of_message(&within));
    }
}
