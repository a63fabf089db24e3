//! The procedure runtime: every output and event, kills after every record, and the changes that others make.

mod cancelled_outputs;
mod figures;
mod kill_each_record;
mod lifecycle;
mod proposals;
mod recorder_machine;
mod refused_steps;
mod script_machine;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorate::{Hub, ProcedureDraft, ProcedureHost, ProcedureInfo, ProcedureStatus, Registry};
use serde_json::Value;

use crate::deliberation::fixture::hub_with_faults;
use script_machine::{Script, ScriptStep};

/// Upper bound on waits that normally end at once. It only prevents a hanging test.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Opens a hub that drives scripts.
async fn open(data: &Path) -> (Hub, Arc<ProcedureHost>) {
    let hub = hub_with_faults(data, Box::new(|_, _| None)).await;
    let host = hub.drive_procedures_with(Registry::empty().with::<Script>()).await.expect("it drives");
    (hub, host)
}

async fn close(hub: Hub, host: Arc<ProcedureHost>) {
    host.stop().await;
    drop(host);
    hub.close().await;
}

async fn start(hub: &Hub, id: &str, steps: &[ScriptStep]) {
    hub.start_procedure(ProcedureDraft::new("script", steps).id(id)).await.expect("started");
}

/// Waits until a procedure no longer runs.
async fn wait(hub: &Hub, id: &str) -> ProcedureInfo {
    let info = hub.wait_for_procedure(id, WAIT_MAX).await.expect("it exists");
    assert_ne!(info.procedure().status, ProcedureStatus::Running, "{:?}", info.state::<Value>());
    info
}

/// Waits until a procedure is in this phase.
async fn wait_for_phase(hub: &Hub, id: &str, phase: &str) -> ProcedureInfo {
    let mut info = hub.procedure(id).await.expect("it exists");
    while info.procedure().phase != phase {
        assert_eq!(info.procedure().status, ProcedureStatus::Running, "{:?}", info.procedure());
        info = hub.wait_for_procedure_step(id, info.version(), WAIT_MAX).await.expect("it exists");
    }
    info
}

/// Returns the log of a script that is done.
fn log_of(info: &ProcedureInfo) -> Value {
    assert_eq!(
        info.procedure().status,
        ProcedureStatus::Done,
        "{:?} {:?}",
        info.procedure(),
        info.result::<Value>()
    );
    info.result::<Value>().expect("JSON").expect("a result")["log"].clone()
}
