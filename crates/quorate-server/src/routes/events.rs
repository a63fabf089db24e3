//! `GET /v1/events`: what happens in a space, one event a record, in the order of the log. A reader that comes back says
//! where it stopped, and misses nothing; one that does not read is cut off.

use std::collections::VecDeque;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use quorate_api::event::Event;
use quorate_core::{AgentId, Code, Effect, Record, Refused, Seq, Verb, codec};
use quorate_engine::{Error, Pace, Space};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Route, get, words};
use crate::bulk::{self, Gone, Owner, PIECE_BYTES, Pieces};
use crate::call::{Answer, Call, Pass};
use crate::wire::effect::{self, Sight};

/// Records read at once.
const PAGE: usize = 256;
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
        .streams::<Event>(
            "Server-sent events; the data of each is one event, its id the sequence number.",
            "text/event-stream",
        )
        .to(|headers: HeaderMap, call: Call| bulk::answer(call, |call| events(headers, call))),
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

pub(crate) async fn events(headers: HeaderMap, call: Call) -> Answer {
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
    let (pieces, body) = Pieces::new(&call);
    let feed = Feed {
        space: call.space.clone(),
        pass: call.pass.clone(),
        look: call.times().look,
        sight,
        next,
        ahead: VecDeque::new(),
        pieces,
    };
    call.app.bulk().spawn(&Owner::of(&call), feed.run());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, headers, body).into_response())
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
    /// How often the token is looked at again.
    look: Duration,
    sight: Sight,
    next: Seq,
    /// Records that were read and are not rendered yet.
    ahead: VecDeque<Record>,
    pieces: Pieces,
}

impl Feed {
    async fn run(mut self) {
        let mut published = self.space.follow();
        let mut silence = 0;
        // So that the reader knows at once that it is heard.
        let mut went = self.comment(format!(": from {}\n\n", self.next)).await;
        while went.is_ok() {
            let head = published.borrow_and_update().head.seq;
            went = if self.next <= head {
                silence = 0;
                self.piece().await
            } else {
                tokio::select! {
                    changed = published.changed() => changed.map_err(|_| Gone),
                    () = self.pieces.stopped() => Err(Gone),
                    () = self.pieces.closed() => Err(Gone),
                    () = tokio::time::sleep(self.look) => {
                        silence += 1;
                        match silence % LOOKS_IN_SILENCE {
                            0 => self.comment(format!(": at {head}\n\n")).await,
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

    async fn comment(&self, text: String) -> Result<(), Gone> {
        self.pieces.room().await?.send(text);
        Ok(())
    }

    /// Renders the next piece, once the reader has taken the one before.
    async fn piece(&mut self) -> Result<(), Gone> {
        let room = self.pieces.room().await?;
        // The reader may have taken its time.
        if !self.pass.is_good() {
            return Err(Gone);
        }
        if self.ahead.is_empty() {
            self.ahead = self.space.bodies(self.next, PAGE).await.map_err(|_| Gone)?.into();
        }
        let (mut text, mut pace) = (String::new(), Pace::default());
        while text.len() < PIECE_BYTES
            && let Some(record) = self.ahead.pop_front()
        {
            self.next = Seq(record.seq.0 + 1);
            if let Some(event) = shown(&self.space, &record, &self.sight).map_err(|_| Gone)? {
                let event = serde_json::to_string(&event).map_err(|_| Gone)?;
                text.push_str(&format!("id: {}\nevent: record\ndata: {event}\n\n", record.seq));
            }
            pace.after(&record).await;
        }
        room.send(text);
        Ok(())
    }
}

/// A record as the reader may see it; `None` if it contains nothing for this reader.
fn shown(space: &Space, record: &Record, sight: &Sight) -> Result<Option<Event>, Error> {
    let body = codec::read_bare(record)
        .map_err(|why| Refused::new(Code::Unavailable, format!("record {}: {why}", record.seq)))?;
    let effects = effect::seen(record, &body.effects, sight, &space.published());
    Ok((!effects.is_empty()).then(|| Event::new(record, effects)))
}
