//! `quorate audit proof` and `quorate audit verify --proof`: that a record is in the log, shown to somebody who has no access to
//! the log but a checkpoint of it. A proof is a piece of the export: the record, and all that follow it up to the checkpoint.
//! An export as a whole is checked in the same way.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;
use quorate_api::audit::AuditRecord;
use quorate_api::event::Effect as Shown;
use quorate_core::chain::{Header, record_hash};
use quorate_core::{Effect, Record, Seq, SpaceName, Timestamp, codec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::readable::Readable;
use crate::exit::{Ended, NOT_FOUND, NOT_VERIFIED, USAGE};
use crate::hub::read_file;
use crate::shape::Shape;
use crate::{text, verify};
use quorate_core::hex;

/// Of which record.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "Example: quorate audit proof 17 --upto 40 > proof.jsonl

The record and all that follow it up to a checkpoint, as lines of `audit export`, since
each hash is made of the record before. Payloads are not among them. Whoever has the
checkpoint checks it without a hub: quorate audit verify --proof proof.jsonl
--checkpoint heads.jsonl, or by the script in docs/audit.md.")]
pub(super) struct ProofArgs {
    /// The record, as `seq` in an export.
    #[arg(value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seq: u64,
    /// The record of the checkpoint; the newest one if nothing is said.
    #[arg(long, value_name = "SEQ")]
    pub(super) upto: Option<u64>,
}

impl ProofArgs {
    /// The last record of the proof, in a log that ends with this one.
    pub(super) fn last(self, head: u64) -> anyhow::Result<u64> {
        let last = self.upto.unwrap_or(head);
        if last < self.seq && self.upto.is_some() {
            let message = format!("record {} is not before record {last}", self.seq);
            return Err(Ended::new(
                USAGE,
                message,
                "a checkpoint proves what came before it, and its own record",
            )
            .into());
        }
        if self.seq.max(last) > head {
            let message = format!("there is no record {}: the log ends with {head}", self.seq.max(last));
            return Err(Ended::new(NOT_FOUND, message, "`quorate audit log` shows what there is").into());
        }
        Ok(last)
    }
}

/// What the last line is worth.
pub(super) fn tell(seq: u64, last: u64) {
    text::say(format!(
        "proves record {seq} to whoever has a checkpoint of record {last}: quorate audit verify --proof FILE --checkpoint FILE"
    ));
}

/// Out of a data directory that no hub uses meanwhile.
pub(super) fn of_data(args: ProofArgs, data: &Path, space: Option<SpaceName>) -> anyhow::Result<()> {
    let space = space.map_or_else(|| "default".parse(), Ok)?;
    let report = quorate_sqlite::verify(data, None)?;
    super::refuse_damaged(report.ok, data)?;
    let head = report.spaces.iter().find(|one| one.name == space.as_str()).map_or(0, |one| one.head_seq.0);
    let last = args.last(head)?;
    super::each(data, Some(&space), args.seq, |out, line| {
        if line.record.seq.0 > last {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        writeln!(out, "{}", text::clean_json(&super::to_json(line)))
    })?;
    tell(args.seq, last);
    Ok(())
}

/// What to check instead of the log.
#[derive(Args, Debug)]
pub(super) struct GivenArgs {
    /// What `quorate audit proof` printed; no hub is asked. - is the standard input.
    #[arg(long, value_name = "FILE")]
    pub(super) proof: Option<PathBuf>,
    /// For a proof: what `quorate audit checkpoint` said, kept out of the reach of whoever gave the proof.
    #[arg(long, value_name = "FILE", requires = "proof")]
    pub(super) checkpoint: Option<PathBuf>,
}

/// A line of a proof: what is hashed of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    space: String,
    seq: u64,
    at_ms: u64,
    format: u8,
    kind_number: u8,
    principal: String,
    body: String,
    hash: String,
    previous: Option<String>,
}

/// Each record of a proof, with the hash that follows from its bytes.
struct Chain {
    space: String,
    readable: Readable,
    /// What the first one says, by the bytes that are hashed: what the proof tells beside them is not proven.
    said: Value,
    records: Vec<(u64, [u8; 32])>,
}

/// Checks a proof, against a checkpoint if there is one.
pub(super) fn check(file: &Path, checkpoint: Option<&Path>, shape: &Shape) -> anyhow::Result<()> {
    let Chain { space, said, records, readable } = follow(&read_file(file)?)?;
    let [(seq, _), ..] = records[..] else { return Err(none().into()) };
    let (last, head) = records[records.len() - 1];
    let by = match checkpoint {
        None => None,
        Some(file) => {
            let known = verify::read_checkpoints(file)?;
            let found = known.iter().filter(|one| one.space == space);
            let found =
                found.filter_map(|one| Some((one, records.iter().find(|record| record.0 == one.seq.0)?)));
            let Some((kept, (at, computed))) = found.max_by_key(|(one, _)| one.seq) else {
                let message = format!(
                    "there is no checkpoint of space {} among records {seq} to {last}",
                    text::clean(&space)
                );
                let hint =
                    "ask for a proof up to the record of a checkpoint: quorate audit proof SEQ --upto SEQ";
                return Err(Ended::new(USAGE, message, hint).into());
            };
            if kept.hash != *computed {
                return Err(
                    wrong(*at, "its hash is not that of the checkpoint: this is another history").into()
                );
            }
            Some(*at)
        }
    };
    if shape.is_json() {
        let head = json!({"seq": last, "hash": hex::encode(&head)});
        let unproven = readable.unproven().map(|(number, name)| json!({"number": number.0, "shownAs": name}));
        let unproven: Vec<Value> = unproven.collect();
        let document = json!({
            "ok": true, "record": said, "checkpoint": by, "head": head, "unprovenAgents": unproven,
        });
        text::print(text::clean_json(&document.to_string()));
        return Ok(());
    }
    let space = text::clean_line(&space);
    text::print(super::live::in_words(&said));
    match by {
        Some(at) => text::print(format!(
            "✓ {space}: record {seq} is in the log that the checkpoint of record {at} stands for"
        )),
        None => {
            text::print(format!(
                "✓ {space}: record {seq} leads to record {last}, whose hash is {}",
                hex::encode(&head)
            ));
            text::say(
                "that is worth something only beside a checkpoint that was kept elsewhere: --checkpoint FILE",
            );
        }
    }
    let unproven: Vec<String> =
        readable.unproven().map(|(number, name)| format!("{name} (agent number {number})")).collect();
    if !unproven.is_empty() {
        text::say(text::clean_line(&format!(
            "not proven: these names, since the agents registered before record {seq}: {}",
            unproven.join(", ")
        )));
    }
    Ok(())
}

/// Computes every hash of a proof, and compares the readable part of each line with the hashed bytes.
fn follow(proof: &str) -> anyhow::Result<Chain> {
    let mut chain: Option<Chain> = None;
    let mut previous = [0; 32];
    for text in proof.lines().filter(|line| !line.trim().is_empty()) {
        let shown: Value = serde_json::from_str(text).map_err(|_| none())?;
        let line = Line::deserialize(&shown).map_err(|_| none())?;
        match &chain {
            Some(chain) => {
                let expected = chain.records.last().map_or(0, |record| record.0) + 1;
                if line.seq != expected || line.space != chain.space {
                    return Err(wrong(expected, "it is missing, or not in its place").into());
                }
                if line.previous.is_some() {
                    return Err(wrong(line.seq, "previous is on the first line only").into());
                }
            }
            None => previous = line.previous.as_deref().and_then(hex::decode).ok_or_else(none)?,
        }
        let record = line.record(&previous)?;
        previous = record.hash;
        let chain = chain.get_or_insert_with(|| Chain {
            said: says(&line.space, &record),
            space: line.space.clone(),
            readable: Readable::default(),
            records: Vec::new(),
        });
        let readable = chain.readable.check(&shown, &line.space, &record);
        readable.map_err(|why| wrong(line.seq, &why))?;
        chain.records.push((line.seq, previous));
    }
    Ok(chain.ok_or_else(none)?)
}

impl Line {
    /// The record, if its bytes and the hash before give the hash of the line.
    fn record(&self, previous: &[u8; 32]) -> Result<Record, Ended> {
        let body = STANDARD.decode(&self.body).map_err(|_| none())?;
        let told = hex::decode(&self.hash).ok_or_else(none)?;
        if u16::try_from(self.principal.len()).is_err() {
            return Err(wrong(self.seq, "nobody is called like that"));
        }
        let header = Header {
            seq: Seq(self.seq),
            at: Timestamp(self.at_ms),
            format: self.format,
            kind: self.kind_number,
            principal: &self.principal,
        };
        let hash = record_hash(previous, &header, &body);
        if hash != told {
            return Err(wrong(self.seq, "its bytes do not give its hash"));
        }
        Ok(Record {
            seq: Seq(self.seq),
            at: Timestamp(self.at_ms),
            format: self.format,
            kind: self.kind_number,
            principal: self.principal.clone(),
            hash,
            body,
            salts: Vec::new(),
            payload: Bytes::new(),
        })
    }
}

/// A record as the export tells it, out of its bytes; of its effects the names only: ids depend on what came before.
fn says(space: &str, record: &Record) -> Value {
    let effects = codec::read_bare(record).map(|body| body.effects).unwrap_or_default();
    let named = |effect: &Effect| Shown::named(effect.as_str(), String::new());
    let line = AuditRecord::new(space, record, effects.iter().map(named).collect(), None);
    serde_json::to_value(line).unwrap_or_default()
}

fn wrong(seq: u64, why: &str) -> Ended {
    let message = format!("the proof proves nothing: record {seq}: {why}");
    Ended::new(NOT_VERIFIED, message, "keep the file, and ask whoever keeps the log for another proof")
}

fn none() -> Ended {
    Ended::new(USAGE, "this is no proof", "give the file that `quorate audit proof` printed")
}
