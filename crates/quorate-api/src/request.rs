//! Requests: messages for which the sender awaits answers.

use quorate_core::limits::REQUEST_RETRIES_MAX;
use quorate_core::{
    AgentId, AnswerFrom, Code, Generations, Message as CoreMessage, MessageId, PoolNo, Refused,
    Request as CoreRequest, RequestState as CoreState, SendRequest,
};
use serde::{Deserialize, Serialize};

use crate::id_resolver::AgentIds;
use crate::message::{Message, NewMessage};
use crate::parse_context::ParseContext;
use crate::request_body::RequestFields;
#[cfg(feature = "schema")]
use crate::schema;

/// Request to send: a message, and how long to wait for its answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewRequest<'a> {
    /// The message.
    #[serde(flatten)]
    pub message: NewMessage<'a>,
    /// Timeout. By default 30 s for a command, 5 s for a query, 1 s for a request to several agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Earlier request that this one retries after a timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<MessageId>,
    /// Which agents may answer. By default the recipients, and the agents to which they delegate the answer.
    #[serde(skip_serializing_if = "is_default")]
    pub answer_from: AnswerFrom,
}

fn is_default(answer_from: &AnswerFrom) -> bool {
    *answer_from == AnswerFrom::default()
}

impl NewRequest<'_> {
    /// Parses a request. Parsed field by field: serde's `flatten` does not support raw JSON.
    ///
    /// # Errors
    /// `INVALID` with the path of the invalid field.
    pub fn parse(mut fields: RequestFields<'_>, context: &ParseContext<'_>) -> Result<SendRequest, Refused> {
        let options = RequestOptions::take(&mut fields)?;
        let message = fields.parse_into::<NewMessage<'_>>()?.into_core(context)?;
        Ok(options.into_core(message))
    }
}

/// The fields of a request besides its message.
#[derive(Clone, Copy, Debug)]
pub struct RequestOptions {
    timeout_ms: Option<u64>,
    retry_of: Option<MessageId>,
    answer_from: AnswerFrom,
}

impl RequestOptions {
    /// Takes the fields of a request besides its message.
    ///
    /// # Errors
    /// `INVALID` with the path of the invalid field.
    pub fn take(fields: &mut RequestFields<'_>) -> Result<Self, Refused> {
        let timeout_ms = fields.take_number("timeoutMs")?;
        let retry_of = fields.take_optional_string("again")?.map(|id| id.parse()).transpose()?;
        let answer_from =
            fields.take_optional_string("answerFrom")?.map_or(Ok(AnswerFrom::default()), |name| {
                let known = AnswerFrom::ALL.into_iter().find(|choice| choice.as_str() == name);
                known.ok_or_else(|| {
                    Refused::new(Code::Invalid, format!("answerFrom: {name:?} is unknown"))
                        .hint("use asked to accept answers from the recipients only, or omit it")
                })
            })?;
        Ok(Self { timeout_ms, retry_of, answer_from })
    }

    /// Creates the request.
    #[must_use]
    pub fn into_core(self, message: CoreMessage) -> SendRequest {
        let Self { timeout_ms, retry_of, answer_from } = self;
        SendRequest { retry_of, answer_from, ..SendRequest::new(message, timeout_ms, None) }
    }
}

/// Takes `retries`: how often a call that waits for the answer sends the request again.
///
/// # Errors
/// `INVALID` if it is not a number, or too large.
pub fn take_retries(fields: &mut RequestFields<'_>) -> Result<u32, Refused> {
    match fields.take_number("retries")? {
        None => Ok(0),
        Some(retries) if retries <= u64::from(REQUEST_RETRIES_MAX) => Ok(retries as u32),
        Some(retries) => Err(Refused::new(Code::Invalid, format!("retries: {retries} is too large"))
            .limit(u64::from(REQUEST_RETRIES_MAX))
            .hint(format!("retry at most {REQUEST_RETRIES_MAX} times"))),
    }
}

/// Request to send, and how often to retry it.
#[derive(Serialize)]
pub struct RequestWithRetries<'a> {
    /// The request.
    #[serde(flatten)]
    pub request: NewRequest<'a>,
    /// Number of retries.
    pub retries: u32,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RequestWithRetries<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequestWithRetries".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = NewRequest::json_schema(generator);
        schema.insert("description".to_owned(), "Request to send, and how often to retry it.".into());
        if let Some(fields) = schema.get_mut("properties") {
            fields["retries"] = serde_json::json!({
                "type": ["integer", "null"], "minimum": 0, "maximum": REQUEST_RETRIES_MAX, "default": 0,
                "description": "How often the request is sent again after `TIMEOUT`, `UNAVAILABLE` or `OVERLOADED`, \
                                after 1, 2, 4, 8, then 16 s.",
            });
        }
        schema
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for NewRequest<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NewRequest".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = NewMessage::json_schema(generator);
        let description = "Request to send: a message, and how long to wait for its answers.";
        schema.insert("description".to_owned(), description.into());
        if let Some(fields) = schema.get_mut("properties") {
            fields["timeoutMs"] = serde_json::json!({
                "type": ["integer", "null"], "minimum": 1, "maximum": quorate_core::limits::REQUEST_MS_MAX,
                "description": "Timeout. By default 30 s for a command, 5 s for a query, 1 s for a \
                                request to several agents.",
            });
            fields["again"] = serde_json::json!({
                "type": ["string", "null"],
                "description": "Earlier request that this one retries after a timeout.",
            });
            fields["answerFrom"] = serde_json::json!({
                "type": ["string", "null"], "enum": ["chain", "asked", null], "default": "chain",
                "description": "`chain`: the recipients, and the agents to which they delegate the answer. `asked`: \
                                only the recipients.",
            });
        }
        schema
    }
}

/// A request and its answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Unique identifier; the same as that of its message.
    pub id: MessageId,
    /// Agent that sent the request.
    pub from: Option<AgentId>,
    /// Answers received so far.
    pub answers: Vec<MessageId>,
    /// Agents and capability pools to which a recipient delegated its answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegates: Vec<RequestDelegate>,
    /// `asked` if only the recipients may answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answer_from: AnswerFrom,
    /// Current state.
    #[serde(flatten)]
    pub status: RequestStatus,
}

impl Request {
    /// Creates the API representation of a request.
    #[must_use]
    pub fn new(agents: &dyn AgentIds, generations: &Generations, request: &CoreRequest) -> Self {
        Self {
            id: request.id,
            from: agents.agent_id(request.from),
            answers: request.replies().map(|(seq, n)| generations.message_id(seq, n)).collect(),
            delegates: { request.delegates.iter() }
                .map(|delegate| RequestDelegate {
                    agent: delegate.recipient.agent_no().and_then(|agent| agents.agent_id(agent)),
                    pool: delegate.recipient.pool_no(),
                })
                .collect(),
            answer_from: request.answer_from,
            status: (&request.state).into(),
        }
    }
}

/// An agent or a capability pool that may answer a request in place of a recipient.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestDelegate {
    /// Agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolNo>,
}

/// State of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestStatus {
    /// Current state.
    pub state: RequestState,
    /// Error code, unless every recipient answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Reason for a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// States of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
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
    /// Returns the error that ended the request; `None` if every recipient answered. An unknown code from a newer
    /// hub becomes `UNAVAILABLE`.
    #[must_use]
    pub fn refusal(&self, id: MessageId) -> Option<Refused> {
        let code = self.code.as_deref()?;
        let known = Code::ALL.iter().find(|known| known.as_str() == code);
        let code = known.copied().unwrap_or(Code::Unavailable);
        let detail = match (code, &self.reason) {
            (Code::Timeout, _) => format!("no answer to {id} in time"),
            (Code::Cancelled, None) => format!("request {id} was cancelled"),
            (_, reason) => {
                format!("request {id} has no answer: {}", reason.as_deref().unwrap_or_default())
            }
        };
        Some(Refused::new(code, detail))
    }
}

/// Page of answers to a request, with the state of the request.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RequestAnswers"))]
pub struct Answers {
    /// The answers.
    #[serde(flatten)]
    pub page: AnswersPage,
    /// State of the request.
    #[serde(flatten)]
    pub status: RequestStatus,
}

crate::json::deserialize_in_two_passes!(Answers { page, status });

/// Page of answers to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswersPage {
    /// Answers.
    pub answers: Vec<Message>,
    /// Cursor of the next page; `null` once no further answers can arrive.
    pub cursor: Option<String>,
}

/// Answer to a request over the WebSocket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SocketAnswer {
    /// The answer.
    pub message: Message,
}

/// Page of the answers to a request, or a wait for the next one.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerListQuery {
    /// Cursor of the previous page.
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Cursor>"))]
    pub cursor: Option<String>,
    /// How long to wait if there is no further answer yet. Only for the requester.
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub wait_ms: Option<u64>,
}
