//! Registry of machines by kind, and machines with their state behind one interface.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::{AgentId, Procedure};
use serde_json::Value;

use crate::deliberation::DeliberationMachine;
use crate::finding::FieldError;
use crate::machine::{Machine, OnRefusal, ProcedureContext, ProcedureEvent, ProcedureOutput, Wait};
use crate::pipeline::PipelineMachine;
use crate::proposal::ProposalMachine;
use crate::tournament::TournamentMachine;

/// Field of a stored state with the version of the state; 1 if it is missing.
const VERSION_FIELD: &str = "stateVersion";

/// Machines by kind.
pub struct Registry(BTreeMap<&'static str, Kind>);

/// Opens a machine for a specification and a stored state.
type OpenInstance = fn(&[u8], Option<&[u8]>) -> Result<Box<dyn Instance>, OpenError>;

/// A kind of procedure that the hub drives.
pub(crate) struct Kind {
    /// Agent that drives the procedures of this kind.
    pub(crate) driver: &'static str,
    /// Page that describes its specification.
    pub(crate) guide: &'static str,
    /// What happens to a procedure whose step is refused.
    pub(crate) on_refusal: OnRefusal,
    check: fn(&[u8]) -> Result<(), FieldError>,
    open: OpenInstance,
    visible_state: fn(&[u8], &str) -> Option<Vec<u8>>,
}

/// Why the specification or state of a procedure cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The specification is invalid.
    #[error("spec: {0}")]
    Spec(FieldError),
    /// The state cannot be parsed.
    #[error("invalid state: {0}")]
    State(serde_json::Error),
    /// The state was stored by another release, which this one cannot read.
    #[error(
        "needs_upgrade: the state has version {stored}, and this release reads version {supported}; \
         upgrade the hub"
    )]
    Version {
        /// Version of the stored state.
        stored: u32,
        /// Version that this release reads.
        supported: u32,
    },
}

/// A machine with its state.
pub(crate) trait Instance: Send {
    fn step(&mut self, event: ProcedureEvent, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput>;
    fn pending_outputs(&self, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput>;
    fn state(&self) -> Result<Vec<u8>, serde_json::Error>;
    fn phase(&self) -> String;
    fn waits_for(&self) -> Vec<Wait>;
    /// Returns a call of [`Machine::prepare`].
    fn preparation(&self) -> Box<dyn FnOnce() + Send>;
}

struct MachineInstance<M: Machine> {
    machine: Arc<M>,
    state: M::State,
}

impl<M: Machine> MachineInstance<M> {
    fn open(spec: &[u8], state: Option<&[u8]>) -> Result<Box<dyn Instance>, OpenError> {
        let machine = Arc::new(M::parse(spec).map_err(OpenError::Spec)?);
        let state = match state {
            None => M::State::default(),
            Some(bytes) => parse_state::<M>(bytes)?,
        };
        Ok(Box::new(Self { machine, state }))
    }
}

fn parse_state<M: Machine>(bytes: &[u8]) -> Result<M::State, OpenError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Versioned {
        #[serde(default = "first_version")]
        state_version: u32,
    }
    let first = Versioned { state_version: first_version() };
    // A state that is not an object has no version.
    let stored = serde_json::from_slice(bytes).unwrap_or(first).state_version;
    if stored == M::STATE_VERSION {
        return serde_json::from_slice(bytes).map_err(OpenError::State);
    }
    let state = serde_json::from_slice(bytes).map_err(OpenError::State)?;
    M::upgrade(stored, state).ok_or(OpenError::Version { stored, supported: M::STATE_VERSION })
}

fn first_version() -> u32 {
    1
}

impl<M: Machine> Instance for MachineInstance<M> {
    fn step(&mut self, event: ProcedureEvent, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        self.machine.step(&mut self.state, event, context)
    }

    fn pending_outputs(&self, context: &ProcedureContext<'_>) -> Vec<ProcedureOutput> {
        self.machine.pending_outputs(&self.state, context)
    }

    fn state(&self) -> Result<Vec<u8>, serde_json::Error> {
        if M::STATE_VERSION == first_version() {
            return serde_json::to_vec(&self.state);
        }
        let mut state = serde_json::to_value(&self.state)?;
        if let Value::Object(fields) = &mut state {
            fields.insert(VERSION_FIELD.into(), M::STATE_VERSION.into());
        }
        serde_json::to_vec(&state)
    }

    fn phase(&self) -> String {
        self.machine.phase(&self.state)
    }

    fn waits_for(&self) -> Vec<Wait> {
        self.machine.waits_for(&self.state)
    }

    fn preparation(&self) -> Box<dyn FnOnce() + Send> {
        let machine = Arc::clone(&self.machine);
        Box::new(move || machine.prepare())
    }
}

impl Registry {
    /// Returns a registry without machines.
    #[must_use]
    pub fn empty() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns the machines of this release.
    #[must_use]
    pub fn standard() -> Self {
        Self::empty()
            .with::<DeliberationMachine>()
            .with::<PipelineMachine>()
            .with::<ProposalMachine>()
            .with::<TournamentMachine>()
    }

    /// Adds a machine.
    #[must_use]
    pub fn with<M: Machine>(mut self) -> Self {
        let kind = Kind {
            driver: M::DRIVER,
            guide: M::GUIDE,
            on_refusal: M::ON_REFUSAL,
            check: |spec| M::parse(spec).map(drop),
            open: MachineInstance::<M>::open,
            visible_state: M::visible_state,
        };
        self.0.insert(M::KIND, kind);
        self
    }

    pub(crate) fn kind(&self, kind: &str) -> Option<&Kind> {
        self.0.get(kind)
    }

    /// Returns the agents that drive procedures for the hub.
    pub(crate) fn drivers(&self) -> impl Iterator<Item = &'static str> {
        let mut drivers: Vec<_> = self.0.values().map(|kind| kind.driver).collect();
        drivers.sort_unstable();
        drivers.dedup();
        drivers.into_iter()
    }

    /// Names of all kinds, for a hint.
    pub(crate) fn names(&self) -> String {
        self.0.keys().copied().collect::<Vec<_>>().join(", ")
    }

    /// Returns what a procedure waits for; empty for a kind that the hub does not drive, or a state that it cannot
    /// read.
    #[must_use]
    pub fn waits_for(&self, procedure: &Procedure, spec: &[u8], state: Option<&[u8]>) -> Vec<Wait> {
        let instance = self.kind_of(procedure).and_then(|kind| kind.open(spec, state).ok());
        instance.map_or_else(Vec::new, |instance| instance.waits_for())
    }

    /// Returns the state of a running procedure as an agent may see it; `None` hides it.
    #[must_use]
    pub fn visible_state(&self, procedure: &Procedure, stored: &[u8], agent: &str) -> Option<Vec<u8>> {
        match self.kind_of(procedure) {
            Some(kind) => (kind.visible_state)(stored, agent),
            None => Some(stored.to_vec()),
        }
    }

    /// Returns the kind of a procedure that the hub drives.
    pub(crate) fn kind_of(&self, procedure: &Procedure) -> Option<&Kind> {
        let driver = procedure.driver.as_ref().map(AgentId::as_str);
        self.kind(&procedure.kind).filter(|kind| Some(kind.driver) == driver)
    }
}

impl Kind {
    /// Checks a specification.
    pub(crate) fn check(&self, spec: &[u8]) -> Result<(), FieldError> {
        (self.check)(spec)
    }

    /// Opens a machine with a stored state; `None` is the initial state.
    pub(crate) fn open(&self, spec: &[u8], state: Option<&[u8]>) -> Result<Box<dyn Instance>, OpenError> {
        (self.open)(spec, state)
    }
}

#[cfg(test)]
mod tests;
