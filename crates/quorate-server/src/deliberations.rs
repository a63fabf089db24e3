//! Deliberations are driven by the hub itself: in each space by an agent that comes into being with the first of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use quorate_core::{AgentId, Op, ProcedureStatus, SpaceNo};
use quorate_engine::{Error, Space};
use quorate_procedures::{DRIVER, Driver, KIND};
use tokio::sync::Mutex;

use crate::app::App;

/// Procedures that are looked at in one page.
const PAGE: usize = 500;

/// The driver of each space that has had a deliberation.
#[derive(Default)]
pub(crate) struct Drivers(Mutex<BTreeMap<SpaceNo, Driver>>);

impl Drivers {
    async fn ensure(&self, space: &Space) -> Result<(), Error> {
        let mut drivers = self.0.lock().await;
        if let Entry::Vacant(vacant) = drivers.entry(space.number()) {
            vacant.insert(Driver::start(space.clone()).await?);
        }
        Ok(())
    }

    /// Goes on with what was under way when the hub stopped.
    pub(crate) async fn take_up(&self, space: &Space) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = space.procedures(Some(ProcedureStatus::Running), after.as_ref(), PAGE).await?;
            if page
                .procedures
                .iter()
                .any(|one| one.driver.as_ref().is_some_and(|agent| agent.as_str() == DRIVER))
            {
                return self.ensure(space).await;
            }
            after = page.cursor;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

/// Lets the hub drive the deliberations that a commit starts for nobody else to drive.
pub(crate) async fn driven(app: &App, space: &Space, ops: &mut [Op]) -> Result<(), Error> {
    let mut is_needed = false;
    for op in ops {
        if let Op::StartProcedure(start) = op
            && start.kind == KIND
        {
            let driver = start.driver.get_or_insert(AgentId::new(DRIVER)?);
            is_needed |= driver.as_str() == DRIVER;
        }
    }
    if is_needed { app.drivers().ensure(space).await } else { Ok(()) }
}
