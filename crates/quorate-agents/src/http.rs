//! HTTP agents: the question is sent by POST as JSON, the response body is the answer.

use hyper::header::{AUTHORIZATION, HeaderMap};

use crate::clock::Instant;
use crate::declared::Surroundings;
use crate::key::Key;
use crate::limits;
use crate::post::{Answer, Post, Url, status_failure};
use crate::question::{Failure, Kind, Question, Reply, Usage};
use crate::retry::{Retry, Tries};
use crate::shape::{self, Shape, Unfit};

/// An agent behind a URL.
pub(crate) struct Server {
    pub(crate) url: Url,
    key: Key,
    post: Post,
    retry: Retry,
}

impl Server {
    pub(crate) fn new(url: Url, key: Key, surroundings: &Surroundings) -> Self {
        Self { url, key, post: surroundings.post.clone(), retry: surroundings.retry.clone() }
    }

    pub(crate) async fn reach(&self) -> Result<(), Failure> {
        self.key.read(&self.url)?;
        self.post.reach(&self.url).await
    }

    /// Asks the server; if the answer does not match the schema, asks once more with the error.
    pub(crate) async fn answer(&self, question: &Question, until: Instant) -> Result<Reply, Failure> {
        let shape = Shape::new(question.schema.as_ref())?;
        let mut usage = Usage::default();
        let mut asked = crate::ask::question(question, None);
        for last in [false, true] {
            let body = self.ask(asked.to_string().into_bytes(), until, &mut usage).await?;
            let text = String::from_utf8_lossy(&body);
            let unfit = match shape.read(&text) {
                Ok(fits) => {
                    return Ok(Reply { body: fits.body, usage, notes: fits.note.into_iter().collect() });
                }
                Err(unfit) => unfit,
            };
            if matches!(unfit, Unfit::Text) && (last || !shape.is_asked_for()) {
                let notes = vec!["answered in plain text: confidence unknown".to_owned()];
                return Ok(Reply { body: shape::plain(&text), usage, notes });
            }
            if last {
                return Err(crate::ask::wrong_shape(&self.url.to_string(), &unfit).after(usage));
            }
            asked = crate::ask::question(question, Some((&unfit, &text)));
        }
        unreachable!("the last attempt returns")
    }

    async fn ask(&self, body: Vec<u8>, until: Instant, usage: &mut Usage) -> Result<bytes::Bytes, Failure> {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.key.read(&self.url)? {
            headers.insert(AUTHORIZATION, key.header("Bearer ")?);
        }
        let mut attempts = Tries::new(&self.retry, until);
        loop {
            usage.calls += 1;
            let sent =
                self.post.send(&self.url, headers.clone(), body.clone(), limits::ANSWER_BYTES_MAX).await;
            let failure = match sent {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(answer.body),
                Ok(answer) => self.failure(&answer),
                Err(failure) => failure,
            };
            attempts.again(failure).await.map_err(|failure| failure.after(*usage))?;
        }
    }

    fn failure(&self, answer: &Answer) -> Failure {
        let message = self.key.blank(&String::from_utf8_lossy(&answer.body));
        let mut failure = status_failure(&self.url.to_string(), answer, &message);
        if failure.kind == Kind::NoKey {
            failure.hint = "set `key_env:` to the variable that contains its API key".into();
        }
        failure
    }
}
