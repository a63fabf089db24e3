//! The orchestrator's shared state of a task: `taskId, currentPhase, sharedContext, agentStates`. A session holds what was
//! decided, made, noted and what stands in the way; the rest is an entry of the shared memory.

use quorate_core::AddKind;
use serde_json::Value;
use serde_json::value::RawValue;

use super::said::{Said, Wrong};
use super::shape::{Shape, raw_of};

/// The lists of the shared context, and what a session calls their items.
pub(crate) const LISTS: [(&str, AddKind); 4] = [
    ("keyDecisions", AddKind::Decision),
    ("artifacts", AddKind::Artifact),
    ("blockers", AddKind::Blocker),
    ("notes", AddKind::Note),
];

/// The shared state of a task.
pub(crate) struct State {
    pub(crate) objective: String,
    pub(crate) phase: Box<RawValue>,
    /// In the order of [`LISTS`].
    pub(crate) lists: [Vec<Box<RawValue>>; 4],
    pub(crate) agents: Box<RawValue>,
}

impl State {
    /// Reads the state of the task with this id.
    pub(crate) fn read(id: &str, raw: &RawValue) -> Result<Self, Wrong> {
        let mut said = Said::read("", raw)?;
        if let Some(other) = said.text("taskId")?.filter(|task| task != id) {
            return Err(Wrong::new("taskId", format!("{other:?} is not the id of this call")));
        }
        let phase = phase(&mut said)?;
        let agents = said.value("agentStates").map_or_else(|| Shape::default().to_raw(), ToOwned::to_owned);
        for (agent, state) in Said::read("agentStates", &agents)?.rest() {
            Said::read(format!("agentStates.{agent}"), state)?.text("status")?;
        }
        let mut context = said.object("sharedContext")?.ok_or_else(|| said.missing("sharedContext"))?;
        said.end("the shared state has taskId, currentPhase, sharedContext and agentStates")?;
        let objective = context.text("objective")?.unwrap_or_default();
        let mut lists = [const { Vec::new() }; 4];
        for ((name, _), list) in LISTS.iter().zip(&mut lists) {
            let path = context.at(name);
            let Some(raw) = context.value(name) else { continue };
            *list = serde_json::from_str(raw.get()).map_err(|_| Wrong::new(path, "is no list"))?;
        }
        context.end("the shared context has objective, keyDecisions, artifacts, blockers and notes")?;
        Ok(Self { objective, phase, lists, agents })
    }

    /// The dialect's JSON.
    pub(crate) fn written(&self, id: &str) -> Shape {
        let context = Shape::default().with("objective", &self.objective);
        let lists = LISTS.iter().zip(&self.lists);
        let context = lists.fold(context, |context, ((name, _), list)| context.with(name, list));
        Shape::default()
            .with("taskId", id)
            .with("currentPhase", &self.phase)
            .with("sharedContext", context)
            .with("agentStates", &self.agents)
    }

    /// What the session has no place for.
    pub(crate) fn rest(&self) -> Box<RawValue> {
        let rest = Shape::default().with("currentPhase", &self.phase).with("objective", &self.objective);
        rest.with("agentStates", &self.agents).to_raw()
    }

    /// Takes over what [`State::rest`] wrote. Whatever else somebody put there is left alone.
    pub(crate) fn take_rest(&mut self, raw: &RawValue) {
        let Ok(mut said) = Said::read("", raw) else { return };
        self.phase = phase(&mut said).unwrap_or_else(|_| raw_of(&0));
        if let Ok(Some(objective)) = said.text("objective") {
            self.objective = objective;
        }
        if let Some(agents) = said.value("agentStates").filter(|raw| Said::read("", raw).is_ok()) {
            self.agents = agents.to_owned();
        }
    }

    /// What is to be added to what is there. What was added stays: it is never changed or taken away.
    pub(crate) fn beyond(&self, there: Option<&Self>) -> Result<Vec<(AddKind, &RawValue)>, Wrong> {
        let mut added = Vec::new();
        for (at, (name, kind)) in LISTS.iter().enumerate() {
            let said = &self.lists[at];
            let there = there.map_or(&[][..], |there| &there.lists[at]);
            for (n, before) in there.iter().enumerate() {
                if said.get(n).is_none_or(|said| value(said) != value(before)) {
                    return Err(Wrong::new(format!("sharedContext.{name}[{n}]"), "is not what stands there")
                        .hint("what was added stays; read the state again, and add behind it"));
                }
            }
            added.extend(said.iter().skip(there.len()).map(|item| (*kind, &**item)));
        }
        Ok(added)
    }
}

fn phase(said: &mut Said<'_>) -> Result<Box<RawValue>, Wrong> {
    let path = said.at("currentPhase");
    let Some(raw) = said.value("currentPhase") else { return Ok(raw_of(&0)) };
    match raw.get().as_bytes().first() {
        // Phases are numbers, but the document has a 3a and a 3b, too.
        Some(b'"' | b'0'..=b'9') => Ok(raw.to_owned()),
        _ => Err(Wrong::new(path, "is neither a number nor a text")),
    }
}

fn value(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
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
