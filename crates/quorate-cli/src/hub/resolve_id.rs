//! Resolves ids given on the command line: a complete id, a unique prefix, or `@last` for the newest.

use quorate_agents::closest_match;
use quorate_client::Error;
use quorate_core::{Code, Refused};
use serde_json::Value;

use super::{Hub, percent_encode};
use crate::exit::{CommandError, NOT_FOUND, USAGE};
use crate::output::{ListResponse, field};
use crate::terminal;

/// Maximum number of pages to search for a prefix.
const PAGES_MAX: usize = 20;
/// Items per page.
const PAGE: &str = "1000";
/// Maximum number of ids in an error.
const NAMED_MAX: usize = 5;

/// Kinds of resources that have ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resource {
    Message,
    Task,
    Session,
    Agent,
    Token,
    Approval,
    Deliberation,
    Procedure,
    Flag,
    Request,
    /// Has no list; found by its messages.
    Trace,
}

impl Resource {
    /// Returns the name of the command for this resource.
    fn command(self) -> &'static str {
        match self {
            Self::Message => "msg",
            Self::Task => "task",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Token => "token",
            Self::Approval => "approval",
            Self::Deliberation => "deliberation",
            Self::Procedure => "procedure",
            Self::Flag => "flag",
            Self::Request => "request",
            Self::Trace => "trace",
        }
    }

    /// Returns the hint for an empty list.
    fn create_hint(self) -> &'static str {
        match self {
            Self::Message | Self::Trace => "send a message with `quorate msg send --to AGENT TEXT`",
            Self::Task => "create one with `quorate task add TYPE`",
            Self::Session => "create one with `quorate session open TITLE`",
            Self::Agent => "create one with `quorate agent add NAME`",
            Self::Token => "create one with `quorate token create --role ROLE --name NAME`",
            Self::Approval => "agents request approvals; `quorate approval watch` waits for them",
            Self::Deliberation => "start one with `quorate run FILE` or `quorate deliberate QUESTION`",
            Self::Procedure => "start one with `quorate procedure start KIND`",
            Self::Request => "send one with `quorate request send --to AGENT TEXT`",
            Self::Flag => "anyone can raise one with `quorate flag raise TEXT`",
        }
    }

    /// Returns the resource name, the path of its list, and the field of the list in the response.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Message => ("message", "/v1/messages", "messages"),
            Self::Task => ("task", "/v1/tasks", "tasks"),
            Self::Session => ("session", "/v1/sessions", "sessions"),
            Self::Agent => ("agent", "/v1/agents", "agents"),
            Self::Token => ("token", "/v1/tokens", "tokens"),
            Self::Approval => ("approval", "/v1/approvals", "approvals"),
            Self::Deliberation => ("deliberation", "/v1/procedures", "procedures"),
            Self::Procedure => ("procedure", "/v1/procedures", "procedures"),
            Self::Flag => ("flag", "/v1/flags", "flags"),
            Self::Request => ("request", "/v1/requests", "requests"),
            Self::Trace => ("trace", "/v1/messages", "messages"),
        }
    }
}

impl Hub {
    /// Resolves an id, a unique prefix, or `@last`.
    ///
    /// # Errors
    /// If no id matches, or more than one.
    pub(crate) async fn resolve_id(&self, resource: Resource, reference: &str) -> anyhow::Result<String> {
        if reference == "@last" {
            let (items, _) = self.list_all(resource).await?;
            let newest = match resource {
                // The agent with the most recent activity.
                Resource::Agent => items.iter().max_by_key(|item| field(item, "heardAt")),
                // Flags are listed oldest first, everything else newest first.
                Resource::Flag => items.last(),
                _ => items.first(),
            };
            return Ok(field(newest.ok_or_else(|| no_items(resource))?, "id"));
        }
        if self.is_complete_id(resource, reference).await {
            return Ok(reference.to_owned());
        }
        // If listing fails, the command's own request reports the error.
        let (items, is_complete) = self.list_all(resource).await.unwrap_or_default();
        let ids: Vec<String> = items.iter().map(|item| field(item, "id")).collect();
        match_id(resource, reference, &ids, is_complete)
    }

    /// Whether this is a complete id that the hub knows. An error here recurs in the command's own request.
    async fn is_complete_id(&self, resource: Resource, reference: &str) -> bool {
        let (_, path, _) = resource.names();
        // Tokens can only be listed.
        resource != Resource::Token
            && self.get(&format!("{path}/{}", percent_encode(reference)), &[]).await.is_ok()
    }

    /// Lists a resource up to the page limit. Returns the items and whether the list is complete.
    async fn list_all(&self, resource: Resource) -> anyhow::Result<(Vec<Value>, bool)> {
        let (_, path, name) = resource.names();
        let (mut found, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let query = [("limit", Some(PAGE.to_owned())), ("cursor", cursor.take())];
            let response = self.get(path, &query).await?;
            let page = ListResponse::parse(&response, name)?;
            found.extend(page.values());
            cursor = page.cursor;
            if cursor.is_none() || resource == Resource::Message {
                break;
            }
        }
        Ok((found, cursor.is_none() && resource != Resource::Message))
    }
}

/// Returns the error for `@last` of an empty list.
pub(crate) fn no_items(resource: Resource) -> CommandError {
    let (noun, ..) = resource.names();
    CommandError::new(NOT_FOUND, format!("there is no {noun} yet"), resource.create_hint())
}

/// Resolves an id or a unique prefix among these ids; `is_complete` states whether the list is complete.
///
/// # Errors
/// If no id matches, or more than one.
pub(crate) fn match_id(
    resource: Resource,
    reference: &str,
    ids: &[String],
    is_complete: bool,
) -> anyhow::Result<String> {
    let (noun, ..) = resource.names();
    if ids.iter().any(|id| id == reference) {
        return Ok(reference.to_owned());
    }
    let mut matches: Vec<&String> = ids.iter().filter(|id| has_prefix(id, reference)).collect();
    matches.sort_unstable();
    match matches.as_slice() {
        [id] => Ok((*id).clone()),
        [] if is_complete => {
            // Tokens get no suggestion: revoking the wrong one is worse than typing the id again.
            let closest = Some(ids).filter(|_| resource != Resource::Token);
            let closest = closest.and_then(|ids| closest_match(reference, ids.iter().map(String::as_str)));
            let command = resource.command();
            let hint = match closest {
                Some(closest) => format!("did you mean {closest}? Run `quorate {command} list` to list them"),
                None => format!("run `quorate {command} list` to list them"),
            };
            let detail = format!("there is no {noun} {reference}");
            Err(Error::from(Refused::new(Code::NotFound, detail).hint(hint)).into())
        }
        // The list is incomplete: the hub may know an older id.
        [] => Ok(reference.to_owned()),
        several => {
            let named: Vec<&str> = several.iter().take(NAMED_MAX).map(|id| id.as_str()).collect();
            let more = if several.len() > NAMED_MAX { " …" } else { "" };
            let reference = terminal::sanitize_line(reference);
            let message = format!("ambiguous id: {} {noun}s begin with {reference:?}", several.len());
            Err(CommandError::new(
                USAGE,
                message,
                format!("use a longer prefix of one of: {}{more}", named.join(" ")),
            )
            .into())
        }
    }
}

/// Whether an id has this prefix; the type prefix may be omitted, as in `1-7` for `msg_1-7`.
fn has_prefix(id: &str, reference: &str) -> bool {
    !reference.is_empty()
        && (id.starts_with(reference)
            || id.split_once('_').is_some_and(|(_, rest)| rest.starts_with(reference)))
}
