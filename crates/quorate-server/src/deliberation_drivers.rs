//! Deliberations driven by the hub: one driver agent per space, started with the first deliberation.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use quorate_core::{
    AgentId, Code, Op, Principal, Procedure, ProcedureStatus, Refused, SpaceNo, StartProcedure,
};
use quorate_engine::{Error, Space};
use quorate_procedures::deliberation::Spec;
use quorate_procedures::finding::{FieldError, ROOT_PATH};
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
///
/// # Errors
/// `INVALID` if the spec of such a deliberation is invalid, or if nobody would drive a procedure.
pub(crate) async fn assign_driver(
    app: &App,
    space: &Space,
    principal: &Principal,
    ops: &mut [Op],
) -> Result<(), Error> {
    let mut is_needed = false;
    for (index, op) in ops.iter_mut().enumerate() {
        if let Op::StartProcedure(start) = op {
            is_needed |= is_driven_by_hub(start, principal).map_err(|refused| refused.at_op(index))?;
        }
    }
    if is_needed { app.deliberation_drivers().ensure(space).await } else { Ok(()) }
}

fn is_driven_by_hub(start: &mut StartProcedure, principal: &Principal) -> Result<bool, Refused> {
    if start.kind != DELIBERATION_KIND {
        // By default the calling agent is the driver.
        if start.driver.is_none() && !matches!(principal, Principal::Agent(_)) {
            let detail = format!("kind: the hub does not drive procedures of kind {:?}", start.kind);
            let hint = format!("set driver to the agent that drives it, or use the kind {DELIBERATION_KIND}");
            return Err(Refused::new(Code::Invalid, detail).hint(hint));
        }
        return Ok(false);
    }
    let driver = start.driver.get_or_insert(AgentId::new(DELIBERATION_DRIVER)?);
    if driver.as_str() != DELIBERATION_DRIVER {
        return Ok(false);
    }
    let spec = start.spec.as_ref().map_or(&b"null"[..], |spec| &spec.bytes);
    let invalid = |error: FieldError| {
        let path = match error.path.as_str() {
            ROOT_PATH => "spec".to_owned(),
            path => format!("spec.{path}"),
        };
        Refused::new(Code::Invalid, format!("{path}: {}", error.reason))
            .hint("docs/guides/deliberation.md lists the fields of a specification")
    };
    Spec::parse(spec).map_err(invalid)?;
    Ok(true)
}
