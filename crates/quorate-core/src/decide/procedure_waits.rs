//! What running procedures wait for: answers to requests of their drivers, tasks, decisions, and their children. Read-only.

use std::collections::BTreeMap;

use crate::decide::Draft;
use crate::ids::AgentNo;
use crate::inspect::{ProcedureInspection, ProcedureWait, ProcedureWaitSubject};
use crate::limits::{PROCEDURE_WAITS_MAX, REFUSAL_NAMES_MAX};
use crate::presence::AbsentAgent;
use crate::procedure::{Procedure, ProcedureStatus};
use crate::recipient::{QueueId, Recipient};
use crate::stuck::{StuckSubject, StuckWork};
use crate::task::{Task, TaskState, TaskTarget};

impl Draft<'_> {
    /// Returns what a procedure waits for, and whether its driver is gone.
    pub(super) fn inspect_procedure(&self, procedure: &Procedure) -> ProcedureInspection {
        let absent_driver = self.absent_driver(procedure);
        let work = self.awaited_work(procedure);
        let (mut waits, present): (Vec<_>, Vec<_>) = work.partition(|wait| wait.absent.is_some());
        waits.extend(present);
        waits.extend(self.awaited_decisions(procedure));
        let children =
            self.working.items().procedures.children_of(&procedure.id).map(|child| ProcedureWait {
                subject: ProcedureWaitSubject::Child(child.id.clone(), child.status),
                absent: None,
            });
        waits.extend(children);
        let more = waits.len().saturating_sub(REFUSAL_NAMES_MAX);
        waits.truncate(REFUSAL_NAMES_MAX);
        ProcedureInspection { absent_driver, waits, more }
    }

    /// Returns the running procedures that wait for answers or tasks that nobody will do soon, by agent or capability.
    pub(super) fn stuck_waits(&self) -> impl Iterator<Item = StuckWork> {
        let is_running = |procedure: &&Procedure| procedure.status == ProcedureStatus::Running;
        let mut running: Vec<_> = self.working.items().procedures.iter().filter(is_running).collect();
        running.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let mut found: BTreeMap<String, StuckWork> = BTreeMap::new();
        for procedure in running {
            let mut absent: BTreeMap<String, Vec<AbsentAgent>> = BTreeMap::new();
            for wait in self.awaited_work(procedure) {
                let (ProcedureWaitSubject::Answer { of } | ProcedureWaitSubject::Task { of, .. }) =
                    wait.subject
                else {
                    continue;
                };
                wait.absent.into_iter().for_each(|gone| drop(absent.insert(of.clone(), gone)));
            }
            for (on, absent) in absent {
                let work = found.entry(on.clone()).or_insert_with(|| {
                    let subject = StuckSubject::ProcedureWaits { on, first: procedure.id.clone() };
                    StuckWork { subject, waiting: 0, since: None, absent }
                });
                work.waiting += 1;
            }
        }
        found.into_values()
    }

    /// Returns the answers and tasks that a procedure waits for, up to a number of each.
    fn awaited_work(&self, procedure: &Procedure) -> impl Iterator<Item = ProcedureWait> {
        let driver = procedure.driver.as_ref().and_then(|driver| self.working.agents().number(driver));
        let (requests, tasks) = (&self.working.items().requests, self.working.tasks());
        let answers = driver.into_iter().flat_map(move |driver| {
            let open = requests.of_correlation(procedure.id.as_str());
            let open = open.filter(move |request| request.from == driver).take(PROCEDURE_WAITS_MAX);
            open.flat_map(|request| request.missing()).take(PROCEDURE_WAITS_MAX)
        });
        let ids = driver.map(|driver| tasks.of_session(procedure.id.as_str(), driver)).unwrap_or_default();
        let tasks = ids.into_iter().take(PROCEDURE_WAITS_MAX).filter_map(move |id| tasks.get(&id));
        answers.map(|to| self.awaited_answer(to)).chain(tasks.map(|task| self.awaited_task(task)))
    }

    fn awaited_answer(&self, to: Recipient) -> ProcedureWait {
        let absent = match (to.agent_no(), to.queue()) {
            (Some(agent), _) | (None, QueueId::Agent(agent)) => self.absent(agent).map(|absent| vec![absent]),
            (None, QueueId::Pool(pool)) => self.absent_servers(pool),
        };
        ProcedureWait { subject: ProcedureWaitSubject::Answer { of: self.recipient_name(to) }, absent }
    }

    fn awaited_task(&self, task: &Task) -> ProcedureWait {
        let name = |agent: AgentNo| self.agent_id(agent);
        let of = match (&task.state, task.spec.target()) {
            (TaskState::Leased(lease), _) => name(lease.by),
            (_, TaskTarget::Agent(agent)) => name(agent),
            (_, TaskTarget::Can(capability)) => format!("can:{capability}"),
        };
        let absent = self.inspect_task(task).absent;
        ProcedureWait { subject: ProcedureWaitSubject::Task { task: task.spec.id.clone(), of }, absent }
    }

    fn awaited_decisions(&self, procedure: &Procedure) -> Vec<ProcedureWait> {
        let driver = procedure.driver.as_ref().and_then(|driver| self.working.agents().number(driver));
        let pending = self.working.items().approvals.iter().filter(|approval| {
            driver.is_some()
                && approval.agent == driver
                && approval.session.as_deref() == Some(procedure.id.as_str())
        });
        let mut ids: Vec<_> = pending.map(|approval| approval.id.clone()).collect();
        ids.sort_unstable();
        let wait = |id| ProcedureWait { subject: ProcedureWaitSubject::Decision(id), absent: None };
        ids.into_iter().map(wait).collect()
    }
}
