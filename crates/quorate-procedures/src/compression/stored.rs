//! The original of a compressed context as the content of a memory entry, so that other agents can expand it.

use serde::{Deserialize, Serialize};

use super::part::{FULL, UnknownPart, range};

/// Content of the memory entry: the parts of the original, which are the original when they are concatenated. The parts are stored
/// as they were referenced, so that a later release that divides texts differently expands the same bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredContext {
    /// The parts in order.
    pub parts: Vec<StoredPart>,
}

/// A part of a [`StoredContext`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredPart {
    /// Reference that expands it, such as `T3`.
    pub id: String,
    /// Heading or field name, shortened.
    pub label: String,
    /// Text of the part, byte for byte.
    pub text: String,
}

impl StoredContext {
    /// Divides a context into its parts.
    #[must_use]
    pub fn new(context: &str) -> Self {
        let parts = super::parts(context).into_iter().enumerate();
        let parts = parts.map(|(index, part)| StoredPart {
            id: format!("T{}", index + 1),
            label: part.label,
            text: part.text.to_owned(),
        });
        Self { parts: parts.collect() }
    }

    /// Returns the text of a reference, as [`expand`](super::expand) does.
    ///
    /// # Errors
    /// If there is no such part.
    pub fn expand(&self, reference: &str) -> Result<String, UnknownPart> {
        let range = range(self.parts.len(), reference)?;
        Ok(self.parts[range].iter().map(|part| part.text.as_str()).collect())
    }

    /// Returns the original.
    #[must_use]
    pub fn original(&self) -> String {
        self.expand(FULL).unwrap_or_default()
    }
}
