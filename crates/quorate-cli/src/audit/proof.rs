//! `quorate audit proof` and `quorate audit verify --proof`: proves to a third party that holds only a checkpoint that a record
//! is in the log. A proof is a slice of the export: the record and all records after it, up to the checkpoint. A complete
//! export is checked in the same way.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::Args;
use quorate_api::audit::AuditRecord;
use quorate_api::canonical::duplicate_member;
use quorate_api::event::Effect as RenderedEffect;
use quorate_core::hash_chain::{RecordHeader, record_hash};
use quorate_core::{Effect, Record, Seq, SpaceName, Timestamp, codec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::readable_fields::ReadableFields;
use crate::exit::{CommandError, NOT_FOUND, USAGE, VERIFICATION_FAILED};
use crate::hub::read_file;
use crate::output::OutputArgs;
use crate::{terminal, verify};
use quorate_core::hex;

/// Arguments of `quorate audit proof`.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "Example: quorate audit proof 17 --to 40 > proof.jsonl

A proof contains the record and all records after it up to a checkpoint, as lines of `audit export`, \
because each hash covers the previous one. It contains no payloads. To check it without a hub, use the \
script in docs/audit.md, or:

  quorate audit verify --proof proof.jsonl --checkpoint heads.jsonl")]
pub(super) struct ProofArgs {
    /// Sequence number of the record, `seq` in an export.
    #[arg(value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seq: u64,
    /// Record of the checkpoint; by default the newest record.
    #[arg(long, value_name = "SEQ")]
    pub(super) to: Option<u64>,
}

impl ProofArgs {
    /// Returns the last record of the proof, given the head of the log.
    pub(super) fn last(self, head: u64) -> anyhow::Result<u64> {
        let last = self.to.unwrap_or(head);
        if last < self.seq && self.to.is_some() {
            let message = format!("--to {last} is before record {}", self.seq);
            return Err(CommandError::new(
                USAGE,
                message,
                "a checkpoint covers its own record and earlier ones: choose --to SEQ at or after the record",
            )
            .into());
        }
        if self.seq.max(last) > head {
            let message = format!("there is no record {}: the log ends with {head}", self.seq.max(last));
            return Err(
                CommandError::new(NOT_FOUND, message, "run `quorate audit log` to list the records").into()
            );
        }
        Ok(last)
    }
}

/// Prints which checkpoint the proof needs.
pub(super) fn print_note(seq: u64, last: u64) {
    terminal::note(format!(
        "proves record {seq} against a checkpoint of record {last}: quorate audit verify --proof FILE --checkpoint FILE"
    ));
}

/// Prints a proof from a data directory that no hub uses.
pub(super) fn print_offline(args: ProofArgs, data: &Path, space: Option<SpaceName>) -> anyhow::Result<()> {
    let space = space.map_or_else(|| "default".parse(), Ok)?;
    let report = quorate_sqlite::verify(data, None)?;
    super::require_intact(report.ok, data)?;
    let head = report
        .spaces
        .iter()
        .find(|verified| verified.name == space.as_str())
        .map_or(0, |verified| verified.head_seq.0);
    let last = args.last(head)?;
    super::write_records(data, Some(&space), args.seq, |out, line| {
        if line.record.seq.0 > last {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        writeln!(out, "{}", terminal::sanitize_json(&super::to_json(line)))
    })?;
    print_note(args.seq, last);
    Ok(())
}

/// Arguments of `quorate audit verify`.
#[derive(Args, Debug)]
pub(super) struct VerifyArgs {
    /// Check this output of `quorate audit proof` instead of the log, without a hub; - reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(super) proof: Option<PathBuf>,
    /// With --proof: output of `quorate audit checkpoint` from a source independent of the proof.
    #[arg(long, value_name = "FILE", requires = "proof")]
    pub(super) checkpoint: Option<PathBuf>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// A line of a proof: the fields that the hash covers.
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

/// The records of a proof, with the hashes computed from their bytes.
struct Chain {
    space: String,
    readable: ReadableFields,
    /// First record, rendered from its hashed bytes. Other fields of the line are not covered by the hash.
    first: Value,
    records: Vec<(u64, [u8; 32])>,
}

/// Checks a proof, against a checkpoint if one is given.
pub(super) fn check(file: &Path, checkpoint: Option<&Path>, output: &OutputArgs) -> anyhow::Result<()> {
    let Chain { space, first, records, readable } = verify_chain(&read_file(file)?)?;
    let [(seq, _), ..] = records[..] else { return Err(not_a_proof().into()) };
    let (last, head) = records[records.len() - 1];
    let checkpoint_seq = match checkpoint {
        None => None,
        Some(file) => {
            let checkpoints = verify::read_checkpoints(file)?;
            let candidates = checkpoints.iter().filter(|checkpoint| checkpoint.space == space);
            let candidates = candidates.filter_map(|checkpoint| {
                Some((checkpoint, records.iter().find(|record| record.0 == checkpoint.seq.0)?))
            });
            let Some((checkpoint, (at, computed))) = candidates.max_by_key(|(checkpoint, _)| checkpoint.seq)
            else {
                let message = format!(
                    "there is no checkpoint of space {} among records {seq} to {last}",
                    terminal::sanitize(&space)
                );
                let hint =
                    "create a proof up to the record of a checkpoint: quorate audit proof SEQ --to SEQ";
                return Err(CommandError::new(USAGE, message, hint).into());
            };
            if checkpoint.hash != *computed {
                return Err(invalid_proof(
                    *at,
                    "its hash differs from the checkpoint: the proof belongs to another log",
                )
                .into());
            }
            Some(*at)
        }
    };
    if output.is_json() {
        let head = json!({"seq": last, "hash": hex::encode(&head)});
        let unproven = readable.unproven().map(|(number, name)| json!({"number": number.0, "shownAs": name}));
        let unproven: Vec<Value> = unproven.collect();
        let document = json!({
            "ok": true, "record": first, "checkpoint": checkpoint_seq,
            "head": head, "unprovenAgents": unproven,
        });
        terminal::print(terminal::sanitize_json(&document.to_string()));
        return Ok(());
    }
    let space = terminal::sanitize_line(&space);
    terminal::print(super::online::record_line(&first));
    match checkpoint_seq {
        Some(at) => terminal::print(format!(
            "✓ {space}: record {seq} is in the log, according to the checkpoint of record {at}"
        )),
        None => {
            terminal::print(format!(
                "✓ {space}: record {seq} is linked to record {last}, whose hash is {}",
                hex::encode(&head)
            ));
            terminal::note(
                "this proves nothing without an independently stored checkpoint: --checkpoint FILE",
            );
        }
    }
    let unproven: Vec<String> =
        readable.unproven().map(|(number, name)| format!("{name} (agent number {number})")).collect();
    if !unproven.is_empty() {
        terminal::note(terminal::sanitize_line(&format!(
            "not proven, because the agents registered before record {seq}: the names {}",
            unproven.join(", ")
        )));
    }
    Ok(())
}

/// Computes every hash of a proof, and compares the readable part of each line with the hashed bytes.
fn verify_chain(proof: &str) -> anyhow::Result<Chain> {
    let mut chain: Option<Chain> = None;
    let mut previous = [0; 32];
    for text in proof.lines().filter(|line| !line.trim().is_empty()) {
        let json: Value = serde_json::from_str(text).map_err(|_| not_a_proof())?;
        let line = Line::deserialize(&json).map_err(|_| not_a_proof())?;
        // Of two members with one name, other programs may read the first one.
        if let Some(name) = duplicate_member(text.as_bytes()) {
            return Err(invalid_proof(line.seq, &format!("the member {name:?} is there twice")).into());
        }
        match &chain {
            Some(chain) => {
                let expected = chain.records.last().map_or(0, |record| record.0) + 1;
                if line.seq != expected || line.space != chain.space {
                    return Err(invalid_proof(expected, "it is missing or out of order").into());
                }
                if line.previous.is_some() {
                    return Err(invalid_proof(line.seq, "only the first line may have `previous`").into());
                }
            }
            None => previous = line.previous.as_deref().and_then(hex::decode).ok_or_else(not_a_proof)?,
        }
        let record = line.record(&previous)?;
        previous = record.hash;
        let chain = chain.get_or_insert_with(|| Chain {
            first: render(&line.space, &record),
            space: line.space.clone(),
            readable: ReadableFields::default(),
            records: Vec::new(),
        });
        let result = chain.readable.check(&json, &line.space, &record);
        result.map_err(|reason| invalid_proof(line.seq, &reason))?;
        chain.records.push((line.seq, previous));
    }
    Ok(chain.ok_or_else(not_a_proof)?)
}

impl Line {
    /// Returns the record, if the hash of its bytes and of the previous hash is the hash of the line.
    fn record(&self, previous: &[u8; 32]) -> Result<Record, CommandError> {
        let body = STANDARD.decode(&self.body).map_err(|_| not_a_proof())?;
        let expected = hex::decode(&self.hash).ok_or_else(not_a_proof)?;
        if u16::try_from(self.principal.len()).is_err() {
            return Err(invalid_proof(self.seq, "its principal is too long"));
        }
        let header = RecordHeader {
            seq: Seq(self.seq),
            at: Timestamp(self.at_ms),
            format: self.format,
            kind: self.kind_number,
            principal: &self.principal,
        };
        let hash = record_hash(previous, &header, &body);
        if hash != expected {
            return Err(invalid_proof(self.seq, "its hash does not match its bytes"));
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

/// Renders a record from its bytes, as an export does. Effects are reduced to their names, because ids depend on earlier
/// records.
fn render(space: &str, record: &Record) -> Value {
    let effects = codec::read_without_payload(record).map(|body| body.effects).unwrap_or_default();
    let named = |effect: &Effect| RenderedEffect::from_name(effect.as_str(), String::new());
    let line = AuditRecord::new(space, record, effects.iter().map(named).collect(), None);
    serde_json::to_value(line).unwrap_or_default()
}

fn invalid_proof(seq: u64, reason: &str) -> CommandError {
    let message = format!("the proof is invalid: record {seq}: {reason}");
    CommandError::new(
        VERIFICATION_FAILED,
        message,
        "keep the file, and request a new proof from the operator of the log",
    )
}

fn not_a_proof() -> CommandError {
    CommandError::new(USAGE, "the file is not a proof", "pass the output of `quorate audit proof`")
}
