//! What an agent is asked, what it answers, and how it fails.

use std::time::Duration;

use quorate_core::{Code, Refused};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;

/// One thing that an agent is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// What to do, in a word: `analyse`, `discuss`.
    pub action: String,
    /// How to do it, in plain text; what the playbook's prompt says comes before it.
    pub instructions: String,
    /// What to do it with.
    pub payload: Value,
    /// The JSON Schema of the answer; without one any answer will do.
    pub schema: Option<Value>,
    /// How long the answer may take in all: waiting for a turn, retries and the second try included.
    pub within: Duration,
    /// How many tokens the answer may have.
    pub answer_tokens_max: u32,
}

impl Question {
    /// A question with the usual limits and no wish for a shape.
    #[must_use]
    pub fn new(action: impl Into<String>, payload: Value) -> Self {
        Self {
            action: action.into(),
            instructions: String::new(),
            payload,
            schema: None,
            within: limits::WITHIN,
            answer_tokens_max: limits::ANSWER_TOKENS_MAX,
        }
    }
}

/// What an agent answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Reply {
    /// The answer; `{"text": …, "confidence": null}` if the agent wrote plain text.
    pub body: Value,
    /// What it took.
    pub usage: Usage,
    /// What a reader should know about how the answer came about.
    pub notes: Vec<String>,
}

/// What answering took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read, as the provider reported them.
    pub input_tokens: u64,
    /// Tokens written, as the provider reported them.
    pub output_tokens: u64,
    /// How often somebody was called: processes started, requests sent.
    pub calls: u32,
    /// What it cost, in millionths of the currency of the price list; nothing where no prices are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money_micros: Option<u64>,
}

impl Usage {
    /// Calls that have no tokens.
    #[must_use]
    pub fn calls(calls: u32) -> Self {
        Self { calls, ..Self::default() }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens += more.input_tokens;
        self.output_tokens += more.output_tokens;
        self.calls += more.calls;
        self.money_micros = match (self.money_micros, more.money_micros) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What the playbook says about the agent cannot be.
    Misdeclared,
    /// The program is not there.
    NotFound,
    /// There is no key for the provider.
    NoKey,
    /// Nobody listens there, or the connection broke before an answer began.
    Unreachable,
    /// Not in time.
    TimedOut,
    /// Too many calls or tokens a minute.
    RateLimited,
    /// The other side has a problem of its own.
    Overloaded,
    /// The other side said no.
    Refused,
    /// The answer broke off, or is not what such a server answers.
    Broken,
    /// More than is read.
    TooLong,
    /// The answer is not of the shape that was asked for.
    WrongShape,
    /// The program ended with a failure.
    Exited,
    /// Nothing was recorded for this question.
    NotRecorded,
}

impl Kind {
    /// Whether the same question may be answered later without a change.
    #[must_use]
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::TimedOut | Self::RateLimited | Self::Overloaded | Self::Broken
        )
    }

    fn code(self) -> Code {
        match self {
            Self::Misdeclared | Self::NotRecorded | Self::WrongShape | Self::Refused => Code::Invalid,
            Self::NotFound => Code::NotFound,
            Self::NoKey => Code::Unauthenticated,
            Self::Unreachable | Self::Broken | Self::Exited => Code::Unavailable,
            Self::TimedOut => Code::Timeout,
            Self::RateLimited => Code::LimitExceeded,
            Self::Overloaded => Code::Overloaded,
            Self::TooLong => Code::TooLarge,
        }
    }
}

/// Why there is no answer, for the one who must act.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Failure {
    /// What kind of failure.
    pub kind: Kind,
    /// What is wrong.
    pub what: String,
    /// Where: the command, the address, the model.
    pub place: String,
    /// What to do next.
    pub hint: String,
    /// When the other side wants to be asked again, if it said so.
    pub retry_after: Option<Duration>,
    /// What it took until then.
    pub usage: Box<Usage>,
}

impl Failure {
    /// A failure at a place.
    #[must_use]
    pub fn new(kind: Kind, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            place: place.into(),
            hint: String::new(),
            retry_after: None,
            usage: Box::default(),
        }
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Counts what it took.
    #[must_use]
    pub fn after(mut self, usage: Usage) -> Self {
        *self.usage += usage;
        self
    }

    /// Whether the same question may be answered later without a change.
    #[must_use]
    pub fn retryable(&self) -> bool {
        self.kind.retryable()
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::new(failure.kind.code(), failure.to_string()).hint(failure.hint)
    }
}

/// Somebody else's text, short and on one line, for an error.
pub(crate) fn quote(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limits::QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}
