//! Audit API: exports the log in several formats, verifies its hash chain, and returns checkpoints.

mod audit_text;
mod verify;

use std::collections::VecDeque;

use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use quorate_api::IdResolver;
use quorate_api::audit::{
    AuditExportQuery, AuditRecord, AuditVerifyQuery, Checkpoint, ExportFormat, LogVerification,
};
use quorate_api::event::Effect;
use quorate_core::hash_chain::genesis_hash;
use quorate_core::{Code, Permission, Record, Refused, Seq, SpaceId};
use quorate_engine::{Error, Space, Yielder};

use crate::api::{Route, get};
use crate::bulk::{ChunkSender, Owner, RECORD_CHUNK_BYTES};
use crate::call::{ApiResult, Call, Credential, ok_response};
use audit_text::DeliveryReporter;

/// Records per read.
const PAGE: usize = 256;
/// Records read before the first exported one, to find the messages of deliveries that end in the range.
const LOOKBACK_RECORDS: u64 = 10_000;

/// Not accessible to agents: the log contains the traffic of all agents.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        get("/v1/audit", "audit.export", "Export the log, as JSON lines or as text.")
            .requires(Permission::Inspect)
            .query_parameters::<AuditExportQuery>()
            .returns_stream::<AuditRecord>("One record per line.", JSONL)
            .returns_media(200, "One event per line, as text.", TEXT)
            .handled_in_bulk_by(export),
        get("/v1/audit/verify", "audit.verify", "Verify the hash chain of the log.")
            .requires(Permission::Inspect)
            .query_parameters::<AuditVerifyQuery>()
            .returns::<LogVerification>(200, "The result of the verification.")
            .handled_in_bulk_by(verify::verify),
        get(
            "/v1/audit/checkpoint",
            "audit.checkpoint",
            "Get a checkpoint of the log, to be stored elsewhere.",
        )
        .requires(Permission::Inspect)
        .returns::<Checkpoint>(200, "Sequence number and hash of the newest record.")
        .handled_by(checkpoint),
    ]
}

/// JSON lines.
const JSONL: &str = "application/jsonl";
/// Plain text.
const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) async fn export(call: Call) -> ApiResult {
    let query: AuditExportQuery = call.query()?;
    let head = call.space.published().head.seq;
    let from = Seq(query.from.unwrap_or(1));
    if from.0 == 0 || query.limit == Some(0) {
        return Err(Refused::new(Code::Invalid, "from and limit must be at least 1")
            .hint("use from=1 for the first record")
            .into());
    }
    let to = Seq(query.to.unwrap_or(head.0).min(head.0));
    let (id, name) = space_of(&call)?;
    let (chunks, body) = ChunkSender::new(&call);
    let export = Export {
        space: call.space.clone(),
        name,
        credential: call.credential.clone(),
        format: query.format,
        from,
        to: query.limit.map_or(to, |limit| to.min(Seq(from.0.saturating_add(limit - 1)))),
        previous: previous_hash(&call.space, id, from).await?,
        chunks,
    };
    call.app.bulk().spawn(&Owner::of_call(&call), export.run());
    let content_type = match query.format {
        ExportFormat::Text => TEXT,
        _ => JSONL,
    };
    let headers = [(header::CONTENT_TYPE, content_type)];
    Ok((StatusCode::OK, headers, body).into_response())
}

/// Returns a checkpoint of the log. Stored elsewhere, it reveals a rewritten history.
pub(crate) async fn checkpoint(call: Call) -> ApiResult {
    let (_, name) = space_of(&call)?;
    ok_response(&Checkpoint::new(name, &call.space.published().head))
}

/// Returns the id and name of the caller's space.
pub(super) fn space_of(call: &Call) -> Result<(SpaceId, String), Refused> {
    let spaces = call.app.engine().store().spaces();
    let found = spaces.into_iter().find(|info| info.number == call.space.number());
    let found = found.map(|info| (info.id, info.name.to_string()));
    found.ok_or_else(|| Refused::new(Code::Unavailable, "the store has no id for this space"))
}

/// Returns the previous hash of a record.
async fn previous_hash(space: &Space, id: SpaceId, seq: Seq) -> Result<Option<[u8; 32]>, Error> {
    if seq.0 <= 1 {
        return Ok(Some(genesis_hash(id)));
    }
    let before = Seq(seq.0 - 1);
    let records = space.records_without_payloads(before, 1).await?;
    Ok(records.into_iter().next().filter(|record| record.seq == before).map(|record| record.hash))
}

/// A running export.
struct Export {
    space: Space,
    name: String,
    credential: Credential,
    format: ExportFormat,
    from: Seq,
    to: Seq,
    previous: Option<[u8; 32]>,
    chunks: ChunkSender,
}

impl Export {
    /// Renders chunk by chunk, as fast as the client reads. A client detects an aborted export by its missing end.
    async fn run(mut self) {
        let (mut reporter, mut yielder) = (DeliveryReporter::default(), Yielder::default());
        let needs_lookback = matches!(self.format, ExportFormat::Decisions | ExportFormat::Messages);
        let mut next =
            if needs_lookback { Seq(self.from.0.saturating_sub(LOOKBACK_RECORDS).max(1)) } else { self.from };
        let mut buffered = VecDeque::new();
        while next <= self.to {
            let Ok(slot) = self.chunks.reserve().await else { return };
            // The token may have been revoked while the client was reading.
            if !self.credential.is_valid() {
                return;
            }
            if buffered.is_empty() {
                let count = PAGE.min((self.to.0 - next.0) as usize + 1);
                let Ok(records) = self.space.records_without_payloads(next, count).await else { return };
                buffered = records.into();
            }
            if buffered.is_empty() {
                return;
            }
            let mut text = String::new();
            while text.len() < RECORD_CHUNK_BYTES
                && let Some(record) = buffered.pop_front()
            {
                next = Seq(record.seq.0 + 1);
                self.render(&mut reporter, &record, &mut text);
                yielder.after_record(&record).await;
            }
            slot.send(text);
        }
    }

    fn render(&mut self, reporter: &mut DeliveryReporter, record: &Record, out: &mut String) {
        let published = self.space.published();
        let is_exported = record.seq >= self.from;
        match self.format {
            ExportFormat::Jsonl => {
                let agents = audit_text::NamesOrNumbers(&published.agents);
                let names = IdResolver { agents: &agents, generations: &published.generations };
                let effects = Effect::from_record(record, &names);
                let line = AuditRecord::new(&self.name, record, effects, self.previous.take().as_ref());
                out.push_str(&serde_json::to_string(&line).unwrap_or_default());
                out.push('\n');
            }
            ExportFormat::Text => audit_text::append_text(record, &published, out),
            ExportFormat::Decisions => reporter.decisions(record, &self.space, is_exported, out),
            ExportFormat::Messages => reporter.messages(record, &self.space, is_exported, out),
        }
    }
}
