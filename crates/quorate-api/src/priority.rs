//! Priorities in requests: a name, or a number on the scale of messages (0 to 3) or tasks (1 to 10).

use std::fmt;

use quorate_core::{Code, Priority, Refused};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NAMES: [(&str, Priority); 5] = [
    ("low", Priority::LOW),
    ("normal", Priority::NORMAL),
    ("medium", Priority::NORMAL),
    ("high", Priority::HIGH),
    ("urgent", Priority::URGENT),
];

/// Priority of a message, a lock or an approval: `low`, `normal` (or `medium`), `high`, `urgent`, or 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessagePriority(pub Priority);

/// Priority of a task: `low`, `normal` (or `medium`), `high`, `urgent`, or 1 to 10.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskPriority(pub Priority);

impl Serialize for MessagePriority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0.level)
    }
}

impl<'de> Deserialize<'de> for MessagePriority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scale = Scale {
            numbers: "0 to 3",
            priority: |number| match number {
                0..=3 => Some(Priority { level: number, rank: 0 }),
                _ => None,
            },
        };
        deserializer.deserialize_any(scale).map(Self)
    }
}

impl Serialize for TaskPriority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.rank {
            0 => serializer.serialize_str(self.0.as_str()),
            rank => serializer.serialize_u8(rank),
        }
    }
}

impl<'de> Deserialize<'de> for TaskPriority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scale = Scale { numbers: "1 to 10", priority: |number| Priority::from_ten_scale(number).ok() };
        deserializer.deserialize_any(scale).map(Self)
    }
}

/// Parses a priority from the name and the rank in a response.
///
/// # Errors
/// `INVALID` if the name is unknown.
pub fn parse_priority(name: &str, rank: u8) -> Result<Priority, Refused> {
    let known = NAMES.iter().find(|(known, _)| *known == name);
    let (_, priority) =
        known.ok_or_else(|| Refused::new(Code::Invalid, format!("unknown priority {name:?}")))?;
    Ok(Priority { rank, ..*priority })
}

struct Scale {
    numbers: &'static str,
    priority: fn(u8) -> Option<Priority>,
}

impl Scale {
    fn invalid_value<E: Error>(&self, value: &dyn fmt::Display) -> E {
        E::custom(format_args!("invalid value: `{value}`, expected {self}"))
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "low, normal, high, urgent, or a number from {}", self.numbers)
    }
}

impl Visitor<'_> for Scale {
    type Value = Priority;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Priority, E> {
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, priority)| *priority).ok_or_else(|| self.invalid_value(&format_args!("\"{text}\"")))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Priority, E> {
        let priority = u8::try_from(number).ok().and_then(self.priority);
        priority.ok_or_else(|| self.invalid_value(&number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Priority, E> {
        Err(self.invalid_value(&number))
    }
}

#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{MessagePriority, NAMES, TaskPriority};

    fn scale(min: u8, max: u8) -> Schema {
        json_schema!({"anyOf": [
            {"type": "string", "enum": NAMES.map(|(name, _)| name)},
            {"type": "integer", "minimum": min, "maximum": max},
        ]})
    }

    macro_rules! schema_of {
        ($type:ident, $name:literal, $description:literal, $min:literal, $max:literal) => {
            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    $name.into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    let mut schema = scale($min, $max);
                    schema.insert("description".into(), $description.into());
                    schema
                }
            }
        };
    }

    schema_of!(MessagePriority, "Priority", "Name, or a number from 0 (low) to 3 (urgent).", 0, 3);
    schema_of!(TaskPriority, "TaskPriority", "Name, or a number from 1 (lowest) to 10 (highest).", 1, 10);
}
