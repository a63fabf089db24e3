//! Questions that were asked, and their answers.

use quorate::link::Answer;
use quorate::{Code, Error, Refused};
use quorate_core::MessageId;
use serde::Deserialize;

use super::message::MessageIn;
use super::{Text, named};

/// A question that was asked.
#[derive(Deserialize)]
pub(crate) struct BegunIn {
    pub(crate) id: Text<MessageId>,
}

/// Some answers, and where the request stands.
#[derive(Deserialize)]
pub(crate) struct AnswersIn<'a> {
    #[serde(borrow)]
    answers: Vec<MessageIn<'a>>,
    /// `None`: nothing more can come.
    pub(crate) cursor: Option<String>,
    code: Option<String>,
    reason: Option<String>,
}

impl AnswersIn<'_> {
    /// The answers, and what ended the wait if it was not the last of them.
    pub(crate) fn read(self, id: MessageId) -> Result<(Vec<Answer>, Option<Refused>), Error> {
        let answers = self.answers.into_iter().map(MessageIn::read).collect::<Result<_, _>>()?;
        let Some(code) = self.code else { return Ok((answers, None)) };
        let code = named(Code::ALL, Code::as_str, &code)?;
        let detail = match (code, self.reason) {
            (Code::Timeout, _) => format!("no answer to {id} came in time"),
            (Code::Cancelled, None) => format!("request {id} was cancelled"),
            (_, reason) => format!("request {id} has no answer: {}", reason.unwrap_or_default()),
        };
        Ok((answers, Some(Refused::new(code, detail))))
    }
}
