//! Providers of language models: URLs, API keys and rate limits.

use crate::http_client::Url;

/// A provider of language models.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// Groq.
    Groq,
    /// Google's Gemini.
    Gemini,
    /// `OpenAI`, and every server with a compatible chat API.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Ollama, on this machine unless a URL is given.
    Ollama,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 5] = [Self::Groq, Self::Gemini, Self::OpenAi, Self::Anthropic, Self::Ollama];

    /// Name in `llm:NAME/MODEL`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Groq => "groq",
            Self::Gemini => "gemini",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the provider with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name() == name)
    }

    /// Environment variable of the API key; `None` for Ollama.
    #[must_use]
    pub fn key_env(self) -> Option<&'static str> {
        match self {
            Self::Groq => Some("GROQ_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Ollama => None,
        }
    }

    /// Default limit of calls per minute, if known.
    #[must_use]
    pub fn calls_per_minute(self) -> Option<u32> {
        match self {
            Self::Groq => Some(30),
            Self::Gemini => Some(15),
            Self::OpenAi | Self::Anthropic | Self::Ollama => None,
        }
    }

    /// An example model, for hints.
    pub(crate) fn example_model(self) -> &'static str {
        match self {
            Self::Groq => "groq/llama-3.3-70b-versatile",
            Self::Gemini => "gemini/gemini-2.5-flash",
            Self::OpenAi => "openai/gpt-5-mini",
            Self::Anthropic => "anthropic/claude-sonnet-4-5",
            Self::Ollama => "ollama/llama3.1",
        }
    }

    /// Base URL.
    pub(crate) fn base_url(self) -> Url {
        let (secure, host, port, target) = match self {
            Self::Groq => (true, "api.groq.com", 443, "/openai/v1"),
            Self::Gemini => (true, "generativelanguage.googleapis.com", 443, "/v1beta"),
            Self::OpenAi => (true, "api.openai.com", 443, "/v1"),
            Self::Anthropic => (true, "api.anthropic.com", 443, "/v1"),
            Self::Ollama => (false, "127.0.0.1", 11434, "/"),
        };
        Url { secure, host: host.to_owned(), port, target: target.to_owned() }
    }
}
