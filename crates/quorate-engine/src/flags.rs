//! Conduct flags: private reports to the moderators. A flag is an entry in a space of a separate private store, with
//! its own sequence numbers and hash chain, so that it affects no public number. See
//! `docs/decisions/0025-private-flags.md`. The permissions are defined in `permissions.rs` of the core and checked by
//! the server.

use bytes::Bytes;
use quorate_api::flag::{Flag, FlagResolution, FlagState};
use quorate_api::wellformed;
use quorate_core::hex;
use quorate_core::limits::{FLAG_BYTES_MAX, REASON_CHARS_MAX};
use quorate_core::{
    Code, Commit, Head, IdempotencyKey, Key, Op, Principal, PutEntry, Refused, Timestamp, Version,
};
use quorate_store::{AsOf, ReadQuery, StoredEntry};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::space::Space;

/// Stored resolution of a flag.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredResolution {
    /// Moderator, as `moderator:NAME`.
    by: String,
    /// Time of the resolution, in milliseconds since the Unix epoch.
    at_ms: u64,
    /// Note of the moderator; may be empty.
    note: String,
}

/// Stored content of a flag.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    raised_by: String,
    raised_at_ms: u64,
    flag: Box<RawValue>,
    resolution: Option<StoredResolution>,
}

impl Content {
    /// Returns the state of the flag. Its name is the type of the entry, so that a list can be filtered by state.
    fn state(&self) -> FlagState {
        if self.resolution.is_some() { FlagState::Resolved } else { FlagState::Open }
    }
}

/// Caller and idempotency key of a request.
pub struct FlagRequest<'a> {
    /// Principal that makes the request.
    pub principal: &'a Principal,
    /// Idempotency key, if there is one.
    pub key: Option<&'a IdempotencyKey>,
    /// Path and body of the request, covered by the key.
    pub content: [&'a [u8]; 2],
}

/// Conduct flags of one space.
#[derive(Clone)]
pub struct Flags(Space);

impl Flags {
    /// Creates the handle for the flags in this space of the private store.
    #[must_use]
    pub fn in_space(space: Space) -> Self {
        Self(space)
    }

    /// Returns the space of the private store.
    pub(crate) fn space(&self) -> &Space {
        &self.0
    }

    /// Raises a flag. Returns no ID or number, because that would disclose the number of flags.
    ///
    /// # Errors
    /// `INVALID`, `TOO_LARGE` or `SECRET_DETECTED` for the content, `DUPLICATE`, or a storage failure.
    pub async fn raise(&self, request: &FlagRequest<'_>, report: &Bytes) -> Result<(), Error> {
        let flag = parse_report(report)?;
        let (raised_at, by) = (self.now(), request.principal.to_text());
        let content = Content { raised_by: by, raised_at_ms: raised_at.0, flag, resolution: None };
        let engine = self.0.engine();
        let id = id_of(engine.next_flag_time(raised_at), engine.random_16());
        let put = self.put(Key::new(id)?, Version(0), &content)?;
        self.0.commit_private(request.commit(put)).await.map(drop)
    }

    /// Resolves a flag.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if it is already resolved, or a storage failure.
    pub async fn resolve(&self, request: &FlagRequest<'_>, id: &str, note: String) -> Result<Flag, Error> {
        if note.chars().count() > REASON_CHARS_MAX {
            return Err(Refused::new(Code::TooLarge, "the note is too long")
                .limit(REASON_CHARS_MAX as u64)
                .hint(format!("send at most {REASON_CHARS_MAX} characters"))
                .into());
        }
        if request.key.is_some() && self.0.stored_receipt(request.commit(Vec::new())).await?.is_some() {
            return self.flag(id).await;
        }
        let entry = self.entry(id).await?;
        let mut content = parse_content(&entry)?.ok_or_else(|| erased(id))?;
        if let Some(resolution) = &content.resolution {
            return Err(Refused::new(
                Code::Conflict,
                format!("flag {id} was already resolved by {}", resolution.by),
            )
            .hint("a resolution is final; raise another flag to add information")
            .into());
        }
        content.resolution =
            Some(StoredResolution { by: request.principal.to_text(), at_ms: self.now().0, note });
        let put = self.put(entry.key.clone(), entry.version.head.version, &content)?;
        self.0.commit_private(request.commit(put)).await?;
        self.flag(id).await
    }

    /// Returns a flag.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a storage failure.
    pub async fn flag(&self, id: &str) -> Result<Flag, Error> {
        flag(&self.entry(id).await?)
    }

    /// Returns flags, oldest first, and whether there may be more.
    ///
    /// # Errors
    /// Storage failures.
    pub async fn list(
        &self,
        state: Option<FlagState>,
        after: Option<Key>,
        limit: usize,
    ) -> Result<(Vec<Flag>, bool), Error> {
        let entry_type = state.map(|state| state.as_str().to_owned());
        let read = ReadQuery::Entries { prefix: PREFIX.into(), entry_type, author: None, after, limit };
        let (entries, more) = self.0.entries_page(read, limit).await?;
        Ok((entries.iter().map(flag).collect::<Result<_, _>>()?, more))
    }

    /// Returns the head of the private chain, for later verification by moderators.
    #[must_use]
    pub fn head(&self) -> Head {
        self.0.published().head
    }

    fn now(&self) -> Timestamp {
        self.0.engine().clock().now().wall
    }

    async fn entry(&self, id: &str) -> Result<StoredEntry, Error> {
        let found = match Key::new(id) {
            Ok(key) => self.0.entry(&key, AsOf::Latest).await?,
            Err(_) => None,
        };
        let missing = || {
            Refused::new(Code::NotFound, format!("there is no flag {id:?}"))
                .hint("list the flags to find its id")
        };
        Ok(found.ok_or_else(missing)?)
    }

    fn put(&self, key: Key, expect: Version, content: &Content) -> Result<Vec<Op>, Error> {
        let json = serde_json::to_vec(content).map_err(|error| unreadable(&key, &error))?;
        Ok(vec![Op::Put(PutEntry {
            key,
            entry_type: content.state().as_str().to_owned(),
            content: self.0.seal(json),
            content_type: None,
            expect: Some(expect),
            depends_on: Vec::new(),
            fence: None,
        })])
    }
}

impl FlagRequest<'_> {
    /// Creates the commit. The principal is the system; the caller is part of the content, where it can be erased.
    /// Keys are scoped to the principal, so that the key of a flag does not disclose it to others.
    fn commit(&self, ops: Vec<Op>) -> Commit {
        let commit = Commit::new(Principal::System, ops);
        let Some(key) = self.key else { return commit };
        let mut scoped = Sha256::new();
        scoped.update(self.principal.to_text());
        scoped.update([0]);
        scoped.update(key.as_str());
        let scoped = hex::encode(&scoped.finalize());
        match IdempotencyKey::new(scoped) {
            Ok(scoped) => commit.keyed_for(scoped, &self.content),
            // Cannot fail: 64 hexadecimal digits are a valid key.
            Err(_) => commit,
        }
    }
}

const PREFIX: &str = "flg_";

/// Creates an ID that sorts by time, so that a list by key is ordered by time. The random part makes it unguessable
/// and hides the number of flags.
fn id_of(at: Timestamp, random: [u8; 16]) -> String {
    let random = hex::encode(&random[..8]);
    format!("{PREFIX}{:012x}{random}", at.0)
}

/// Validates a flag. Any non-empty JSON object is accepted, so that no report is rejected for its fields.
fn parse_report(report: &Bytes) -> Result<Box<RawValue>, Refused> {
    if report.len() > FLAG_BYTES_MAX {
        return Err(Refused::new(Code::TooLarge, format!("the flag has {} bytes", report.len()))
            .limit(FLAG_BYTES_MAX as u64)
            .hint("reference the content, and quote only the relevant part"));
    }
    let invalid = |detail: String| {
        Refused::new(Code::Invalid, detail).hint("send a JSON object that describes what happened and where")
    };
    wellformed::check_json("flag", report)?;
    let flag: Box<RawValue> = serde_json::from_slice(report).map_err(|error| invalid(error.to_string()))?;
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(flag.get()).map_err(|_| invalid("the flag is not a JSON object".into()))?;
    if fields.is_empty() {
        return Err(invalid("the flag is an empty object".into()));
    }
    Ok(flag)
}

fn parse_content(entry: &StoredEntry) -> Result<Option<Content>, Error> {
    let Some(content) = entry.content.as_ref().filter(|content| !content.is_erased()) else {
        return Ok(None);
    };
    serde_json::from_slice(&content.bytes).map(Some).map_err(|error| unreadable(&entry.key, &error))
}

fn flag(entry: &StoredEntry) -> Result<Flag, Error> {
    let id = entry.key.to_string();
    let Some(content) = parse_content(entry)? else {
        return Ok(Flag {
            id,
            state: FlagState::Open,
            raised_by: String::new(),
            raised_at: entry.version.at,
            flag: None,
            resolution: None,
        });
    };
    let state = content.state();
    let Content { raised_by, raised_at_ms, flag, resolution } = content;
    let resolution = resolution.map(|StoredResolution { by, at_ms, note }| FlagResolution {
        by,
        at: Timestamp(at_ms),
        note,
    });
    Ok(Flag { id, state, raised_by, raised_at: Timestamp(raised_at_ms), flag: Some(flag.into()), resolution })
}

fn erased(id: &str) -> Refused {
    Refused::new(Code::Conflict, format!("the content of flag {id} was erased"))
        .hint("an erased flag cannot be resolved")
}

fn unreadable(key: &Key, error: &serde_json::Error) -> Error {
    quorate_store::StoreError::Read(format!("flag {key} cannot be read: {error}").into()).into()
}
