//! What happens to a commit in which a secret is found: refused, or let in without it.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::{Code, Commit, Policy, Refused};
use quorate_store::Chance;

use super::rewrite::rewrite;
use super::{Found, Scanner, texts};
use crate::check;

/// What is done with a secret that is found in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Secrets {
    /// The whole commit is refused with `SECRET_DETECTED`.
    #[default]
    Refuse,
    /// `[redacted:RULE]` is written in its place. What is found in a name, such as a key, is still refused.
    Redact,
    /// Nothing is looked for.
    Off,
}

/// Looks at every text of a commit.
pub(crate) struct Sieve {
    scanner: Scanner,
    chance: Arc<Chance>,
}

/// Where in a commit something was found.
struct Place {
    op: usize,
    field: &'static str,
    found: Found,
}

impl Sieve {
    pub(crate) fn new(chance: Arc<Chance>) -> Self {
        Self { scanner: Scanner::new(), chance }
    }

    /// The commit, as it is or without its secrets; or the refusal.
    pub(crate) fn pass(&self, commit: Commit, policy: &Policy, secrets: Secrets) -> Result<Commit, Refused> {
        match secrets {
            Secrets::Off => Ok(commit),
            Secrets::Refuse => match self.first(&commit) {
                Some(place) => Err(place.refused()),
                None => Ok(commit),
            },
            Secrets::Redact => self.redact(commit, policy),
        }
    }

    /// A name that comes with no commit.
    pub(crate) fn check_name(&self, what: &'static str, name: &str, secrets: Secrets) -> Result<(), Refused> {
        let found = Some(secrets).filter(|secrets| *secrets != Secrets::Off);
        let Some(Found { rule, offset, .. }) = found.and_then(|_| self.scanner.scan(name.as_bytes())) else {
            return Ok(());
        };
        let detail = format!("the {what} holds what looks like a secret ({rule}) at byte {offset}");
        Err(Refused::new(Code::SecretDetected, detail)
            .hint("choose another name; nothing was written")
            .rule(rule, what))
    }

    fn first(&self, commit: &Commit) -> Option<Place> {
        let see = |op, field, bytes: &[u8]| match self.scanner.scan(bytes) {
            Some(found) => Err(Place { op, field, found }),
            None => Ok(()),
        };
        texts::each(commit, see).err()
    }

    fn redact(&self, mut commit: Commit, policy: &Policy) -> Result<Commit, Refused> {
        let mut places = Vec::new();
        let see = |op, field, bytes: &[u8]| {
            places.extend(self.scanner.scan(bytes).map(|found| Place { op, field, found }));
            Ok::<(), Infallible>(())
        };
        let Ok(()) = texts::each(&commit, see);
        let Some(first) = places.first().map(Place::refused) else { return Ok(commit) };
        for place in places {
            let rewritten = rewrite(&commit.ops[place.op], place.field, &self.scanner, &self.chance);
            commit.ops[place.op] = rewritten.ok_or_else(|| place.refused())?;
        }
        // What was well formed must remain so, and nothing may be left; else the secret cannot be cut out.
        let well_formed = commit.check().and_then(|()| check::texts(&commit, policy)).is_ok();
        if !well_formed || self.first(&commit).is_some() {
            return Err(first);
        }
        // The fingerprint under which it may be repeated must not tell anything about the secret either.
        Ok(match commit.key.take() {
            Some((key, _)) => commit.keyed(key),
            None => commit,
        })
    }
}

impl Place {
    fn refused(&self) -> Refused {
        let Self { op, field, found: Found { rule, offset, .. } } = *self;
        let detail =
            format!("the {field} of operation {op} holds what looks like a secret ({rule}) at byte {offset}");
        let mut refused = Refused::new(Code::SecretDetected, detail)
            .hint("keep the secret where it belongs and send its name; nothing was written")
            .rule(rule, field)
            .at_op(op);
        refused.facts.offset = Some(offset);
        refused
    }
}
