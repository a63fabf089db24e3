//! Admission: all checks on the caller's side before a commit is passed to the writer. First structure and size, then
//! JSON and secrets. Large commits are checked on the blocking pool, so that they do not stall the caller's thread.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::{ActivePolicy, Commit, Policy, Refused, SpaceName};
use quorate_store::{Entropy, StoreError};

use crate::json_check;
use crate::secrets::{SecretFilter, SecretHandling, text_bytes};

/// Commits with more text than this are checked on the blocking pool.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Options of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Handling of secrets in durable content.
    pub secrets: SecretHandling,
    /// Handling of secrets in ephemeral messages, which are never written to disk.
    pub ephemeral_secrets: SecretHandling,
    /// How long heartbeats are batched before they are committed.
    pub heartbeat_batching: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            secrets: SecretHandling::Refuse,
            ephemeral_secrets: SecretHandling::Off,
            heartbeat_batching: Duration::from_secs(1),
        }
    }
}

/// Checks commits before they are passed to the writer.
pub(crate) struct Admission {
    options: Options,
    filter: SecretFilter,
}

impl Admission {
    pub(crate) fn new(options: Options, entropy: Arc<Entropy>) -> Arc<Self> {
        Arc::new(Self { options, filter: SecretFilter::new(entropy) })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Admits a commit, unchanged or with its secrets redacted.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        commit: Commit,
        policy: Arc<ActivePolicy>,
    ) -> Result<Result<Commit, Refused>, StoreError> {
        if let Err(refused) = commit.check() {
            return Ok(Err(refused));
        }
        if text_bytes(&commit) <= INLINE_BYTES_MAX {
            return Ok(self.scan(commit, &policy.policy, self.options.secrets));
        }
        let admission = Arc::clone(self);
        let scan = tokio::task::spawn_blocking(move || {
            admission.scan(commit, &policy.policy, admission.options.secrets)
        });
        scan.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and the hub with it.
            Err(_) => StoreError::Closed,
        })
    }

    /// Admits an ephemeral message. It does not reach the writer and is checked here regardless of its size.
    pub(crate) fn admit_ephemeral(&self, commit: Commit, policy: &Policy) -> Result<Commit, Refused> {
        commit.check()?;
        self.scan(commit, policy, self.options.ephemeral_secrets)
    }

    /// Admits the name of a new space.
    pub(crate) fn admit_space(&self, name: &SpaceName) -> Result<(), Refused> {
        self.filter.check_name("name of the space", name.as_str(), self.options.secrets)
    }

    fn scan(&self, mut commit: Commit, policy: &Policy, secrets: SecretHandling) -> Result<Commit, Refused> {
        json_check::check_commit(&commit, policy)?;
        json_check::mark_failures(&mut commit, policy);
        self.filter.filter(commit, policy, secrets)
    }
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("options", &self.options).finish_non_exhaustive()
    }
}
