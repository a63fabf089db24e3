//! `GET /v1/events`: server-sent events of a space, one per record, in log order. A client that reconnects resumes
//! after the last event it received; one that does not read is disconnected.

use std::collections::VecDeque;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use quorate_api::event::Event;
use quorate_core::{AgentId, Code, Effect, Record, Refused, Seq, Verb, codec};
use quorate_engine::{Error, Pace, Space};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{Route, get, schema};
use crate::bulk::{self, Gone, Owner, PIECE_BYTES, Pieces};
use crate::call::{Answer, Call, Pass};
use crate::wire::effect::{self, Sight};

/// Records per read.
const PAGE: usize = 256;
/// Token checks without an event after which a comment is sent, so that proxies do not close the idle connection.
const CHECKS_PER_COMMENT: u32 = 5;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/events", "events.follow", "Follow the events of the space, one per record, as a stream.")
            .query::<EventsQuery>()
            .streams::<Event>(
                "Server-sent events. Each has one event as its data and the sequence number as its id.",
                "text/event-stream",
            )
            .to(|headers: HeaderMap, call: Call| bulk::answer(call, |call| events(headers, call))),
        get("/v1/ws", "ws.connect", "Open a WebSocket. Its first frame contains the access token.")
            .open()
            .answers_with(101, "Switched to the WebSocket protocol.", "")
            .answers_with(400, "Not a WebSocket upgrade request.", "text/plain; charset=utf-8")
            .to(crate::ws::upgrade),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// Sequence number of the first record; by default the next one that is written.
    from: Option<u64>,
    /// Effect names to include, separated by commas.
    kind: Option<String>,
    /// Include only effects that concern this agent.
    #[schemars(with = "Option<schema::Id>")]
    agent: Option<String>,
    /// Include only effects of this session.
    session: Option<String>,
}

pub(crate) async fn events(headers: HeaderMap, call: Call) -> Answer {
    let query: EventsQuery = call.query()?;
    let head = call.space.published().head.seq;
    let next = match (last_seen(&headers)?, query.from) {
        // On a reconnect Last-Event-ID takes precedence: the URL is still that of the first request.
        (Some(seen), _) => Seq(seen.saturating_add(1)),
        (None, Some(from)) => Seq(from.max(1)),
        (None, None) => Seq(head.0 + 1),
    };
    let kinds = query.kind.iter().flat_map(|kinds| kinds.split(',')).map(check_kind);
    let kinds = kinds.collect::<Result<_, _>>()?;
    let filter = Sight {
        viewer: call.by().cloned(),
        kinds,
        agent: query.agent.map(AgentId::new).transpose()?,
        session: query.session,
    };
    let (chunks, body) = Pieces::new(&call);
    let stream = EventStream {
        space: call.space.clone(),
        pass: call.pass.clone(),
        look: call.times().look,
        filter,
        next,
        read_ahead: VecDeque::new(),
        chunks,
    };
    call.app.bulk().spawn(&Owner::of(&call), stream.run());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, headers, body).into_response())
}

/// Validates the name of an effect. An unknown name would silently filter out everything.
fn check_kind(name: &str) -> Result<String, Refused> {
    if Effect::NAMES.contains(&name) || Verb::ALL.iter().any(|verb| verb.as_str() == name) {
        return Ok(name.to_owned());
    }
    Err(Refused::new(Code::Invalid, format!("kind: unknown effect {name:?}"))
        .hint("use effect names as they appear in events, for example message.sent,entry.written"))
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Refused> {
    let Some(seen) = headers.get("last-event-id") else { return Ok(None) };
    let number = seen.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        Refused::new(Code::Invalid, "Last-Event-ID is not a number")
            .hint("send the id of the last event received")
    })
}

/// A running event stream.
struct EventStream {
    space: Space,
    pass: Pass,
    /// Interval of token checks.
    look: Duration,
    filter: Sight,
    next: Seq,
    /// Records read ahead and not rendered yet.
    read_ahead: VecDeque<Record>,
    chunks: Pieces,
}

impl EventStream {
    async fn run(mut self) {
        let mut published = self.space.follow();
        let mut idle_checks = 0;
        // Confirms the subscription immediately.
        let mut outcome = self.comment(format!(": from {}\n\n", self.next)).await;
        while outcome.is_ok() {
            let head = published.borrow_and_update().head.seq;
            outcome = if self.next <= head {
                idle_checks = 0;
                self.send_chunk().await
            } else {
                tokio::select! {
                    changed = published.changed() => changed.map_err(|_| Gone),
                    () = self.chunks.stopped() => Err(Gone),
                    () = self.chunks.closed() => Err(Gone),
                    () = tokio::time::sleep(self.look) => {
                        idle_checks += 1;
                        match idle_checks % CHECKS_PER_COMMENT {
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
        self.chunks.room().await?.send(text);
        Ok(())
    }

    /// Renders and sends the next chunk, once the client has read the previous one.
    async fn send_chunk(&mut self) -> Result<(), Gone> {
        let room = self.chunks.room().await?;
        // The token may have been revoked while the client was reading.
        if !self.pass.is_good() {
            return Err(Gone);
        }
        if self.read_ahead.is_empty() {
            self.read_ahead = self.space.bodies(self.next, PAGE).await.map_err(|_| Gone)?.into();
        }
        let (mut text, mut pace) = (String::new(), Pace::default());
        while text.len() < PIECE_BYTES
            && let Some(record) = self.read_ahead.pop_front()
        {
            self.next = Seq(record.seq.0 + 1);
            if let Some(event) = visible_event(&self.space, &record, &self.filter).map_err(|_| Gone)? {
                let event = serde_json::to_string(&event).map_err(|_| Gone)?;
                text.push_str(&format!("id: {}\nevent: record\ndata: {event}\n\n", record.seq));
            }
            pace.after(&record).await;
        }
        room.send(text);
        Ok(())
    }
}

/// Returns the event of a record as the reader may see it; `None` if nothing in it is visible.
fn visible_event(space: &Space, record: &Record, filter: &Sight) -> Result<Option<Event>, Error> {
    let body = codec::read_bare(record)
        .map_err(|why| Refused::new(Code::Unavailable, format!("record {}: {why}", record.seq)))?;
    let effects = effect::seen(record, &body.effects, filter, &space.published());
    Ok((!effects.is_empty()).then(|| Event::new(record, effects)))
}
