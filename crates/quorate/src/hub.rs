//! The hub: entry point of the library.

#[cfg(feature = "embedded")]
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "embedded")]
use std::time::Duration;

use quorate_api::Error;
use quorate_api::page::{Page, PageQuery};
use quorate_api::query::{MessageCursor, MessageFilter, MessagesPage, OutboxPage};
use quorate_core::{
    AgentFilter, AgentId, Commit, DeliveryStateCounts, Op, Policy, Principal, Violation, Why,
};
#[cfg(feature = "embedded")]
use quorate_core::{Code, Refused};
#[cfg(feature = "embedded")]
use quorate_engine::{Engine, SecretHandling, Space};
#[cfg(feature = "embedded")]
use quorate_env::{Clock, Entropy, SystemClock};
#[cfg(feature = "embedded")]
use quorate_sqlite::{Options, SqliteStore};
#[cfg(feature = "embedded")]
use quorate_store::BackupPosition;

use crate::agent::AgentBuilder;
use crate::backend::Backend;
use crate::memory::Memory;
use crate::read_models::{AgentInfo, DeadLetter, InboxDelivery, MessageWithDeliveries};
use crate::session::{Session, SessionInfo};

/// Default interval between consistency checks of the shared memory.
#[cfg(feature = "embedded")]
const CHECK_INTERVAL: Duration = Duration::from_secs(600);

/// Options for opening an embedded hub.
#[cfg(feature = "embedded")]
#[derive(Clone)]
pub struct HubOptions {
    /// Name of the space (tenant) to open.
    pub space: String,
    /// Source of time. Use a [`ManualClock`](crate::ManualClock) to test timeouts and expiry.
    pub clock: Arc<dyn Clock>,
    /// Source of random bytes.
    pub entropy: Arc<Entropy>,
    /// Storage options: sizes of the write-ahead log and the memtables.
    pub store: Options,
    /// Interval between consistency checks of the shared memory; `None` disables them. See [`Memory::check`].
    pub check_interval: Option<Duration>,
    /// Handling of secrets detected in durable writes. Writes that contain a secret are rejected by default.
    pub secret_handling: SecretHandling,
    /// Handling of secrets detected in ephemeral messages, which are never stored. They are not scanned by default.
    pub ephemeral_secret_handling: SecretHandling,
}

#[cfg(feature = "embedded")]
impl Default for HubOptions {
    fn default() -> Self {
        Self {
            space: "default".into(),
            clock: SystemClock::new(),
            entropy: Entropy::system(),
            store: Options::default(),
            check_interval: Some(CHECK_INTERVAL),
            secret_handling: SecretHandling::Refuse,
            ephemeral_secret_handling: SecretHandling::Off,
        }
    }
}

/// A hub: embedded in this process or reached over the network.
///
/// Cheap to clone. [`Hub::close`] releases the data directory or the connections.
#[derive(Clone)]
pub struct Hub {
    pub(crate) backend: Arc<dyn Backend>,
}

/// Error returned when a hub cannot be opened.
#[cfg(feature = "embedded")]
#[derive(Debug, thiserror::Error)]
pub enum OpenHubError {
    /// The data directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] quorate_sqlite::OpenError),
    /// The space cannot be opened.
    #[error(transparent)]
    Space(#[from] Error),
}

#[cfg(feature = "embedded")]
impl Hub {
    /// Opens a data directory with default options, creating it if it does not exist.
    ///
    /// # Errors
    /// Fails if the directory is in use by another process, is not a Quorate data directory, is corrupt, or cannot be
    /// written. The directory is not modified in that case.
    pub async fn open(directory: impl AsRef<Path>) -> Result<Self, OpenHubError> {
        Self::open_with(directory, HubOptions::default()).await
    }

    /// Opens a data directory with the given options.
    ///
    /// # Errors
    /// See [`Hub::open`].
    pub async fn open_with(directory: impl AsRef<Path>, options: HubOptions) -> Result<Self, OpenHubError> {
        let name = quorate_core::SpaceName::new(&options.space).map_err(Error::from)?;
        let engine_options = quorate_engine::Options {
            secrets: options.secret_handling,
            ephemeral_secrets: options.ephemeral_secret_handling,
            ..quorate_engine::Options::default()
        };
        let engine = Engine::start_with(engine_options, options.clock, options.entropy, |context| {
            SqliteStore::open(directory.as_ref(), options.store.clone(), context).map(|store| store as _)
        })?;
        // Conduct flags are stored in a separate private store with its own sequence numbers and hash chain.
        let private = Engine::start(Arc::clone(engine.clock()), Entropy::system(), |context| {
            let directory = quorate_sqlite::private_directory(directory.as_ref());
            SqliteStore::open(&directory, options.store, context).map(|store| store as _)
        })?;
        engine.store_flags_in(private);
        let space = engine.space(name).await?;
        options.check_interval.into_iter().for_each(|interval| space.check_every(interval));
        Ok(Self { backend: Arc::new(space) })
    }
}

impl Hub {
    /// Creates a hub on top of a [`Backend`]. Only needed by implementations of a backend.
    #[must_use]
    pub fn from_backend(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    /// Returns a builder for an agent with this id.
    pub fn agent(&self, id: impl Into<String>) -> AgentBuilder {
        AgentBuilder::new(Arc::clone(&self.backend), id.into())
    }

    /// Returns the shared memory, accessed as the hub itself. To act as an agent, use
    /// [`Agent::memory`](crate::Agent::memory).
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory::new(Arc::clone(&self.backend), Principal::System, None)
    }

    /// Returns a handle to a session, accessed as the hub itself. To act as an agent, use
    /// [`Agent::session`](crate::Agent::session).
    #[must_use]
    pub fn session(&self, id: impl Into<String>) -> Session {
        Session::new(Arc::clone(&self.backend), Principal::System, None, id.into())
    }

    /// Returns the underlying space of an embedded hub, or `None` for a remote one. Gives access to engine operations
    /// that the library does not wrap.
    #[cfg(feature = "embedded")]
    #[must_use]
    pub fn space(&self) -> Option<&Space> {
        self.backend.space()
    }

    /// Returns the space of an embedded hub, or an error for operations that a remote hub does not support.
    #[cfg(feature = "embedded")]
    pub(crate) fn require_embedded(&self, operation: &str, hint: &str) -> Result<&Space, Error> {
        self.space().ok_or_else(|| {
            Refused::new(Code::Invalid, format!("not supported by a remote hub: {operation}"))
                .hint(hint)
                .into()
        })
    }

    /// Returns the number of deliveries in each state.
    ///
    /// # Errors
    /// Returns `FORBIDDEN` if the caller may not read statistics, or a storage error.
    pub async fn counts(&self) -> Result<DeliveryStateCounts, Error> {
        Ok(self.backend.counts().await?.0)
    }

    /// Returns the policy of the space: routing rules, size limits and message formats.
    ///
    /// # Errors
    /// Returns `UNAVAILABLE` if the hub cannot be reached.
    pub async fn policy(&self) -> Result<Policy, Error> {
        self.backend.policy().await
    }

    /// Replaces the policy of the space.
    ///
    /// # Errors
    /// Returns `INVALID` for a policy that the hub cannot enforce, `FORBIDDEN`, or a storage error.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), Error> {
        let commit = Commit::new(Principal::System, vec![Op::SetPolicy(policy)]);
        self.backend.commit(commit).await.map(drop)
    }

    /// Returns the most recent policy violations, oldest first, at most 1,000.
    ///
    /// # Errors
    /// Returns `FORBIDDEN` if the caller may not read violations, or `UNAVAILABLE` if the hub cannot be reached.
    pub async fn violations(&self) -> Result<Vec<Violation>, Error> {
        self.backend.violations().await
    }

    /// Explains the current state of a message, task or procedure: what it waits for, what happens next, and when.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn why(&self, id: &str) -> Result<Why, Error> {
        self.backend.why(id.to_owned()).await
    }

    /// Returns the agents that match a filter, with their load, at most 1,000.
    ///
    /// Agents can be filtered by capability, supported action, role and status.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn agents(&self, filter: AgentFilter) -> Result<Vec<AgentInfo>, Error> {
        self.backend.agents(filter).await
    }

    /// Returns one agent: registration, presence, load and current task.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn agent_info(&self, id: &str) -> Result<AgentInfo, Error> {
        self.backend.agent(AgentId::new(id)?).await
    }

    /// Returns the open deliveries of an agent's inbox, lowest delivery number first.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn inbox(&self, agent: &str, limit: usize) -> Result<Vec<InboxDelivery>, Error> {
        self.backend.inbox(AgentId::new(agent)?, limit).await
    }

    /// Returns a page of the messages that an agent sent, newest first, starting before a cursor.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn outbox(
        &self,
        agent: &str,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> Result<OutboxPage, Error> {
        self.backend.outbox(AgentId::new(agent)?, before, limit).await
    }

    /// Returns a message and the state of its deliveries, by message id or by the id chosen by its sender.
    ///
    /// # Errors
    /// Returns `NOT_FOUND`, or a storage error.
    pub async fn message(&self, id: &str) -> Result<MessageWithDeliveries, Error> {
        self.backend.message(id.to_owned()).await
    }

    /// Returns a page of messages, newest first, starting before a cursor. A page can contain fewer messages than the
    /// limit and still have a cursor.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageCursor>,
        limit: usize,
    ) -> Result<MessagesPage, Error> {
        self.backend.messages(filter, before, limit).await
    }

    /// Returns the first dead letters of one agent, or of all agents.
    ///
    /// # Errors
    /// Returns `NOT_FOUND` for an unknown agent, or a storage error.
    pub async fn dead_letters(&self, agent: Option<&str>, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        let agent = agent.map(AgentId::new).transpose()?;
        self.backend.dead_letters(agent, limit).await
    }

    /// Redelivers a dead letter, with its attempt count reset.
    ///
    /// # Errors
    /// Returns `NOT_FOUND` if the delivery is not a dead letter, or a storage error.
    pub async fn redrive(&self, dead_letter: &DeadLetter) -> Result<(), Error> {
        let commit = Commit::new(Principal::System, vec![Op::Redrive { delivery: dead_letter.delivery_id }]);
        self.backend.commit(commit).await.map(drop)
    }

    /// Returns a page of sessions.
    ///
    /// # Errors
    /// Returns a storage error.
    pub async fn sessions(&self, page: PageQuery) -> Result<Page<SessionInfo>, Error> {
        self.backend.sessions(page).await
    }

    #[cfg(feature = "embedded")]
    /// Writes a consistent copy of all data to an empty directory while the hub keeps running. Returns the position
    /// that the copy reaches in each space. Embedded hubs only.
    ///
    /// # Errors
    /// Fails if the directory is not empty or cannot be written. Returns `INVALID` for a remote hub.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<Vec<BackupPosition>, Error> {
        let space = self.require_embedded(
            "backup to a local directory",
            "run `quorate backup` on the machine that stores the hub's data",
        )?;
        // The main store completes the copy, so it comes last.
        if let Some(private) = space.engine().private_engine() {
            private.store().backup(&quorate_sqlite::private_directory(to.as_ref())).await?;
        }
        Ok(space.engine().store().backup(to.as_ref()).await?)
    }

    /// Flushes queued writes, then releases the data directory or closes the connections.
    pub async fn close(self) {
        self.backend.close().await;
    }
}
