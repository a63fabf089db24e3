//! HTTP agents: the question is sent by POST as JSON, the response body is the answer.

use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::agent::AgentContext;
use crate::answer_schema::{self, AnswerSchema, InvalidAnswer};
use crate::api_key::ApiKeySource;
use crate::clock::Instant;
use crate::http_client::{HttpClient, HttpResponse, Url, status_failure};
use crate::limits;
use crate::question::{AgentFailure, AgentQuestion, AgentReply, FailureKind, Usage};
use crate::retry::{Attempts, CallRetryPolicy};

/// An agent behind a URL.
pub(crate) struct HttpAgent {
    pub(crate) url: Url,
    key: ApiKeySource,
    http: HttpClient,
    retry: CallRetryPolicy,
}

impl HttpAgent {
    pub(crate) fn new(url: Url, key: ApiKeySource, context: &AgentContext) -> Self {
        Self { url, key, http: context.http.clone(), retry: context.retry.clone() }
    }

    pub(crate) async fn check_reachable(&self) -> Result<(), AgentFailure> {
        self.key.read(&self.url)?;
        self.http.check_reachable(&self.url).await
    }

    /// Asks the server; if the answer does not match the schema, asks once more with the error.
    pub(crate) async fn answer(
        &self,
        question: &AgentQuestion,
        deadline: Instant,
    ) -> Result<AgentReply, AgentFailure> {
        let schema = AnswerSchema::new(question.schema.as_ref())?;
        let mut usage = Usage::default();
        let mut question_json = crate::question_json::question_to_json(question, None);
        for last in [false, true] {
            let body = self.ask(question_json.to_string().into_bytes(), deadline, &mut usage).await?;
            let text = String::from_utf8_lossy(&body);
            let invalid = match schema.parse(&text) {
                Ok(valid) => {
                    return Ok(AgentReply {
                        body: valid.body,
                        usage,
                        notes: valid.note.into_iter().collect(),
                    });
                }
                Err(invalid) => invalid,
            };
            if matches!(invalid, InvalidAnswer::NotJson) && (last || !schema.is_present()) {
                let notes = vec!["answered in plain text: confidence unknown".to_owned()];
                return Ok(AgentReply { body: answer_schema::text_answer(&text), usage, notes });
            }
            if last {
                return Err(
                    crate::question_json::schema_mismatch(&self.url.to_string(), &invalid).with_usage(usage)
                );
            }
            question_json = crate::question_json::question_to_json(question, Some((&invalid, &text)));
        }
        unreachable!("the last attempt returns")
    }

    async fn ask(
        &self,
        body: Vec<u8>,
        deadline: Instant,
        usage: &mut Usage,
    ) -> Result<bytes::Bytes, AgentFailure> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.key.read(&self.url)? {
            headers.insert(AUTHORIZATION, key.to_header("Bearer ")?);
        }
        let mut attempts = Attempts::new(&self.retry, deadline);
        loop {
            usage.calls += 1;
            let result =
                self.http.send(&self.url, headers.clone(), body.clone(), limits::ANSWER_BYTES_MAX).await;
            let failure = match result {
                Ok(response) if (200..300).contains(&response.status) => return Ok(response.body),
                Ok(response) => self.failure(&response),
                Err(failure) => failure,
            };
            attempts.wait_before_retry(failure).await.map_err(|failure| failure.with_usage(*usage))?;
        }
    }

    fn failure(&self, response: &HttpResponse) -> AgentFailure {
        let message = self.key.redact(&String::from_utf8_lossy(&response.body));
        let mut failure = status_failure(&self.url.to_string(), response, &message);
        if failure.kind == FailureKind::NoKey {
            failure.hint = "set `key_env:` to the variable that contains its API key".into();
        }
        failure
    }
}
