//! Deliberations driven by the hub: one driver agent per space, started with the first deliberation.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use quorate_core::{AgentId, Op, Procedure, ProcedureStatus, SpaceNo};
use quorate_engine::{Error, Space};
use quorate_procedures::{DELIBERATION_DRIVER, DELIBERATION_KIND, Driver};
use tokio::sync::Mutex;

use crate::app::App;

/// Page size when scanning procedures.
const PAGE: usize = 500;

/// Deliberation drivers by space.
#[derive(Default)]
pub(crate) struct DeliberationDrivers(Mutex<BTreeMap<SpaceNo, Driver>>);

impl DeliberationDrivers {
    async fn ensure(&self, space: &Space) -> Result<(), Error> {
        let mut drivers = self.0.lock().await;
        if let Entry::Vacant(vacant) = drivers.entry(space.number()) {
            vacant.insert(Driver::start(space.clone()).await?);
        }
        Ok(())
    }

    /// Resumes the deliberations that were running when the hub stopped.
    pub(crate) async fn resume(&self, space: &Space) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = space.procedures(Some(ProcedureStatus::Running), after.as_ref(), PAGE).await?;
            if page.procedures.iter().any(is_driven) {
                return self.ensure(space).await;
            }
            after = page.cursor;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

/// Whether the hub drives this procedure.
pub(crate) fn is_driven(procedure: &Procedure) -> bool {
    procedure.driver.as_ref().is_some_and(|agent| agent.as_str() == DELIBERATION_DRIVER)
}

/// Assigns the hub as driver to deliberations that a commit starts without one, and starts the driver of the space.
pub(crate) async fn assign_driver(app: &App, space: &Space, ops: &mut [Op]) -> Result<(), Error> {
    let mut is_needed = false;
    for op in ops {
        if let Op::StartProcedure(start) = op
            && start.kind == DELIBERATION_KIND
        {
            let driver = start.driver.get_or_insert(AgentId::new(DELIBERATION_DRIVER)?);
            is_needed |= driver.as_str() == DELIBERATION_DRIVER;
        }
    }
    if is_needed { app.deliberation_drivers().ensure(space).await } else { Ok(()) }
}
