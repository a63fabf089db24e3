//! `quorate audit erase`: zeroes one payload. The record stays, and the hash chain still verifies.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use quorate::{Hub, HubOptions};
use quorate_core::{Code, Commit, ErasePayload, Op, Principal, Refused, Seq, SpaceName, codec};
use quorate_engine::Error;
use quorate_sqlite::ExportError;
use serde_json::json;

use crate::output::OutputArgs;
use crate::terminal;

/// Arguments of `quorate audit erase`.
#[derive(Args, Debug)]
#[command(after_help = "Example: quorate audit erase 17 0 --data team")]
pub(crate) struct EraseArgs {
    /// Sequence number of the record, `seq` in an export.
    #[arg(value_name = "SEQ")]
    pub(super) seq: u64,
    /// Index of the payload in that record, `part` in an export, starting at 0.
    #[arg(value_name = "PART")]
    pub(super) part: u32,
    /// Print what would be erased, without erasing it.
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The payload to erase.
struct Target<'a> {
    seq: u64,
    part: u32,
    data: &'a Path,
    space: SpaceName,
}

/// Erases a payload in a data directory that no hub uses.
pub(super) async fn run(args: EraseArgs, data: &Path, space: Option<SpaceName>) -> anyhow::Result<()> {
    let EraseArgs { seq, part, dry_run, output } = args;
    let space = space.map_or_else(|| "default".parse(), Ok)?;
    let target = Target { seq, part, data, space };
    let bytes = length(&target)?;
    let erased_by = if dry_run { None } else { erase(&target).await? };
    let space = target.space;
    if output.is_json() {
        let fields = json!({ "space": space.as_str(), "seq": seq, "part": part, "bytes": bytes,
                             "erasedBy": erased_by.map(|erased_by| erased_by.0), "dryRun": dry_run });
        terminal::print(fields.to_string());
        return Ok(());
    }
    let payload = format!("part {part} of record {seq} in space {space}, {bytes} bytes");
    terminal::note(match erased_by {
        _ if dry_run => format!("would erase {payload}"),
        Some(erased_by) => format!("erased {payload}, noted in record {erased_by}; the chain still verifies"),
        None => format!("{payload}: already erased"),
    });
    Ok(())
}

/// Returns the length of the payload. Reads the directory without opening a hub, which would create a missing space.
fn length(target: &Target<'_>) -> anyhow::Result<u64> {
    let body = body_of(target.data, &target.space, Seq(target.seq))?;
    let parts = body.map(|body| codec::part_table(&body)).transpose()?.unwrap_or_default();
    let part = parts.get(target.part as usize).map(|(length, _)| *length);
    Ok(part.ok_or_else(|| {
        let refused = Refused::new(
            Code::NotFound,
            format!("record {} of space {} has no payload part {}", target.seq, target.space, target.part),
        );
        Error::from(refused.hint("`quorate audit export` lists the payloads of each record under `payloads`"))
    })?)
}

fn body_of(data: &Path, space: &SpaceName, seq: Seq) -> anyhow::Result<Option<Vec<u8>>> {
    let mut found = None;
    let result = quorate_sqlite::export(data, Some(space), seq, |line| {
        found = (line.record.seq == seq).then_some(line.record.body);
        // The first line is enough.
        Err(std::io::ErrorKind::Interrupted.into())
    });
    match result {
        Err(ExportError::Open(error)) => Err(error.into()),
        Err(ExportError::NoSpace(space)) => {
            Err(Error::from(Refused::new(Code::NotFound, format!("there is no space {space}"))).into())
        }
        Ok(()) | Err(ExportError::Write(_)) => Ok(found),
    }
}

async fn erase(target: &Target<'_>) -> anyhow::Result<Option<Seq>> {
    let options = HubOptions { space: target.space.to_string(), ..HubOptions::default() };
    let hub = Hub::open_with(target.data, options).await?;
    let op = Op::ErasePayload(ErasePayload { seq: Seq(target.seq), part: target.part });
    let space = hub.space().context("the hub is embedded")?;
    let receipt = space.commit(Commit::new(Principal::System, vec![op])).await;
    // Closing the hub checkpoints the write-ahead log, which removes the bytes from there as well.
    hub.close().await;
    Ok(receipt?.seq)
}
