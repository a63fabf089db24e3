//! Detection of conduct flags in JSON: by a field value, not by a mention in text.
//!
//! `PRIVATE_TO_MODERATORS` as any value, or as the name of a field that is set, or `coc_violation_flag` as the value of a type field, marks the whole
//! document. `flags.coc_concern` with any value except `false` marks a concern: the document itself is public, that
//! value is not.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

const FLAG: &str = "coc_violation_flag";
const PRIVATE: &str = "PRIVATE_TO_MODERATORS";
const CONCERN: &str = "coc_concern";
/// Maximum depth of JSON embedded in JSON strings.
const EMBEDDED_DEPTH_MAX: usize = 3;

/// Every mark contains one of these, in any of the usual cases. Content without them is not parsed.
static KEYWORDS: LazyLock<[Finder<'static>; 6]> = LazyLock::new(|| {
    ["violation_f", "VIOLATION_F", "TO_MODER", "to_moder", "coc_concern", "COC_CONCERN"].map(Finder::new)
});

/// Marking of a document.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Mark {
    None,
    /// The whole document is private to moderators.
    Private,
    /// The document contains a concern; these are the bytes without it.
    Concern(Vec<u8>),
}

/// Whether a value marks content as a flag.
#[must_use]
pub fn is_flag_marker(text: &str) -> bool {
    let text = text.trim();
    text.eq_ignore_ascii_case(FLAG) || text.eq_ignore_ascii_case(PRIVATE)
}

/// Fast check of the bytes. Escaped letters could hide a mark, so they require parsing.
pub(super) fn may_be_marked(bytes: &[u8]) -> bool {
    bytes.len() >= CONCERN.len()
        && memchr::memchr2(b'_', b'\\', bytes).is_some()
        && (KEYWORDS.iter().any(|keyword| keyword.find(bytes).is_some()) || has_letter_escape(bytes))
}

fn has_letter_escape(bytes: &[u8]) -> bool {
    let is_letter = |at: usize| bytes.get(at + 4).is_some_and(|digit| (b'4'..=b'7').contains(digit));
    memchr::memchr(b'\\', bytes).is_some() && memmem::find_iter(bytes, b"\\u00").any(is_letter)
}

/// Whether the whole document is private to moderators.
#[must_use]
pub fn is_marked(bytes: &[u8]) -> bool {
    mark_of(bytes) == Mark::Private
}

/// Returns the marking of a document.
pub(super) fn mark_of(bytes: &[u8]) -> Mark {
    if !may_be_marked(bytes) {
        return Mark::None;
    }
    let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
        // Other content has no fields, but ordinary text does not contain this marker.
        let is_private = memmem::find(bytes, PRIVATE.as_bytes()).is_some();
        return if is_private { Mark::Private } else { Mark::None };
    };
    let mut traversal = Traversal { start: raw.get().as_ptr() as usize, concerns: Vec::new() };
    if traversal.is_private("", raw, 0) {
        return Mark::Private;
    }
    if traversal.concerns.is_empty() {
        return Mark::None;
    }
    // Whitespace around the document is dropped.
    let mut rest = raw.get().as_bytes().to_vec();
    for span in traversal.concerns.into_iter().rev() {
        rest.splice(span, *b"false");
    }
    Mark::Concern(rest)
}

/// Traversal of a document.
struct Traversal {
    /// Address of its first byte.
    start: usize,
    /// Positions of concerns, in order.
    concerns: Vec<Range<usize>>,
}

impl Traversal {
    /// Whether a value is private. `field` is the name of the enclosing field, `depth` the number of enclosing JSON
    /// strings.
    fn is_private(&mut self, field: &str, raw: &RawValue, depth: usize) -> bool {
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                let Ok(Fields(fields)) = serde_json::from_str(raw.get()) else { return false };
                fields.into_iter().any(|(name, value)| {
                    if depth == 0 && field.eq_ignore_ascii_case("flags") && name.eq_ignore_ascii_case(CONCERN)
                    {
                        self.record_concern(value);
                    }
                    let is_set = !matches!(value.get(), "false" | "null" | "0" | "\"\"");
                    is_set && name.trim().eq_ignore_ascii_case(PRIVATE)
                        || self.is_private(&name, value, depth)
                })
            }
            Some(b'[') => {
                let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else { return false };
                items.into_iter().any(|item| self.is_private(field, item, depth))
            }
            Some(b'"') => {
                let Ok(text) = serde_json::from_str::<Cow<'_, str>>(raw.get()) else { return false };
                let word = text.trim();
                word.eq_ignore_ascii_case(PRIVATE)
                    || names_type(field) && word.eq_ignore_ascii_case(FLAG)
                    || depth < EMBEDDED_DEPTH_MAX && self.is_private_text(&text, depth)
            }
            _ => false,
        }
    }

    /// Checks JSON that is embedded in a string.
    fn is_private_text(&mut self, text: &str, depth: usize) -> bool {
        let text = text.trim();
        let is_document = text.starts_with(['{', '[']) && may_be_marked(text.as_bytes());
        is_document
            && serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| self.is_private("", raw, depth + 1))
    }

    fn record_concern(&mut self, value: &RawValue) {
        if matches!(value.get(), "false" | "null" | "0" | "\"\"") {
            return;
        }
        let from = value.get().as_ptr() as usize - self.start;
        self.concerns.push(from..from + value.get().len());
    }
}

/// Whether a field contains the type of a document: `message_type`, `messageType`, `type`, `action`, `kind`.
fn names_type(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["type", "action", "kind"].iter().any(|end| name.ends_with(end))
}

/// Fields of an object, in order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    pairs.push((Cow::Owned(name), value));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Pairs).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, is_marked, mark_of};

    // Fails under: a search at the top level only or for one spelling only; a mention that is taken for a mark.
    #[test]
    fn m5_a_mark_is_a_value_and_not_a_mention() {
        for marked in [
            r#"{"message_type":"coc_violation_flag"}"#,
            r#"{"messageType":"coc_violation_flag","x":1}"#,
            r#"{"a":[{"type":"COC_VIOLATION_FLAG"}]}"#,
            r#"{"privacy_level":"PRIVATE_TO_MODERATORS"}"#,
            r#" {"context":{"privacyLevel":"private_to_moderators"}}"#,
            r#"["PRIVATE_TO_MODERATORS"]"#,
            r#"{"privacy_level":" PRIVATE_TO_MODERATORS\n"}"#,
            r#"{"PRIVATE_TO_MODERATORS":true,"x":1}"#,
            r#"{"message_type":"coc\u005fviolation_flag"}"#,
            r#""{\"message_type\":\"coc_violation_flag\"}""#,
            r#"{"content":"{\"inner\":\"{\\\"privacy_level\\\":\\\"PRIVATE_TO_MODERATORS\\\"}\"}"}"#,
            "message_type: x\nprivacy_level: PRIVATE_TO_MODERATORS",
        ] {
            assert!(is_marked(marked.as_bytes()), "{marked}");
        }
        for public in [
            "",
            "{}",
            r#"{"text":"never post a coc_violation_flag in public"}"#,
            r#"{"text":"mark it PRIVATE_TO_MODERATORS"}"#,
            r#"{"types":["task_delegation"],"coc_violation_flag":1}"#,
            r#"{"name":"coc_violation_flag"}"#,
            r#"{"PRIVATE_TO_MODERATORS":false}"#,
            r#"{"flags":{"coc_concern":false}}"#,
            r#"{"caf\u00e9":"\u0041"}"#,
        ] {
            assert_eq!(mark_of(public.as_bytes()), Mark::None, "{public}");
        }
    }

    // Fails under: a change of any bytes other than the value.
    #[test]
    fn m5_only_the_concern_is_removed() {
        let concern = |text: &str| match mark_of(text.as_bytes()) {
            Mark::Concern(rest) => String::from_utf8(rest).expect("text"),
            other => panic!("{text}: {other:?}"),
        };
        let document = r#"{"score": 1.50, "flags":{"gap":"x","coc_concern": true }, "z": [1 ,2]}"#;
        assert_eq!(concern(document), document.replace("true", "false"));
        let document =
            r#"{"a":{"flags":{"coc_concern":"he \"said\" so"}},"b":{"flags":{"coc_concern":{"x":1}}}}"#;
        assert_eq!(
            concern(document),
            r#"{"a":{"flags":{"coc_concern":false}},"b":{"flags":{"coc_concern":false}}}"#
        );
        assert_eq!(mark_of(br#"{"coc_concern":true}"#), Mark::None);
    }
}
