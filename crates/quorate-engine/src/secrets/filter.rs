//! Handling of secrets in a commit: refuse it, or redact the secrets.

use std::convert::Infallible;
use std::sync::Arc;

use quorate_core::{Code, Commit, Policy, Refused};
use quorate_store::Entropy;

use super::rewrite::rewrite;
use super::{Scanner, SecretMatch, texts};
use crate::json_check;

/// Handling of detected secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SecretHandling {
    /// The whole commit is refused with `SECRET_DETECTED`.
    #[default]
    Refuse,
    /// The secret is replaced with `[redacted:RULE]`. A secret in an identifier, such as a key, is still refused.
    Redact,
    /// Nothing is scanned.
    Off,
}

/// Scans every text of a commit.
pub(crate) struct SecretFilter {
    scanner: Scanner,
    entropy: Arc<Entropy>,
}

/// Location of a secret in a commit.
struct Location {
    op: usize,
    field: &'static str,
    found: SecretMatch,
}

impl SecretFilter {
    pub(crate) fn new(entropy: Arc<Entropy>) -> Self {
        Self { scanner: Scanner::new(), entropy }
    }

    /// Returns the commit, unchanged or redacted, or the refusal.
    pub(crate) fn filter(
        &self,
        commit: Commit,
        policy: &Policy,
        secrets: SecretHandling,
    ) -> Result<Commit, Refused> {
        match secrets {
            SecretHandling::Off => Ok(commit),
            SecretHandling::Refuse => match self.first(&commit) {
                Some(location) => Err(location.refused()),
                None => Ok(commit),
            },
            SecretHandling::Redact => self.redact(commit, policy),
        }
    }

    /// Checks a name that is not part of a commit.
    pub(crate) fn check_name(
        &self,
        label: &'static str,
        name: &str,
        secrets: SecretHandling,
    ) -> Result<(), Refused> {
        let enabled = Some(secrets).filter(|secrets| *secrets != SecretHandling::Off);
        let Some(SecretMatch { rule, offset, .. }) = enabled.and_then(|_| self.scanner.scan(name.as_bytes()))
        else {
            return Ok(());
        };
        let detail = format!("the {label} contains a possible secret ({rule}) at byte {offset}");
        Err(Refused::new(Code::SecretDetected, detail)
            .hint("choose another name; nothing was written")
            .rule(rule, label))
    }

    fn first(&self, commit: &Commit) -> Option<Location> {
        let visit = |op, field, bytes: &[u8]| match self.scanner.scan(bytes) {
            Some(found) => Err(Location { op, field, found }),
            None => Ok(()),
        };
        texts::each(commit, visit).err()
    }

    fn redact(&self, mut commit: Commit, policy: &Policy) -> Result<Commit, Refused> {
        let mut locations = Vec::new();
        let visit = |op, field, bytes: &[u8]| {
            locations.extend(self.scanner.scan(bytes).map(|found| Location { op, field, found }));
            Ok::<(), Infallible>(())
        };
        let Ok(()) = texts::each(&commit, visit);
        let Some(first) = locations.first().map(Location::refused) else { return Ok(commit) };
        for location in locations {
            let rewritten = rewrite(&commit.ops[location.op], location.field, &self.scanner, &self.entropy);
            commit.ops[location.op] = rewritten.ok_or_else(|| location.refused())?;
        }
        // The result must be well-formed and free of secrets; otherwise the secret cannot be redacted.
        let well_formed = commit.check().and_then(|()| json_check::check_commit(&commit, policy)).is_ok();
        if !well_formed || self.first(&commit).is_some() {
            return Err(first);
        }
        // The fingerprint of the idempotency key must not disclose anything about the secret either.
        Ok(match commit.key.take() {
            Some((key, _)) => commit.keyed(key),
            None => commit,
        })
    }
}

impl Location {
    fn refused(&self) -> Refused {
        let Self { op, field, found: SecretMatch { rule, offset, .. } } = *self;
        let detail =
            format!("the {field} of operation {op} contains a possible secret ({rule}) at byte {offset}");
        let mut refused = Refused::new(Code::SecretDetected, detail)
            .hint("store the secret in a secret manager and send a reference to it; nothing was written")
            .rule(rule, field)
            .at_op(op);
        refused.facts.offset = Some(offset);
        refused
    }
}
