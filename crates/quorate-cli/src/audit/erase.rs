//! `quorate audit erase`: blanks one payload. The record stays, and the chain still verifies.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use quorate::{Hub, Settings};
use quorate_core::{Code, Commit, ErasePayload, Op, Principal, Refused, Seq, SpaceName, codec};
use quorate_engine::Error;
use quorate_sqlite::ExportError;
use serde_json::json;

use crate::shape::Shape;
use crate::text;

/// Which payload.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate audit erase 17 0 --data team")]
pub(crate) struct EraseArgs {
    /// The record, as `seq` in an export.
    #[arg(value_name = "SEQ")]
    pub(super) seq: u64,
    /// Which payload of that record, as `part` in an export, starting at 0.
    #[arg(value_name = "PART")]
    pub(super) part: u32,
    /// Only say what would be erased.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Which payload, and where.
struct Place<'a> {
    seq: u64,
    part: u32,
    data: &'a Path,
    space: SpaceName,
}

/// In a data directory that no hub uses meanwhile.
pub(super) async fn run(
    args: EraseArgs,
    data: &Path,
    space: Option<SpaceName>,
    shape: &Shape,
) -> anyhow::Result<()> {
    let EraseArgs { seq, part, dry_run } = args;
    let space = space.map_or_else(|| "default".parse(), Ok)?;
    let place = Place { seq, part, data, space };
    let bytes = length(&place)?;
    let by = if dry_run { None } else { erase(&place).await? };
    let space = place.space;
    if shape.is_json() {
        let fields = json!({ "space": space.as_str(), "seq": seq, "part": part, "bytes": bytes,
                             "erasedBy": by.map(|by| by.0), "dryRun": dry_run });
        text::print(fields.to_string());
        return Ok(());
    }
    let what = format!("part {part} of record {seq} in space {space}, {bytes} bytes");
    text::say(match by {
        _ if dry_run => format!("would erase {what}"),
        Some(by) => format!("erased {what}; record {by} says so, and the chain still verifies"),
        None => format!("{what}: it was erased already"),
    });
    Ok(())
}

/// How long the payload is. Looked up without a trace first: opening a hub makes what is missing.
fn length(args: &Place<'_>) -> anyhow::Result<u64> {
    let found = body_of(args.data, &args.space, Seq(args.seq))?;
    let parts = found.map(|body| codec::parts_of(&body)).transpose()?.unwrap_or_default();
    let part = parts.get(args.part as usize).map(|(length, _)| *length);
    Ok(part.ok_or_else(|| {
        let refused = Refused::new(
            Code::NotFound,
            format!("record {} of space {} has no payload part {}", args.seq, args.space, args.part),
        );
        Error::from(refused.hint("`quorate audit export` lists the payloads of each record under `payloads`"))
    })?)
}

fn body_of(data: &Path, space: &SpaceName, seq: Seq) -> anyhow::Result<Option<Vec<u8>>> {
    let mut found = None;
    let exported = quorate_sqlite::export(data, Some(space), seq, |line| {
        found = (line.record.seq == seq).then_some(line.record.body);
        // The first line is enough.
        Err(std::io::ErrorKind::Interrupted.into())
    });
    match exported {
        Err(ExportError::Open(error)) => Err(error.into()),
        Err(ExportError::NoSpace(space)) => {
            Err(Error::from(Refused::new(Code::NotFound, format!("there is no space {space}"))).into())
        }
        Ok(()) | Err(ExportError::Write(_)) => Ok(found),
    }
}

async fn erase(args: &Place<'_>) -> anyhow::Result<Option<Seq>> {
    let settings = Settings { space: args.space.to_string(), ..Settings::default() };
    let hub = Hub::open_with(args.data, settings).await?;
    let erase = Op::Erase(ErasePayload { seq: Seq(args.seq), part: args.part });
    let space = hub.space().context("the hub is in this process")?;
    let receipt = space.commit(Commit::new(Principal::System, vec![erase])).await;
    // The bytes are out of the write-ahead log as well once the hub is closed.
    hub.close().await;
    Ok(receipt?.seq)
}
