//! Procedures as they are shown.

use quorate::{
    Error, ProcedureHead, ProcedureId, ProcedureInfo, ProcedurePage, ProcedureStatus, Seq, Version,
};
use quorate_core::{AgentId, Payload};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{At, Text, named, payload};

/// A procedure; a list shows none of its payloads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcedureIn<'a> {
    id: Text<ProcedureId>,
    kind: String,
    driver: Option<Text<AgentId>>,
    started_by: String,
    started_at: At,
    version: u64,
    seq: u64,
    status: String,
    phase: String,
    since: At,
    stepped_at: At,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl ProcedureIn<'_> {
    fn head(self) -> Result<ProcedureHead, Error> {
        Ok(ProcedureHead {
            id: self.id.0,
            kind: self.kind,
            driver: self.driver.map(|agent| agent.0),
            started_by: self.started_by,
            started_at: self.started_at.0,
            version: Version(self.version),
            seq: Seq(self.seq),
            status: named(&ProcedureStatus::ALL, ProcedureStatus::as_str, &self.status)?,
            phase: self.phase,
            since: self.since.0,
            stepped_at: self.stepped_at.0,
        })
    }

    pub(crate) fn read(self) -> Result<ProcedureInfo, Error> {
        let bytes = |raw: Option<&RawValue>| -> Result<Option<Payload>, Error> {
            raw.map(|raw| payload(Some(raw), None)).transpose()
        };
        let (spec, state, result) = (bytes(self.spec)?, bytes(self.state)?, bytes(self.result)?);
        Ok(ProcedureInfo::new(self.head()?, spec, state, result))
    }
}

#[derive(Deserialize)]
pub(crate) struct ProceduresIn<'a> {
    #[serde(borrow)]
    procedures: Vec<ProcedureIn<'a>>,
    cursor: Option<Text<ProcedureId>>,
}

impl ProceduresIn<'_> {
    pub(crate) fn read(self) -> Result<ProcedurePage, Error> {
        let procedures = self.procedures.into_iter().map(ProcedureIn::head).collect::<Result<_, _>>()?;
        Ok(ProcedurePage { procedures, cursor: self.cursor.map(|id| id.0) })
    }
}
