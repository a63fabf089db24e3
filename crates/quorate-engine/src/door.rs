//! The door: everything that is looked at on the caller's side before a commit goes to the writer. Shape and size, then
//! JSON and secrets. What is large is read on the blocking pool, so that it does not hold up others on the caller's thread.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::{Commit, InForce, Policy, Refused, SpaceName};
use quorate_store::{Chance, StoreError};

use crate::check;
use crate::secrets::{Secrets, Sieve, text_bytes};

/// Commits with more text than this are read on the blocking pool.
const ON_THE_SPOT_BYTES: usize = 64 * 1024;

/// What an engine does with what comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What is done with a secret in what would be written.
    pub secrets: Secrets,
    /// What is done with a secret in an ephemeral message, of which nothing is written.
    pub ephemeral_secrets: Secrets,
    /// How long signs of life are gathered before the head is told of them.
    pub gather: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { secrets: Secrets::Refuse, ephemeral_secrets: Secrets::Off, gather: Duration::from_secs(1) }
    }
}

/// Lets commits in.
pub(crate) struct Door {
    options: Options,
    sieve: Sieve,
}

impl Door {
    pub(crate) fn new(options: Options, chance: Arc<Chance>) -> Arc<Self> {
        Arc::new(Self { options, sieve: Sieve::new(chance) })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Lets a commit in, as it is or without its secrets.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        commit: Commit,
        policy: Arc<InForce>,
    ) -> Result<Result<Commit, Refused>, StoreError> {
        if let Err(refused) = commit.check() {
            return Ok(Err(refused));
        }
        if text_bytes(&commit) <= ON_THE_SPOT_BYTES {
            return Ok(self.read(commit, &policy.rules, self.options.secrets));
        }
        let door = Arc::clone(self);
        let read =
            tokio::task::spawn_blocking(move || door.read(commit, &policy.rules, door.options.secrets));
        read.await.map_err(|ended| match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and the hub with it.
            Err(_) => StoreError::Closed,
        })
    }

    /// Lets an ephemeral message in. It does not go to the writer, and is read here whatever its size.
    pub(crate) fn admit_ephemeral(&self, commit: Commit, policy: &Policy) -> Result<Commit, Refused> {
        commit.check()?;
        self.read(commit, policy, self.options.ephemeral_secrets)
    }

    /// Lets the name of a new space in.
    pub(crate) fn admit_space(&self, name: &SpaceName) -> Result<(), Refused> {
        self.sieve.check_name("name of the space", name.as_str(), self.options.secrets)
    }

    fn read(&self, commit: Commit, policy: &Policy, secrets: Secrets) -> Result<Commit, Refused> {
        check::texts(&commit, policy)?;
        self.sieve.pass(commit, policy, secrets)
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("options", &self.options).finish_non_exhaustive()
    }
}
