//! Requests: ask and wait for the answer. And `why`: where something is, what it waits for, what happens next.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use quorate_api::message::{Message, NewMessage};
use quorate_api::result::Changed;
use quorate_core::limits::REQUEST_MS_MAX;
use quorate_core::{
    ApprovalId, Ask, ClientId, Code, Durability, MessageId, Op, Refused, Request, RequestState, WaitsFor,
    Why, WhyNext,
};
use quorate_engine::{Error, nobody_answers_a_flag, views};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::json;

use super::approvals;
use super::messages::{missing, visible};
use super::{Page, checked_limit};
use crate::api::{Route, get, post, words};
use crate::body::{self, Fields};
use crate::call::{Answer, Call, ok, page};
use crate::observe;
use crate::problem::Problem;
use crate::wire::time;

pub(crate) fn routes() -> Vec<Route> {
    let why_of =
        |path, id, about| get(path, id, about).path::<words::Id>("id").answers::<WhyOut>(200, "Why.");
    vec![
        post("/v1/request", "requests.ask", "Asks, and waits for the answer.")
            .body::<AskIn>()
            .answers::<Message>(200, "The answer.")
            .to(request),
        get(
            "/v1/requests",
            "requests.list",
            "The questions and what came of them, by id. An agent sees its own.",
        )
        .query::<Page>()
        .lists::<RequestOut>("requests")
        .bulk(list),
        get("/v1/requests/{id}", "requests.get", "A question and what came of it.")
            .path::<words::Id>("id")
            .answers::<RequestOut>(200, "The request, for whoever asked and those who run the hub.")
            .to(show),
        post("/v1/requests/{id}/cancel", "requests.cancel", "Wants no answer any more.")
            .path::<words::Id>("id")
            .answers::<Changed>(200, "It is called off.")
            .to(cancel),
        why_of(
            "/v1/messages/{id}/why",
            "messages.why",
            "Where a message is, what it waits for, what happens next.",
        )
        .to(why),
        why_of("/v1/tasks/{id}/why", "tasks.why", "Where a task is, what it waits for, what happens next.")
            .to(why),
        why_of(
            "/v1/procedures/{id}/why",
            "procedures.why",
            "In which phase a procedure is, since when, and who goes on with it.",
        )
        .to(why),
    ]
}

/// A message and how long to wait. Only described here: it is read field by field.
pub(super) struct AskIn;

impl JsonSchema for AskIn {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NewRequest".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = NewMessage::json_schema(generator);
        schema.insert("description".to_owned(), "A message whose answer is waited for.".into());
        if let Some(fields) = schema.get_mut("properties") {
            fields["timeoutMs"] = json!({
                "type": ["integer", "null"], "minimum": 1, "maximum": REQUEST_MS_MAX,
                "description": "A command waits 30 s, a query 5 s, a question to several 1 s if nothing is said.",
            });
            fields["again"] = json!({
                "type": ["string", "null"],
                "description": "The id of the question that this one repeats, since no answer came in time.",
            });
        }
        schema
    }
}

/// Asks, and answers with the response message. A caller that goes away wants no answer any more, unless it asked under a
/// key, or the question has an id: then it may come back.
pub(crate) async fn request(call: Call) -> Answer {
    let ask = asked(&call).await?;
    if ask.message.durability == Durability::Ephemeral {
        let within = ask.timeout_ms.map(Duration::from_millis);
        let message = Arc::unwrap_or_clone(ask.message);
        let asked = call.space.request_ephemeral(&call.principal, call.epoch, message, within);
        let answer = asked.await?;
        return ok(&views::message(answer.id, answer.at, &answer.message));
    }
    let named = ask.message.client_id.is_some();
    let mut asking = match &call.key {
        Some(_) => call.space.request_once(&|ops| call.as_commit(ops), ask).await?,
        None => call.space.request(&call.principal, call.epoch, ask).await?,
    };
    if named {
        asking.stays();
    }
    // The question stands, whatever becomes of the wait.
    let question = asking.id();
    let answer = call.waiting_with(asking.answer(), |refused| refused.asked(question)).await?;
    ok(&views::message(answer.id, answer.at, &answer.message))
}

/// The question that a call asks.
pub(super) async fn asked(call: &Call) -> Result<Ask, Problem> {
    match read_asked(call) {
        Ok(ask) => {
            let mut message = Arc::unwrap_or_clone(ask.message);
            observe::one_continued(&call.app, &call.space, &mut message, call.trace).await;
            Ok(Ask { again: ask.again, ..Ask::new(message, ask.timeout_ms, None) })
        }
        Err(refused) => {
            call.unread(&call.body, refused).await?;
            Err(nobody_answers_a_flag().into())
        }
    }
}

fn read_asked(call: &Call) -> Result<Ask, Refused> {
    let mut fields: Fields<'_> = body::parse(&call.body)?;
    let timeout_ms = fields.take_number("timeoutMs")?;
    let again = fields.take_optional_text("again")?.map(|id| id.parse()).transpose()?;
    let message = fields.read::<NewMessage<'_>>()?.read(&call.reading())?;
    Ok(Ask { again, ..Ask::new(message, timeout_ms, None) })
}

/// A question and what came of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Request")]
pub(super) struct RequestOut {
    id: String,
    from: Option<String>,
    /// The ids of the answers that came.
    answers: Vec<String>,
    #[serde(flatten)]
    stand: Stand,
}

/// Where a request stands.
#[derive(Serialize, JsonSchema)]
pub(super) struct Stand {
    #[schemars(extend("enum" = ["waiting", "answered", "timedOut", "cancelled", "failed"]))]
    state: &'static str,
    /// What ended it, if not everybody answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Those that whoever asks asked; for those who run the hub, all of them.
pub(crate) async fn list(call: Call) -> Answer {
    let wanted: Page = call.query()?;
    let limit = checked_limit(wanted.limit)?;
    let after = wanted.cursor.map(|id| id.parse::<MessageId>()).transpose()?.map(|id| id.to_string().into());
    let found = call.space.requests(call.by(), after, limit).await?;
    let items = found.items.iter().map(|one| (one.id.to_string(), RequestOut::new(&call, one)));
    page("requests", items, found.cursor.as_deref().map(str::to_owned))
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    let request = own(&call, &id).await?;
    ok(&RequestOut::new(&call, &request))
}

/// A request by its id, or by the one that its sender gave the question: for whoever asked, and for those who run the hub.
pub(super) async fn own(call: &Call, id: &str) -> Result<Request, Error> {
    let request = call.space.request_state(id_of(call, id).await?).await?;
    let from = call.space.published().agents.get(request.from).map(|agent| agent.id.clone());
    if call.by().is_some_and(|by| from.as_ref() != Some(by)) {
        return Err(Refused::new(Code::NotFound, format!("there is no request {id}"))
            .hint("a message that nobody waits for is not a request; look at it with `why`")
            .into());
    }
    Ok(request)
}

async fn id_of(call: &Call, id: &str) -> Result<MessageId, Error> {
    match id.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(call.space.message_by_client_id(&ClientId::new(id)?).await?.id),
    }
}

impl RequestOut {
    pub(super) fn new(call: &Call, request: &Request) -> Self {
        let published = call.space.published();
        let answers = request.answers();
        Self {
            id: request.id.to_string(),
            from: published.agents.get(request.from).map(|agent| agent.id.to_string()),
            answers: answers.map(|(seq, n)| published.eras.message_id(seq, n).to_string()).collect(),
            stand: Stand::new(&request.state),
        }
    }
}

impl Stand {
    pub(super) fn new(state: &RequestState) -> Self {
        let (state, code, reason) = match state {
            RequestState::Waiting => ("waiting", None, None),
            RequestState::Answered => ("answered", None, None),
            RequestState::TimedOut => ("timedOut", Some(Code::Timeout), None),
            RequestState::Cancelled => ("cancelled", Some(Code::Cancelled), None),
            RequestState::Failed { code, reason } => ("failed", Some(*code), Some(reason.clone())),
        };
        Self { state, code: code.map(Code::as_str), reason }
    }
}

pub(crate) async fn cancel(Path(id): Path<String>, call: Call) -> Answer {
    let request = id_of(&call, &id).await?;
    let receipt = call.commit(vec![Op::CancelRequest { request }]).await?;
    ok(&Changed::from(&receipt))
}

/// Why a message or a task is where it is.
pub(crate) async fn why(Path(id): Path<String>, call: Call) -> Answer {
    let why = call.space.why(&id).await?;
    ok(&why_shown(&seen(&call, &id, why).await?))
}

/// What an agent may hear of it: what it may see. For others it is not there.
async fn seen(call: &Call, id: &str, why: Why) -> Result<Why, Problem> {
    if call.by().is_none() {
        return Ok(why);
    }
    if let Ok(message) = why.id.parse::<MessageId>() {
        let all = call.space.message(message).await?;
        let sent = all.deliveries.len();
        let view = visible(call, all).ok_or_else(|| missing(id))?;
        if view.message.from.as_ref() == call.by() || view.deliveries.len() == sent {
            return Ok(why);
        }
        let is_own = |part: &Why| view.deliveries.iter().any(|one| one.id.to_string() == part.id);
        return Ok(Why::of_message(why.id, why.parts.into_iter().filter(is_own).collect()));
    }
    if let Ok(approval) = why.id.parse::<ApprovalId>()
        && let Ok(approval) = call.space.approval(&approval).await
        && !approvals::is_for(call, &approval)
    {
        return Err(missing(id).into());
    }
    Ok(why)
}

/// Where something is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Why")]
pub(crate) struct WhyOut {
    id: String,
    state: String,
    /// Whose turn it is, or was.
    whose: Option<String>,
    #[schemars(with = "Option<words::Time>")]
    since: Option<String>,
    attempt: Option<u16>,
    max_attempts: Option<u16>,
    waits_for: Option<WaitOut>,
    /// What happens if nobody does anything.
    next: Option<&'static str>,
    #[schemars(with = "Option<words::Time>")]
    next_at: Option<String>,
    /// All of it in words.
    sentence: String,
    /// Each of its parts: the deliveries of a message, the dependencies of a task.
    parts: Vec<WhyOut>,
}

/// What is waited for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase", tag = "kind")]
#[schemars(rename = "Wait")]
pub(crate) enum WaitOut {
    Time,
    Claim { agent: String },
    Ack { agent: String },
    Return { agent: String },
    Resume,
    Answers { agents: Vec<String> },
    Redrive,
    Tasks { tasks: Vec<String> },
    Approval { approval: String },
    Step { agent: String },
}

pub(crate) fn why_shown(why: &Why) -> WhyOut {
    let next = match why.next {
        WhyNext::Nothing => None,
        WhyNext::GivenOut => Some("given out"),
        WhyNext::GivenOutAgain => Some("given out again"),
        WhyNext::DeadLetter => Some("dead letter"),
        WhyNext::Expires => Some("expires"),
        WhyNext::TimesOut => Some("times out"),
        WhyNext::Starts => Some("starts"),
        WhyNext::GivenUp => Some("given up"),
    };
    WhyOut {
        id: why.id.clone(),
        state: why.state.to_string(),
        whose: why.whose.clone(),
        since: why.since.map(time::shown),
        attempt: why.attempt.map(|(attempt, _)| attempt),
        max_attempts: why.attempt.map(|(_, max)| max),
        waits_for: waits_for(&why.waits_for),
        next,
        next_at: why.next_at.map(time::shown),
        sentence: why.sentence.clone(),
        parts: why.parts.iter().map(why_shown).collect(),
    }
}

fn waits_for(what: &WaitsFor) -> Option<WaitOut> {
    Some(match what {
        WaitsFor::Nothing => return None,
        WaitsFor::Time => WaitOut::Time,
        WaitsFor::Claim(agent) => WaitOut::Claim { agent: agent.to_string() },
        WaitsFor::Ack(agent) => WaitOut::Ack { agent: agent.to_string() },
        WaitsFor::Return(agent) => WaitOut::Return { agent: agent.to_string() },
        WaitsFor::Resume => WaitOut::Resume,
        WaitsFor::Answers(agents) => {
            WaitOut::Answers { agents: agents.iter().map(ToString::to_string).collect() }
        }
        WaitsFor::Redrive => WaitOut::Redrive,
        WaitsFor::Tasks(tasks) => WaitOut::Tasks { tasks: tasks.iter().map(ToString::to_string).collect() },
        WaitsFor::Approval(approval) => WaitOut::Approval { approval: approval.to_string() },
        WaitsFor::Step(agent) => WaitOut::Step { agent: agent.to_string() },
    })
}
