//! The metadata of a message: what a dialect keeps there under its own name, and what is only passed on.
//!
//! | where | under which name | what |
//! |---|---|---|
//! | the native message | a dialect's | what that dialect said and the native message has no field for |
//! | a dialect's message | `quorate` | what the native message says and that dialect has no field for |
//! | either | any other | is passed on as it is |

use quorate_core::Refused;
use serde_json::value::RawValue;

use super::Dialect;
use super::said::{Said, Wrong, under};
use super::shape::Shape;

/// Under this name a dialect's message says what its dialect has no field for.
pub(super) const BEYOND: &str = "quorate";
/// Under this name a dialect keeps when a message was written.
const STAMP: &str = "timestamp";

type Pairs = Vec<(String, Box<RawValue>)>;

/// The metadata of a native message, for a reader of one dialect.
pub(super) struct Kept {
    /// As it is; `None` if there is none.
    text: Option<Box<RawValue>>,
    /// What the dialect itself kept.
    own: Pairs,
    /// The rest.
    rest: Pairs,
    /// Whether the rest may stand in the dialect's metadata as it is.
    can_be_passed_on: bool,
}

impl Kept {
    pub(super) fn of(dialect: Dialect, metadata: Option<&str>) -> Self {
        let text = metadata.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        let mut rest = text.as_deref().map_or(Some(Vec::new()), pairs);
        let can_be_passed_on = rest.as_ref().is_some_and(|rest| rest.iter().all(|(name, _)| name != BEYOND));
        let rest = rest.as_mut().map(std::mem::take).unwrap_or_default();
        let (own, rest): (Pairs, Pairs) = rest.into_iter().partition(|(name, _)| name == dialect.as_str());
        let own = own.first().and_then(|(_, own)| pairs(own)).unwrap_or_default();
        Self { text, own, rest, can_be_passed_on }
    }

    /// Something that the dialect kept.
    pub(super) fn own(&self, name: &str) -> Option<&RawValue> {
        self.own.iter().find(|(kept, _)| kept == name).map(|(_, value)| &**value)
    }

    /// A text that the dialect kept.
    pub(super) fn own_text(&self, name: &str) -> Option<String> {
        self.own(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    /// What stands in the dialect's metadata: what is passed on, and what goes beyond the dialect.
    pub(super) fn passed_on(&self, beyond: &Shape) -> Option<Box<RawValue>> {
        let rest = shape_of(&self.rest);
        let all = if beyond.is_empty() { rest } else { rest.with(BEYOND, beyond) };
        (!all.is_empty()).then(|| all.to_raw())
    }

    /// All of it as it is.
    pub(super) fn whole(&self) -> Box<RawValue> {
        self.text.clone().unwrap_or_else(|| RawValue::NULL.to_owned())
    }

    /// Whether a reader of what is passed on gets the same metadata again, if it keeps this itself.
    pub(super) fn is_rebuilt_from(&self, dialect: Dialect, own: &Pairs) -> bool {
        if !self.can_be_passed_on {
            return false;
        }
        let mut rebuilt = self.rest.clone();
        if !own.is_empty() {
            rebuilt.push((dialect.as_str().to_owned(), shape_of(own).to_raw()));
        }
        match &self.text {
            None => rebuilt.is_empty(),
            Some(text) => pairs(text).is_some_and(|before| !before.is_empty() && same(before, rebuilt)),
        }
    }
}

/// Whether two objects say the same, in whatever order.
fn same(mut one: Pairs, mut other: Pairs) -> bool {
    let by_name = |a: &(String, Box<RawValue>), b: &(String, Box<RawValue>)| a.0.cmp(&b.0);
    one.sort_by(by_name);
    other.sort_by(by_name);
    one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| a.0 == b.0 && a.1.get() == b.1.get())
}

fn shape_of(pairs: &Pairs) -> Shape {
    pairs.iter().fold(Shape::default(), |shape, (name, value)| shape.with(name, value))
}

/// The fields of an object in which none is said twice.
fn pairs(raw: &RawValue) -> Option<Pairs> {
    let said = Said::read("", raw).ok()?;
    Some(said.rest().into_iter().map(|(name, value)| (name.into_owned(), value.to_owned())).collect())
}

pub(super) fn beyond_path(metadata_path: &str) -> String {
    under(metadata_path, BEYOND)
}

/// A dialect's metadata: what goes beyond the dialect, and the rest.
pub(super) fn parted(
    dialect: Dialect,
    path: &str,
    metadata: Option<&RawValue>,
) -> Result<(Option<Box<RawValue>>, Pairs), Wrong> {
    let Some(metadata) = metadata else { return Ok((None, Vec::new())) };
    let mut said = Said::read(path, metadata)?;
    let beyond = said.raw(BEYOND).map(ToOwned::to_owned);
    if said.has(dialect.as_str()) {
        return Err(Wrong::new(said.at(dialect.as_str()), "is a name that the hub needs itself")
            .hint("choose another name"));
    }
    let rest = said.rest().into_iter().map(|(name, value)| (name.into_owned(), value.to_owned()));
    Ok((beyond, rest.collect()))
}

/// The metadata of the native message: the whole where it was said, else the rest and what the dialect keeps.
pub(super) fn joined(
    dialect: Dialect,
    path: &str,
    whole: Option<Box<RawValue>>,
    rest: Pairs,
    own: Pairs,
) -> Result<Option<String>, Wrong> {
    let mut all = match whole {
        None => rest,
        Some(whole) if own.is_empty() => {
            return Ok(Some(whole.get().to_owned()).filter(|text| text != "null"));
        }
        Some(whole) => pairs(&whole).ok_or_else(|| no_room(&under(&beyond_path(path), "metadata")))?,
    };
    if !own.is_empty() {
        all.retain(|(name, _)| name != dialect.as_str());
        all.push((dialect.as_str().to_owned(), shape_of(&own).to_raw()));
    }
    Ok((!all.is_empty()).then(|| shape_of(&all).to_raw().get().to_owned()))
}

fn no_room(path: &str) -> Wrong {
    Wrong::new(path, "is no object, so there is no place in it for what the dialect says besides")
}

/// When a message was written, by its author's word, and the metadata without it.
pub(super) fn without_stamp(
    dialect: Dialect,
    metadata: Option<String>,
) -> (Option<Box<RawValue>>, Option<String>) {
    let Some(Ok(raw)) = metadata.clone().map(RawValue::from_string) else { return (None, metadata) };
    let Some(mut all) = pairs(&raw) else { return (None, metadata) };
    let Some(at) = all.iter().position(|(name, _)| name == dialect.as_str()) else { return (None, metadata) };
    let Some(mut own) = pairs(&all[at].1) else { return (None, metadata) };
    let Some(stamp) = own.iter().position(|(name, _)| name == STAMP) else { return (None, metadata) };
    if !is_stamp(dialect, &own[stamp].1) {
        return (None, metadata);
    }
    let (_, stamp) = own.remove(stamp);
    match own.is_empty() {
        true => drop(all.remove(at)),
        false => all[at].1 = shape_of(&own).to_raw(),
    }
    let metadata = (!all.is_empty()).then(|| shape_of(&all).to_raw().get().to_owned());
    (Some(stamp), metadata)
}

/// Whether a dialect would take this for a time.
fn is_stamp(dialect: Dialect, raw: &RawValue) -> bool {
    let wrapped = Shape::default().with(STAMP, raw).to_raw();
    Said::read("", &wrapped).is_ok_and(|mut said| match dialect {
        Dialect::Deliberation => said.number(STAMP).is_ok_and(|number| number.is_some_and(|ms| ms >= 0.0)),
        _ => said.time(STAMP).is_ok_and(|time| time.is_some()),
    })
}

/// The metadata with when the message was written.
pub(super) fn with_stamp(
    dialect: Dialect,
    path: &str,
    metadata: Option<String>,
    stamp: Option<Box<RawValue>>,
) -> Result<Option<String>, Refused> {
    let Some(stamp) = stamp else { return Ok(metadata) };
    let all = metadata.map(RawValue::from_string).transpose().ok().flatten();
    let all = all.map_or(Some(Vec::new()), |raw| pairs(&raw));
    let mut all = all.ok_or_else(|| no_room(&under(path, "metadata")))?;
    let at = all.iter().position(|(name, _)| name == dialect.as_str());
    let own = at.map_or(Some(Vec::new()), |at| pairs(&all.remove(at).1));
    let mut own = own.ok_or_else(|| no_room(&under(&under(path, "metadata"), dialect.as_str())))?;
    own.retain(|(name, _)| name != STAMP);
    own.push((STAMP.to_owned(), stamp));
    all.push((dialect.as_str().to_owned(), shape_of(&own).to_raw()));
    Ok(Some(shape_of(&all).to_raw().get().to_owned()))
}
