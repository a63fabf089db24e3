//! The orchestrator's shared state of a task: `taskId, currentPhase, sharedContext, agentStates`. Entries of the four
//! lists are contributions to a session, so that they appear in its timeline. Everything else is an entry of the
//! shared memory, including later edits of list entries: which contributions were changed or removed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorate_core::ContributionKind;
use serde_json::value::RawValue;

use super::field_reader::{FieldError, FieldReader};
use super::merge::{canonical, id_of};
use super::writer::{ObjectWriter, to_raw_json};

/// Lists of the shared context, and the kind of their entries in a session.
pub(crate) const LISTS: [(&str, ContributionKind); 4] = [
    ("keyDecisions", ContributionKind::Decision),
    ("artifacts", ContributionKind::Artifact),
    ("blockers", ContributionKind::Blocker),
    ("notes", ContributionKind::Note),
];

/// A list entry: the number of the contribution within its kind, starting at 1, and its current value.
#[derive(Clone)]
pub(crate) struct ListEntry {
    pub(crate) n: u64,
    pub(crate) value: Box<RawValue>,
}

/// Edits of session contributions, by kind and number of the contribution.
#[derive(Clone, Default)]
pub(crate) struct Edits {
    changed: BTreeMap<(ContributionKind, u64), Box<RawValue>>,
    removed: BTreeSet<(ContributionKind, u64)>,
}

/// Shared state of a task.
pub(crate) struct OrchestratorState {
    pub(crate) objective: String,
    pub(crate) phase: Box<RawValue>,
    /// In the order of [`LISTS`].
    pub(crate) lists: [Vec<ListEntry>; 4],
    pub(crate) agents: Box<RawValue>,
    pub(crate) edits: Edits,
}

/// Shared state as submitted by a caller. Omitted fields keep their value.
pub(crate) struct SubmittedState {
    objective: Option<String>,
    phase: Option<Box<RawValue>>,
    /// In the order of [`LISTS`].
    lists: [Option<Vec<Box<RawValue>>>; 4],
    agents: Option<Box<RawValue>>,
}

/// Changes that turn one state into another.
pub(crate) struct StateChanges {
    pub(crate) added: Vec<(ContributionKind, Box<RawValue>)>,
    /// New content of the memory entry.
    pub(crate) entry: Box<RawValue>,
    pub(crate) is_empty: bool,
}

impl SubmittedState {
    /// Parses the state of the task with this id.
    pub(crate) fn parse(id: &str, raw: &RawValue) -> Result<Self, FieldError> {
        let mut fields = FieldReader::parse("", raw)?;
        if let Some(other) = fields.text("taskId")?.filter(|task| task != id) {
            return Err(FieldError::new("taskId", format!("{other:?} does not match the id in the path")));
        }
        let phase = phase(&mut fields)?;
        let agents = fields.value("agentStates").map(ToOwned::to_owned);
        if let Some(agents) = &agents {
            for (agent, state) in FieldReader::parse("agentStates", agents)?.remaining() {
                FieldReader::parse(format!("agentStates.{agent}"), state)?.text("status")?;
            }
        }
        let mut context = fields.object("sharedContext")?.ok_or_else(|| fields.missing("sharedContext"))?;
        fields.finish("the shared state consists of taskId, currentPhase, sharedContext and agentStates")?;
        let objective = context.text("objective")?;
        let mut lists = [const { None }; 4];
        for ((name, _), list) in LISTS.iter().zip(&mut lists) {
            let path = context.path_of(name);
            let Some(raw) = context.value(name) else { continue };
            *list = Some(serde_json::from_str(raw.get()).map_err(|_| FieldError::new(path, "not a list"))?);
        }
        context.finish(
            "the shared context consists of objective, keyDecisions, artifacts, blockers and notes",
        )?;
        Ok(Self { objective, phase, lists, agents })
    }

    pub(crate) fn objective(&self) -> &str {
        self.objective.as_deref().unwrap_or_default()
    }

    /// Returns the names in `agentStates`.
    pub(crate) fn agents(&self) -> Vec<String> {
        let agents = self.agents.as_ref().and_then(|raw| FieldReader::parse("", raw).ok());
        agents
            .map(|agents| agents.remaining().into_iter().map(|(name, _)| name.into_owned()).collect())
            .unwrap_or_default()
    }

    /// Returns the complete document; omitted fields are taken from `state`.
    pub(crate) fn completed_from(&self, state: &OrchestratorState) -> Box<RawValue> {
        let objective = self.objective.as_ref().unwrap_or(&state.objective);
        let lists = self.lists.iter().zip(&state.lists).map(|(submitted, list)| match submitted {
            Some(submitted) => submitted.iter().map(AsRef::as_ref).collect(),
            None => values(list),
        });
        let phase = self.phase.as_ref().unwrap_or(&state.phase);
        document(objective, phase, lists, self.agents.as_ref().unwrap_or(&state.agents)).to_raw()
    }
}

impl OrchestratorState {
    /// Creates the initial state of a task.
    pub(crate) fn new(objective: String, agents: Box<RawValue>) -> Self {
        let lists = [const { Vec::new() }; 4];
        Self { objective, phase: to_raw_json(&0), lists, agents, edits: Edits::default() }
    }

    /// Renders the state in the dialect's format.
    pub(crate) fn render(&self, id: &str) -> ObjectWriter {
        ObjectWriter::default().with("taskId", id).append(self.object())
    }

    /// Returns the document to merge: everything except the id.
    pub(crate) fn document(&self) -> Box<RawValue> {
        self.object().to_raw()
    }

    /// Returns the lists only: the part that exists without the memory entry.
    pub(crate) fn lists_only(&self) -> Box<RawValue> {
        let names = LISTS.iter().zip(&self.lists);
        let context = names
            .fold(ObjectWriter::default(), |context, ((name, _), list)| context.with(name, values(list)));
        ObjectWriter::default().with("sharedContext", context).to_raw()
    }

    fn object(&self) -> ObjectWriter {
        document(&self.objective, &self.phase, self.lists.iter().map(|list| values(list)), &self.agents)
    }

    /// Applies the memory entry written by [`OrchestratorState::plan`]. Unknown or invalid fields are ignored.
    pub(crate) fn apply_entry(&mut self, raw: &RawValue) {
        let Ok(mut fields) = FieldReader::parse("", raw) else { return };
        if let Ok(Some(phase)) = phase(&mut fields) {
            self.phase = phase;
        }
        if let Ok(Some(objective)) = fields.text("objective") {
            self.objective = objective;
        }
        if let Some(agents) = fields.value("agentStates").filter(|raw| FieldReader::parse("", raw).is_ok()) {
            self.agents = agents.to_owned();
        }
        self.edits = Edits::read(&mut fields).unwrap_or_default();
    }

    /// Returns the changes that turn this state into a document of [`OrchestratorState::document`]'s format. List
    /// entries keep their position; new ones are appended.
    pub(crate) fn plan(&self, id: &str, target: &RawValue) -> Result<StateChanges, FieldError> {
        let target = SubmittedState::parse(id, target)?;
        let mut edits = self.edits.clone();
        let mut plan = StateChanges { added: Vec::new(), entry: RawValue::NULL.to_owned(), is_empty: true };
        for (((_, kind), list), target) in LISTS.iter().zip(&self.lists).zip(&target.lists) {
            let target = target.as_deref().unwrap_or_default();
            let (edited, added) = difference(list, target);
            plan.is_empty &= edited.is_empty() && added.is_empty();
            edited.into_iter().for_each(|(n, value)| edits.set(*kind, n, value));
            plan.added.extend(added.into_iter().map(|value| (*kind, value.to_owned())));
        }
        let objective = target.objective.as_ref().unwrap_or(&self.objective);
        let phase = target.phase.as_ref().unwrap_or(&self.phase);
        let agents = target.agents.as_ref().unwrap_or(&self.agents);
        plan.is_empty &= *objective == self.objective
            && phase.get() == self.phase.get()
            && agents.get() == self.agents.get();
        let rest = ObjectWriter::default().with("currentPhase", phase).with("objective", objective);
        plan.entry = edits.append_to(rest.with("agentStates", agents)).to_raw();
        Ok(plan)
    }
}

impl Edits {
    /// Returns the current value of a contribution; `None` if it was removed.
    pub(crate) fn apply(
        &self,
        kind: ContributionKind,
        n: u64,
        value: Box<RawValue>,
    ) -> Option<Box<RawValue>> {
        if self.removed.contains(&(kind, n)) {
            return None;
        }
        Some(self.changed.get(&(kind, n)).cloned().unwrap_or(value))
    }

    fn set(&mut self, kind: ContributionKind, n: u64, value: Option<&RawValue>) {
        match value {
            Some(value) => {
                self.changed.insert((kind, n), value.to_owned());
            }
            None => {
                self.changed.remove(&(kind, n));
                self.removed.insert((kind, n));
            }
        }
    }

    fn read(fields: &mut FieldReader<'_>) -> Option<Self> {
        let mut edits = Self::default();
        let changed = fields.value("changed").map(RawValue::get).unwrap_or("{}");
        let removed = fields.value("removed").map(RawValue::get).unwrap_or("{}");
        let mut changed: HashMap<String, BTreeMap<u64, Box<RawValue>>> =
            serde_json::from_str(changed).ok()?;
        let mut removed: HashMap<String, Vec<u64>> = serde_json::from_str(removed).ok()?;
        for (_, kind) in LISTS {
            let changed = changed.remove(kind.as_str()).unwrap_or_default().into_iter();
            edits.changed.extend(changed.map(|(n, value)| ((kind, n), value)));
            let removed = removed.remove(kind.as_str()).unwrap_or_default().into_iter();
            edits.removed.extend(removed.map(|n| (kind, n)));
        }
        Some(edits)
    }

    /// Appends the edits to an object, unless there are none.
    fn append_to(&self, object: ObjectWriter) -> ObjectWriter {
        let mut changed: BTreeMap<&str, BTreeMap<u64, &RawValue>> = BTreeMap::new();
        for ((kind, n), value) in &self.changed {
            changed.entry(kind.as_str()).or_default().insert(*n, value);
        }
        let mut removed: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (kind, n) in &self.removed {
            removed.entry(kind.as_str()).or_default().push(*n);
        }
        let object = object.with_optional("changed", Some(changed).filter(|all| !all.is_empty()));
        object.with_optional("removed", Some(removed).filter(|all| !all.is_empty()))
    }
}

/// Edited contributions with their new values, `None` if removed; and the values to add.
type Difference<'a> = (Vec<(u64, Option<&'a RawValue>)>, Vec<&'a RawValue>);

/// Returns how a list becomes another. Entries correspond by id, else by value, else by position.
fn difference<'a>(list: &[ListEntry], target: &'a [Box<RawValue>]) -> Difference<'a> {
    let mut matched: Vec<Option<&RawValue>> = vec![None; list.len()];
    let mut open: Vec<bool> = vec![true; target.len()];
    let mut pair = |key: fn(&RawValue) -> Option<String>, open: &mut [bool]| {
        let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, entry) in list.iter().enumerate().rev().filter(|(index, _)| matched[*index].is_none()) {
            key(&entry.value).into_iter().for_each(|key| positions.entry(key).or_default().push(index));
        }
        for (index, value) in target.iter().enumerate().filter(|(index, _)| open[*index]).collect::<Vec<_>>()
        {
            let position = key(value).and_then(|key| positions.get_mut(&key)?.pop());
            if let Some(position) = position {
                matched[position] = Some(value);
                open[index] = false;
            }
        }
    };
    pair(|value| Some(canonical(value)), &mut open);
    pair(id_of, &mut open);
    let mut edited = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let in_place = || {
            let value = target.get(index).filter(|value| open[index] && id_of(value).is_none())?;
            id_of(&entry.value).is_none().then_some(value.as_ref())
        };
        match matched[index] {
            Some(value)
                if value.get() == entry.value.get() || canonical(value) == canonical(&entry.value) => {}
            Some(value) => edited.push((entry.n, Some(value))),
            None => {
                let value = in_place();
                if value.is_some() {
                    open[index] = false;
                }
                edited.push((entry.n, value));
            }
        }
    }
    let added = target.iter().zip(open).filter(|(_, is_open)| *is_open).map(|(value, _)| value.as_ref());
    (edited, added.collect())
}

fn values(list: &[ListEntry]) -> Vec<&RawValue> {
    list.iter().map(|entry| entry.value.as_ref()).collect()
}

fn document<'a>(
    objective: &str,
    phase: &RawValue,
    lists: impl Iterator<Item = Vec<&'a RawValue>>,
    agents: &RawValue,
) -> ObjectWriter {
    let context = ObjectWriter::default().with("objective", objective);
    let context =
        LISTS.iter().zip(lists).fold(context, |context, ((name, _), list)| context.with(name, list));
    ObjectWriter::default()
        .with("currentPhase", phase)
        .with("sharedContext", context)
        .with("agentStates", agents)
}

fn phase(fields: &mut FieldReader<'_>) -> Result<Option<Box<RawValue>>, FieldError> {
    let path = fields.path_of("currentPhase");
    let Some(raw) = fields.value("currentPhase") else { return Ok(None) };
    match raw.get().as_bytes().first() {
        // Phases are numbers, but the documentation has 3a and 3b as well.
        Some(b'"' | b'0'..=b'9') => Ok(Some(raw.to_owned())),
        _ => Err(FieldError::new(path, "expected a number or a string")),
    }
}

/// Returns a session contribution as a list entry. A value that is not an object is wrapped where the format requires
/// objects.
pub(crate) fn list_value(
    kind: ContributionKind,
    body: Box<RawValue>,
    author: &str,
    at: &str,
) -> Box<RawValue> {
    let name = match kind {
        ContributionKind::Decision => "decision",
        ContributionKind::Artifact => "path",
        ContributionKind::Finding | ContributionKind::Blocker | ContributionKind::Note => return body,
    };
    if body.get().starts_with('{') {
        return body;
    }
    ObjectWriter::default().with(name, body).with("by", author).with("timestamp", at).to_raw()
}
