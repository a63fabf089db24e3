//! Cancelling everything that belongs to a procedure: its requests and tasks, and its children with theirs.
//!
//! One operation cancels a bounded amount, because the writer serves every space. The caller repeats it until none is
//! left. A child is cancelled after everything that belongs to it, so that the repetition finds what is left.

use crate::decide::{DecideError, Draft};
use crate::ids::TaskId;
use crate::item::Verb;
use crate::limits::{PROCEDURE_CANCEL_MAX, PROCEDURE_CANCEL_WORK_MAX};
use crate::procedure::{Procedure, ProcedureStatus, truncate_reason};
use crate::request::Request;
use crate::task::CancelTask;

/// Something that belongs to a cancelled procedure.
enum Belonging {
    Request(Box<Request>),
    Task(TaskId),
    Child(Box<Procedure>),
}

impl Draft<'_> {
    /// Cancels what belongs to a procedure, at most [`PROCEDURE_CANCEL_MAX`] items and [`PROCEDURE_CANCEL_WORK_MAX`]
    /// units of work. Returns the number of those that are left.
    pub(super) fn cancel_work_of(&mut self, root: &Procedure, reason: &str) -> Result<u32, DecideError> {
        let all = self.belongings_of(root);
        self.lookup.add_steps(all.len());
        let (total, mut cancelled) = (all.len(), 0);
        for item in all {
            if cancelled >= PROCEDURE_CANCEL_MAX || self.lookup.units_spent() >= PROCEDURE_CANCEL_WORK_MAX {
                break;
            }
            cancelled += 1;
            match item {
                Belonging::Request(request) => self.withdraw(*request),
                Belonging::Task(task) => {
                    // It may have ended with an earlier one.
                    if self.working.tasks().get(&task).is_some() {
                        self.cancel_task_of_procedure(&CancelTask { task, reason: reason.to_owned() })?;
                    }
                }
                Belonging::Child(child) => {
                    let suffix = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                    let reason = truncate_reason(format!("procedure {} was cancelled{suffix}", root.id));
                    let status = ProcedureStatus::Cancelled;
                    self.set_procedure_status(&child, Verb::ProcedureCancelled, status, &reason)?;
                }
            }
        }
        Ok((total - cancelled) as u32)
    }

    /// Returns what belongs to a procedure, in the order in which it is cancelled.
    fn belongings_of(&self, root: &Procedure) -> Vec<Belonging> {
        let procedures = &self.working.items().procedures;
        // Each procedure before its children.
        let (mut tree, mut next) = (Vec::new(), vec![root]);
        while let Some(procedure) = next.pop() {
            tree.push(procedure);
            next.extend(procedures.children_of(&procedure.id));
        }
        let mut all = self.work_of(root);
        for child in tree.into_iter().skip(1).rev() {
            all.extend(self.work_of(child));
            all.push(Belonging::Child(Box::new(child.clone())));
        }
        all
    }

    /// Returns the open requests of the driver of a procedure with the id of the procedure as correlation id, and the
    /// tasks that its driver created with that id as session.
    fn work_of(&self, procedure: &Procedure) -> Vec<Belonging> {
        let driver = procedure.driver.as_ref().and_then(|driver| self.working.agents().number(driver));
        let Some(driver) = driver else { return Vec::new() };
        let requests = self.working.items().requests.of_correlation(procedure.id.as_str());
        let requests = requests.filter(|request| request.from == driver);
        let requests = requests.map(|request| Belonging::Request(Box::new(request.clone())));
        // Newest first: a task is cancelled before those that it depends on, so that it does not fail with them.
        let tasks = self.working.tasks().of_session(procedure.id.as_str(), driver).into_iter().rev();
        requests.chain(tasks.map(Belonging::Task)).collect()
    }
}
