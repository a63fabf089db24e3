//! Parsing of request bodies: bounded in depth, parsed once, and rejected with the path of the invalid field.

use std::borrow::Cow;

use bytes::Bytes;
use quorate_core::{Code, Refused, describe_json_error, extract_refusal};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde_json::value::RawValue;

use crate::strict::Object;

/// Maximum nesting depth of JSON.
pub const DEPTH_MAX: usize = 64;

/// Parses an object with known fields. An empty body is an empty object.
///
/// # Errors
/// `INVALID` with the path of the invalid field.
pub fn parse<'a, T: Deserialize<'a>>(bytes: &'a Bytes) -> Result<T, Refused> {
    parse_any(bytes).map(|Object(value)| value)
}

fn parse_any<'a, T: Deserialize<'a>>(bytes: &'a Bytes) -> Result<T, Refused> {
    let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    check_depth(bytes)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        invalid_body(&path, error.inner())
    })?;
    json.end().map_err(|error| invalid_body(".", &error))?;
    Ok(parsed)
}

/// Parses one object, or a list of them.
///
/// # Errors
/// `INVALID` with the path of the invalid field.
pub fn parse_one_or_list<'a, T: Deserialize<'a>>(bytes: &'a Bytes) -> Result<Vec<T>, Refused> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        let objects: Vec<Object<T>> = parse_any(bytes)?;
        return Ok(objects.into_iter().map(|Object(value)| value).collect());
    }
    parse(bytes).map(|value| vec![value])
}

/// Fields of an object, to be parsed one by one or as a whole.
pub struct RequestFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RequestFields<'a> {
    /// Whether a field of this name exists.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(field, _)| field == name)
    }

    /// Returns all fields in their order.
    #[must_use]
    pub fn into_pairs(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        self.0
    }

    /// Removes and returns a string.
    ///
    /// # Errors
    /// `INVALID` if it is missing or not a string.
    pub fn take_string(&mut self, name: &str) -> Result<String, Refused> {
        self.take(name)?.ok_or_else(|| {
            Refused::new(Code::Invalid, format!("{name} is missing"))
                .hint(format!("add the field {name} with a string value"))
        })
    }

    /// Removes and returns an optional string.
    ///
    /// # Errors
    /// `INVALID` if it is not a string.
    pub fn take_optional_string(&mut self, name: &str) -> Result<Option<String>, Refused> {
        Ok(self.take::<Option<String>>(name)?.flatten())
    }

    /// Removes and returns an optional number.
    ///
    /// # Errors
    /// `INVALID` if it is not a number.
    pub fn take_number(&mut self, name: &str) -> Result<Option<u64>, Refused> {
        self.take(name)
    }

    fn take<T: Deserialize<'a>>(&mut self, name: &str) -> Result<Option<T>, Refused> {
        let Some(index) = self.0.iter().position(|(field, _)| field == name) else { return Ok(None) };
        let (_, raw) = self.0.remove(index);
        serde_json::from_str(raw.get()).map(Some).map_err(|error| invalid_body(name, &error))
    }

    /// Parses all remaining fields as one type. Unknown fields are rejected.
    ///
    /// # Errors
    /// `INVALID` with the path of the invalid field.
    pub fn parse_into<T: Deserialize<'a>>(self) -> Result<T, Refused> {
        let fields = MapDeserializer::new(self.0.into_iter());
        serde_path_to_error::deserialize(fields).map_err(|error| {
            let path = error.path().to_string();
            invalid_body(&path, error.inner())
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RequestFields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = RequestFields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    fields.push((name, value));
                }
                Ok(RequestFields(fields))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

fn invalid_body(path: &str, error: &serde_json::Error) -> Refused {
    // Text that is not JSON at all has no path.
    let prefix = if matches!(path, "" | "." | "?") { String::new() } else { format!("{path}: ") };
    if let Some(mut refused) = extract_refusal(&error.to_string()) {
        refused.detail = format!("{prefix}{}", refused.detail);
        return refused;
    }
    Refused::new(Code::Invalid, format!("{prefix}{}", describe_json_error(&error.to_string())))
        .hint("see GET /v1/openapi.json for the schema of every call")
}

/// Rejects JSON that is nested too deeply, before it is parsed.
fn check_depth(bytes: &[u8]) -> Result<(), Refused> {
    // Fast path for most requests: too few brackets to exceed the limit.
    if memchr::memchr2_iter(b'{', b'[', bytes).nth(DEPTH_MAX).is_none() {
        return Ok(());
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(Refused::new(Code::LimitExceeded, "the JSON is nested too deeply")
                .limit(DEPTH_MAX as u64)
                .hint("send deeply nested parts as a string, or store them elsewhere and send a reference"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::{DEPTH_MAX, RequestFields, parse, parse_one_or_list};

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        inner: Vec<Inner>,
    }

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        count: u8,
    }

    #[test]
    fn an_invalid_field_is_reported_with_its_path() {
        let body = Bytes::from_static(br#"{"inner":[{"count":1},{"count":"two"}]}"#);
        let refused = parse::<Outer>(&body).unwrap_err();
        assert!(refused.detail.starts_with("inner[1].count: expected an integer"), "{}", refused.detail);
        let body = Bytes::from_static(br#"{"inner":[{"count":1,"more":2}]}"#);
        assert!(parse::<Outer>(&body).unwrap_err().detail.contains("more: unknown field more"));
        assert!(
            parse::<Outer>(&Bytes::from_static(b"{\"inner\":[]}")).is_ok_and(|outer| outer.inner.is_empty())
        );
        assert!(parse::<Outer>(&Bytes::from_static(b"{\"inner\":[]} x")).is_err());
    }

    // Fails under: fields that are accepted in declaration order.
    #[test]
    fn a_list_is_not_accepted_as_an_object() {
        let refused = parse::<Inner>(&Bytes::from_static(b"[1]")).unwrap_err();
        assert_eq!(refused.detail, "expected an object, found an array (line 1, column 0)");
        let refused = parse_one_or_list::<Inner>(&Bytes::from_static(b"[{\"count\":1},[2]]")).unwrap_err();
        assert!(refused.detail.starts_with("[1]: expected an object, found an array"), "{}", refused.detail);
    }

    #[test]
    fn fields_keep_their_bytes_and_unknown_ones_are_rejected() {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Rest<'a> {
            #[serde(borrow)]
            payload: &'a RawValue,
        }
        let body = Bytes::from_static(br#"{"op":"send","payload":{"b": 1.0,  "a":2}}"#);
        let mut fields: RequestFields<'_> = parse(&body).unwrap();
        assert_eq!(fields.take_string("op").unwrap(), "send");
        assert_eq!(fields.parse_into::<Rest<'_>>().unwrap().payload.get(), r#"{"b": 1.0,  "a":2}"#);
        let fields: RequestFields<'_> = parse(&body).unwrap();
        assert!(
            fields.parse_into::<Rest<'_>>().is_err_and(|refused| refused.detail.contains("unknown field op"))
        );
    }

    #[test]
    fn the_depth_is_bounded() {
        let nested = |depth: usize| Bytes::from("[".repeat(depth) + &"]".repeat(depth));
        assert!(parse::<&RawValue>(&nested(DEPTH_MAX)).is_ok());
        let refused = parse::<&RawValue>(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(refused.facts.limit, Some(64));
        let text = Bytes::from(format!("{:?}", "[".repeat(100)));
        assert!(parse::<String>(&text).is_ok(), "brackets in a string do not count");
    }

    #[test]
    fn a_single_object_is_parsed_as_a_list_of_one() {
        let single = Bytes::from_static(br#" {"count":1}"#);
        let list = Bytes::from_static(br#"[{"count":1},{"count":2}]"#);
        assert_eq!(parse_one_or_list::<Inner>(&single).unwrap()[0].count, 1);
        assert_eq!(parse_one_or_list::<Inner>(&list).unwrap().len(), 2);
    }
}
