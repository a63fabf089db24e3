//! A provider's model over HTTP: paced, retried, and asked for structure in the strongest way that it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::{Completing, Completion, Model, Prompt, Provider, anthropic, chat, gemini, ollama};
use crate::clock::Instant;
use crate::declared::{Settings, Surroundings};
use crate::key::Key;
use crate::limits;
use crate::pace::{Allowed, Pace};
use crate::post::{Answer, Post, Url, status_failure};
use crate::question::{Failure, Kind, Usage, quote};
use crate::retry::{Retry, Tries};

/// How a shape is asked for, the strongest way first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Structure {
    /// The provider makes the answer fit the schema.
    Schema,
    /// The provider makes it JSON; the prompt says which.
    Json,
    /// The prompt alone says so.
    Asked,
}

impl Structure {
    const ALL: [Self; 3] = [Self::Schema, Self::Json, Self::Asked];
}

/// A model at a provider.
pub(super) struct Remote {
    provider: Provider,
    model: String,
    place: String,
    base: Url,
    key: Key,
    post: Post,
    pace: Arc<Pace>,
    retry: Retry,
    /// The strongest way that was not refused yet, as a place in `Structure::ALL`.
    structure: AtomicU8,
}

impl Remote {
    pub(super) fn new(
        provider: Provider,
        model: &str,
        base: Option<&Url>,
        settings: &Settings,
        surroundings: &Surroundings,
    ) -> Self {
        // A provider's key is for that provider: another address gets a key only if the playbook names one for it.
        let own = provider.key_env().filter(|_| base.is_none()).map(str::to_owned);
        let variable = settings.key_env.clone().or(own);
        let base = base.cloned().unwrap_or_else(|| provider.base());
        let allowed = Allowed {
            calls_per_minute: settings.calls_per_minute.or(provider.calls_per_minute()),
            tokens_per_minute: settings.tokens_per_minute,
        };
        let paced = format!("llm:{}/… at {}", provider.name(), base.authority());
        // Groq takes a schema for some of its models only, and JSON for all of them.
        let first = if provider == Provider::Groq { Structure::Json } else { Structure::Schema };
        Self {
            provider,
            model: model.to_owned(),
            place: format!("llm:{}/{model} at {base}", provider.name()),
            base,
            key: Key::new(variable, false, surroundings),
            post: surroundings.post.clone(),
            pace: surroundings.paces.of(&paced, allowed),
            retry: surroundings.retry.clone(),
            structure: AtomicU8::new(first as u8),
        }
    }

    /// Whether there is a key and somebody listens. Nothing is asked.
    pub(super) async fn reach(&self) -> Result<(), Failure> {
        self.key.read(&self.base)?;
        self.post.reach(&self.base).await
    }

    async fn call(&self, prompt: &Prompt, until: Instant) -> Result<Completion, Failure> {
        let mut tries = Tries::new(&self.retry, until);
        let (mut calls, mut notes) = (0, Vec::new());
        loop {
            let structure = self.structure(prompt);
            let failure = match self.once(prompt, structure, until, &mut calls).await {
                Ok(mut said) => {
                    (said.calls, said.notes) = (calls, notes);
                    return Ok(said);
                }
                Err(Trouble::Structure(said)) => {
                    let next = Structure::ALL[structure as usize + 1];
                    self.structure.fetch_max(next as u8, Ordering::Relaxed);
                    notes
                        .push(format!("the server takes no schema, the prompt asks for it instead ({said})"));
                    continue;
                }
                Err(Trouble::Failure(failure)) => failure,
            };
            tries.again(failure).await.map_err(|failure| failure.after(Usage::calls(calls)))?;
        }
    }

    fn structure(&self, prompt: &Prompt) -> Structure {
        let known = Structure::ALL[usize::from(self.structure.load(Ordering::Relaxed)).min(2)];
        if prompt.schema.is_none() { Structure::Asked } else { known }
    }

    async fn once(
        &self,
        prompt: &Prompt,
        structure: Structure,
        until: Instant,
        calls: &mut u32,
    ) -> Result<Completion, Trouble> {
        let headers = self.headers()?;
        let (url, body) = self.request(&in_words(prompt, structure), structure);
        let body = body.to_string().into_bytes();
        // About three bytes a token is high for English; what was not used is given back.
        let reserved = body.len().div_ceil(3) as u64 + u64::from(prompt.answer_tokens_max);
        let turn = self.pace.turn(reserved, until).await?;
        *calls += 1;
        let sent = self.post.send(&url, headers, body, limits::ANSWER_BYTES_MAX).await;
        let answer = sent.map_err(|failure| self.placed(failure))?;
        if !(200..300).contains(&answer.status) {
            turn.settle(0);
            return Err(self.trouble(&answer, structure));
        }
        let said = self.read(&answer)?;
        let used = said.input_tokens + said.output_tokens;
        // Who reports nothing is taken at the estimate.
        turn.settle(if used == 0 { reserved } else { used });
        Ok(said)
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let mut headers = HeaderMap::new();
        if self.provider == Provider::Anthropic {
            let version = HeaderValue::from_static(anthropic::VERSION);
            headers.insert(HeaderName::from_static("anthropic-version"), version);
        }
        if let Some(key) = self.key.read(&self.base)? {
            match self.provider {
                Provider::Gemini => {
                    headers.insert(HeaderName::from_static("x-goog-api-key"), key.header("")?);
                }
                Provider::Anthropic => {
                    headers.insert(HeaderName::from_static("x-api-key"), key.header("")?);
                }
                Provider::Groq | Provider::OpenAi | Provider::Ollama => {
                    headers.insert(AUTHORIZATION, key.header("Bearer ")?);
                }
            }
        }
        Ok(headers)
    }

    fn request(&self, prompt: &Prompt, structure: Structure) -> (Url, Value) {
        let model = &self.model;
        match self.provider {
            // OpenAI's newer models know only the new name of the limit, other servers only the old one.
            Provider::OpenAi if self.base == self.provider.base() => {
                let body = chat::request(model, prompt, structure, "max_completion_tokens");
                (self.base.below(chat::PATH), body)
            }
            Provider::Groq | Provider::OpenAi => {
                (self.base.below(chat::PATH), chat::request(model, prompt, structure, "max_tokens"))
            }
            Provider::Gemini => (self.base.below(&gemini::path(model)), gemini::request(prompt, structure)),
            Provider::Anthropic => {
                (self.base.below(anthropic::PATH), anthropic::request(model, prompt, structure))
            }
            Provider::Ollama => (self.base.below(ollama::PATH), ollama::request(model, prompt, structure)),
        }
    }

    fn read(&self, answer: &Answer) -> Result<Completion, Failure> {
        let body: Value = serde_json::from_slice(&answer.body).map_err(|error| {
            let what = format!("the answer is no JSON: {error}");
            Failure::new(Kind::Broken, &self.place, what).hint("try again; check the address")
        })?;
        let read = match self.provider {
            Provider::Groq | Provider::OpenAi => chat::read(&body),
            Provider::Gemini => gemini::read(&body),
            Provider::Anthropic => anthropic::read(&body),
            Provider::Ollama => ollama::read(&body),
        };
        let mut said = read.map_err(|failure| self.placed(failure))?;
        said.text = self.key.blank(&said.text);
        Ok(said)
    }

    /// What a status that is no success means here.
    fn trouble(&self, answer: &Answer, structure: Structure) -> Trouble {
        let text = self.key.blank(&String::from_utf8_lossy(&answer.body));
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let told = body.pointer("/error/message").or_else(|| body.get("error")).and_then(Value::as_str);
        let said = told.unwrap_or(&text);
        let about_structure =
            ["response_format", "json_schema", "responseJsonSchema", "tool_choice", "format"]
                .iter()
                .any(|word| said.contains(word));
        if matches!(answer.status, 400 | 422) && about_structure && structure != Structure::Asked {
            return Trouble::Structure(quote(said));
        }
        let mut failure = status_failure(&self.place, answer, said);
        if failure.kind == Kind::NoKey {
            let variable = self.provider.key_env().unwrap_or("the variable of `key_env:`");
            failure.hint = format!("check the key in {variable} and what it may do");
        }
        Trouble::Failure(failure)
    }

    fn placed(&self, failure: Failure) -> Failure {
        Failure { place: self.place.clone(), ..failure }
    }
}

impl Model for Remote {
    fn complete<'a>(&'a self, prompt: &'a Prompt, until: Instant) -> Completing<'a> {
        Box::pin(self.call(prompt, until))
    }
}

/// Why there is no completion.
enum Trouble {
    /// The server does not take this way to ask for a shape.
    Structure(String),
    Failure(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// The prompt with the schema in words, where the provider does not see to it.
fn in_words(prompt: &Prompt, structure: Structure) -> Prompt {
    let mut prompt = prompt.clone();
    if let Some(schema) = prompt.schema.as_ref().filter(|_| structure != Structure::Schema) {
        let words = "Answer with nothing but one JSON object that fits this JSON Schema:";
        prompt.system = format!("{}\n\n{words}\n{schema}", prompt.system);
    }
    prompt
}
