//! The hub: a data directory, opened.

#[cfg(feature = "embedded")]
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "embedded")]
use std::time::Duration;

use quorate_api::Error;
use quorate_api::page::{Page, PageQuery};
use quorate_api::query::{Before, MessageFilter, MessagesPage, OutboxPage};
use quorate_core::{AgentFilter, AgentId, Commit, Counts, Op, Policy, Principal, Violation, Why};
#[cfg(feature = "embedded")]
use quorate_core::{Code, Refused};
#[cfg(feature = "embedded")]
use quorate_engine::{Engine, Secrets, Space};
#[cfg(feature = "embedded")]
use quorate_env::{Chance, Clock, SystemClock};
#[cfg(feature = "embedded")]
use quorate_sqlite::{Options, SqliteStore};
#[cfg(feature = "embedded")]
use quorate_store::Position;

use crate::agent::AgentBuilder;
use crate::link::Link;
use crate::memory::Memory;
use crate::session::{Session, SessionInfo};
use crate::view::{AgentInfo, DeadLetter, InboxDelivery, MessageWithDeliveries};

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
            SqliteStore::open(directory.as_ref(), settings.store.clone(), wiring).map(|store| store as _)
        })?;
        // Conduct flags have a store of their own, with its own clock, numbers and chain.
        let private = Engine::start(Arc::clone(engine.clock()), Chance::system(), |wiring| {
            let directory = quorate_sqlite::private_of(directory.as_ref());
            SqliteStore::open(&directory, settings.store, wiring).map(|store| store as _)
        })?;
        engine.keep_flags_in(private);
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

    /// The space underneath, for everything that has no verb of its own. `None` over the network, where there is none.
    #[cfg(feature = "embedded")]
    #[must_use]
    pub fn space(&self) -> Option<&Space> {
        self.link.space()
    }

    /// The space, for what only a hub in this process can do.
    #[cfg(feature = "embedded")]
    pub(crate) fn only_here(&self, elsewhere: &str, instead: &str) -> Result<&Space, Error> {
        self.space().ok_or_else(|| {
            Refused::new(Code::Invalid, format!("a hub that is reached over the network {elsewhere}"))
                .hint(instead)
                .into()
        })
    }

    /// How many deliveries are in each state.
    ///
    /// # Errors
    /// `FORBIDDEN` for who does not run the hub, or a failure of the storage.
    pub async fn counts(&self) -> Result<Counts, Error> {
        Ok(self.link.counts().await?.0)
    }

    /// The rules of the space: who may reach whom, how large and of what shape messages may be.
    ///
    /// # Errors
    /// When the hub is out of reach.
    pub async fn policy(&self) -> Result<Policy, Error> {
        self.link.policy().await
    }

    /// Sets the rules of the space.
    ///
    /// # Errors
    /// `INVALID` for rules beyond what the hub can do, `FORBIDDEN`, or a failure of the storage.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), Error> {
        let commit = Commit::new(Principal::System, vec![Op::SetPolicy(policy)]);
        self.link.commit(commit).await.map(drop)
    }

    /// What the rules refused since the hub was opened, oldest first: the newest 1,000.
    ///
    /// # Errors
    /// `FORBIDDEN` for who may not know, or when the hub is out of reach.
    pub async fn violations(&self) -> Result<Vec<Violation>, Error> {
        self.link.violations().await
    }

    /// Why a message, a task or a procedure is where it is: what it waits for, what happens next, and when.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn why(&self, id: &str) -> Result<Why, Error> {
        self.link.why(id.to_owned()).await
    }

    /// Agents with their load, at most 1,000: those that can do something, answer an action, have a role, are idle.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn agents(&self, filter: AgentFilter) -> Result<Vec<AgentInfo>, Error> {
        self.link.agents(filter).await
    }

    /// One agent as others see it: description, presence, load, current task.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn agent_state(&self, id: &str) -> Result<AgentInfo, Error> {
        self.link.agent(AgentId::new(id)?).await
    }

    /// What lies in an agent's inbox and has not ended: the first of it, by number.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn inbox(&self, agent: &str, limit: usize) -> Result<Vec<InboxDelivery>, Error> {
        self.link.inbox(AgentId::new(agent)?, limit).await
    }

    /// What an agent sent before a place, newest first.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn outbox(
        &self,
        agent: &str,
        before: Option<Before>,
        limit: usize,
    ) -> Result<OutboxPage, Error> {
        self.link.outbox(AgentId::new(agent)?, before, limit).await
    }

    /// A message and where its deliveries are, by its id or by the one that its sender gave it.
    ///
    /// # Errors
    /// `NOT_FOUND`, or a failure of the storage.
    pub async fn message(&self, id: &str) -> Result<MessageWithDeliveries, Error> {
        self.link.message(id.to_owned()).await
    }

    /// Messages before a place, newest first. A page may be short and still have a cursor.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        before: Option<Before>,
        limit: usize,
    ) -> Result<MessagesPage, Error> {
        self.link.messages(filter, before, limit).await
    }

    /// The first dead letters of an agent, or of all.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown agent, or a failure of the storage.
    pub async fn dead_letters(&self, agent: Option<&str>, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        let agent = agent.map(AgentId::new).transpose()?;
        self.link.dead_letters(agent, limit).await
    }

    /// Gives out a dead letter again, with all its tries.
    ///
    /// # Errors
    /// `NOT_FOUND` if it is none, or a failure of the storage.
    pub async fn redrive(&self, letter: &DeadLetter) -> Result<(), Error> {
        let commit = Commit::new(Principal::System, vec![Op::Redrive { delivery: letter.delivery_id }]);
        self.link.commit(commit).await.map(drop)
    }

    /// A page of sessions.
    ///
    /// # Errors
    /// When the storage fails.
    pub async fn sessions(&self, page: PageQuery) -> Result<Page<SessionInfo>, Error> {
        self.link.sessions(page).await
    }

    #[cfg(feature = "embedded")]
    /// Writes a copy of everything while work goes on. Says how far it reaches in each space. Only of a hub in this process.
    ///
    /// # Errors
    /// When the directory is not empty or cannot be written; `INVALID` over the network, where there is no such directory.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<Vec<Position>, Error> {
        let space = self.only_here(
            "cannot write into a directory of this machine",
            "run `quorate backup` where the hub's data is",
        )?;
        let copied = space.engine().store().backup(to.as_ref()).await?;
        if let Some(private) = space.engine().private() {
            private.store().backup(&quorate_sqlite::private_of(to.as_ref())).await?;
        }
        Ok(copied)
    }

    /// Writes what is queued, and lets go of the data directory or the connections.
    pub async fn close(self) {
        self.link.close().await;
    }
}
