//! `GET /v1/events`: what happens in a space, one event a record, in the order of the log. A reader that comes back says
//! where it stopped, and misses nothing; one that does not read is cut off.

use std::convert::Infallible;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use quorate_core::{AgentId, Code, Effect, Record, RecordKind, Refused, Seq, Verb, codec};
use quorate_engine::{Error, Space};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api::{Route, get, words};
use crate::call::{Answer, Call, Pass};
use crate::listen::Life;
use crate::wire::effect::{self, Sight};
use crate::wire::time;

/// Records read at once.
const PAGE: usize = 256;
/// Pieces that may wait for the reader.
const QUEUE_MAX: usize = 4;
/// How many looks at the token pass before something is said, so that nobody in between takes the connection for dead.
const LOOKS_IN_SILENCE: u32 = 5;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get(
            "/v1/events",
            "events.follow",
            "What happens in the space, one event a record, for as long as somebody reads.",
        )
        .query::<Wanted>()
        .answers_with(200, "Server-sent events.", "text/event-stream")
        .to(events),
        get("/v1/ws", "ws.connect", "Becomes a WebSocket; its first frame bears the token.")
            .open()
            .answers_with(101, "From here on frames are exchanged.", "")
            .answers_with(400, "The request asks for no WebSocket.", "text/plain; charset=utf-8")
            .to(crate::ws::upgrade),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The first record; the next one that comes if nothing is said.
    from: Option<u64>,
    /// Names of effects, with commas between them.
    kind: Option<String>,
    /// Only what concerns this agent.
    #[schemars(with = "Option<words::Id>")]
    agent: Option<String>,
    /// Only what belongs to this session.
    session: Option<String>,
}

pub(crate) async fn events(life: Option<Extension<Life>>, headers: HeaderMap, call: Call) -> Answer {
    let wanted: Wanted = call.query()?;
    let head = call.space.published().head.seq;
    let next = match (last_seen(&headers)?, wanted.from) {
        // Whoever reconnects says what it saw; the address is still that of its first request.
        (Some(seen), _) => Seq(seen.saturating_add(1)),
        (None, Some(from)) => Seq(from.max(1)),
        (None, None) => Seq(head.0 + 1),
    };
    let kinds = wanted.kind.iter().flat_map(|kinds| kinds.split(',')).map(known_kind);
    let kinds = kinds.collect::<Result<_, _>>()?;
    let sight = Sight {
        viewer: call.by().cloned(),
        kinds,
        agent: wanted.agent.map(AgentId::new).transpose()?,
        session: wanted.session,
    };
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let feed = Feed {
        space: call.space.clone(),
        pass: call.pass.clone(),
        life: life.map(|Extension(life)| life),
        patience: call.app.settings().patience.reader,
        look: call.times().look,
        sight,
        next,
        sender,
    };
    tokio::spawn(feed.run());
    let pieces = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (Ok::<Bytes, Infallible>(piece), receiver))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, headers, Body::from_stream(pieces)).into_response())
}

/// The name of an effect. One that there is not would filter everything out, for ever, without a word.
fn known_kind(name: &str) -> Result<String, Refused> {
    if Effect::NAMES.contains(&name) || Verb::ALL.iter().any(|verb| verb.as_str() == name) {
        return Ok(name.to_owned());
    }
    Err(Refused::new(Code::Invalid, format!("kind: there is no effect {name:?}"))
        .hint("the names are those of the events themselves, as in message.sent,entry.written"))
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Refused> {
    let Some(seen) = headers.get("last-event-id") else { return Ok(None) };
    let number = seen.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        Refused::new(Code::Invalid, "Last-Event-ID is no number")
            .hint("it is the id of the last event that came")
    })
}

/// What one reader is fed.
struct Feed {
    space: Space,
    pass: Pass,
    life: Option<Life>,
    patience: Duration,
    /// How often the token is looked at again.
    look: Duration,
    sight: Sight,
    next: Seq,
    sender: mpsc::Sender<Bytes>,
}

/// The reader has gone, or is to go.
struct Over;

impl Feed {
    async fn run(mut self) {
        let mut published = self.space.follow();
        let mut silence = 0;
        // So that the reader knows at once that it is heard.
        let mut went = self.write(format!(": from {}\n\n", self.next)).await;
        while went.is_ok() {
            let head = published.borrow_and_update().head.seq;
            went = if self.next <= head {
                silence = 0;
                self.page().await
            } else {
                tokio::select! {
                    changed = published.changed() => changed.map_err(|_| Over),
                    () = stopped(self.life.as_mut()) => Err(Over),
                    () = self.sender.closed() => Err(Over),
                    () = tokio::time::sleep(self.look) => {
                        silence += 1;
                        match silence % LOOKS_IN_SILENCE {
                            0 => self.write(format!(": at {head}\n\n")).await,
                            _ => Ok(()),
                        }
                    }
                }
            };
            if !self.pass.is_good() {
                return;
            }
        }
    }

    async fn page(&mut self) -> Result<(), Over> {
        let records = self.space.bodies(self.next, PAGE).await.map_err(|_| Over)?;
        let mut text = String::new();
        for record in &records {
            self.next = Seq(record.seq.0 + 1);
            if let Some(event) = shown(&self.space, record, &self.sight).map_err(|_| Over)? {
                text.push_str(&format!("id: {}\nevent: record\ndata: {event}\n\n", record.seq));
            }
        }
        if text.is_empty() { Ok(()) } else { self.write(text).await }
    }

    async fn write(&self, text: String) -> Result<(), Over> {
        match self.sender.send_timeout(Bytes::from(text), self.patience).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(Over),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                // Nobody reads, so nobody would hear of the end either: the connection is dropped as it is.
                self.life.iter().for_each(Life::cut);
                Err(Over)
            }
        }
    }
}

async fn stopped(life: Option<&mut Life>) {
    match life {
        Some(life) => life.stopped().await,
        None => std::future::pending().await,
    }
}

/// A record as one may see it; `None` if there is nothing in it for this reader.
fn shown(space: &Space, record: &Record, sight: &Sight) -> Result<Option<Value>, Error> {
    let body = codec::read_bare(record)
        .map_err(|why| Refused::new(Code::Unavailable, format!("record {}: {why}", record.seq)))?;
    let effects = effect::seen(record, &body.effects, sight, &space.published());
    if effects.is_empty() {
        return Ok(None);
    }
    Ok(Some(json!({
        "seq": record.seq.0,
        "at": time::shown(record.at),
        "kind": RecordKind::from_number(record.kind).map_or("unknown", RecordKind::as_str),
        "principal": record.principal,
        "effects": effects,
    })))
}
