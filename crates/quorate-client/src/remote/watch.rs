//! Watches of entries over the network. `/v1/events` returns which entries changed, in log order; their content is
//! read afterwards. After a connection loss the watch resumes at the next record.

use std::collections::VecDeque;
use std::time::Duration;

use quorate::backend::{BackendFuture, ChangeStream};
use quorate::{Code, Error, MemoryChange, RemoteError, Seq, Version};
use quorate_api::entry::Entry;
use quorate_api::event::{Effect, Event};
use quorate_core::{Key, Payload, Timestamp};
use quorate_env::{Backoff, sleep};

use super::commit_and_claim::parse_utf8;
use crate::http::{HttpClient, ResponseLines, percent_encode};
use crate::retry::{Retrier, reconnect_backoff};
use crate::wire;

/// Maximum silence before the connection is considered lost. The hub sends keep-alives every few seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Stream of changes of the entries with a key prefix.
pub(super) struct EntryWatch {
    http: HttpClient,
    retrier: Retrier,
    prefix: String,
    /// Sequence number to resume from.
    next: Seq,
    lines: Option<ResponseLines>,
    backoff: Backoff,
    /// Changes whose content is not read yet.
    pending: VecDeque<PendingChange>,
}

struct PendingChange {
    seq: Seq,
    at: Timestamp,
    author: String,
    key: Key,
    version: Version,
    deleted: bool,
}

impl EntryWatch {
    pub(super) fn new(http: HttpClient, retrier: Retrier, prefix: String, from: Seq) -> Self {
        let next = Seq(from.0.max(1));
        Self {
            http,
            retrier,
            prefix,
            next,
            lines: None,
            backoff: reconnect_backoff(),
            pending: VecDeque::new(),
        }
    }

    /// Reads one line, opening the stream if necessary.
    async fn read_line(&mut self) -> Result<(), Error> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => {
                let call = self.http.get("/v1/events").query("from", self.next.0);
                self.lines.insert(call.query("kind", "entry.written,entry.deleted").lines().await?)
            }
        };
        let line = tokio::select! {
            line = lines.next() => line?,
            () = sleep(&*self.retrier.clock, SILENCE_MAX) => None,
        };
        let Some(line) = line else { return Err(unavailable("the event stream ended")) };
        self.backoff.reset();
        if let Some(data) = parse_utf8(&line)?.strip_prefix("data:") {
            self.add_changes(wire::parse_json(data.trim_start())?);
        }
        Ok(())
    }

    fn add_changes(&mut self, event: Event) {
        self.next = Seq(event.seq.0.saturating_add(1));
        for effect in event.effects {
            // The stream is filtered to effects on entries.
            let Effect::Entry(change) = effect else { continue };
            let entry = change.entry;
            if entry.key.as_str().starts_with(&self.prefix) {
                self.pending.push_back(PendingChange {
                    seq: event.seq,
                    at: event.at,
                    author: event.principal.clone(),
                    key: entry.key,
                    version: entry.version,
                    deleted: entry.deleted,
                });
            }
        }
    }

    async fn content(&self, change: &PendingChange) -> Result<Option<Payload>, Error> {
        if change.deleted {
            return Ok(None);
        }
        let path = format!("/v1/context/{}", percent_encode(change.key.as_str()));
        let response = self.retrier.retry(|| self.http.get(&path).query("version", change.version.0).send());
        Ok(response.await?.json::<Entry>()?.payload()?)
    }
}

fn unavailable(reason: &str) -> Error {
    RemoteError {
        code: Code::Unavailable,
        detail: reason.to_owned(),
        hint: "check that the hub is running".to_owned(),
        nothing_applied: true,
    }
    .into()
}

impl ChangeStream for EntryWatch {
    fn next(&mut self) -> BackendFuture<'_, MemoryChange> {
        Box::pin(async move {
            loop {
                if let Some(change) = self.pending.front() {
                    let content = self.content(change).await?;
                    // Removed only after the await, so that `next` is cancel safe.
                    let Some(PendingChange { seq, at, author, key, version, .. }) = self.pending.pop_front()
                    else {
                        continue;
                    };
                    return Ok(MemoryChange { seq, at, author, key, version, content });
                }
                match self.read_line().await {
                    Ok(()) => {}
                    // A rejection is permanent. After any other error the log can be read again from the same
                    // position.
                    Err(error @ Error::Refused(_)) => return Err(error),
                    Err(_) => {
                        self.lines = None;
                        self.backoff.wait(&*self.retrier.clock, &self.retrier.entropy).await;
                    }
                }
            }
        })
    }
}
