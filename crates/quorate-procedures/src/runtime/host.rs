//! The runtimes of a hub: one per space and driver, started with the first procedure that it drives.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Weak};

use quorate_core::limits::PAYLOAD_BYTES_MAX;
use quorate_core::{AgentId, Code, Principal, Refused, SpaceNo, StartProcedure};
use quorate_engine::{Engine, Error, Space};
use tokio::sync::Mutex;

use super::{PAGE, Runtime};
use crate::finding::{FieldError, ROOT_PATH};
use crate::registry::{Kind, Registry};

/// Runtimes by space and driver.
pub struct ProcedureHost {
    registry: Arc<Registry>,
    runtimes: Mutex<BTreeMap<(SpaceNo, &'static str), Runtime>>,
}

impl ProcedureHost {
    /// Lets an engine check the procedures that are started, and drives those of known kinds, until the host is
    /// dropped.
    #[must_use]
    pub fn install(engine: &Engine, registry: Registry) -> Arc<Self> {
        let host = Arc::new(Self { registry: Arc::new(registry), runtimes: Mutex::default() });
        // The engine does not keep the host alive: its runtimes keep the engine alive.
        let weak = Arc::downgrade(&host);
        engine.on_procedure_start(move |space, principal, start| {
            let host = Weak::upgrade(&weak);
            Box::pin(async move {
                match host {
                    Some(host) => host.admit(space, principal, start).await,
                    None => Ok(start),
                }
            })
        });
        host
    }

    /// Returns the machines.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Resumes the procedures that were running when the hub stopped.
    ///
    /// # Errors
    /// If a registration is refused, or storage fails.
    pub async fn resume(&self, space: &Space) -> Result<(), Error> {
        let mut after = None;
        loop {
            // Those that are paused are resumed by a notice, which their driver has to receive.
            let page = space.procedures(None, after.as_ref(), PAGE).await?;
            for procedure in page.procedures.iter().filter(|procedure| !procedure.status.has_ended()) {
                if let Some(kind) = self.registry.kind_of(procedure) {
                    self.ensure(space, kind.driver).await?;
                }
            }
            after = page.cursor;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Stops all runtimes. Unfinished procedures are resumed by the next host.
    pub async fn stop(&self) {
        let runtimes = std::mem::take(&mut *self.runtimes.lock().await);
        for runtime in runtimes.into_values() {
            runtime.stop().await;
        }
    }

    async fn ensure(&self, space: &Space, driver: &'static str) -> Result<(), Error> {
        let mut runtimes = self.runtimes.lock().await;
        if let Entry::Vacant(vacant) = runtimes.entry((space.number(), driver)) {
            vacant.insert(Runtime::start(space.clone(), Arc::clone(&self.registry), driver).await?);
        }
        Ok(())
    }

    /// Checks a procedure that is about to be started, assigns its driver, and starts the runtime.
    async fn admit(
        &self,
        space: &Space,
        principal: &Principal,
        start: StartProcedure,
    ) -> Result<StartProcedure, Error> {
        let Some(kind) = self.registry.kind(&start.kind) else {
            self.check_outside_driver(principal, &start)?;
            return Ok(start);
        };
        let driver = match &start.driver {
            None => AgentId::new(kind.driver)?,
            Some(driver) if driver.as_str() == kind.driver => driver.clone(),
            Some(_) => return Ok(start),
        };
        let spec = start.spec.as_ref().map_or(&b"null"[..], |spec| &spec.bytes);
        // A larger specification is refused by its size, without parsing it.
        if spec.len() <= PAYLOAD_BYTES_MAX {
            kind.check(spec).map_err(|error| invalid_spec(kind, &error))?;
        }
        self.ensure(space, kind.driver).await?;
        Ok(StartProcedure { driver: Some(driver), ..start })
    }

    /// Refuses a procedure of a kind that the hub does not know, unless an agent drives it.
    fn check_outside_driver(&self, principal: &Principal, start: &StartProcedure) -> Result<(), Refused> {
        let kinds = self.registry.names();
        match &start.driver {
            // By default the calling agent is the driver.
            None if !matches!(principal, Principal::Agent(_)) => {
                let detail = format!("kind: the hub does not drive procedures of kind {:?}", start.kind);
                let hint = format!("set driver to the agent that drives it, or use the kind {kinds}");
                Err(Refused::new(Code::Invalid, detail).hint(hint))
            }
            Some(driver) if self.registry.drivers().any(|own| own == driver.as_str()) => {
                let detail = format!("driver: {driver} does not drive procedures of kind {:?}", start.kind);
                let hint = format!("set driver to another agent, or use the kind {kinds}");
                Err(Refused::new(Code::Invalid, detail).hint(hint))
            }
            None | Some(_) => Ok(()),
        }
    }
}

fn invalid_spec(kind: &Kind, error: &FieldError) -> Refused {
    let path = match error.path.as_str() {
        ROOT_PATH => "spec".to_owned(),
        path => format!("spec.{path}"),
    };
    Refused::new(Code::Invalid, format!("{path}: {}", error.reason))
        .hint(format!("{} lists the fields of a specification", kind.guide))
}
