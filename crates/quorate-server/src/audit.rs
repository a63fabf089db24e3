//! The log as others read it: a line of JSON for each record, the same on the command line and over HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quorate_core::describe::{self, Fields, Names};
use quorate_core::{AgentNo, Agents, Eras, Record, RecordKind, codec, hex};
use serde_json::{Value, json};

use crate::wire::effect;
use crate::wire::time;

/// One line: see `docs/audit.md` for every field. `previous` is what the record is chained to, on a first line only.
#[must_use]
pub fn line(space: &str, record: &Record, effects: Vec<Fields>, previous: Option<&[u8; 32]>) -> Value {
    let effects: Vec<Value> = effects.into_iter().map(|one| Value::Object(effect::fields(one))).collect();
    let mut fields = json!({
        "space": space,
        "seq": record.seq.0,
        "at": time::shown(record.at),
        "atMs": record.at.0,
        "format": record.format,
        "kind": RecordKind::from_number(record.kind).map_or("unknown", RecordKind::as_str),
        "kindNumber": record.kind,
        "principal": record.principal,
        "body": STANDARD.encode(&record.body),
        "effects": effects,
        "hash": hex::encode(&record.hash),
    });
    if let Some(previous) = previous {
        fields["previous"] = hex::encode(previous).into();
    }
    fields
}

/// What a record says, for reading.
pub(crate) fn effects(record: &Record, agents: &Agents, eras: &Eras) -> Vec<Fields> {
    let name = |number: AgentNo| {
        agents.get(number).map_or_else(|| format!("#{number}"), |agent| agent.id.to_string())
    };
    match codec::read_bare(record) {
        Ok(body) => {
            let names = Names { agents: &name, eras };
            let told = describe::placed(&body.effects);
            told.map(|(n, effect)| describe::describe(effect, (record.seq, n), &names)).collect()
        }
        Err(why) => vec![vec![("unreadable", describe::Value::Text(why.to_string()))]],
    }
}
