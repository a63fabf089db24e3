//! Conduct flags: what somebody tells the moderators, and nobody else. A flag is an entry in a space of a store of its own,
//! beside the hub's: its own sequence, its own chain, no public number that it could move. See
//! `docs/decisions/0025-private-flags.md`. Who may raise, read and resolve them is in `rights.rs`; the door asks there.

use bytes::Bytes;
use quorate_core::hex;
use quorate_core::limits::{FLAG_BYTES_MAX, REASON_CHARS_MAX};
use quorate_core::{
    Code, Commit, Head, IdempotencyKey, Key, Op, Principal, PutEntry, Refused, Timestamp, Version,
};
use quorate_store::{Entry, Read, When};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::space::Space;
use quorate_api::wellformed;

/// Where a flag is. The words are the types of its entry, so that a list by state is a list by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlagState {
    /// Nobody has settled it.
    Open,
    /// A moderator has.
    Resolved,
}

impl FlagState {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
        }
    }
}

/// How a flag was settled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    /// Which moderator, as `moderator:NAME`.
    pub by: String,
    /// When, in milliseconds.
    pub at_ms: u64,
    /// What was done about it; may be empty.
    pub note: String,
}

/// A flag.
#[derive(Clone, Debug)]
pub struct Flag {
    /// Its id.
    pub id: String,
    /// Who raised it, as `agent:ID`, `operator:NAME` and so on.
    pub raised_by: String,
    /// When.
    pub raised_at: Timestamp,
    /// What was said: a JSON object, byte for byte as it came; `None` once it was erased.
    pub about: Option<Box<RawValue>>,
    /// How it was settled, if it was.
    pub resolution: Option<Resolution>,
}

impl Flag {
    /// Where it is.
    #[must_use]
    pub fn state(&self) -> FlagState {
        if self.resolution.is_some() { FlagState::Resolved } else { FlagState::Open }
    }
}

/// What the entry of a flag holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    raised_by: String,
    raised_at_ms: u64,
    flag: Box<RawValue>,
    resolution: Option<Resolution>,
}

/// Who calls, and what makes the call repeatable.
pub struct Asked<'a> {
    /// Who.
    pub by: &'a Principal,
    /// Under which key, if there is one.
    pub key: Option<&'a IdempotencyKey>,
    /// What was asked, for the key: path and body.
    pub what: [&'a [u8]; 2],
}

/// The flags of one space.
#[derive(Clone)]
pub struct Flags(Space);

impl Flags {
    /// Those that are kept in this space, which is one of the private store and of nobody's else.
    #[must_use]
    pub fn kept_in(space: Space) -> Self {
        Self(space)
    }

    /// Raises a flag. There is nothing to tell but that it is on disk: an id or a number would say how many there are.
    ///
    /// # Errors
    /// `INVALID`, `TOO_LARGE` or `SECRET_DETECTED` for what was said, `DUPLICATE`, or a failure of the storage.
    pub async fn raise(&self, asked: &Asked<'_>, about: &Bytes) -> Result<(), Error> {
        let flag = checked(about)?;
        let (raised_at, by) = (self.now(), asked.by.to_text());
        let content = Content { raised_by: by, raised_at_ms: raised_at.0, flag, resolution: None };
        let engine = self.0.engine();
        let id = id_of(engine.next_flag(raised_at), engine.draw_sixteen());
        let put = self.put(Key::new(id)?, Version(0), &content)?;
        self.0.commit_private(asked.commit(put)).await.map(drop)
    }

    /// Settles a flag.
    ///
    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` if it is settled, or a failure of the storage.
    pub async fn resolve(&self, asked: &Asked<'_>, id: &str, note: String) -> Result<Flag, Error> {
        if note.chars().count() > REASON_CHARS_MAX {
            return Err(Refused::new(Code::TooLarge, "the note is too long")
                .limit(REASON_CHARS_MAX as u64)
                .hint(format!("give at most {REASON_CHARS_MAX} characters"))
                .into());
        }
        if asked.key.is_some() && self.0.answered(asked.commit(Vec::new())).await?.is_some() {
            return self.flag(id).await;
        }
        let entry = self.entry(id).await?;
        let mut content = read(&entry)?.ok_or_else(|| erased(id))?;
        if let Some(settled) = &content.resolution {
            return Err(Refused::new(Code::Conflict, format!("flag {id} was resolved by {}", settled.by))
                .hint("what is resolved stays so; raise another flag if there is more to say")
                .into());
        }
        content.resolution = Some(Resolution { by: asked.by.to_text(), at_ms: self.now().0, note });
        let put = self.put(entry.key.clone(), entry.version.head.version, &content)?;
        self.0.commit_private(asked.commit(put)).await?;
        self.flag(id).await
    }

    /// A flag.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn flag(&self, id: &str) -> Result<Flag, Error> {
        flag(&self.entry(id).await?)
    }

    /// Flags by age, oldest first, and whether there may be more.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn list(
        &self,
        state: Option<FlagState>,
        after: Option<Key>,
        limit: usize,
    ) -> Result<(Vec<Flag>, bool), Error> {
        let entry_type = state.map(|state| state.as_str().to_owned());
        let wanted = Read::Entries { prefix: PREFIX.into(), entry_type, author: None, after, limit };
        let (entries, more) = self.0.entries_page(wanted, limit).await?;
        Ok((entries.iter().map(flag).collect::<Result<_, _>>()?, more))
    }

    /// The newest record of the private chain: for moderators, to check it against later.
    #[must_use]
    pub fn head(&self) -> Head {
        self.0.published().head
    }

    fn now(&self) -> Timestamp {
        self.0.engine().clock().now().wall
    }

    async fn entry(&self, id: &str) -> Result<Entry, Error> {
        let found = match Key::new(id) {
            Ok(key) => self.0.entry(&key, When::Now).await?,
            Err(_) => None,
        };
        let missing = || {
            Refused::new(Code::NotFound, format!("there is no flag {id:?}"))
                .hint("the list of flags has the ids")
        };
        Ok(found.ok_or_else(missing)?)
    }

    fn put(&self, key: Key, expect: Version, content: &Content) -> Result<Vec<Op>, Error> {
        let state = if content.resolution.is_some() { FlagState::Resolved } else { FlagState::Open };
        let json = serde_json::to_vec(content).map_err(|error| unreadable(&key, &error))?;
        Ok(vec![Op::Put(PutEntry {
            key,
            entry_type: state.as_str().to_owned(),
            content: self.0.seal(json),
            content_type: None,
            expect: Some(expect),
            depends_on: Vec::new(),
            fence: None,
        })])
    }
}

impl Asked<'_> {
    /// The hub writes; who asked stands in the content, where it can be erased. Keys of different people are different keys:
    /// nobody learns of another's flag by the key that was used for it.
    fn commit(&self, ops: Vec<Op>) -> Commit {
        let commit = Commit::new(Principal::System, ops);
        let Some(key) = self.key else { return commit };
        let mut own = Sha256::new();
        own.update(self.by.to_text());
        own.update([0]);
        own.update(key.as_str());
        let own = hex::encode(&own.finalize());
        match IdempotencyKey::new(own) {
            Ok(own) => commit.keyed_for(own, &self.what),
            // 64 letters and digits are a key.
            Err(_) => commit,
        }
    }
}

const PREFIX: &str = "flg_";

/// Ordered by age, because a list by key is to be one by age; unguessable, so that it counts nothing.
fn id_of(at: Timestamp, random: [u8; 16]) -> String {
    let random = hex::encode(&random[..8]);
    format!("{PREFIX}{:012x}{random}", at.0)
}

/// Whoever reports harm is not turned away for a field: any JSON object is a flag.
fn checked(about: &Bytes) -> Result<Box<RawValue>, Refused> {
    if about.len() > FLAG_BYTES_MAX {
        return Err(Refused::new(Code::TooLarge, format!("the flag has {} bytes", about.len()))
            .limit(FLAG_BYTES_MAX as u64)
            .hint("say where it is, and quote only what shows it"));
    }
    let invalid = |why: String| {
        Refused::new(Code::Invalid, why).hint("send a JSON object that says what happened and where")
    };
    wellformed::json("flag", about)?;
    let flag: Box<RawValue> = serde_json::from_slice(about).map_err(|error| invalid(error.to_string()))?;
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(flag.get()).map_err(|_| invalid("a flag is a JSON object".into()))?;
    if fields.is_empty() {
        return Err(invalid("the flag says nothing".into()));
    }
    Ok(flag)
}

fn read(entry: &Entry) -> Result<Option<Content>, Error> {
    let Some(content) = entry.content.as_ref().filter(|content| !content.is_erased()) else {
        return Ok(None);
    };
    serde_json::from_slice(&content.bytes).map(Some).map_err(|error| unreadable(&entry.key, &error))
}

fn flag(entry: &Entry) -> Result<Flag, Error> {
    let id = entry.key.to_string();
    Ok(match read(entry)? {
        Some(Content { raised_by, raised_at_ms, flag, resolution }) => {
            Flag { id, raised_by, raised_at: Timestamp(raised_at_ms), about: Some(flag), resolution }
        }
        None => {
            Flag { id, raised_by: String::new(), raised_at: entry.version.at, about: None, resolution: None }
        }
    })
}

fn erased(id: &str) -> Refused {
    Refused::new(Code::Conflict, format!("what flag {id} said was erased"))
        .hint("nothing is left that could be resolved")
}

fn unreadable(key: &Key, error: &serde_json::Error) -> Error {
    quorate_store::StoreError::Read(format!("flag {key} cannot be read: {error}").into()).into()
}
