//! Requests: messages whose responses are waited for.

use quorate_core::{
    AgentId, Ask, Code, Eras, MessageId, Refused, Request as CoreRequest, RequestState as CoreState,
};
use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::message::{Message, NewMessage};
use crate::names::AgentNames;
use crate::reading::Reading;

/// A request to send: a message, and how long to wait for its response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewRequest<'a> {
    /// The message.
    #[serde(flatten)]
    pub message: NewMessage<'a>,
    /// How long to wait. By default 30 s for a command, 5 s for a query, 1 s for a request to several agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The request that this one repeats because no response came in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<MessageId>,
}

impl NewRequest<'_> {
    /// The request. Parsed field by field: serde's `flatten` cannot carry raw JSON.
    ///
    /// # Errors
    /// `INVALID` with the path of what is wrong.
    pub fn read(mut fields: Fields<'_>, reading: &Reading<'_>) -> Result<Ask, Refused> {
        let timeout_ms = fields.take_number("timeoutMs")?;
        let again = fields.take_optional_text("again")?.map(|id| id.parse()).transpose()?;
        let message = fields.read::<NewMessage<'_>>()?.read(reading)?;
        Ok(Ask { again, ..Ask::new(message, timeout_ms, None) })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for NewRequest<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NewRequest".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = NewMessage::json_schema(generator);
        let about = "A request to send: a message, and how long to wait for its response.";
        schema.insert("description".to_owned(), about.into());
        if let Some(fields) = schema.get_mut("properties") {
            fields["timeoutMs"] = serde_json::json!({
                "type": ["integer", "null"], "minimum": 1, "maximum": quorate_core::limits::REQUEST_MS_MAX,
                "description": "How long to wait. By default 30 s for a command, 5 s for a query, 1 s for a \
                                request to several agents.",
            });
            fields["again"] = serde_json::json!({
                "type": ["string", "null"],
                "description": "The request that this one repeats because no response came in time.",
            });
        }
        schema
    }
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Request {
    /// Its id, which is that of its message.
    pub id: MessageId,
    /// The agent that sent it.
    pub from: Option<AgentId>,
    /// The responses so far.
    pub answers: Vec<MessageId>,
    /// Its state.
    #[serde(flatten)]
    pub status: RequestStatus,
}

impl Request {
    /// A request as it is shown.
    #[must_use]
    pub fn new(agents: &dyn AgentNames, eras: &Eras, request: &CoreRequest) -> Self {
        Self {
            id: request.id,
            from: agents.agent_id(request.from),
            answers: request.answers().map(|(seq, n)| eras.message_id(seq, n)).collect(),
            status: (&request.state).into(),
        }
    }
}

/// The state of a request, and what ended it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestStatus {
    /// Its state.
    pub state: RequestState,
    /// The error code of what ended it, unless every recipient responded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The states of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the words say it")]
pub enum RequestState {
    Waiting,
    Answered,
    TimedOut,
    Cancelled,
    Failed,
}

impl From<&CoreState> for RequestStatus {
    fn from(state: &CoreState) -> Self {
        let (state, code, reason) = match state {
            CoreState::Waiting => (RequestState::Waiting, None, None),
            CoreState::Answered => (RequestState::Answered, None, None),
            CoreState::TimedOut => (RequestState::TimedOut, Some(Code::Timeout), None),
            CoreState::Cancelled => (RequestState::Cancelled, Some(Code::Cancelled), None),
            CoreState::Failed { code, reason } => (RequestState::Failed, Some(*code), Some(reason.clone())),
        };
        Self { state, code: code.map(|code| code.as_str().to_owned()), reason }
    }
}

impl RequestStatus {
    /// What ended the request, unless every recipient responded. An unknown code of a newer hub is `UNAVAILABLE`.
    #[must_use]
    pub fn refusal(&self, id: MessageId) -> Option<Refused> {
        let code = self.code.as_deref()?;
        let known = Code::ALL.iter().find(|known| known.as_str() == code);
        let code = known.copied().unwrap_or(Code::Unavailable);
        let detail = match (code, &self.reason) {
            (Code::Timeout, _) => format!("no response to {id} in time"),
            (Code::Cancelled, None) => format!("request {id} was cancelled"),
            (_, reason) => {
                format!("request {id} has no response: {}", reason.as_deref().unwrap_or_default())
            }
        };
        Some(Refused::new(code, detail))
    }
}

/// Some responses to a request, and its state.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RequestAnswers"))]
pub struct Answers {
    /// The responses.
    #[serde(flatten)]
    pub page: AnswersPage,
    /// The state of the request.
    #[serde(flatten)]
    pub status: RequestStatus,
}

crate::json::deserialize_in_two_passes!(Answers { page, status });

/// Some responses to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswersPage {
    /// The responses.
    pub answers: Vec<Message>,
    /// Where the next page begins; `null` once no further response can come.
    pub cursor: Option<String>,
}
