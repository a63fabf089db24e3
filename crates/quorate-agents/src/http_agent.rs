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
    post: HttpClient,
    retry: CallRetryPolicy,
}

impl HttpAgent {
    pub(crate) fn new(url: Url, key: ApiKeySource, surroundings: &AgentContext) -> Self {
        Self { url, key, post: surroundings.http.clone(), retry: surroundings.retry.clone() }
    }

    pub(crate) async fn check_reachable(&self) -> Result<(), AgentFailure> {
        self.key.read(&self.url)?;
        self.post.check_reachable(&self.url).await
    }

    /// Asks the server; if the answer does not match the schema, asks once more with the error.
    pub(crate) async fn answer(
        &self,
        question: &AgentQuestion,
        until: Instant,
    ) -> Result<AgentReply, AgentFailure> {
        let shape = AnswerSchema::new(question.schema.as_ref())?;
        let mut usage = Usage::default();
        let mut asked = crate::question_json::question_to_json(question, None);
        for last in [false, true] {
            let body = self.ask(asked.to_string().into_bytes(), until, &mut usage).await?;
            let text = String::from_utf8_lossy(&body);
            let unfit = match shape.parse(&text) {
                Ok(fits) => {
                    return Ok(AgentReply { body: fits.body, usage, notes: fits.note.into_iter().collect() });
                }
                Err(unfit) => unfit,
            };
            if matches!(unfit, InvalidAnswer::NotJson) && (last || !shape.is_present()) {
                let notes = vec!["answered in plain text: confidence unknown".to_owned()];
                return Ok(AgentReply { body: answer_schema::text_answer(&text), usage, notes });
            }
            if last {
                return Err(
                    crate::question_json::schema_mismatch(&self.url.to_string(), &unfit).with_usage(usage)
                );
            }
            asked = crate::question_json::question_to_json(question, Some((&unfit, &text)));
        }
        unreachable!("the last attempt returns")
    }

    async fn ask(
        &self,
        body: Vec<u8>,
        until: Instant,
        usage: &mut Usage,
    ) -> Result<bytes::Bytes, AgentFailure> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.key.read(&self.url)? {
            headers.insert(AUTHORIZATION, key.to_header("Bearer ")?);
        }
        let mut attempts = Attempts::new(&self.retry, until);
        loop {
            usage.calls += 1;
            let sent =
                self.post.send(&self.url, headers.clone(), body.clone(), limits::ANSWER_BYTES_MAX).await;
            let failure = match sent {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(answer.body),
                Ok(answer) => self.failure(&answer),
                Err(failure) => failure,
            };
            attempts.wait_before_retry(failure).await.map_err(|failure| failure.with_usage(*usage))?;
        }
    }

    fn failure(&self, answer: &HttpResponse) -> AgentFailure {
        let message = self.key.redact(&String::from_utf8_lossy(&answer.body));
        let mut failure = status_failure(&self.url.to_string(), answer, &message);
        if failure.kind == FailureKind::NoKey {
            failure.hint = "set `key_env:` to the variable that contains its API key".into();
        }
        failure
    }
}
