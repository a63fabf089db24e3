//! Deliberations, in which agents review independently, discuss disagreements and vote, and proposals of their outcome. An
//! embedded hub drives them in this process.

use std::sync::Arc;

use quorate_engine::Error;
use quorate_procedures::{
    DELIBERATION_DRIVER, DELIBERATION_KIND, PROCEDURE_DRIVER, ProcedureHost, Registry,
    deliberation::Spec,
    proposal::{PROPOSAL_KIND, ProposalSpec},
};

use crate::hub::Hub;
use crate::procedure::ProcedureDraft;

impl Hub {
    /// Resumes the procedures of the kinds that this release knows, and drives all that are started later, until the
    /// host is dropped. A remote hub does this itself.
    ///
    /// # Errors
    /// Returns `INVALID` for a remote hub, or an error if a driver cannot register or the storage fails.
    pub async fn drive_procedures(&self) -> Result<Arc<ProcedureHost>, Error> {
        self.drive_procedures_with(Registry::standard()).await
    }

    /// Drives procedures with these machines.
    ///
    /// # Errors
    /// See [`Hub::drive_procedures`].
    pub async fn drive_procedures_with(&self, registry: Registry) -> Result<Arc<ProcedureHost>, Error> {
        let space =
            self.require_embedded("driving procedures", "start a procedure; the remote hub drives it")?;
        let host = ProcedureHost::install(space.engine(), registry);
        host.resume(space).await?;
        Ok(host)
    }
}

impl ProcedureDraft {
    /// Creates a draft of a deliberation, driven by the hub.
    pub fn deliberation(spec: &Spec) -> Self {
        Self::new(DELIBERATION_KIND, spec).driver(DELIBERATION_DRIVER)
    }

    /// Creates a draft of a proposal, driven by the hub.
    pub fn proposal(spec: &ProposalSpec) -> Self {
        Self::new(PROPOSAL_KIND, spec).driver(PROCEDURE_DRIVER)
    }
}
