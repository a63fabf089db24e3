//! Lists of items by creation: where each item was created, and the order and start of a list.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::effect::Effect;
use crate::ids::Seq;
use crate::item::{Item, ItemKey, Retention};

/// The position at which an item was created: the record, and the index among the item changes of that record. Updates
/// keep it; an item that is removed and created again gets a new one. Unique within a space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CreationPosition(u64);

impl CreationPosition {
    /// `COMMIT_WORK_MAX` limits the item changes of a record to fewer than `1 << INDEX_BITS`.
    const INDEX_BITS: u32 = 16;

    /// The position of an item change in a record.
    #[must_use]
    pub fn new(seq: Seq, index: usize) -> Self {
        let last = (1 << Self::INDEX_BITS) - 1;
        Self(seq.0 << Self::INDEX_BITS | (index as u64).min(last))
    }

    /// The record that created it.
    #[must_use]
    pub fn seq(self) -> Seq {
        Seq(self.0 >> Self::INDEX_BITS)
    }

    /// As a number that sorts like the position. A sequence number has 47 bits, so it fits into a signed one.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The position with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for CreationPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.seq(), self.0 & ((1 << Self::INDEX_BITS) - 1))
    }
}

/// The text is not a valid position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidPosition;

impl FromStr for CreationPosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (seq, index) = text.split_once('-').ok_or(InvalidPosition)?;
        let seq: u64 = seq.parse().ok().filter(|seq| *seq < 1 << 47).ok_or(InvalidPosition)?;
        let parsed = Self::new(Seq(seq), index.parse().map_err(|_| InvalidPosition)?);
        Some(parsed).filter(|parsed| parsed.to_string() == text).ok_or(InvalidPosition)
    }
}

/// The order of a list of items, and the item after which it starts; `None` starts at the beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ItemRange {
    /// By id, ascending.
    ById(Option<Arc<str>>),
    /// By creation, oldest first.
    Oldest(Option<CreationPosition>),
    /// By creation, newest first.
    Newest(Option<CreationPosition>),
}

impl ItemRange {
    /// Whether an item is part of it.
    #[must_use]
    pub fn contains(&self, created: CreationPosition, id: &str) -> bool {
        match self {
            Self::ById(after) => after.as_deref().is_none_or(|after| id > after),
            Self::Oldest(after) => after.is_none_or(|after| created > after),
            Self::Newest(before) => before.is_none_or(|before| created < before),
        }
    }

    /// Compares two items by the order of the list.
    #[must_use]
    pub fn compare(&self, left: (CreationPosition, &str), right: (CreationPosition, &str)) -> Ordering {
        match self {
            Self::ById(_) => left.1.cmp(right.1),
            Self::Oldest(_) => left.0.cmp(&right.0),
            Self::Newest(_) => right.0.cmp(&left.0),
        }
    }

    /// The same list after an item of it.
    #[must_use]
    pub fn after(&self, created: CreationPosition, id: &Arc<str>) -> Self {
        match self {
            Self::ById(_) => Self::ById(Some(Arc::clone(id))),
            Self::Oldest(_) => Self::Oldest(Some(created)),
            Self::Newest(_) => Self::Newest(Some(created)),
        }
    }
}

/// Creation positions of all existing items, derived from the log.
#[derive(Clone, Debug, Default)]
pub struct CreationIndex(BTreeMap<ItemKey, CreationPosition>);

impl CreationIndex {
    /// Applies the effects of the next record.
    pub fn apply(&mut self, seq: Seq, effects: &[Effect]) {
        for (index, item) in effects.iter().filter_map(changed).enumerate() {
            if item.retention() == Retention::LogOnly {
                self.0.remove(&item.key());
            } else {
                self.0.entry(item.key()).or_insert(CreationPosition::new(seq, index));
            }
        }
    }

    /// Returns the creation position of an item; `None` if it does not exist.
    #[must_use]
    pub fn get(&self, key: &ItemKey) -> Option<CreationPosition> {
        self.0.get(key).copied()
    }

    /// All items that exist, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&ItemKey, CreationPosition)> {
        self.0.iter().map(|(key, created)| (key, *created))
    }
}

fn changed(effect: &Effect) -> Option<&Item> {
    match effect {
        Effect::Changed { item, .. } => Some(item),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{CreationPosition, InvalidPosition};
    use crate::ids::Seq;

    #[test]
    fn positions_sort_by_record_then_by_index() {
        let last = Seq((1 << 47) - 1);
        let positions = [(Seq(9), 0), (Seq(9), 1), (Seq(9), 9_999), (Seq(10), 0), (last, 65_535)];
        let numbers = positions.map(|(seq, index)| CreationPosition::new(seq, index).number());
        assert!(numbers.is_sorted());
        assert_eq!(CreationPosition::from_number(numbers[4]).seq(), last);
        assert!(i64::try_from(numbers[4]).is_ok());
    }

    #[test]
    fn a_position_parses_as_printed() {
        let position = CreationPosition::new(Seq(12), 3);
        assert_eq!(position.to_string(), "12-3");
        assert_eq!("12-3".parse(), Ok(position));
        for invalid in ["", "12", "12-", "-3", "012-3", "12-03", "12-65536", "140737488355328-0", "a-b"] {
            assert_eq!(invalid.parse::<CreationPosition>(), Err(InvalidPosition), "{invalid}");
        }
    }
}
