//! The supervisor of one agent: registers it, keeps it running, and stands by while another process runs it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorate::{AgentBuilder, AgentInfo, Code, Error, Hub, RunningAgent};
use quorate_core::DeclarationDigest;
use quorate_env::{Backoff, Entropy};
use tokio::sync::{oneshot, watch};

use super::event::{EventSink, StandbyReason, WorkerEvent};
use super::{WorkerError, letters, requests, tasks};
use crate::agent::DeclaredAgent;
use crate::declaration;

/// Maximum number of requests and tasks that an agent handles concurrently.
const CONCURRENCY: u32 = 4;
/// Interval in which an agent that stands by is checked.
const STANDBY_INTERVAL: Duration = Duration::from_secs(1);
/// Number of checks in a row that must find an agent disconnected before it is taken over. Its process may be reconnecting.
const CHECKS_BEFORE_TAKEOVER: u32 = 2;
/// First and maximum delay after a failure.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// What is supervised.
pub(super) enum Job {
    /// A declared agent.
    Declared(Arc<DeclaredAgent>),
    /// The agent that writes approved letters to this directory.
    Letters(PathBuf),
}

impl Job {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Declared(agent) => &agent.name,
            Self::Letters(_) => letters::OUTBOX,
        }
    }

    fn declaration(&self) -> DeclarationDigest {
        match self {
            Self::Declared(agent) => agent.declaration,
            Self::Letters(directory) => declaration::of_letters(directory),
        }
    }

    fn tasks(&self) -> Vec<String> {
        match self {
            Self::Declared(agent) => agent.tasks.clone(),
            Self::Letters(_) => Vec::new(),
        }
    }

    /// Fails if another process runs the agent from another declaration.
    pub(super) async fn require_same_declaration(&self, hub: &Hub) -> Result<(), WorkerError> {
        match self.availability(hub).await? {
            Availability::Taken(StandbyReason::OtherDeclaration { theirs, ours }) => {
                let agent = self.id().to_owned();
                Err(WorkerError::OtherDeclaration { agent, theirs, ours })
            }
            Availability::Free | Availability::Taken(_) => Ok(()),
        }
    }

    /// Returns whether another process runs the agent.
    async fn availability(&self, hub: &Hub) -> Result<Availability, Error> {
        let info: AgentInfo = match hub.agent_info(self.id()).await {
            Err(error) if error.code() == Code::NotFound => return Ok(Availability::Free),
            info => info?,
        };
        let (theirs, ours) = (info.declaration, self.declaration());
        Ok(match info.load.listening {
            0 => Availability::Free,
            _ if theirs == Some(ours) => Availability::Taken(StandbyReason::SameDeclaration),
            _ => Availability::Taken(StandbyReason::OtherDeclaration { theirs, ours }),
        })
    }

    fn builder(&self, hub: &Hub, events: &EventSink) -> AgentBuilder {
        let builder = hub.agent(self.id()).declaration(self.declaration()).concurrency(CONCURRENCY);
        match self {
            Self::Declared(agent) => {
                tasks::handle(requests::handle(builder, hub, agent, events), agent, events)
            }
            Self::Letters(directory) => letters::handle(builder, directory, events),
        }
    }
}

/// Supervises one agent.
pub(super) struct Supervisor {
    pub(super) hub: Hub,
    pub(super) job: Job,
    pub(super) events: EventSink,
    pub(super) stopped: watch::Receiver<bool>,
    pub(super) entropy: Arc<Entropy>,
}

/// Whether the agent can be registered.
enum Availability {
    /// No process runs it.
    Free,
    /// Another process runs it.
    Taken(StandbyReason),
}

/// Why a running agent ended.
enum RunEnd {
    Stopped,
    /// Another process registered it.
    Lost,
    Failed(Error),
}

/// Result of the first attempt to run an agent, until it is reported.
struct FirstState(Option<oneshot::Sender<Result<(), Error>>>);

impl FirstState {
    /// Reports the result, if none was reported before. Returns whether it was the first one.
    fn report(&mut self, result: Result<(), Error>) -> bool {
        self.0.take().is_some_and(|sender| sender.send(result).is_ok())
    }
}

impl Supervisor {
    /// Runs the agent until the worker stops. `first_state` gets the result of the first attempt.
    pub(super) async fn run(mut self, first_state: oneshot::Sender<Result<(), Error>>) {
        let mut first_state = FirstState(Some(first_state));
        let mut backoff = BACKOFF;
        // The first takeover needs no confirmation: nothing is known about another process.
        let (mut checks, mut standby) = (CHECKS_BEFORE_TAKEOVER - 1, None);
        loop {
            let pause = match self.job.availability(&self.hub).await {
                Ok(Availability::Free) if checks + 1 >= CHECKS_BEFORE_TAKEOVER => {
                    match self.register_and_run(&mut first_state).await {
                        RunEnd::Stopped => return,
                        RunEnd::Lost => {
                            (checks, standby) = (0, Some(StandbyReason::RegisteredElsewhere));
                            self.report_standby(StandbyReason::RegisteredElsewhere);
                            backoff = BACKOFF;
                            self.jittered(STANDBY_INTERVAL)
                        }
                        RunEnd::Failed(error) => {
                            standby = None;
                            self.report_failure(error, &mut first_state, &mut backoff)
                        }
                    }
                }
                Ok(Availability::Free) => {
                    checks += 1;
                    STANDBY_INTERVAL
                }
                Ok(Availability::Taken(reason)) => {
                    checks = 0;
                    if standby.as_ref() != Some(&reason) {
                        self.report_standby(reason.clone());
                        standby = Some(reason);
                    }
                    first_state.report(Ok(()));
                    backoff = BACKOFF;
                    self.jittered(STANDBY_INTERVAL)
                }
                Err(error) => self.report_failure(error, &mut first_state, &mut backoff),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop_requested() => return,
            }
        }
    }

    async fn register_and_run(&mut self, first_state: &mut FirstState) -> RunEnd {
        let running = tokio::select! {
            running = self.job.builder(&self.hub, &self.events).run() => running,
            () = self.stop_requested() => return RunEnd::Stopped,
        };
        let mut running: RunningAgent = match running {
            Ok(running) => running,
            // Another process registered it at the same moment.
            Err(error) if error.code() == Code::StaleEpoch => return RunEnd::Lost,
            Err(error) => return RunEnd::Failed(error),
        };
        let (agent, tasks) = (self.job.id().to_owned(), self.job.tasks());
        (self.events)(WorkerEvent::Connected { agent, tasks });
        first_state.report(Ok(()));
        let ended = tokio::select! {
            ended = running.wait() => ended,
            () = self.stop_requested() => {
                // The result is an earlier error, which no longer matters.
                let _ = running.stop().await;
                return RunEnd::Stopped;
            }
        };
        match ended {
            // The stream of deliveries of an embedded hub ends without an error.
            Ok(()) => RunEnd::Lost,
            Err(error) if error.code() == Code::StaleEpoch => RunEnd::Lost,
            Err(error) => RunEnd::Failed(error),
        }
    }

    fn report_standby(&self, reason: StandbyReason) {
        (self.events)(WorkerEvent::StandingBy { agent: self.job.id().to_owned(), reason });
    }

    /// Reports a failure, and returns the time until the next attempt. If the first attempt fails, the worker does not start.
    fn report_failure(&self, error: Error, first_state: &mut FirstState, backoff: &mut Backoff) -> Duration {
        let retry_after = backoff.next(&self.entropy);
        let (agent, reason) = (self.job.id().to_owned(), error.to_string());
        if !first_state.report(Err(error)) {
            (self.events)(WorkerEvent::AgentFailed { agent, reason, retry_after });
        }
        retry_after
    }

    /// Waits until the worker stops.
    async fn stop_requested(&mut self) {
        let _ = self.stopped.wait_for(|stop| *stop).await;
    }

    /// Returns 1.5 to 2 times this duration, at random, so that workers that stand by do not take over together.
    fn jittered(&self, duration: Duration) -> Duration {
        duration + Backoff::new(duration, duration).next(&self.entropy)
    }
}
