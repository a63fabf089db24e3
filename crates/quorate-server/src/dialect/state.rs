//! The orchestrator's shared state of a task: `taskId, currentPhase, sharedContext, agentStates`. The entries of the four
//! lists are additions to a session, so that its timeline has them. The rest is an entry of the shared memory, and so are
//! later changes to list entries: which additions were changed or removed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorate_core::AddKind;
use serde_json::value::RawValue;

use super::merge::{canonical, id_of};
use super::said::{Said, Wrong};
use super::shape::{Shape, raw_of};

/// The lists of the shared context, and what a session calls their items.
pub(crate) const LISTS: [(&str, AddKind); 4] = [
    ("keyDecisions", AddKind::Decision),
    ("artifacts", AddKind::Artifact),
    ("blockers", AddKind::Blocker),
    ("notes", AddKind::Note),
];

/// An entry of a list: which addition of its kind it is, counted from 1, and its present value.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) n: u64,
    pub(crate) value: Box<RawValue>,
}

/// Changes to what was added to a session, by kind and number of the addition.
#[derive(Clone, Default)]
pub(crate) struct Edits {
    changed: BTreeMap<(AddKind, u64), Box<RawValue>>,
    removed: BTreeSet<(AddKind, u64)>,
}

/// The shared state of a task.
pub(crate) struct State {
    pub(crate) objective: String,
    pub(crate) phase: Box<RawValue>,
    /// In the order of [`LISTS`].
    pub(crate) lists: [Vec<Listed>; 4],
    pub(crate) agents: Box<RawValue>,
    pub(crate) edits: Edits,
}

/// A shared state as a caller submits it. What is omitted keeps its value.
pub(crate) struct Submitted {
    objective: Option<String>,
    phase: Option<Box<RawValue>>,
    /// In the order of [`LISTS`].
    lists: [Option<Vec<Box<RawValue>>>; 4],
    agents: Option<Box<RawValue>>,
}

/// What turns one state into another.
pub(crate) struct Plan {
    pub(crate) added: Vec<(AddKind, Box<RawValue>)>,
    /// The new content of the entry.
    pub(crate) rest: Box<RawValue>,
    pub(crate) is_empty: bool,
}

impl Submitted {
    /// Reads the state of the task with this id.
    pub(crate) fn read(id: &str, raw: &RawValue) -> Result<Self, Wrong> {
        let mut said = Said::read("", raw)?;
        if let Some(other) = said.text("taskId")?.filter(|task| task != id) {
            return Err(Wrong::new("taskId", format!("{other:?} is not the id of this call")));
        }
        let phase = phase(&mut said)?;
        let agents = said.value("agentStates").map(ToOwned::to_owned);
        if let Some(agents) = &agents {
            for (agent, state) in Said::read("agentStates", agents)?.rest() {
                Said::read(format!("agentStates.{agent}"), state)?.text("status")?;
            }
        }
        let mut context = said.object("sharedContext")?.ok_or_else(|| said.missing("sharedContext"))?;
        said.end("the shared state has taskId, currentPhase, sharedContext and agentStates")?;
        let objective = context.text("objective")?;
        let mut lists = [const { None }; 4];
        for ((name, _), list) in LISTS.iter().zip(&mut lists) {
            let path = context.at(name);
            let Some(raw) = context.value(name) else { continue };
            *list = Some(serde_json::from_str(raw.get()).map_err(|_| Wrong::new(path, "is no list"))?);
        }
        context.end("the shared context has objective, keyDecisions, artifacts, blockers and notes")?;
        Ok(Self { objective, phase, lists, agents })
    }

    pub(crate) fn objective(&self) -> &str {
        self.objective.as_deref().unwrap_or_default()
    }

    /// The names in `agentStates`.
    pub(crate) fn agents(&self) -> Vec<String> {
        let agents = self.agents.as_ref().and_then(|raw| Said::read("", raw).ok());
        agents
            .map(|agents| agents.rest().into_iter().map(|(name, _)| name.into_owned()).collect())
            .unwrap_or_default()
    }

    /// The whole document; what is omitted is as in this state.
    pub(crate) fn over(&self, state: &State) -> Box<RawValue> {
        let objective = self.objective.as_ref().unwrap_or(&state.objective);
        let lists = self.lists.iter().zip(&state.lists).map(|(submitted, list)| match submitted {
            Some(submitted) => submitted.iter().map(AsRef::as_ref).collect(),
            None => values(list),
        });
        let phase = self.phase.as_ref().unwrap_or(&state.phase);
        document(objective, phase, lists, self.agents.as_ref().unwrap_or(&state.agents)).to_raw()
    }
}

impl State {
    /// The state of a task of which nobody said anything yet.
    pub(crate) fn new(objective: String, agents: Box<RawValue>) -> Self {
        let lists = [const { Vec::new() }; 4];
        Self { objective, phase: raw_of(&0), lists, agents, edits: Edits::default() }
    }

    /// The dialect's JSON.
    pub(crate) fn written(&self, id: &str) -> Shape {
        Shape::default().with("taskId", id).followed_by(self.shape())
    }

    /// What is merged: all but the id.
    pub(crate) fn document(&self) -> Box<RawValue> {
        self.shape().to_raw()
    }

    /// What somebody wrote: without the entry, only what was added to the session.
    pub(crate) fn lists_only(&self) -> Box<RawValue> {
        let names = LISTS.iter().zip(&self.lists);
        let context =
            names.fold(Shape::default(), |context, ((name, _), list)| context.with(name, values(list)));
        Shape::default().with("sharedContext", context).to_raw()
    }

    fn shape(&self) -> Shape {
        document(&self.objective, &self.phase, self.lists.iter().map(|list| values(list)), &self.agents)
    }

    /// Takes over what [`State::plan`] wrote. Whatever else somebody put there is left alone.
    pub(crate) fn take_rest(&mut self, raw: &RawValue) {
        let Ok(mut said) = Said::read("", raw) else { return };
        if let Ok(Some(phase)) = phase(&mut said) {
            self.phase = phase;
        }
        if let Ok(Some(objective)) = said.text("objective") {
            self.objective = objective;
        }
        if let Some(agents) = said.value("agentStates").filter(|raw| Said::read("", raw).is_ok()) {
            self.agents = agents.to_owned();
        }
        self.edits = Edits::read(&mut said).unwrap_or_default();
    }

    /// What makes this state the one that a document of [`State::document`]'s shape has. Entries of lists keep their place;
    /// new ones come behind them.
    pub(crate) fn plan(&self, id: &str, wanted: &RawValue) -> Result<Plan, Wrong> {
        let wanted = Submitted::read(id, wanted)?;
        let mut edits = self.edits.clone();
        let mut plan = Plan { added: Vec::new(), rest: RawValue::NULL.to_owned(), is_empty: true };
        for (((_, kind), list), wanted) in LISTS.iter().zip(&self.lists).zip(&wanted.lists) {
            let wanted = wanted.as_deref().unwrap_or_default();
            let (touched, added) = difference(list, wanted);
            plan.is_empty &= touched.is_empty() && added.is_empty();
            touched.into_iter().for_each(|(n, value)| edits.set(*kind, n, value));
            plan.added.extend(added.into_iter().map(|value| (*kind, value.to_owned())));
        }
        let objective = wanted.objective.as_ref().unwrap_or(&self.objective);
        let phase = wanted.phase.as_ref().unwrap_or(&self.phase);
        let agents = wanted.agents.as_ref().unwrap_or(&self.agents);
        plan.is_empty &= *objective == self.objective
            && phase.get() == self.phase.get()
            && agents.get() == self.agents.get();
        let rest = Shape::default().with("currentPhase", phase).with("objective", objective);
        plan.rest = edits.written(rest.with("agentStates", agents)).to_raw();
        Ok(plan)
    }
}

impl Edits {
    /// The present value of an addition; `None` if it was removed.
    pub(crate) fn apply(&self, kind: AddKind, n: u64, value: Box<RawValue>) -> Option<Box<RawValue>> {
        if self.removed.contains(&(kind, n)) {
            return None;
        }
        Some(self.changed.get(&(kind, n)).cloned().unwrap_or(value))
    }

    fn set(&mut self, kind: AddKind, n: u64, value: Option<&RawValue>) {
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

    fn read(said: &mut Said<'_>) -> Option<Self> {
        let mut edits = Self::default();
        let changed = said.value("changed").map(RawValue::get).unwrap_or("{}");
        let removed = said.value("removed").map(RawValue::get).unwrap_or("{}");
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

    /// Nothing is said of a state in which nothing was edited.
    fn written(&self, shape: Shape) -> Shape {
        let mut changed: BTreeMap<&str, BTreeMap<u64, &RawValue>> = BTreeMap::new();
        for ((kind, n), value) in &self.changed {
            changed.entry(kind.as_str()).or_default().insert(*n, value);
        }
        let mut removed: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (kind, n) in &self.removed {
            removed.entry(kind.as_str()).or_default().push(*n);
        }
        let shape = shape.maybe("changed", Some(changed).filter(|all| !all.is_empty()));
        shape.maybe("removed", Some(removed).filter(|all| !all.is_empty()))
    }
}

/// Additions with their new values, `None` for those that are removed; and the values that are new.
type Difference<'a> = (Vec<(u64, Option<&'a RawValue>)>, Vec<&'a RawValue>);

/// How a list becomes another. An entry is the same one if it has the same id, or the same value, or, where neither is to
/// be found, the same place.
fn difference<'a>(list: &[Listed], wanted: &'a [Box<RawValue>]) -> Difference<'a> {
    let mut matched: Vec<Option<&RawValue>> = vec![None; list.len()];
    let mut open: Vec<bool> = vec![true; wanted.len()];
    let mut pair = |key: fn(&RawValue) -> Option<String>, open: &mut [bool]| {
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, entry) in list.iter().enumerate().rev().filter(|(at, _)| matched[*at].is_none()) {
            key(&entry.value).into_iter().for_each(|key| places.entry(key).or_default().push(at));
        }
        for (at, value) in wanted.iter().enumerate().filter(|(at, _)| open[*at]).collect::<Vec<_>>() {
            let place = key(value).and_then(|key| places.get_mut(&key)?.pop());
            if let Some(place) = place {
                matched[place] = Some(value);
                open[at] = false;
            }
        }
    };
    pair(|value| Some(canonical(value)), &mut open);
    pair(id_of, &mut open);
    let mut touched = Vec::new();
    for (at, entry) in list.iter().enumerate() {
        let in_place = || {
            let value = wanted.get(at).filter(|value| open[at] && id_of(value).is_none())?;
            id_of(&entry.value).is_none().then_some(value.as_ref())
        };
        match matched[at] {
            Some(value)
                if value.get() == entry.value.get() || canonical(value) == canonical(&entry.value) => {}
            Some(value) => touched.push((entry.n, Some(value))),
            None => {
                let value = in_place();
                if value.is_some() {
                    open[at] = false;
                }
                touched.push((entry.n, value));
            }
        }
    }
    let added = wanted.iter().zip(open).filter(|(_, is_open)| *is_open).map(|(value, _)| value.as_ref());
    (touched, added.collect())
}

fn values(list: &[Listed]) -> Vec<&RawValue> {
    list.iter().map(|entry| entry.value.as_ref()).collect()
}

fn document<'a>(
    objective: &str,
    phase: &RawValue,
    lists: impl Iterator<Item = Vec<&'a RawValue>>,
    agents: &RawValue,
) -> Shape {
    let context = Shape::default().with("objective", objective);
    let context =
        LISTS.iter().zip(lists).fold(context, |context, ((name, _), list)| context.with(name, list));
    Shape::default().with("currentPhase", phase).with("sharedContext", context).with("agentStates", agents)
}

fn phase(said: &mut Said<'_>) -> Result<Option<Box<RawValue>>, Wrong> {
    let path = said.at("currentPhase");
    let Some(raw) = said.value("currentPhase") else { return Ok(None) };
    match raw.get().as_bytes().first() {
        // Phases are numbers, but the document has a 3a and a 3b, too.
        Some(b'"' | b'0'..=b'9') => Ok(Some(raw.to_owned())),
        _ => Err(Wrong::new(path, "is neither a number nor a text")),
    }
}

/// Something that was added to a session, as an item of a list. What is no object is put into one where the document has
/// objects.
pub(crate) fn item(kind: AddKind, body: Box<RawValue>, by: &str, at: &str) -> Box<RawValue> {
    let name = match kind {
        AddKind::Decision => "decision",
        AddKind::Artifact => "path",
        AddKind::Finding | AddKind::Blocker | AddKind::Note => return body,
    };
    if body.get().starts_with('{') {
        return body;
    }
    Shape::default().with(name, body).with("by", by).with("timestamp", at).to_raw()
}
