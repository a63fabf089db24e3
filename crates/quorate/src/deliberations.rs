//! Deliberations: agents review independently, discuss disagreements and vote. An embedded hub drives them in this
//! process.

use quorate_engine::Error;
use quorate_procedures::{DELIBERATION_DRIVER, DELIBERATION_KIND, Driver, deliberation::Spec};

use crate::hub::Hub;
use crate::procedure::ProcedureDraft;

impl Hub {
    /// Resumes running deliberations, and drives all that are started later. A remote hub does this itself.
    ///
    /// # Errors
    /// Returns `INVALID` for a remote hub, or an error if the driver cannot register or the storage fails.
    pub async fn drive_deliberations(&self) -> Result<Driver, Error> {
        let space =
            self.require_embedded("driving deliberations", "start a deliberation; the remote hub drives it")?;
        Driver::start(space.clone()).await
    }
}

impl ProcedureDraft {
    /// Creates a draft of a deliberation, driven by the hub.
    pub fn deliberation(spec: &Spec) -> Self {
        Self::new(DELIBERATION_KIND, spec).driver(DELIBERATION_DRIVER)
    }
}
