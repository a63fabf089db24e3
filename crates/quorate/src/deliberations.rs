//! Deliberations: agents that disagree, discuss and decide. A hub in this process drives them itself.

use quorate_engine::Error;
use quorate_procedures::{DRIVER, Driver, KIND, deliberation::Spec};

use crate::hub::Hub;
use crate::procedure::ProcedureDraft;

impl Hub {
    /// Takes up the deliberations that are under way, and drives those that are started from now on. A hub that is
    /// reached over the network does that by itself.
    ///
    /// # Errors
    /// `INVALID` over the network; the refusal, or a failure of the storage.
    pub async fn drive_deliberations(&self) -> Result<Driver, Error> {
        let space =
            self.only_here("drives its deliberations itself", "start one, and the hub goes on with it")?;
        Driver::start(space.clone()).await
    }
}

impl ProcedureDraft {
    /// A deliberation, driven by the hub.
    pub fn deliberation(spec: &Spec) -> Self {
        Self::new(KIND, spec).driver(DRIVER)
    }
}
