//! Questions to agents, their replies and their failures.

use std::time::Duration;

use quorate_core::{Code, Refused};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;

/// A question to an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentQuestion {
    /// Name of the action: `analyse`, `discuss`.
    pub action: String,
    /// Instructions in plain text; the prompt of the playbook precedes them.
    pub instructions: String,
    /// Input of the action.
    pub payload: Value,
    /// What earlier attempts left and the results of dependencies, for a task.
    pub context: Option<Value>,
    /// JSON Schema of the answer; without one any answer is accepted.
    pub schema: Option<Value>,
    /// Total time for the answer, including rate limiting, retries and the repair attempt.
    pub timeout: Duration,
    /// Maximum number of tokens of the answer.
    pub answer_tokens_max: u32,
}

impl AgentQuestion {
    /// Creates a question with default limits and without a schema.
    #[must_use]
    pub fn new(action: impl Into<String>, payload: Value) -> Self {
        Self {
            action: action.into(),
            instructions: String::new(),
            payload,
            context: None,
            schema: None,
            timeout: limits::ANSWER_TIMEOUT,
            answer_tokens_max: limits::ANSWER_TOKENS_MAX,
        }
    }
}

/// Receives the partial results of a question.
pub type PartialSink<'a> = &'a (dyn Fn(Value) + Send + Sync);

/// Answer of an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentReply {
    /// The answer; `{"text": …, "confidence": null}` if the agent wrote plain text.
    pub body: Value,
    /// Usage of the answer.
    pub usage: Usage,
    /// Remarks about how the answer was obtained.
    pub notes: Vec<String>,
}

/// Resources used for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input tokens, as reported by the provider.
    pub input_tokens: u64,
    /// Output tokens, as reported by the provider.
    pub output_tokens: u64,
    /// Number of calls: processes started or requests sent.
    pub calls: u32,
    /// Cost in millionths of the currency unit; `None` if no prices are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money_micros: Option<u64>,
}

impl Usage {
    /// Usage of calls that have no tokens.
    #[must_use]
    pub fn calls(calls: u32) -> Self {
        Self { calls, ..Self::default() }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.calls += other.calls;
        self.money_micros = match (self.money_micros, other.money_micros) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
    }
}

/// Reason why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The declaration of the agent in the playbook is invalid.
    Misdeclared,
    /// The agent cannot answer this question.
    InvalidQuestion,
    /// The program does not exist.
    NotFound,
    /// There is no valid API key for the provider.
    NoKey,
    /// The server is not listening, or the connection broke before the response.
    Unreachable,
    /// The deadline passed.
    TimedOut,
    /// The rate limit was exceeded.
    RateLimited,
    /// The server failed.
    Overloaded,
    /// The server rejected the request.
    Refused,
    /// The response was incomplete or not in the expected format.
    Broken,
    /// The answer or the request exceeds a limit.
    TooLong,
    /// The answer does not match the schema.
    SchemaMismatch,
    /// The program exited with an error.
    Exited,
    /// No answer is recorded for this question.
    NotRecorded,
}

impl FailureKind {
    /// Whether the same question may succeed later without a change.
    #[must_use]
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::TimedOut | Self::RateLimited | Self::Overloaded | Self::Broken
        )
    }

    fn code(self) -> Code {
        match self {
            Self::Misdeclared
            | Self::InvalidQuestion
            | Self::NotRecorded
            | Self::SchemaMismatch
            | Self::Refused => Code::Invalid,
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

/// Failure of an agent, with a hint for the operator.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{target}: {message}")]
pub struct AgentFailure {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Description of the failure.
    pub message: String,
    /// Target of the call: the command, the URL or the model.
    pub target: String,
    /// What to do next.
    pub hint: String,
    /// Delay requested by the server before a retry.
    pub retry_after: Option<Duration>,
    /// Usage up to the failure.
    pub usage: Box<Usage>,
}

impl AgentFailure {
    /// Creates a failure.
    #[must_use]
    pub fn new(kind: FailureKind, target: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            target: target.into(),
            hint: String::new(),
            retry_after: None,
            usage: Box::default(),
        }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds the usage up to the failure.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        *self.usage += usage;
        self
    }

    /// Whether the same question may succeed later without a change.
    #[must_use]
    pub fn retryable(&self) -> bool {
        self.kind.retryable()
    }
}

impl From<AgentFailure> for Refused {
    fn from(failure: AgentFailure) -> Self {
        Self::new(failure.kind.code(), failure.to_string()).hint(failure.hint)
    }
}

/// Shortens foreign text to one line, for an error.
pub(crate) fn quote(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limits::QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}
