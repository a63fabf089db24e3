//! The audit record over HTTP: the log as it is, in the words of the people who read it, and whether it is whole.

mod told;
mod verify;

use std::collections::VecDeque;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use quorate_api::Names;
use quorate_api::audit::{AuditRecord, Checkpoint};
use quorate_api::event::Effect;
use quorate_core::chain::first_previous;
use quorate_core::{Code, Deed, Record, Refused, Seq, SpaceId};
use quorate_engine::{Error, Pace, Space};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Route, get};
use crate::bulk::{Owner, PIECE_BYTES, Pieces};
use crate::call::{Answer, Call, Pass, ok};
use told::Teller;

/// Records read at once.
const PAGE: usize = 256;
/// Records before the first one that are looked at, to know what it ends.
const BEFORE: u64 = 10_000;

/// Everybody but agents may look: the record holds what all of them said to each other.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/audit", "audit.export", "The log, record by record, as it is or in words.")
            .is(Deed::Look)
            .query::<Wanted>()
            .streams::<AuditRecord>("One record per line.", JSONL)
            .answers_with(200, "One thing a line, in words.", TEXT)
            .bulk(export),
        get("/v1/audit/verify", "audit.verify", "Whether the chain of the log is whole.")
            .is(Deed::Look)
            .query::<verify::Wanted>()
            .answers::<verify::VerdictOut>(200, "What was found.")
            .bulk(verify::verify),
        get("/v1/audit/checkpoint", "audit.checkpoint", "Where the log stands, to be kept elsewhere.")
            .is(Deed::Look)
            .answers::<Checkpoint>(200, "The newest record and the chain up to it.")
            .to(checkpoint),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    format: Format,
    /// The first record.
    #[schemars(range(min = 1))]
    from: Option<u64>,
    /// The last one; the newest if nothing is said.
    to: Option<u64>,
    /// How many records at most.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// Objects, one a line.
const JSONL: &str = "application/jsonl";
/// Lines in words.
const TEXT: &str = "text/plain; charset=utf-8";

/// How the record is told.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// As `quorate audit export` does, to be checked by anybody.
    #[default]
    Jsonl,
    /// One line in words for each thing that happened.
    Text,
    /// One object for each message that reached its recipient or did not, for those who look for what agents decided.
    Decisions,
    /// One object for each message that was sent, delivered, or given up.
    Messages,
}

pub(crate) async fn export(call: Call) -> Answer {
    let wanted: Wanted = call.query()?;
    let head = call.space.published().head.seq;
    let from = Seq(wanted.from.unwrap_or(1));
    if from.0 == 0 || wanted.limit == Some(0) {
        return Err(Refused::new(Code::Invalid, "records and limits count from 1")
            .hint("begin with from=1")
            .into());
    }
    let to = Seq(wanted.to.unwrap_or(head.0).min(head.0));
    let (id, name) = space_of(&call)?;
    let (pieces, body) = Pieces::new(&call);
    let feed = Feed {
        space: call.space.clone(),
        name,
        pass: call.pass.clone(),
        format: wanted.format,
        from,
        to: wanted.limit.map_or(to, |limit| to.min(Seq(from.0.saturating_add(limit - 1)))),
        previous: previous(&call.space, id, from).await?,
        pieces,
    };
    call.app.bulk().spawn(&Owner::of(&call), feed.run());
    let kind = match wanted.format {
        Format::Text => TEXT,
        _ => JSONL,
    };
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, headers, body).into_response())
}

/// Where the log stands: to be kept elsewhere, so that a history that is rewritten later shows.
pub(crate) async fn checkpoint(call: Call) -> Answer {
    let (_, name) = space_of(&call)?;
    ok(&Checkpoint::new(name, &call.space.published().head))
}

/// The identity and the name of the caller's space.
pub(super) fn space_of(call: &Call) -> Result<(SpaceId, String), Refused> {
    let spaces = call.app.engine().store().spaces();
    let found = spaces.into_iter().find(|info| info.number == call.space.number());
    let found = found.map(|info| (info.id, info.name.to_string()));
    found.ok_or_else(|| Refused::new(Code::Unavailable, "the space has no identity"))
}

/// What a record is chained to.
async fn previous(space: &Space, id: SpaceId, seq: Seq) -> Result<Option<[u8; 32]>, Error> {
    if seq.0 <= 1 {
        return Ok(Some(first_previous(id)));
    }
    let before = Seq(seq.0 - 1);
    let records = space.bodies(before, 1).await?;
    Ok(records.into_iter().next().filter(|record| record.seq == before).map(|record| record.hash))
}

/// What one reader is fed.
struct Feed {
    space: Space,
    name: String,
    pass: Pass,
    format: Format,
    from: Seq,
    to: Seq,
    previous: Option<[u8; 32]>,
    pieces: Pieces,
}

impl Feed {
    /// Renders piece after piece, each once the reader has taken the one before. A reader sees that the end is missing: the
    /// last line is not the one that it asked for.
    async fn run(mut self) {
        let (mut teller, mut pace) = (Teller::default(), Pace::default());
        let needs_before = matches!(self.format, Format::Decisions | Format::Messages);
        let mut next = if needs_before { Seq(self.from.0.saturating_sub(BEFORE).max(1)) } else { self.from };
        let mut ahead = VecDeque::new();
        while next <= self.to {
            let Ok(room) = self.pieces.room().await else { return };
            // The reader may have taken its time.
            if !self.pass.is_good() {
                return;
            }
            if ahead.is_empty() {
                let wanted = PAGE.min((self.to.0 - next.0) as usize + 1);
                let Ok(records) = self.space.bodies(next, wanted).await else { return };
                ahead = records.into();
            }
            if ahead.is_empty() {
                return;
            }
            let mut text = String::new();
            while text.len() < PIECE_BYTES
                && let Some(record) = ahead.pop_front()
            {
                next = Seq(record.seq.0 + 1);
                self.tell(&mut teller, &record, &mut text);
                pace.after(&record).await;
            }
            room.send(text);
        }
    }

    fn tell(&mut self, teller: &mut Teller, record: &Record, out: &mut String) {
        let published = self.space.published();
        let is_wanted = record.seq >= self.from;
        match self.format {
            Format::Jsonl => {
                let agents = told::OrNumber(&published.agents);
                let names = Names { agents: &agents, eras: &published.eras };
                let effects = Effect::of_record(record, &names);
                let line = AuditRecord::new(&self.name, record, effects, self.previous.take().as_ref());
                out.push_str(&serde_json::to_string(&line).unwrap_or_default());
                out.push('\n');
            }
            Format::Text => told::words(record, &published, out),
            Format::Decisions => teller.decisions(record, &self.space, is_wanted, out),
            Format::Messages => teller.messages(record, &self.space, is_wanted, out),
        }
    }
}
