//! Changes of entries over the network: `/v1/events` tells which entry got which version, in the order of the log, and the
//! content is read then. After a break it goes on where it stopped.

use std::collections::VecDeque;
use std::time::Duration;

use quorate::link::{Changes, Promise};
use quorate::{Code, Error, MemoryChange, Remote, Seq, Version};
use quorate_api::entry::Entry;
use quorate_api::event::{Effect, Event};
use quorate_core::{Key, Payload, Timestamp};
use quorate_env::{Backoff, sleep};

use super::calls::text;
use crate::http::{Http, Lines, segment};
use crate::patience::{Patience, backoff};
use crate::wire;

/// The hub says something every few seconds: whoever says nothing for so long is not there any more.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The changes of entries whose key begins so.
pub(super) struct Watching {
    http: Http,
    patience: Patience,
    prefix: String,
    /// The next record to hear of.
    next: Seq,
    lines: Option<Lines>,
    backoff: Backoff,
    /// Heard of, and not told yet.
    found: VecDeque<Heard>,
}

struct Heard {
    seq: Seq,
    at: Timestamp,
    author: String,
    key: Key,
    version: Version,
    deleted: bool,
}

impl Watching {
    pub(super) fn new(http: Http, patience: Patience, prefix: String, from: Seq) -> Self {
        let next = Seq(from.0.max(1));
        Self { http, patience, prefix, next, lines: None, backoff: backoff(), found: VecDeque::new() }
    }

    /// One more line.
    async fn hear(&mut self) -> Result<(), Error> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => {
                let call = self.http.get("/v1/events").query("from", self.next.0);
                self.lines.insert(call.query("kind", "entry.written,entry.deleted").lines().await?)
            }
        };
        let line = tokio::select! {
            line = lines.next() => line?,
            () = sleep(&*self.patience.clock, SILENCE_MAX) => None,
        };
        let Some(line) = line else { return Err(away("the hub says nothing any more")) };
        self.backoff.reset();
        if let Some(data) = text(&line)?.strip_prefix("data:") {
            self.take_in(wire::read(data.trim_start())?);
        }
        Ok(())
    }

    fn take_in(&mut self, event: Event) {
        self.next = Seq(event.seq.0.saturating_add(1));
        for effect in event.effects {
            // The hub was asked for effects on entries only.
            let Effect::Entry(change) = effect else { continue };
            let entry = change.entry;
            if entry.key.as_str().starts_with(&self.prefix) {
                self.found.push_back(Heard {
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

    async fn content(&self, heard: &Heard) -> Result<Option<Payload>, Error> {
        if heard.deleted {
            return Ok(None);
        }
        let path = format!("/v1/context/{}", segment(heard.key.as_str()));
        let answer = self.patience.persist(|| self.http.get(&path).query("version", heard.version.0).send());
        Ok(answer.await?.json::<Entry>()?.payload()?)
    }
}

fn away(why: &str) -> Error {
    Remote {
        code: Code::Unavailable,
        detail: why.to_owned(),
        hint: "check that the hub runs".to_owned(),
        nothing_applied: true,
    }
    .into()
}

impl Changes for Watching {
    fn next(&mut self) -> Promise<'_, MemoryChange> {
        Box::pin(async move {
            loop {
                if let Some(heard) = self.found.front() {
                    let content = self.content(heard).await?;
                    // Only now: whoever gives up the wait before loses nothing.
                    let Some(Heard { seq, at, author, key, version, .. }) = self.found.pop_front() else {
                        continue;
                    };
                    return Ok(MemoryChange { seq, at, author, key, version, content });
                }
                match self.hear().await {
                    Ok(()) => {}
                    // A refusal is definite; anything else may pass, and the log is still there then.
                    Err(error @ Error::Refused(_)) => return Err(error),
                    Err(_) => {
                        self.lines = None;
                        self.backoff.wait(&*self.patience.clock, &self.patience.chance).await;
                    }
                }
            }
        })
    }
}
