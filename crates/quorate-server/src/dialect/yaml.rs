//! YAML in and out: read strictly, without anchors, within bounds, and with the line and column of everything; then it is
//! JSON like everything else.

use std::collections::HashMap;

use bytes::Bytes;
use quorate_core::{Code, Refused};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use serde_saphyr::{Error, Spanned};

use super::said::Wrong;

/// How deep YAML may be nested: its reader needs much more room for each level than that of JSON.
const YAML_DEPTH_MAX: usize = 24;
/// Nodes that one document may have.
const NODES_MAX: usize = 100_000;

/// A document: as JSON, and where in the YAML each of its parts stood.
pub(crate) struct Document {
    pub(crate) json: Bytes,
    places: HashMap<String, (u64, u64)>,
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// `INVALID` with line and column, also for anchors and several documents; `LIMIT_EXCEEDED` for what is too deep or too
    /// large.
    pub(crate) fn read(bytes: &Bytes) -> Result<Self, Refused> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(Refused::new(Code::Invalid, "the YAML is no text in UTF-8"));
        };
        let mut tree: Spanned<Tree> =
            serde_saphyr::from_str_with_options(text, options()).map_err(refused)?;
        keep_numbers(&mut tree, text);
        let mut places = HashMap::new();
        note(&mut places, "", &tree);
        let json = serde_json::to_vec(&tree.value).unwrap_or_default();
        Ok(Self { json: json.into(), places })
    }

    /// Says where in the YAML something is wrong.
    pub(crate) fn located(&self, wrong: Wrong) -> Refused {
        let mut path = wrong.path.as_str();
        let place = loop {
            match self.places.get(path) {
                Some(place) => break Some(*place),
                None if path.is_empty() => break None,
                None => path = parent(path),
            }
        };
        let mut refused = Refused::from(wrong);
        if let Some((line, column)) = place {
            refused.detail = format!("line {line}, column {column}: {}", refused.detail);
        }
        refused
    }
}

fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |at| &path[..at])
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
    let place = error.location().map(|at| (at.line(), at.column()));
    let at = place.map(|(line, column)| format!("line {line}, column {column}: ")).unwrap_or_default();
    let Error::Budget { breach, .. } = error.without_snippet() else {
        let what = error.without_snippet().to_string();
        // It stands in front already.
        let what =
            place.and_then(|(line, column)| what.strip_suffix(&format!(" at line {line}, column {column}")));
        let what = what.map_or_else(|| error.without_snippet().to_string(), ToOwned::to_owned);
        return Refused::new(Code::Invalid, format!("{at}the YAML cannot be read: {what}"))
            .hint("see docs/guides/dialects.md for examples");
    };
    let too_much = |what: &str, limit: usize, hint: &str| {
        Refused::new(Code::LimitExceeded, format!("{at}the YAML {what}")).limit(limit as u64).hint(hint)
    };
    let wrong =
        |what: &str, hint: &str| Refused::new(Code::Invalid, format!("{at}the YAML {what}")).hint(hint);
    match breach {
        BudgetBreach::Depth { .. } => {
            too_much("is nested too deep", YAML_DEPTH_MAX, "flatten it, or send it as JSON")
        }
        // These are no matter of how many.
        BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } => {
            wrong("has anchors or aliases", "write it without them")
        }
        BudgetBreach::Documents { .. } => {
            wrong("has more than one document", "send one document; it may be a list")
        }
        _ => too_much("is too large", NODES_MAX, "send it in parts"),
    }
}

/// What YAML and JSON have in common. Fields stay in their order.
enum Tree {
    Nothing,
    Yes(bool),
    Whole(i64),
    Large(u64),
    Number(f64),
    /// A number as it was written: no computer's number need hold it.
    Exact(Box<RawValue>),
    Text(String),
    List(Vec<Spanned<Tree>>),
    Object(Vec<(String, Spanned<Tree>)>),
}

fn note(places: &mut HashMap<String, (u64, u64)>, path: &str, tree: &Spanned<Tree>) {
    places.insert(path.to_owned(), (tree.referenced.line(), tree.referenced.column()));
    match &tree.value {
        Tree::List(items) => {
            for (at, item) in items.iter().enumerate() {
                note(places, &format!("{path}[{at}]"), item);
            }
        }
        Tree::Object(fields) => {
            for (name, value) in fields {
                note(places, &super::said::under(path, name), value);
            }
        }
        _ => {}
    }
}

/// Numbers that JSON writes the same way stay as they were written.
fn keep_numbers(tree: &mut Spanned<Tree>, text: &str) {
    let span = tree.referenced.span();
    match &mut tree.value {
        Tree::List(items) => items.iter_mut().for_each(|item| keep_numbers(item, text)),
        Tree::Object(fields) => fields.iter_mut().for_each(|(_, value)| keep_numbers(value, text)),
        number @ (Tree::Whole(_) | Tree::Large(_) | Tree::Number(_)) => {
            let written = span.byte_offset().zip(span.byte_len()).and_then(|(start, length)| {
                let start = usize::try_from(start).ok()?;
                text.get(start..start.checked_add(usize::try_from(length).ok()?)?)
            });
            let exact = written.and_then(|written| RawValue::from_string(written.trim().to_owned()).ok());
            // Not what stands in quotes or behind a tag.
            if let Some(exact) = exact
                .filter(|raw| raw.get().starts_with(|letter: char| letter == '-' || letter.is_ascii_digit()))
            {
                *number = Tree::Exact(exact);
            }
        }
        Tree::Nothing | Tree::Yes(_) | Tree::Exact(_) | Tree::Text(_) => {}
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nothing => serializer.serialize_unit(),
            Self::Yes(yes) => serializer.serialize_bool(*yes),
            Self::Whole(number) => serializer.serialize_i64(*number),
            Self::Large(number) => serializer.serialize_u64(*number),
            Self::Number(number) => serializer.serialize_f64(*number),
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
        f.write_str("what JSON can say, too")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Nothing)
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Tree, E> {
        Ok(Tree::Yes(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Whole(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Large(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Number(number))
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

/// JSON as YAML. A number that no computer's number holds exactly is written as a text.
pub(crate) fn written(json: &RawValue) -> Result<String, Refused> {
    serde_saphyr::to_string(&Value::of(json)).map_err(|error| {
        // Only a type of our own that is no YAML could do that.
        Refused::new(Code::Unavailable, format!("the answer could not be written: {error}"))
    })
}

/// JSON on its way out, in its order.
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
                let fields = serde_json::from_str::<crate::body::Fields<'_>>(text);
                let fields = fields.map(crate::body::Fields::into_pairs).unwrap_or_default();
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
