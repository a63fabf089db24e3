//! A provider's model over HTTP: rate limited, retried, with the strongest structured-output mode that the server
//! supports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::{Completion, CompletionFuture, Model, Prompt, Provider, anthropic, gemini, ollama, openai};
use crate::agent::{AgentContext, AgentSettings};
use crate::api_key::ApiKeySource;
use crate::clock::Instant;
use crate::http_client::{HttpClient, HttpResponse, Url, status_failure};
use crate::limits;
use crate::question::{AgentFailure, FailureKind, Usage, quote};
use crate::rate_limit::{ProviderLimits, RateLimiter};
use crate::retry::{Attempts, CallRetryPolicy};

/// Structured-output mode, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum StructuredOutput {
    /// The provider enforces the schema.
    Schema,
    /// The provider enforces JSON; the schema is part of the prompt.
    Json,
    /// The schema is part of the prompt only.
    PromptOnly,
}

impl StructuredOutput {
    const ALL: [Self; 3] = [Self::Schema, Self::Json, Self::PromptOnly];
}

/// A model at a provider.
pub(super) struct ProviderModel {
    provider: Provider,
    model: String,
    label: String,
    base: Url,
    key: ApiKeySource,
    http: HttpClient,
    limiter: Arc<RateLimiter>,
    retry: CallRetryPolicy,
    /// The strongest mode that was not rejected yet, as an index into `StructuredOutput::ALL`.
    structure: AtomicU8,
}

impl ProviderModel {
    pub(super) fn new(
        provider: Provider,
        model: &str,
        base: Option<&Url>,
        settings: &AgentSettings,
        context: &AgentContext,
    ) -> Self {
        // A provider's key must not be sent elsewhere: another URL gets a key only if the playbook names one for it.
        let default_variable = provider.key_env().filter(|_| base.is_none()).map(str::to_owned);
        let variable = settings.key_env.clone().or(default_variable);
        let base = base.cloned().unwrap_or_else(|| provider.base_url());
        let rate_limits = ProviderLimits {
            calls_per_minute: settings.calls_per_minute.or(provider.calls_per_minute()),
            tokens_per_minute: settings.tokens_per_minute,
        };
        let limiter_label = format!("llm:{}/… at {}", provider.name(), base.authority());
        // Groq supports schemas for some models only, and JSON mode for all.
        let initial =
            if provider == Provider::Groq { StructuredOutput::Json } else { StructuredOutput::Schema };
        Self {
            provider,
            model: model.to_owned(),
            label: format!("llm:{}/{model} at {base}", provider.name()),
            base,
            key: ApiKeySource::new(variable, false, context),
            http: context.http.clone(),
            limiter: context.rate_limiters.get(&limiter_label, rate_limits),
            retry: context.retry.clone(),
            structure: AtomicU8::new(initial as u8),
        }
    }

    /// Checks that there is an API key and that the provider is listening, without a request.
    pub(super) async fn check_reachable(&self) -> Result<(), AgentFailure> {
        self.key.read(&self.base)?;
        self.http.check_reachable(&self.base).await
    }

    async fn call(&self, prompt: &Prompt, deadline: Instant) -> Result<Completion, AgentFailure> {
        let mut attempts = Attempts::new(&self.retry, deadline);
        let (mut calls, mut notes) = (0, Vec::new());
        loop {
            let structure = self.structure(prompt);
            let failure = match self.attempt(prompt, structure, deadline, &mut calls).await {
                Ok(mut completion) => {
                    (completion.calls, completion.notes) = (calls, notes);
                    return Ok(completion);
                }
                Err(CallError::Structure(message)) => {
                    let next = StructuredOutput::ALL[structure as usize + 1];
                    self.structure.fetch_max(next as u8, Ordering::Relaxed);
                    notes.push(format!(
                        "the server does not support schemas; the schema was added to the prompt ({message})"
                    ));
                    continue;
                }
                Err(CallError::Failure(failure)) => failure,
            };
            attempts
                .wait_before_retry(failure)
                .await
                .map_err(|failure| failure.with_usage(Usage::calls(calls)))?;
        }
    }

    fn structure(&self, prompt: &Prompt) -> StructuredOutput {
        let supported = StructuredOutput::ALL[usize::from(self.structure.load(Ordering::Relaxed)).min(2)];
        if prompt.schema.is_none() { StructuredOutput::PromptOnly } else { supported }
    }

    async fn attempt(
        &self,
        prompt: &Prompt,
        structure: StructuredOutput,
        deadline: Instant,
        calls: &mut u32,
    ) -> Result<Completion, CallError> {
        let headers = self.headers()?;
        let (url, body) = self.request(&with_schema_in_prompt(prompt, structure), structure);
        let body = body.to_string().into_bytes();
        // Three bytes per token is a high estimate for English; unused tokens are released afterwards.
        let reserved = body.len().div_ceil(3) as u64 + u64::from(prompt.answer_tokens_max);
        let reservation = self.limiter.acquire(reserved, deadline).await?;
        *calls += 1;
        let result = self.http.send(&url, headers, body, limits::ANSWER_BYTES_MAX).await;
        let response = result.map_err(|failure| self.with_target(failure))?;
        if !(200..300).contains(&response.status) {
            reservation.settle(0);
            return Err(self.call_error(&response, structure));
        }
        let completion = self.read(&response)?;
        let used = completion.input_tokens + completion.output_tokens;
        // If the server reports no usage, the estimate is kept.
        reservation.settle(if used == 0 { reserved } else { used });
        Ok(completion)
    }

    fn headers(&self) -> Result<HeaderMap, AgentFailure> {
        let mut headers = HeaderMap::new();
        if self.provider == Provider::Anthropic {
            let version = HeaderValue::from_static(anthropic::VERSION);
            headers.insert(HeaderName::from_static("anthropic-version"), version);
        }
        if let Some(key) = self.key.read(&self.base)? {
            match self.provider {
                Provider::Gemini => {
                    headers.insert(HeaderName::from_static("x-goog-api-key"), key.to_header("")?);
                }
                Provider::Anthropic => {
                    headers.insert(HeaderName::from_static("x-api-key"), key.to_header("")?);
                }
                Provider::Groq | Provider::OpenAi | Provider::Ollama => {
                    headers.insert(AUTHORIZATION, key.to_header("Bearer ")?);
                }
            }
        }
        Ok(headers)
    }

    fn request(&self, prompt: &Prompt, structure: StructuredOutput) -> (Url, Value) {
        let model = &self.model;
        match self.provider {
            // OpenAI's newer models only accept the new name of the limit, other servers only the old one.
            Provider::OpenAi if self.base == self.provider.base_url() => {
                let body = openai::build_request(model, prompt, structure, "max_completion_tokens");
                (self.base.join(openai::PATH), body)
            }
            Provider::Groq | Provider::OpenAi => {
                (self.base.join(openai::PATH), openai::build_request(model, prompt, structure, "max_tokens"))
            }
            Provider::Gemini => {
                (self.base.join(&gemini::path(model)), gemini::build_request(prompt, structure))
            }
            Provider::Anthropic => {
                (self.base.join(anthropic::PATH), anthropic::build_request(model, prompt, structure))
            }
            Provider::Ollama => {
                (self.base.join(ollama::PATH), ollama::build_request(model, prompt, structure))
            }
        }
    }

    fn read(&self, response: &HttpResponse) -> Result<Completion, AgentFailure> {
        let body: Value = serde_json::from_slice(&response.body).map_err(|error| {
            let message = format!("the response is not valid JSON: {error}");
            AgentFailure::new(FailureKind::Broken, &self.label, message).hint("try again; check the URL")
        })?;
        let parsed = match self.provider {
            Provider::Groq | Provider::OpenAi => openai::parse_response(&body),
            Provider::Gemini => gemini::parse_response(&body),
            Provider::Anthropic => anthropic::parse_response(&body),
            Provider::Ollama => ollama::parse_response(&body),
        };
        let mut completion = parsed.map_err(|failure| self.with_target(failure))?;
        completion.text = self.key.redact(&completion.text);
        Ok(completion)
    }

    /// Classifies an error status.
    fn call_error(&self, response: &HttpResponse, structure: StructuredOutput) -> CallError {
        let text = self.key.redact(&String::from_utf8_lossy(&response.body));
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let message = body.pointer("/error/message").or_else(|| body.get("error")).and_then(Value::as_str);
        let message = message.unwrap_or(&text);
        let about_structure =
            ["response_format", "json_schema", "responseJsonSchema", "tool_choice", "format"]
                .iter()
                .any(|word| message.contains(word));
        if matches!(response.status, 400 | 422)
            && about_structure
            && structure != StructuredOutput::PromptOnly
        {
            return CallError::Structure(quote(message));
        }
        let mut failure = status_failure(&self.label, response, message);
        if failure.kind == FailureKind::NoKey {
            let variable = self.provider.key_env().unwrap_or("the variable of `key_env:`");
            failure.hint = format!("check the key in {variable} and its permissions");
        }
        CallError::Failure(failure)
    }

    fn with_target(&self, failure: AgentFailure) -> AgentFailure {
        AgentFailure { target: self.label.clone(), ..failure }
    }
}

impl Model for ProviderModel {
    fn complete<'a>(&'a self, prompt: &'a Prompt, deadline: Instant) -> CompletionFuture<'a> {
        Box::pin(self.call(prompt, deadline))
    }
}

/// Reason why a call failed.
enum CallError {
    /// The server does not support this structured-output mode.
    Structure(String),
    Failure(AgentFailure),
}

impl From<AgentFailure> for CallError {
    fn from(failure: AgentFailure) -> Self {
        Self::Failure(failure)
    }
}

/// Adds the schema to the prompt, if the provider does not enforce it.
fn with_schema_in_prompt(prompt: &Prompt, structure: StructuredOutput) -> Prompt {
    let mut prompt = prompt.clone();
    if let Some(schema) = prompt.schema.as_ref().filter(|_| structure != StructuredOutput::Schema) {
        let instruction = "Answer with nothing but one JSON object that fits this JSON Schema:";
        prompt.system = format!("{}\n\n{instruction}\n{schema}", prompt.system);
    }
    prompt
}
