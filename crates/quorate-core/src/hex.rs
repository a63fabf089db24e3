//! Hexadecimal encoding.

/// Returns the two lower-case digits of a byte.
#[must_use]
pub const fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 15) as usize]]
}

/// Encodes bytes in lower case.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| digits(*byte)).map(char::from).collect()
}

/// Decodes exactly `N` bytes from digits in either case.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    // Fails under: swapped digits; a sign, a space or half a byte accepted; an unchecked length.
    #[test]
    fn bytes_are_encoded_and_decoded() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode(&bytes);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"), "{text}");
        assert_eq!(decode::<256>(&text).as_ref().map(|bytes| &bytes[..]), Some(&bytes[..]));
        assert_eq!(decode("FfaB"), Some([0xff, 0xab]));
        for invalid in ["", "ff", "ffab0", "ffab00", "+fab", "ff b", "é0", "ffag"] {
            assert_eq!(decode::<2>(invalid), None, "{invalid}");
        }
    }
}
