//! `GET /v1/events`: server-sent events of a space, one per record, in log order. A client that reconnects resumes
//! after the last event it received; one that does not read is disconnected.

use std::collections::VecDeque;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use quorate_api::event::{Event, EventStreamQuery};
use quorate_core::{AgentId, Code, Effect, Record, Refused, Seq, Verb, codec};
use quorate_engine::{Error, Space, Yielder};

use crate::api::{Route, get};
use crate::bulk::{self, ChunkSender, Owner, RECORD_CHUNK_BYTES, ReaderGone};
use crate::call::{ApiResult, Call, Credential};
use crate::caller_activity::{CallerActivity, OpenConnection};
use crate::wire::visibility::{self, EventFilter};

/// Records per read.
const PAGE: usize = 256;
/// Token checks without an event after which a comment is sent, so that proxies do not close the idle connection.
const CHECKS_PER_COMMENT: u32 = 5;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/events", "events.follow", "Follow the events of the space, one per record, as a stream.")
            .query_parameters::<EventStreamQuery>()
            .returns_stream::<Event>(
                "Server-sent events. Each has one event as its data and the sequence number as its id.",
                "text/event-stream",
            )
            .handled_by(|headers: HeaderMap, call: Call| {
                bulk::run_as_bulk_read(call, |call| events(headers, call))
            }),
        get("/v1/ws", "ws.connect", "Open a WebSocket. Its first frame contains the access token.")
            .public()
            .returns_media(101, "Switched to the WebSocket protocol.", "")
            .returns_problem(400, "INVALID: not a WebSocket upgrade request.")
            .handled_by(crate::ws::upgrade),
    ]
}

pub(crate) async fn events(headers: HeaderMap, call: Call) -> ApiResult {
    let query: EventStreamQuery = call.query()?;
    let head = call.space.published().head.seq;
    let next = match (last_seen(&headers)?, query.from) {
        // On a reconnect Last-Event-ID takes precedence: the URL is still that of the first request.
        (Some(seen), _) => Seq(seen.saturating_add(1)),
        (None, Some(from)) => Seq(from.max(1)),
        (None, None) => Seq(head.0 + 1),
    };
    let kinds = query.kind.iter().flat_map(|kinds| kinds.split(',')).map(check_kind);
    let kinds = kinds.collect::<Result<_, _>>()?;
    let filter = EventFilter {
        viewer: call.calling_agent().cloned(),
        kinds,
        agent: query.agent.map(AgentId::new).transpose()?,
        session: query.session,
    };
    let (chunks, body) = ChunkSender::new(&call);
    let stream = EventStream {
        space: call.space.clone(),
        credential: call.credential.clone(),
        activity: call.activity().clone(),
        _connection: call.activity().open_connection(),
        token_check: call.durations().token_check,
        filter,
        next,
        read_ahead: VecDeque::new(),
        chunks,
    };
    call.app.bulk().spawn(&Owner::of_call(&call), stream.run());
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
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
    credential: Credential,
    activity: CallerActivity,
    /// Counted until the stream ends, which is when its connection is closed.
    _connection: OpenConnection,
    /// Interval of token checks.
    token_check: Duration,
    filter: EventFilter,
    next: Seq,
    /// Records read ahead and not rendered yet.
    read_ahead: VecDeque<Record>,
    chunks: ChunkSender,
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
                    changed = published.changed() => changed.map_err(|_| ReaderGone),
                    () = self.chunks.stopped() => Err(ReaderGone),
                    () = self.chunks.closed() => Err(ReaderGone),
                    () = tokio::time::sleep(self.token_check) => {
                        idle_checks += 1;
                        match idle_checks % CHECKS_PER_COMMENT {
                            0 => self.comment(format!(": at {head}\n\n")).await,
                            _ => Ok(()),
                        }
                    }
                }
            };
            if !self.credential.is_valid() {
                return;
            }
            self.activity.note();
        }
    }

    async fn comment(&self, text: String) -> Result<(), ReaderGone> {
        self.chunks.reserve().await?.send(text);
        Ok(())
    }

    /// Renders and sends the next chunk, once the client has read the previous one.
    async fn send_chunk(&mut self) -> Result<(), ReaderGone> {
        let slot = self.chunks.reserve().await?;
        // The token may have been revoked while the client was reading.
        if !self.credential.is_valid() {
            return Err(ReaderGone);
        }
        if self.read_ahead.is_empty() {
            self.read_ahead =
                self.space.records_without_payloads(self.next, PAGE).await.map_err(|_| ReaderGone)?.into();
        }
        let (mut text, mut yielder) = (String::new(), Yielder::default());
        while text.len() < RECORD_CHUNK_BYTES
            && let Some(record) = self.read_ahead.pop_front()
        {
            self.next = Seq(record.seq.0 + 1);
            if let Some(event) = visible_event(&self.space, &record, &self.filter).map_err(|_| ReaderGone)? {
                let event = serde_json::to_string(&event).map_err(|_| ReaderGone)?;
                text.push_str(&format!("id: {}\nevent: record\ndata: {event}\n\n", record.seq));
            }
            yielder.after_record(&record).await;
        }
        slot.send(text);
        Ok(())
    }
}

/// Returns the event of a record as the reader may see it; `None` if nothing in it is visible.
fn visible_event(space: &Space, record: &Record, filter: &EventFilter) -> Result<Option<Event>, Error> {
    let body = codec::read_without_payload(record)
        .map_err(|error| Refused::new(Code::Unavailable, format!("record {}: {error}", record.seq)))?;
    let effects = visibility::visible_effects(record, &body.effects, filter, &space.published());
    Ok((!effects.is_empty()).then(|| Event::new(record, effects)))
}
