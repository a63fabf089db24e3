//! Escapes that hide the shape of a secret: some writers of JSON put `\/` for a slash and `\u002B` for a plus. What is
//! decoded here is looked at and thrown away; the place that is found is one in the original bytes.

use memchr::memmem::Finder;

/// Bytes with those escapes written out, and where they come from.
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    /// From this decoded byte on, the original goes on there.
    places: Vec<(usize, usize)>,
}

/// Knows whether decoding is worth while.
pub(super) struct Escapes([Finder<'static>; 2]);

impl Escapes {
    pub(super) fn new() -> Self {
        Self([Finder::new("\\/"), Finder::new("\\u00")])
    }

    /// Whether some escape may hide a shape.
    pub(super) fn stand_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|escape| escape.find(bytes).is_some())
    }
}

impl Decoded {
    /// Decodes slashes and printable characters, however often they were escaped. Other escapes stay as they are.
    pub(super) fn of(original: &[u8]) -> Self {
        let mut decoded = Self { bytes: Vec::with_capacity(original.len()), places: vec![(0, 0)] };
        let mut at = 0;
        while at < original.len() {
            match escaped(&original[at..]) {
                Some((byte, length)) => {
                    decoded.places.push((decoded.bytes.len(), at));
                    decoded.bytes.push(byte);
                    at += length;
                    decoded.places.push((decoded.bytes.len(), at));
                }
                None => {
                    decoded.bytes.push(original[at]);
                    at += 1;
                }
            }
        }
        decoded
    }

    /// Where a decoded byte stands in the original.
    pub(super) fn place(&self, decoded: usize) -> usize {
        let after = self.places.partition_point(|(start, _)| *start <= decoded);
        let (start, original) = self.places[after - 1];
        original + (decoded - start)
    }
}

/// The character that an escape stands for, and the length of the escape.
fn escaped(text: &[u8]) -> Option<(u8, usize)> {
    let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
    match (slashes, text.get(slashes)?) {
        (0, _) => None,
        (_, b'/') => Some((b'/', slashes + 1)),
        (_, b'u') => {
            let digits = text.get(slashes + 1..slashes + 5)?.strip_prefix(b"00")?;
            let code = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            (b' '..=b'~').contains(&code).then_some((code, slashes + 5))
        }
        _ => None,
    }
}
