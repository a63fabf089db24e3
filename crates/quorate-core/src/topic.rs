//! Topics: names of subjects in words, and the patterns under which agents subscribe to them.
//!
//! A topic is 1 to 16 words with dots between them: `findings.high`. A pattern may say `*` for any one word, and `>` at
//! its end for the rest, at least one word: `findings.*`, `findings.>`, `>`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::limits::{ID_BYTES_MAX, TOPIC_WORDS_MAX};
use crate::refused::{Code, Refused};
use crate::text_serde::serde_text;

/// The name of a topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Topic(Arc<str>);

/// Which topics a subscription is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pattern(Arc<str>);

impl Topic {
    /// Checks the text and makes a topic of it.
    ///
    /// # Errors
    /// `INVALID` when it is empty, too long, has too many words, or a word that no topic may have.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Refused> {
        let text = text.as_ref();
        check_length("topic", text)?;
        for word in text.split('.') {
            check_word("topic", text, word)?;
        }
        Ok(Self(text.into()))
    }

    /// The text itself, without `topic:` before it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

impl Pattern {
    /// Checks the text and makes a pattern of it.
    ///
    /// # Errors
    /// `INVALID` when it is empty, too long, has too many words, a word that no pattern may have, or `>` before its end.
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
                        format!("the pattern {text:?} has words after `>`"),
                    )
                    .hint("`>` stands for all the rest, so it comes last"));
                }
                word => check_word("pattern", text, word)?,
            }
        }
        Ok(Self(text.into()))
    }

    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its words, `*` and `>` among them.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }

    /// Whether a topic is one of those it stands for.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut topic = topic.words();
        for word in self.words() {
            match (word, topic.next()) {
                (">", rest) => return rest.is_some(),
                ("*", Some(_)) => {}
                (word, Some(same)) if word == same => {}
                _ => return false,
            }
        }
        topic.next().is_none()
    }
}

fn check_length(what: &str, text: &str) -> Result<(), Refused> {
    if text.is_empty() || text.len() > ID_BYTES_MAX {
        return Err(Refused::new(Code::Invalid, format!("the {what} has {} bytes", text.len()))
            .limit(ID_BYTES_MAX as u64)
            .hint(format!("give 1 to {ID_BYTES_MAX} bytes")));
    }
    let words = text.split('.').count();
    if words > TOPIC_WORDS_MAX {
        return Err(Refused::new(Code::Invalid, format!("the {what} has {words} words"))
            .limit(TOPIC_WORDS_MAX as u64)
            .hint(format!("give 1 to {TOPIC_WORDS_MAX} words with dots between them")));
    }
    Ok(())
}

fn check_word(what: &str, text: &str, word: &str) -> Result<(), Refused> {
    let barred = |letter: char| letter.is_control() || letter.is_whitespace() || "*>:".contains(letter);
    if word.is_empty() || word.contains(barred) {
        return Err(Refused::new(Code::Invalid, format!("the {what} {text:?} has the word {word:?}"))
            .hint("a word has at least one character, and no space, `*`, `>` or `:`"));
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
