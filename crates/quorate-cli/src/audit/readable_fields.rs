//! Compares the readable fields of an export line with its hashed bytes. The hash covers only `body` and the header; `effects`,
//! `kind` and `at` are rendered from them, and a forger could change the rendering alone.
//!
//! Bodies name agents by number, and ids carry the generation of a restore. Both come from earlier records: in an export
//! from record 1 everything is compared; in a proof that begins later, names of agents that registered before are only
//! required to be the same throughout, and are reported.

use std::collections::BTreeMap;

use quorate_api::audit::AuditRecord;
use quorate_api::event::Effect as RenderedEffect;
use quorate_api::{AgentIds, IdResolver};
use quorate_core::hash_chain::genesis_hash;
use quorate_core::{
    AgentId, AgentNo, DeliveryNo, Effect, Generation, GenerationStart, Generations, Record, Seq, codec,
};
use serde_json::Value;

use crate::terminal;

/// Placeholder for the generation of ids that were assigned before the first line.
const UNKNOWN: Generation = Generation(u64::MAX);
/// Characters of a value that an error prints.
const SHOWN_MAX: usize = 80;

/// Agent names and generations collected from the lines so far.
#[derive(Default)]
pub(super) struct ReadableFields {
    agents: Registered,
    /// Names of agents that no line so far registers, as the first line that mentions them renders them.
    unproven: BTreeMap<AgentNo, String>,
    generations: Generations,
    /// Whether the first delivery of the newest generation is still unknown.
    is_first_delivery_unknown: bool,
}

/// Agents that the lines so far register.
#[derive(Default)]
struct Registered(BTreeMap<AgentNo, AgentId>);

impl AgentIds for Registered {
    fn agent_id(&self, number: AgentNo) -> Option<AgentId> {
        Some(self.0.get(&number).cloned().unwrap_or_else(|| AgentId::unresolved(number)))
    }
}

impl ReadableFields {
    /// Returns the agents whose registration is not among the lines, with the names that the lines use.
    pub(super) fn unproven(&self) -> impl Iterator<Item = (AgentNo, &str)> {
        self.unproven.iter().map(|(number, name)| (*number, name.as_str()))
    }

    /// Compares a line with the record decoded from its hashed bytes. The hash must have been checked before.
    ///
    /// # Errors
    /// Describes the first difference.
    pub(super) fn check(&mut self, line: &Value, space: &str, record: &Record) -> Result<(), String> {
        if self.generations.0.is_empty() && record.seq.0 > 1 {
            let unknown =
                GenerationStart { generation: UNKNOWN, first_seq: Seq(1), first_delivery: DeliveryNo(1) };
            self.generations.0.push(unknown);
        }
        if let Ok(body) = codec::read_without_payload(record) {
            body.effects.iter().try_for_each(|effect| self.collect(record.seq, effect))?;
            check_identity(line, space, record, &body.effects)?;
        }
        let effects = RenderedEffect::from_record(
            record,
            &IdResolver { agents: &self.agents, generations: &self.generations },
        );
        let expected = AuditRecord::new(space, record, effects, None);
        let mut expected = serde_json::to_value(expected).unwrap_or_default();
        // `previous` is checked by `check_identity` and by the chain.
        if let (Some(previous), Value::Object(fields)) = (line.get("previous"), &mut expected) {
            fields.insert("previous".into(), previous.clone());
        }
        self.compare("", &expected, line)
    }

    /// Collects the agent names and generations that an effect defines.
    fn collect(&mut self, seq: Seq, effect: &Effect) -> Result<(), String> {
        match effect {
            Effect::SpaceCreated { generation, .. } => {
                let start = GenerationStart {
                    generation: *generation,
                    first_seq: seq,
                    first_delivery: DeliveryNo(1),
                };
                self.generations.0.push(start);
            }
            Effect::SpaceRestored { generation } => {
                let first_delivery = DeliveryNo(u64::MAX);
                self.generations.0.push(GenerationStart {
                    generation: *generation,
                    first_seq: seq,
                    first_delivery,
                });
                self.is_first_delivery_unknown = true;
            }
            Effect::AgentRegistered { number, agent } => {
                let id = &agent.id;
                if let Some(shown) = self.unproven.remove(number).filter(|shown| *shown != id.as_str()) {
                    let shown = terminal::sanitize(&shown);
                    return Err(format!(
                        "earlier lines name agent number {number} {shown}, but its id is {id}"
                    ));
                }
                self.agents.0.insert(*number, id.clone());
            }
            Effect::Sent { first, .. } | Effect::Backfilled { first, .. }
                if self.is_first_delivery_unknown =>
            {
                self.generations
                    .0
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|start| start.first_delivery = *first);
                self.is_first_delivery_unknown = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn compare(&mut self, path: &str, expected: &Value, shown: &Value) -> Result<(), String> {
        match (expected, shown) {
            (Value::Object(expected), Value::Object(shown)) => {
                let child =
                    |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                for (name, value) in expected {
                    match shown.get(name) {
                        Some(shown) => self.compare(&child(name), value, shown)?,
                        None => {
                            return Err(format!("{} is missing, but is in the hashed bytes", child(name)));
                        }
                    }
                }
                match shown.keys().find(|name| !expected.contains_key(*name)) {
                    Some(name) => {
                        Err(format!("{} is not in the hashed bytes", terminal::sanitize(&child(name))))
                    }
                    None => Ok(()),
                }
            }
            (Value::Array(expected), Value::Array(shown)) if expected.len() == shown.len() => {
                let pairs = expected.iter().zip(shown).enumerate();
                pairs.into_iter().try_for_each(|(index, (expected, shown))| {
                    self.compare(&format!("{path}[{index}]"), expected, shown)
                })
            }
            (Value::Array(expected), Value::Array(shown)) => {
                Err(format!("{path} has {} items, but the hashed bytes have {}", shown.len(), expected.len()))
            }
            (Value::String(expected), Value::String(shown)) => self.compare_text(path, expected, shown),
            _ if expected == shown => Ok(()),
            _ => Err(differs(path, expected, shown)),
        }
    }

    fn compare_text(&mut self, path: &str, expected: &str, shown: &str) -> Result<(), String> {
        let mismatch = |expected: &str| Err(differs(path, &expected.into(), &shown.into()));
        if let Some(number) = AgentId::unresolved_number(expected) {
            let first_shown = self.unproven.entry(number).or_insert_with(|| shown.to_owned());
            return if first_shown == shown { Ok(()) } else { mismatch(first_shown) };
        }
        if expected == shown || is_of_unknown_generation(expected, shown) {
            Ok(())
        } else {
            mismatch(expected)
        }
    }
}

/// Checks the name and the identity of the space, which are in the first record. The identity is the start of the chain.
fn check_identity(line: &Value, space: &str, record: &Record, effects: &[Effect]) -> Result<(), String> {
    let [Effect::SpaceCreated { name, id, .. }, ..] = effects else { return Ok(()) };
    if name.as_str() != space {
        return Err(differs("space", &name.as_str().into(), &space.into()));
    }
    let previous = Value::from(quorate_core::hex::encode(&genesis_hash(*id)));
    if record.seq == Seq(1) && line["previous"] != previous {
        return Err(differs("previous", &previous, &line["previous"]));
    }
    Ok(())
}

/// Whether two ids differ only in a generation that began before the first line.
fn is_of_unknown_generation(expected: &str, shown: &str) -> bool {
    ["msg_", "dlv_"].iter().any(|prefix| {
        let split = |id: &'_ str| {
            let (generation, rest) = id.strip_prefix(prefix)?.split_once('-')?;
            Some((generation.parse::<u64>().ok()?, rest.to_owned()))
        };
        match (split(expected), split(shown)) {
            (Some((generation, expected)), Some((_, shown))) => generation == UNKNOWN.0 && expected == shown,
            _ => false,
        }
    })
}

fn differs(path: &str, expected: &Value, shown: &Value) -> String {
    let truncate = |value: &Value| {
        let text = terminal::sanitize(&value.to_string());
        let short: String = text.chars().take(SHOWN_MAX).collect();
        if short.len() < text.len() { format!("{short}…") } else { short }
    };
    format!(
        "{} is {}, but the hashed bytes have {}",
        terminal::sanitize(path),
        truncate(shown),
        truncate(expected)
    )
}
