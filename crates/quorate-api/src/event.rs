//! Events: the log as clients follow it, one event per record. An effect shows a resource in its REST representation,
//! in a field named after the resource. It never contains payloads, only their storage locations.

mod delivery;
mod item;
mod query;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use quorate_core::{
    AgentId, AgentNo, ContributionKind, DeliveryNo, Effect as CoreEffect, Generation, Key, PartRef, Record,
    RecordKind, RestoredVersion, Seq, SessionId, SpaceName, Timestamp, Version, codec, hex,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::agent::{AgentPresence, AgentProfile};
use crate::entry::EntryVersion;
use crate::id_resolver::IdResolver;
#[cfg(feature = "schema")]
use crate::schema;

pub use delivery::{
    DeliveriesEffect, DeliveriesEffectName, DeliveryEffect, DeliveryEffectName, DeliveryRef, MessageEffect,
    MessageEffectName, NextState, SentDelivery,
};
pub use item::{
    ApprovalEffect, BudgetEffect, FailedAttempt, LockEffect, PolicyEffect, PoolEffect, PoolMembers,
    ProcedureEffect, RequestEffect, RequestRecipient, SessionEffect, SnapshotEffect, SubscriptionEffect,
    SubscriptionStatus, TaskEffect, TokenEffect,
};
pub use query::EventStreamQuery;

/// One record of the log: a commit and its effects.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Sequence number of the record.
    pub seq: Seq,
    /// Time at which the record was committed.
    pub at: Timestamp,
    /// Record kind.
    #[cfg_attr(feature = "schema", schemars(with = "schema::RecordKindName"))]
    pub kind: Cow<'static, str>,
    /// Principal that committed the record: `system`, `agent:ID`, or `ROLE:NAME` of an access token.
    pub principal: String,
    /// Changes made by the commit, in order. Only those that the caller is allowed to see.
    pub effects: Vec<Effect>,
}

impl Event {
    /// Creates the event of a record with these effects.
    #[must_use]
    pub fn new(record: &Record, effects: Vec<Effect>) -> Self {
        Self {
            seq: record.seq,
            at: record.at,
            kind: record_kind_name(record),
            principal: record.principal.clone(),
            effects,
        }
    }
}

/// Returns the name of the kind of a record.
#[must_use]
pub fn record_kind_name(record: &Record) -> Cow<'static, str> {
    RecordKind::from_number(record.kind).map_or("unknown", RecordKind::as_str).into()
}

/// Storage location of a payload. `payload.erase` takes it to erase the payload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PayloadLocation {
    /// Field of the resource that holds the payload.
    pub field: Cow<'static, str>,
    /// Sequence number of the record.
    pub seq: Seq,
    /// Index of the payload within the record, starting at 0.
    pub part: u32,
}

impl PayloadLocation {
    fn new(field: &'static str, PartRef { seq, part }: PartRef) -> Self {
        Self { field: field.into(), seq, part }
    }
}

/// Declares the names of the effects that share one representation.
macro_rules! effect_names {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
        #[allow(missing_docs, reason = "the names are self-explanatory")]
        pub enum $name {
            $(#[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Returns the name used in JSON.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}
pub(crate) use effect_names;

effect_names!(
    /// Effects on a space.
    SpaceEffectName { Created = "space.created", Restored = "space.restored" }
);

/// The space was created, or restored from a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpaceEffect {
    /// Name of the effect.
    pub effect: SpaceEffectName,
    /// Generation that begins. It is part of all IDs that the hub assigns from here on.
    pub generation: Generation,
    /// Name of a new space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SpaceName>,
    /// Random identity of a new space, in hexadecimal. Its digest is the root of the hash chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

effect_names!(
    /// An agent was registered.
    AgentRegisteredName { Registered = "agent.registered" }
);

/// An agent was registered, or updated its registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRegisteredEffect {
    /// Name of the effect.
    pub effect: AgentRegisteredName,
    /// The agent.
    pub agent: AgentProfile,
    /// Number of the agent in the space. Record bodies refer to agents by number.
    pub number: AgentNo,
}

effect_names!(
    /// The status of an agent changed.
    AgentStatusName { Status = "agent.status" }
);

/// The status of an agent changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentStatusEffect {
    /// Name of the effect.
    pub effect: AgentStatusName,
    /// Agent ID.
    pub agent_id: Option<AgentId>,
    /// New activity and health.
    pub presence: AgentPresence,
}

effect_names!(
    /// An agent was removed.
    AgentRemovedName { Removed = "agent.removed" }
);

/// An agent was removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentRemovedEffect {
    /// Name of the effect.
    pub effect: AgentRemovedName,
    /// Agent ID.
    pub agent_id: Option<AgentId>,
    /// Number of the agent in the space.
    pub number: AgentNo,
}

effect_names!(
    /// Effects on an entry of the shared memory.
    EntryEffectName { Written = "entry.written", Deleted = "entry.deleted" }
);

/// An entry of the shared memory was written or deleted. Author and time are those of the event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryEffect {
    /// Name of the effect.
    pub effect: EntryEffectName,
    /// New version, without its content.
    pub entry: EntryMetadata,
    /// Storage location of the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payloads: Vec<PayloadLocation>,
}

/// Version of an entry, without its content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EntryMetadata {
    /// Entry key.
    pub key: Key,
    /// Version number.
    pub version: Version,
    /// Kind of content; empty for a deletion.
    #[serde(rename = "type")]
    pub entry_type: String,
    /// Media type of the content. Omitted for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Whether this version is a deletion.
    pub deleted: bool,
    /// Entry versions that the content was derived from. Version 0 means that the entry did not exist.
    pub depends_on: Vec<EntryVersion>,
    /// Earlier version that a rollback restored in this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restores: Option<Version>,
}

effect_names!(
    /// A payload was erased.
    ErasureEffectName { Erased = "payload.erased" }
);

/// A payload of an earlier record was erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErasureEffect {
    /// Name of the effect.
    pub effect: ErasureEffectName,
    /// Sequence number of the record that held the payload.
    pub seq: Seq,
    /// Index of the payload within the record, starting at 0.
    pub part: u32,
}

effect_names!(
    /// A deadlock was broken.
    DeadlockEffectName { Aborted = "wait.aborted" }
);

/// A deadlock was detected and broken by aborting the youngest wait.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadlockEffect {
    /// Name of the effect.
    pub effect: DeadlockEffectName,
    /// Waits of the cycle. The first one was aborted.
    pub cycle: Vec<AbortedWait>,
}

/// Wait that is part of a deadlock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AbortedWait {
    /// Waiting agent.
    pub agent: Option<AgentId>,
    /// Resource that the agent waits for.
    pub waits_for: String,
}

effect_names!(
    /// A contribution was added to a session.
    SessionAdditionName { Added = "session.added" }
);

/// A contribution was added to a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionContributionEffect {
    /// Name of the effect.
    pub effect: SessionAdditionName,
    /// Session ID.
    pub session_id: SessionId,
    /// Kind of contribution.
    pub kind: ContributionKind,
    /// Number of the contribution among those of its kind, starting at 1.
    pub n: u64,
    /// Media type of the body. Omitted for JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Reason for the contribution.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rationale: String,
    /// Storage location of the body.
    pub payloads: Vec<PayloadLocation>,
}

/// An effect that this release cannot decode: it was written by a newer release, or its record is damaged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnknownEffect {
    /// Name of the effect; `unreadable` if the record could not be decoded.
    pub effect: String,
    /// Reason why it could not be decoded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Declares the enum of all effects: its variants, and the effect names that each variant covers.
macro_rules! effects {
    ($($(#[$doc:meta])* $variant:ident($form:ty): $($name:pat_param)|+,)+) => {
        /// A change made by a commit. `effect` is its name.
        #[derive(Clone, PartialEq, Debug, Serialize)]
        #[serde(untagged)]
        pub enum Effect {
            $($(#[$doc])* $variant(Box<$form>),)+
            /// An effect that this release cannot decode.
            Unknown(Box<UnknownEffect>),
        }

        $(
            impl From<$form> for Effect {
                fn from(effect: $form) -> Self {
                    Self::$variant(Box::new(effect))
                }
            }
        )+

        impl Effect {
            /// Returns the name of the effect, such as `task.leased`.
            #[must_use]
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant(effect) => effect.effect.as_str(),)+
                    Self::Unknown(effect) => effect.effect.as_str(),
                }
            }
        }

        fn parse(name: &str, json: &str) -> Result<Effect, serde_json::Error> {
            match name.split_once('.').unwrap_or((name, "")) {
                $($($name)|+ => serde_json::from_str(json).map(Effect::$variant),)+
                _ => serde_json::from_str(json).map(Effect::Unknown),
            }
        }

        #[cfg(feature = "schema")]
        fn forms(generator: &mut schemars::SchemaGenerator) -> Vec<schemars::Schema> {
            vec![$(generator.subschema_for::<$form>(),)+]
        }
    };
}

effects! {
    /// The space was created or restored.
    Space(SpaceEffect): ("space", _),
    /// An agent was registered.
    AgentRegistered(AgentRegisteredEffect): ("agent", "registered"),
    /// The status of an agent changed.
    AgentStatus(AgentStatusEffect): ("agent", "status"),
    /// An agent was removed.
    AgentRemoved(AgentRemovedEffect): ("agent", "removed"),
    /// A message was sent.
    Message(MessageEffect): ("message", _),
    /// Several deliveries changed.
    Deliveries(DeliveriesEffect): ("delivery", "leased" | "leasedFromPool" | "ackedMany" | "backfilled"),
    /// A delivery changed.
    Delivery(DeliveryEffect): ("delivery", _),
    /// An entry was written or deleted.
    Entry(EntryEffect): ("entry", _),
    /// A payload was erased.
    Erasure(ErasureEffect): ("payload", _),
    /// A deadlock was broken.
    Deadlock(DeadlockEffect): ("wait", _),
    /// A contribution was added to a session.
    SessionContribution(SessionContributionEffect): ("session", "added"),
    /// A session changed.
    Session(SessionEffect): ("session", _),
    /// A task changed.
    Task(TaskEffect): ("task", _),
    /// A lock changed.
    Lock(LockEffect): ("lock", _),
    /// A budget changed.
    Budget(BudgetEffect): ("budget", _),
    /// A snapshot was created or dropped.
    Snapshot(SnapshotEffect): ("snapshot", _),
    /// The policy changed.
    Policy(PolicyEffect): ("policy", _),
    /// A subscription changed.
    Subscription(SubscriptionEffect): ("topic", _),
    /// A pool was created.
    Pool(PoolEffect): ("pool", _),
    /// A request changed.
    Request(RequestEffect): ("request", _),
    /// An access token was created, revoked, or expired.
    Token(TokenEffect): ("token", _),
    /// A procedure changed.
    Procedure(ProcedureEffect): ("procedure", _),
    /// An approval changed.
    Approval(ApprovalEffect): ("approval", _),
}

impl<'de> Deserialize<'de> for Effect {
    /// Parses in two passes: internally tagged enums of serde do not support raw JSON.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Name<'a> {
            #[serde(borrow)]
            effect: Cow<'a, str>,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let name: Name<'_> = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        parse(&name.effect, raw.get()).map_err(serde::de::Error::custom)
    }
}

impl Effect {
    /// Returns the effects of a record. A record that cannot be decoded yields a single `unreadable` effect.
    #[must_use]
    pub fn from_record(record: &Record, ids: &IdResolver<'_>) -> Vec<Self> {
        match codec::read_without_payload(record) {
            Ok(body) => {
                let numbered = CoreEffect::with_message_numbers(&body.effects);
                numbered.map(|(n, effect)| Self::new(effect, record, n, ids)).collect()
            }
            Err(error) => vec![Self::unreadable(&error)],
        }
    }

    /// Creates the effect that replaces those of a record that cannot be decoded.
    #[must_use]
    pub fn unreadable(error: &dyn std::fmt::Display) -> Self {
        Self::from_name("unreadable", error.to_string())
    }

    /// Creates an effect that has only a name.
    #[must_use]
    pub fn from_name(name: &str, reason: String) -> Self {
        Self::Unknown(Box::new(UnknownEffect { effect: name.to_owned(), reason }))
    }

    /// Creates the API representation of an effect. `n` is the number of messages that precede it in the record.
    #[must_use]
    pub fn new(effect: &CoreEffect, record: &Record, n: u32, ids: &IdResolver<'_>) -> Self {
        match effect {
            CoreEffect::SpaceCreated { .. } | CoreEffect::SpaceRestored { .. } => space(effect),
            CoreEffect::AgentRegistered { .. }
            | CoreEffect::PresenceChanged { .. }
            | CoreEffect::AgentRemoved { .. } => agent(effect, ids),
            CoreEffect::Sent { .. } => delivery::sent_effect(effect, record, n, ids),
            CoreEffect::Leased { deliveries, .. }
            | CoreEffect::LeasedFromPool { deliveries, .. }
            | CoreEffect::AckedMany { deliveries } => delivery::deliveries_effect(effect, deliveries, ids),
            CoreEffect::Backfilled { agent, first, messages } => {
                let deliveries = messages.iter().zip((first.0..).map(DeliveryNo));
                delivery::backfill_effect(*agent, deliveries, ids)
            }
            CoreEffect::Acked { .. }
            | CoreEffect::Returned { .. }
            | CoreEffect::Expired { .. }
            | CoreEffect::Redriven { .. }
            | CoreEffect::Purged { .. }
            | CoreEffect::DeniedByPolicy { .. } => delivery::delivery_effect(effect, ids),
            CoreEffect::Written { .. } | CoreEffect::Deleted { .. } => entry(effect, record),
            CoreEffect::Erased { seq, part } => {
                ErasureEffect { effect: ErasureEffectName::Erased, seq: *seq, part: *part }.into()
            }
            CoreEffect::WaitAborted { cycle } => {
                let wait = |(agent, resource): &(AgentNo, String)| AbortedWait {
                    agent: ids.agent_id(*agent),
                    waits_for: resource.clone(),
                };
                let cycle = cycle.iter().map(wait).collect();
                DeadlockEffect { effect: DeadlockEffectName::Aborted, cycle }.into()
            }
            CoreEffect::ContributionAdded { session, kind, n, part, content_type, rationale } => {
                SessionContributionEffect {
                    effect: SessionAdditionName::Added,
                    session_id: session.clone(),
                    kind: *kind,
                    n: *n,
                    content_type: content_type.clone(),
                    rationale: rationale.clone(),
                    payloads: vec![PayloadLocation::new("body", PartRef { seq: record.seq, part: *part })],
                }
                .into()
            }
            CoreEffect::Changed { verb, item } => item::item_effect(*verb, item, ids),
        }
    }
}

fn space(effect: &CoreEffect) -> Effect {
    match effect {
        CoreEffect::SpaceCreated { name, id, generation } => SpaceEffect {
            effect: SpaceEffectName::Created,
            generation: *generation,
            name: Some(name.clone()),
            id: Some(hex::encode(&id.0)),
        }
        .into(),
        CoreEffect::SpaceRestored { generation } => {
            SpaceEffect { effect: SpaceEffectName::Restored, generation: *generation, name: None, id: None }
                .into()
        }
        other => Effect::from_name(other.as_str(), String::new()),
    }
}

fn agent(effect: &CoreEffect, ids: &IdResolver<'_>) -> Effect {
    match effect {
        CoreEffect::AgentRegistered { number, agent } => AgentRegisteredEffect {
            effect: AgentRegisteredName::Registered,
            agent: agent.into(),
            number: *number,
        }
        .into(),
        CoreEffect::PresenceChanged { number, presence } => AgentStatusEffect {
            effect: AgentStatusName::Status,
            agent_id: ids.agent_id(*number),
            presence: presence.into(),
        }
        .into(),
        CoreEffect::AgentRemoved { number } => AgentRemovedEffect {
            effect: AgentRemovedName::Removed,
            agent_id: ids.agent_id(*number),
            number: *number,
        }
        .into(),
        other => Effect::from_name(other.as_str(), String::new()),
    }
}

fn entry(effect: &CoreEffect, record: &Record) -> Effect {
    match effect {
        CoreEffect::Deleted { key, version } => EntryEffect {
            effect: EntryEffectName::Deleted,
            entry: EntryMetadata {
                key: key.clone(),
                version: *version,
                entry_type: String::new(),
                content_type: None,
                deleted: true,
                depends_on: Vec::new(),
                restores: None,
            },
            payloads: Vec::new(),
        }
        .into(),
        CoreEffect::Written { key, version, entry_type, content_type, part, depends_on, restores } => {
            // After a rollback the content is stored in the record of the restored version.
            let seq = restores.map_or(record.seq, |RestoredVersion { seq, .. }| seq);
            let depends_on =
                depends_on.iter().map(|(key, version)| EntryVersion { key: key.clone(), version: *version });
            EntryEffect {
                effect: EntryEffectName::Written,
                entry: EntryMetadata {
                    key: key.clone(),
                    version: *version,
                    entry_type: entry_type.clone(),
                    content_type: content_type.clone(),
                    deleted: false,
                    depends_on: depends_on.collect(),
                    restores: restores.map(|RestoredVersion { version, .. }| version),
                },
                payloads: vec![PayloadLocation::new("content", PartRef { seq, part: *part })],
            }
            .into()
        }
        other => Effect::from_name(other.as_str(), String::new()),
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Effect {
    fn schema_name() -> Cow<'static, str> {
        "Effect".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let forms = forms(generator);
        let mut mapping = serde_json::Map::new();
        for form in &forms {
            let reference = form.as_value()["$ref"].clone();
            let component = reference.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            let effect = &generator.definitions()[component]["properties"]["effect"];
            let names = effect["enum"].as_array().cloned().unwrap_or_else(|| vec![effect["const"].clone()]);
            for name in names.iter().filter_map(serde_json::Value::as_str) {
                mapping.insert(name.to_owned(), reference.clone());
            }
        }
        schemars::json_schema!({
            "description": "A change made by a commit. `effect` is its name.",
            "oneOf": forms,
            "discriminator": {"propertyName": "effect", "mapping": mapping},
        })
    }
}
