//! Topics, and the patterns with wildcards that agents subscribe to.
//!
//! A topic consists of 1 to 16 words separated by dots: `findings.high`. In a pattern, `*` matches any one word, and a
//! final `>` matches one or more words: `findings.*`, `findings.>`, `>`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::hidden_character::is_hidden_character;
use crate::limits::{ID_BYTES_MAX, TOPIC_WORDS_MAX};
use crate::refused::{Code, Refused};
use crate::text_serde::serde_text;

/// The name of a topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Topic(Arc<str>);

/// A pattern that matches topics.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pattern(Arc<str>);

impl Topic {
    /// Validates a topic.
    ///
    /// # Errors
    /// `INVALID` if it is empty, too long, or has too many or invalid words.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Refused> {
        let text = text.as_ref();
        check_length("topic", text)?;
        for word in text.split('.') {
            check_word("topic", text, word)?;
        }
        Ok(Self(text.into()))
    }

    /// The text without the prefix `topic:`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its words, in order.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

impl Pattern {
    /// Validates a pattern.
    ///
    /// # Errors
    /// `INVALID` if it is empty, too long, has too many or invalid words, or `>` before its end.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Refused> {
        let text = text.as_ref();
        check_length("pattern", text)?;
        let mut words = text.split('.').peekable();
        while let Some(word) = words.next() {
            match word {
                "*" => {}
                ">" if words.peek().is_none() => {}
                ">" => {
                    return Err(Refused::new(
                        Code::Invalid,
                        format!("invalid pattern {text:?}: `>` is not the last word"),
                    )
                    .hint("`>` matches all remaining words, so put it last"));
                }
                word => check_word("pattern", text, word)?,
            }
        }
        Ok(Self(text.into()))
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its words, including `*` and `>`.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }

    /// Whether it matches a topic.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut topic = topic.words();
        for word in self.words() {
            match (word, topic.next()) {
                (">", rest) => return rest.is_some(),
                ("*", Some(_)) => {}
                (word, Some(topic_word)) if word == topic_word => {}
                _ => return false,
            }
        }
        topic.next().is_none()
    }
}

fn check_length(kind: &str, text: &str) -> Result<(), Refused> {
    if text.is_empty() || text.len() > ID_BYTES_MAX {
        return Err(Refused::new(Code::Invalid, format!("invalid {kind}: {} bytes", text.len()))
            .limit(ID_BYTES_MAX as u64)
            .hint(format!("use 1 to {ID_BYTES_MAX} bytes")));
    }
    let words = text.split('.').count();
    if words > TOPIC_WORDS_MAX {
        return Err(Refused::new(Code::Invalid, format!("invalid {kind}: {words} words"))
            .limit(TOPIC_WORDS_MAX as u64)
            .hint(format!("use 1 to {TOPIC_WORDS_MAX} words separated by dots")));
    }
    Ok(())
}

fn check_word(kind: &str, text: &str, word: &str) -> Result<(), Refused> {
    let forbidden =
        |ch: char| ch.is_control() || ch.is_whitespace() || is_hidden_character(ch) || "*>:".contains(ch);
    if word.is_empty() || word.contains(forbidden) {
        return Err(Refused::new(Code::Invalid, format!("invalid {kind} {text:?}: invalid word {word:?}"))
            .hint("a word must not be empty or contain spaces, control or invisible characters, `*`, `>` or `:`"));
    }
    Ok(())
}

macro_rules! text_form {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Refused;
            fn from_str(text: &str) -> Result<Self, Refused> {
                Self::new(text)
            }
        }
    };
}

text_form!(Topic);
text_form!(Pattern);
serde_text!(Topic, { "type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX });
serde_text!(Pattern, { "type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX });

#[cfg(test)]
mod tests;
