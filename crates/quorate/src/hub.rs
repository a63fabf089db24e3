//! The hub: a data directory, opened.

use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "embedded")]
use std::time::Duration;

use quorate_core::limits::VIEW_MAX;
use quorate_core::{
    AgentFilter, AgentId, AgentNo, Counts, DeliveryId, DeliveryNo, Op, Policy, Principal, Seq, Violation, Why,
};
use quorate_engine::{AgentView, Error, Letter, OutboxPage, Space};
#[cfg(feature = "embedded")]
use quorate_engine::{Engine, Secrets};
#[cfg(feature = "embedded")]
use quorate_sqlite::{Options, SqliteStore};
#[cfg(feature = "embedded")]
use quorate_store::{Chance, Clock, SystemClock};
use quorate_store::{DeadLetter, Position, StoreError};

use crate::agent::AgentBuilder;
use crate::link::Link;
use crate::memory::Memory;
use crate::session::Session;

/// How often the shared memory is looked through.
#[cfg(feature = "embedded")]
const CHECK_EVERY: Duration = Duration::from_secs(600);

/// How to open a hub.
#[cfg(feature = "embedded")]
#[derive(Clone)]
pub struct Settings {
    /// The space to work in.
    pub space: String,
    /// What time it is. Give a [`SetClock`](crate::SetClock) to test what time brings about.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub chance: Arc<Chance>,
    /// How the data is kept.
    pub store: Options,
    /// How often to look whether the shared memory fits together; `None` is only when asked. See [`Memory::check`].
    pub check_every: Option<Duration>,
    /// What is done with a secret in what agents write: refused if nothing is said.
    pub secrets: Secrets,
    /// The same for ephemeral messages, of which nothing is written: not looked at if nothing is said.
    pub ephemeral_secrets: Secrets,
}

#[cfg(feature = "embedded")]
impl Default for Settings {
    fn default() -> Self {
        Self {
            space: "default".into(),
            clock: SystemClock::new(),
            chance: Chance::system(),
            store: Options::default(),
            check_every: Some(CHECK_EVERY),
            secrets: Secrets::Refuse,
            ephemeral_secrets: Secrets::Off,
        }
    }
}

/// A hub in this process, or one that is reached over the network. Cheap to clone; a data directory is free again after
/// [`Hub::close`].
#[derive(Clone)]
pub struct Hub {
    pub(crate) link: Arc<dyn Link>,
}

/// Why a hub could not be opened.
#[cfg(feature = "embedded")]
#[derive(Debug, thiserror::Error)]
pub enum OpenHubError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] quorate_sqlite::OpenError),
    /// The space cannot be used.
    #[error(transparent)]
    Space(#[from] Error),
}

#[cfg(feature = "embedded")]
impl Hub {
    /// Opens a data directory; makes it if there is none.
    ///
    /// # Errors
    /// When it is in use, not ours, damaged, or cannot be written. Nothing is changed then.
    pub async fn open(directory: impl AsRef<Path>) -> Result<Self, OpenHubError> {
        Self::open_with(directory, Settings::default()).await
    }

    /// Opens a data directory with settings.
    ///
    /// # Errors
    /// As [`Hub::open`].
    pub async fn open_with(directory: impl AsRef<Path>, settings: Settings) -> Result<Self, OpenHubError> {
        let name = quorate_core::SpaceName::new(&settings.space).map_err(Error::from)?;
        let doors = quorate_engine::Options {
            secrets: settings.secrets,
            ephemeral_secrets: settings.ephemeral_secrets,
            ..quorate_engine::Options::default()
        };
        let engine = Engine::start_with(doors, settings.clock, settings.chance, |wiring| {
            SqliteStore::open(directory.as_ref(), settings.store, wiring).map(|store| store as _)
        })?;
        let space = engine.space(name).await?;
        settings.check_every.into_iter().for_each(|every| space.check_every(every));
        Ok(Self { link: Arc::new(space) })
    }
}

impl Hub {
    /// A hub at the other end of a link: for those who make links.
    #[must_use]
    pub fn over(link: Arc<dyn Link>) -> Self {
        Self { link }
    }

    /// An agent, to be described and then to join or run.
    pub fn agent(&self, id: impl Into<String>) -> AgentBuilder {
        AgentBuilder::new(Arc::clone(&self.link), id.into())
    }

    /// Shared memory, read and written in the name of the hub itself. Agents have their own view: `agent.memory()`.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory::new(Arc::clone(&self.link), Principal::System, None)
    }

    /// A session, led in the name of the hub itself. Agents have their own view: `agent.session(…)`.
    #[must_use]
    pub fn session(&self, id: impl Into<String>) -> Session {
        Session::new(Arc::clone(&self.link), Principal::System, None, id.into())
    }

    /// How many deliveries are in each state.
    ///
    /// # Panics
    /// Over the network, as [`Hub::space`].
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.space().published().counts
    }

    /// The space underneath, for everything that has no verb of its own.
    ///
    /// # Panics
    /// Over the network, where there is none: [`Hub::is_here`] tells.
    #[must_use]
    pub fn space(&self) -> &Space {
        self.link.space().expect("a hub in this process")
    }

    /// Whether the hub is in this process.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.link.space().is_some()
    }

    /// The rules of the space: who may reach whom, how large and of what shape messages may be.
    ///
    /// # Panics
    /// Over the network, as [`Hub::space`].
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.space().policy().rules.clone()
    }

    /// Sets the rules of the space.
    ///
    /// # Errors
    /// `INVALID` for rules beyond what the hub can do, or a failure of the storage.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), Error> {
        self.link.here()?.set_policy(policy).await
    }

    /// What the rules refused since the hub was opened, oldest first: the newest 1,000.
    ///
    /// # Panics
    /// Over the network, as [`Hub::space`].
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.space().violations()
    }

    /// Why a message, a task or a procedure is where it is: what it waits for, what happens next, and when.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn why(&self, id: &str) -> Result<Why, Error> {
        self.link.here()?.why(id).await
    }

    /// Agents with their load, at most 1,000: those that can do something, answer an action, have a role, are idle.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn agents(&self, filter: AgentFilter) -> Result<Vec<AgentView>, Error> {
        self.link.here()?.agents(filter, AgentNo(0), VIEW_MAX).await
    }

    /// One agent as others see it: description, presence, load, current task.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn agent_state(&self, id: &str) -> Result<AgentView, Error> {
        self.link.here()?.agent(&AgentId::new(id)?).await
    }

    /// What lies in an agent's inbox and has not ended: the first of it, by number.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn inbox(&self, agent: &str, limit: usize) -> Result<Vec<Letter>, Error> {
        self.link.here()?.inbox(&AgentId::new(agent)?, DeliveryNo(0), limit).await
    }

    /// What an agent sent before a record, newest first.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn outbox(&self, agent: &str, before: Option<Seq>, limit: usize) -> Result<OutboxPage, Error> {
        self.link.here()?.outbox(&AgentId::new(agent)?, before, limit).await
    }

    /// The first dead letters of an agent, or of all.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown agent, or a failure of the storage.
    pub async fn dead_letters(&self, agent: Option<&str>, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        let agent = agent.map(AgentId::new).transpose()?;
        self.link.here()?.dead_letters(agent.as_ref(), DeliveryNo(0), limit).await
    }

    /// Gives out a dead letter again, with all its tries.
    ///
    /// # Errors
    /// `NOT_FOUND` if it is none, or a failure of the storage.
    pub async fn redrive(&self, letter: &DeadLetter) -> Result<(), Error> {
        let delivery: DeliveryId = self.link.here()?.published().eras.delivery_id(letter.delivery);
        let commit = quorate_core::Commit::new(Principal::System, vec![Op::Redrive { delivery }]);
        self.link.here()?.commit(commit).await.map(drop)
    }

    /// Writes a copy of everything while work goes on. Says how far it reaches in each space.
    ///
    /// # Errors
    /// When the directory is not empty or cannot be written.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<Vec<Position>, Error> {
        Ok(self.link.here()?.engine().store().backup(to.as_ref()).await?)
    }

    /// Ends when the storage has failed for good: stop the process then, and start it again.
    ///
    /// # Panics
    /// Over the network, as [`Hub::space`].
    pub async fn failure(&self) -> StoreError {
        self.space().engine().failure().await
    }

    /// Writes what is queued, and lets go of the data directory or the connections.
    pub async fn close(self) {
        self.link.close().await;
    }
}
