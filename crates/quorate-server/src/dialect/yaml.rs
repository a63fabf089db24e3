//! YAML input and output. Parsed strictly and within limits, without anchors, and with the line and column of every
//! value; then converted to JSON.

use std::collections::HashMap;

use bytes::Bytes;
use quorate_core::{Code, Refused};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_saphyr::{Error, Spanned};

use super::field_reader::FieldError;
use crate::problem::Problem;

/// Maximum nesting depth of a YAML body. The YAML parser needs much more stack per level than the JSON parser.
const YAML_DEPTH_MAX: usize = 24;
/// Maximum number of nodes of a YAML body.
const NODES_MAX: usize = 100_000;

/// A document as JSON, with the YAML position of each value.
pub(crate) struct Document {
    pub(crate) json: Bytes,
    positions: HashMap<String, (u64, u64)>,
}

impl Document {
    /// Parses a document.
    ///
    /// # Errors
    /// `INVALID` with line and column, including for anchors and several documents; `LIMIT_EXCEEDED` for a document
    /// that is nested too deep or too large.
    pub(crate) fn parse(bytes: &Bytes) -> Result<Self, Refused> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(Refused::new(Code::Invalid, "the YAML is not valid UTF-8"));
        };
        let mut tree: Spanned<Tree> =
            serde_saphyr::from_str_with_options(text, options()).map_err(refused)?;
        preserve_numbers(&mut tree, text);
        let mut positions = HashMap::new();
        record_positions(&mut positions, "", &tree);
        let json = serde_json::to_vec(&tree.value).unwrap_or_default();
        Ok(Self { json: json.into(), positions })
    }

    /// Adds the YAML position to an error.
    pub(crate) fn locate(&self, error: FieldError) -> Refused {
        let mut path = error.path.as_str();
        let position = loop {
            match self.positions.get(path) {
                Some(position) => break Some(*position),
                None if path.is_empty() => break None,
                None => path = parent(path),
            }
        };
        let mut refused = Refused::from(error);
        if let Some((line, column)) = position {
            refused.detail = format!("line {line}, column {column}: {}", refused.detail);
        }
        refused
    }
}

fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |end| &path[..end])
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: YAML_DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_aliases: 0,
            max_anchors: 0,
            max_documents: 1,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

fn refused(error: Error) -> Refused {
    let position = error.location().map(|location| (location.line(), location.column()));
    let prefix = position.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
    let Error::Budget { breach, .. } = error.without_snippet() else {
        let detail = error.without_snippet().to_string();
        // Already part of the prefix.
        let detail = position
            .and_then(|(line, column)| detail.strip_suffix(&format!(" at line {line}, column {column}")));
        let detail = detail.map_or_else(|| error.without_snippet().to_string(), ToOwned::to_owned);
        return Refused::new(Code::Invalid, format!("{prefix}invalid YAML: {detail}"))
            .hint("see docs/guides/dialects.md for examples");
    };
    let too_much = |detail: &str, limit: usize, hint: &str| {
        Refused::new(Code::LimitExceeded, format!("{prefix}the YAML {detail}")).limit(limit as u64).hint(hint)
    };
    let invalid = |detail: &str, hint: &str| {
        Refused::new(Code::Invalid, format!("{prefix}the YAML {detail}")).hint(hint)
    };
    match breach {
        BudgetBreach::Depth { .. } => {
            too_much("is nested too deep", YAML_DEPTH_MAX, "flatten it, or send it as JSON")
        }
        // Not allowed at all, so there is no limit to report.
        BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } => {
            invalid("contains anchors or aliases", "remove them")
        }
        BudgetBreach::Documents { .. } => {
            invalid("contains more than one document", "send one document, which may be a list")
        }
        _ => too_much("is too large", NODES_MAX, "split it into several requests"),
    }
}

/// Values common to YAML and JSON. Fields keep their order.
enum Tree {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    /// A number as written, of any precision.
    Exact(Box<RawValue>),
    Text(String),
    List(Vec<Spanned<Tree>>),
    Object(Vec<(String, Spanned<Tree>)>),
}

fn record_positions(positions: &mut HashMap<String, (u64, u64)>, path: &str, tree: &Spanned<Tree>) {
    positions.insert(path.to_owned(), (tree.referenced.line(), tree.referenced.column()));
    match &tree.value {
        Tree::List(items) => {
            for (index, item) in items.iter().enumerate() {
                record_positions(positions, &format!("{path}[{index}]"), item);
            }
        }
        Tree::Object(fields) => {
            for (name, value) in fields {
                record_positions(positions, &super::field_reader::field_path(path, name), value);
            }
        }
        _ => {}
    }
}

/// Preserves numbers as written, if JSON has the same notation.
fn preserve_numbers(tree: &mut Spanned<Tree>, text: &str) {
    let span = tree.referenced.span();
    match &mut tree.value {
        Tree::List(items) => items.iter_mut().for_each(|item| preserve_numbers(item, text)),
        Tree::Object(fields) => fields.iter_mut().for_each(|(_, value)| preserve_numbers(value, text)),
        number @ (Tree::Signed(_) | Tree::Unsigned(_) | Tree::Float(_)) => {
            let written = span.byte_offset().zip(span.byte_len()).and_then(|(start, length)| {
                let start = usize::try_from(start).ok()?;
                text.get(start..start.checked_add(usize::try_from(length).ok()?)?)
            });
            let exact = written.and_then(|written| RawValue::from_string(written.trim().to_owned()).ok());
            // Excludes quoted and tagged values.
            if let Some(exact) = exact
                .filter(|raw| raw.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()))
            {
                *number = Tree::Exact(exact);
            }
        }
        Tree::Null | Tree::Bool(_) | Tree::Exact(_) | Tree::Text(_) => {}
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Signed(number) => serializer.serialize_i64(*number),
            Self::Unsigned(number) => serializer.serialize_u64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Exact(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items.iter().map(|item| &item.value)),
            Self::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, field)| (name, &field.value)))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value that JSON can represent")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Signed(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Unsigned(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Object(fields))
    }
}

/// Renders JSON as YAML. Integers that do not fit into 64 bits become strings.
pub(crate) fn to_yaml(json: &RawValue) -> Result<String, Problem> {
    // Only a bug in one of our own Serialize types can cause this. The change of the call may be committed already.
    serde_saphyr::to_string(&Value::of(json))
        .map_err(|error| Problem::unknown_outcome(format!("failed to serialize the response: {error}")))
}

/// JSON value with fields in order.
enum Value {
    Plain(serde_json::Value),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    fn of(raw: &RawValue) -> Self {
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                Self::List(items.into_iter().map(Self::of).collect())
            }
            Some(b'{') => {
                let fields = serde_json::from_str::<crate::body::RequestFields<'_>>(text);
                let fields = fields.map(crate::body::RequestFields::into_pairs).unwrap_or_default();
                Self::Object(
                    fields.into_iter().map(|(name, value)| (name.into_owned(), Self::of(value))).collect(),
                )
            }
            _ => Self::Plain(plain(text)),
        }
    }
}

fn plain(text: &str) -> serde_json::Value {
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    match parsed {
        Some(number) if number.is_f64() && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => {
            text.into()
        }
        Some(value) => value,
        None => text.into(),
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(value) => value.serialize(serializer),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, value))),
        }
    }
}
