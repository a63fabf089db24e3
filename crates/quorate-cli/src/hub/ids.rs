//! Ids as people type them: whole, as a beginning that only one has, or `@last` for the newest.

use quorate_client::Error;
use quorate_core::{Code, Refused};
use serde_json::Value;

use super::{Hub, segment};
use crate::config::nearest;
use crate::exit::{Ended, NOT_FOUND, USAGE};
use crate::shape::{Listed, field};
use crate::text;

/// How many are looked through for a beginning.
const PAGES_MAX: usize = 20;
/// How many at a time.
const PAGE: &str = "1000";
/// How many an error names.
const NAMED_MAX: usize = 5;

/// What an id is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noun {
    Message,
    Task,
    Session,
    Agent,
    Token,
    Approval,
    Deliberation,
    Flag,
    /// Known by its messages.
    Trace,
}

impl Noun {
    /// The command that is about it.
    fn command(self) -> &'static str {
        match self {
            Self::Message => "msg",
            Self::Task => "task",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Token => "token",
            Self::Approval => "approval",
            Self::Deliberation => "deliberation",
            Self::Flag => "flag",
            Self::Trace => "trace",
        }
    }

    /// The word, where they are listed, and the name of the list.
    fn about(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Message => ("message", "/v1/messages", "messages"),
            Self::Task => ("task", "/v1/tasks", "tasks"),
            Self::Session => ("session", "/v1/sessions", "sessions"),
            Self::Agent => ("agent", "/v1/agents", "agents"),
            Self::Token => ("token", "/v1/tokens", "tokens"),
            Self::Approval => ("approval", "/v1/approvals", "approvals"),
            Self::Deliberation => ("deliberation", "/v1/procedures", "procedures"),
            Self::Flag => ("flag", "/v1/flags", "flags"),
            Self::Trace => ("trace", "/v1/messages", "messages"),
        }
    }
}

impl Hub {
    /// The id that is meant.
    ///
    /// # Errors
    /// When none begins like that, or more than one.
    pub(crate) async fn id(&self, noun: Noun, typed: &str) -> anyhow::Result<String> {
        if typed == "@last" {
            let (all, _) = self.all(noun).await?;
            let newest = match noun {
                // The one that was heard last.
                Noun::Agent => all.iter().max_by_key(|item| field(item, "heardAt")),
                // Flags are listed oldest first, everything else newest first.
                Noun::Flag => all.last(),
                _ => all.first(),
            };
            return Ok(field(newest.ok_or_else(|| none_yet(noun))?, "id"));
        }
        if self.is_whole(noun, typed).await {
            return Ok(typed.to_owned());
        }
        // If they cannot be listed, the call itself says why.
        let (all, whole) = self.all(noun).await.unwrap_or_default();
        let ids: Vec<String> = all.iter().map(|item| field(item, "id")).collect();
        meant(noun, typed, &ids, whole)
    }

    /// Whether the hub knows it as it was typed. Any error will show again.
    async fn is_whole(&self, noun: Noun, typed: &str) -> bool {
        let (_, path, _) = noun.about();
        // Tokens are listed only.
        noun != Noun::Token && self.get(&format!("{path}/{}", segment(typed)), &[]).await.is_ok()
    }

    /// All of a noun, as far as one looks, and whether that is all.
    async fn all(&self, noun: Noun) -> anyhow::Result<(Vec<Value>, bool)> {
        let (_, path, name) = noun.about();
        let (mut found, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let query = [("limit", Some(PAGE.to_owned())), ("cursor", cursor.take())];
            let answer = self.get(path, &query).await?;
            let page = Listed::read(&answer, name)?;
            found.extend(page.values());
            cursor = page.cursor;
            if cursor.is_none() || noun == Noun::Message {
                break;
            }
        }
        Ok((found, cursor.is_none() && noun != Noun::Message))
    }
}

/// Nothing of the kind is there.
pub(crate) fn none_yet(noun: Noun) -> Ended {
    let (word, ..) = noun.about();
    Ended::new(NOT_FOUND, format!("there is no {word} yet"), format!("quorate {} --help", noun.command()))
}

/// Which of the ids is meant by what was typed; `whole`: there are no others.
///
/// # Errors
/// When none begins like that, or more than one.
pub(crate) fn meant(noun: Noun, typed: &str, ids: &[String], whole: bool) -> anyhow::Result<String> {
    let (word, ..) = noun.about();
    if ids.iter().any(|id| id == typed) {
        return Ok(typed.to_owned());
    }
    let mut begin: Vec<&String> = ids.iter().filter(|id| begins(id, typed)).collect();
    begin.sort_unstable();
    match begin.as_slice() {
        [one] => Ok((*one).clone()),
        [] if whole => {
            // To revoke a token by a slip, perhaps one's own, is worse than to type again.
            let near = Some(ids).filter(|_| noun != Noun::Token);
            let near = near.and_then(|ids| nearest(typed, ids.iter().map(String::as_str)));
            let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            let hint = format!("{near}`quorate {} list` shows what there is", noun.command());
            let detail = format!("there is no {word} {typed}");
            Err(Error::from(Refused::new(Code::NotFound, detail).hint(hint)).into())
        }
        // The hub knows better: it may be an older one.
        [] => Ok(typed.to_owned()),
        several => {
            let named: Vec<&str> = several.iter().take(NAMED_MAX).map(|id| id.as_str()).collect();
            let more = if several.len() > NAMED_MAX { " …" } else { "" };
            let typed = text::clean_line(typed);
            let message = format!("{} {word}s begin with {typed:?}", several.len());
            Err(Ended::new(USAGE, message, format!("say which: {}{more}", named.join(" "))).into())
        }
    }
}

/// With or without what all ids of a kind begin with: `msg_1-7` and `1-7`.
fn begins(id: &str, typed: &str) -> bool {
    !typed.is_empty()
        && (id.starts_with(typed) || id.split_once('_').is_some_and(|(_, rest)| rest.starts_with(typed)))
}
