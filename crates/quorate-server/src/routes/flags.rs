//! Conduct flags: anybody raises them, only moderators learn that there are any. Nobody else's answer depends on them: who
//! raises one is told the same few bytes each time, who may not read them is refused alike, flags or no flags.

use axum::extract::Path;
use axum::http::StatusCode;
use quorate_api::audit::Checkpoint;
use quorate_core::{Code, Deed, Key, Refused, Timestamp};
use quorate_engine::{Flag, FlagAsked, FlagState, Flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::audit::space_of;
use super::checked_limit;
use crate::api::{Route, get, post, words};
use crate::body;
use crate::call::{Answer, Call, answer, ok, page};
use crate::wire::time;
use quorate_api::result::FlagReceived;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        post("/v1/flags", "flags.raise", "Tells the moderators of a concern, and nobody else.")
            .is(Deed::Report)
            .body::<words::Object>()
            .answers::<FlagReceived>(201, "It is on disk. There is nothing else to tell.")
            .to(raise),
        // No bulk read: these are counted in public figures.
        get("/v1/flags", "flags.list", "List flags, oldest first. For moderators.")
            .is(Deed::Moderate)
            .query::<Filter>()
            .lists::<FlagOut>("flags")
            .to(list),
        get("/v1/flags/checkpoint", "flags.checkpoint", "The head of the private chain. For moderators.")
            .is(Deed::Moderate)
            .answers::<Checkpoint>(200, "What `quorate verify` checks a copy against.")
            .to(checkpoint),
        get("/v1/flags/{id}", "flags.get", "One flag. For moderators.")
            .is(Deed::Moderate)
            .path::<words::Id>("id")
            .answers::<FlagOut>(200, "The flag.")
            .to(show),
        post("/v1/flags/{id}/resolve", "flags.resolve", "Settles a flag. For moderators.")
            .is(Deed::Moderate)
            .path::<words::Id>("id")
            .body::<ResolveIn>()
            .answers::<FlagOut>(200, "It is resolved.")
            .to(resolve),
    ]
}

pub(crate) async fn raise(call: Call) -> Answer {
    flags_of(&call)?.raise(&asked(&call), &call.body).await?;
    answer(StatusCode::CREATED, &FlagReceived { received: true })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Filter {
    state: Option<StateWord>,
    #[schemars(with = "Option<words::Limit>")]
    limit: Option<usize>,
    #[schemars(with = "Option<words::Cursor>")]
    cursor: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "FlagState")]
enum StateWord {
    Open,
    Resolved,
}

pub(crate) async fn list(call: Call) -> Answer {
    let filter: Filter = call.query()?;
    let limit = checked_limit(filter.limit)?;
    let state = filter.state.map(|state| match state {
        StateWord::Open => FlagState::Open,
        StateWord::Resolved => FlagState::Resolved,
    });
    let after = filter.cursor.map(Key::new).transpose()?;
    let (flags, more) = flags_of(&call)?.list(state, after, limit).await?;
    let rest = flags.last().filter(|_| more).map(|last| last.id.clone());
    page("flags", flags.iter().map(|flag| (flag.id.clone(), FlagOut::new(flag))), rest)
}

pub(crate) async fn show(Path(id): Path<String>, call: Call) -> Answer {
    ok(&FlagOut::new(&flags_of(&call)?.flag(&id).await?))
}

/// What was done about it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ResolveFlag")]
struct ResolveIn {
    /// In a sentence or two.
    #[serde(default)]
    note: String,
}

pub(crate) async fn resolve(Path(id): Path<String>, call: Call) -> Answer {
    let ResolveIn { note } = body::parse(&call.body)?;
    ok(&FlagOut::new(&flags_of(&call)?.resolve(&asked(&call), &id, note).await?))
}

pub(crate) async fn checkpoint(call: Call) -> Answer {
    let (_, name) = space_of(&call)?;
    ok(&Checkpoint::new(name, &flags_of(&call)?.head()))
}

/// A flag.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Flag")]
struct FlagOut<'a> {
    id: &'a str,
    state: &'static str,
    /// `agent:ID`, `operator:NAME` and so on; empty once it was erased.
    raised_by: &'a str,
    #[schemars(with = "words::Time")]
    raised_at: String,
    /// What was said, as it came; `null` once it was erased.
    #[schemars(with = "words::Any")]
    flag: Option<&'a RawValue>,
    resolution: Option<ResolutionOut<'a>>,
}

/// How it was settled.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlagResolution")]
struct ResolutionOut<'a> {
    by: &'a str,
    #[schemars(with = "words::Time")]
    at: String,
    note: &'a str,
}

impl<'a> FlagOut<'a> {
    fn new(flag: &'a Flag) -> Self {
        let resolution = flag.resolution.as_ref().map(|settled| ResolutionOut {
            by: &settled.by,
            at: time::shown(Timestamp(settled.at_ms)),
            note: &settled.note,
        });
        Self {
            id: &flag.id,
            state: flag.state().as_str(),
            raised_by: &flag.raised_by,
            raised_at: time::shown(flag.raised_at),
            flag: flag.about.as_deref(),
            resolution,
        }
    }
}

fn flags_of(call: &Call) -> Result<Flags, Refused> {
    let gone = || Refused::new(Code::Unavailable, "the hub stops").hint("call again when the hub is back");
    call.app.flags(call.space.number()).ok_or_else(gone)
}

fn asked(call: &Call) -> FlagAsked<'_> {
    let what = [call.uri.path().as_bytes(), &call.body[..]];
    FlagAsked { by: &call.principal, key: call.key.as_ref(), what }
}
