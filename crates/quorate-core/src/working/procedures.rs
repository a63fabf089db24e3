//! Running procedures.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::ProcedureId;
use crate::procedure::Procedure;
use crate::working::{Map, WorkingState, decrement};

/// Running procedures by id.
#[derive(Debug, Default)]
pub(crate) struct Procedures {
    running: Map<Arc<str>, Procedure>,
    /// Number of procedures that each principal started.
    of_principal: Map<String, usize>,
    /// Children of each procedure, by id.
    children: Map<ProcedureId, BTreeSet<ProcedureId>>,
    /// Incremented by every change, including undone ones.
    changes: u64,
}

impl Procedures {
    /// Replaces a procedure and returns the previous one.
    pub(super) fn replace(&mut self, id: &Arc<str>, new: Option<Procedure>) -> Option<Procedure> {
        self.changes += 1;
        if let Some(new) = &new {
            *self.of_principal.entry(new.started_by.clone()).or_default() += 1;
        }
        let child = new.as_ref().and_then(|new| Some((new.parent.clone()?, new.id.clone())));
        let old = match new {
            Some(new) => self.running.insert(Arc::clone(id), new),
            None => self.running.remove(id),
        };
        if let Some(old) = &old {
            decrement(&mut self.of_principal, &old.started_by);
            self.remove_child(old);
        }
        if let Some((parent, child)) = child {
            self.children.entry(parent).or_default().insert(child);
        }
        old
    }

    fn remove_child(&mut self, procedure: &Procedure) {
        let Some(parent) = &procedure.parent else { return };
        if let Some(children) = self.children.get_mut(parent) {
            children.remove(&procedure.id);
            if children.is_empty() {
                self.children.remove(parent);
            }
        }
    }

    /// Returns the children of a procedure that have not ended, by id.
    pub(crate) fn children_of(&self, parent: &ProcedureId) -> impl DoubleEndedIterator<Item = &Procedure> {
        let children = self.children.get(parent).into_iter().flatten();
        children.filter_map(|child| self.running.get(child.as_str()))
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Procedure> {
        self.running.get(id)
    }

    /// Returns all procedures that have not ended, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Procedure> {
        self.running.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Returns the number of running procedures that a principal started.
    pub(crate) fn count_of(&self, principal: &str) -> usize {
        self.of_principal.get(principal).copied().unwrap_or(0)
    }
}

impl WorkingState {
    /// Returns a counter that changes whenever a procedure changes. Its value has no other meaning.
    #[must_use]
    pub fn procedure_changes(&self) -> u64 {
        self.items().procedures.changes
    }
}
