//! Deadlock detection: aborts the youngest wait of each cycle in the wait-for graph.

use crate::commit::ConsumerEvent;
use crate::deadlock::{Wait, find_cycles};
use crate::decide::Draft;
use crate::effect::Effect;
use crate::ids::{AgentNo, Seq};
use crate::refused::{Code, Refused, WaitEdge};
use crate::working::WaitId;

impl Draft<'_> {
    /// Returns the record after which a wait begins. Effects of this commit so far come before it.
    pub(super) fn wait_since(&self) -> Seq {
        if self.effects.is_empty() { self.working.head.seq } else { self.seq }
    }

    /// Searches the wait-for graph for cycles, if a check is due, and aborts one wait of each.
    pub(super) fn break_deadlocks(&mut self) {
        if !self.working.deadlock_check_due(self.now.mono) {
            return;
        }
        let waits = self.working.waits(self.now.wall);
        let working = &*self.working;
        for found in find_cycles(&waits, |agent| working.agent_load(agent)) {
            let reported = found.waits.iter().filter(|(wait, _)| waits[*wait].id != WaitId::Blocked);
            let cycle: Vec<_> = reported
                .map(|(wait, resource)| (waits[*wait].agent, self.describe_wait(&waits[*wait], *resource)))
                .collect();
            let victim = waits[found.waits[0].0].id.clone();
            self.abort_wait(&victim, self.deadlock(&cycle));
            self.emit(Effect::WaitAborted { cycle });
        }
    }

    fn abort_wait(&mut self, wait: &WaitId, refused: Refused) {
        match wait {
            WaitId::Locks(id) => {
                self.cancel_lock_wait(*id);
                self.consumer_events.push((*id, ConsumerEvent::Refused(refused)));
            }
            WaitId::Replies(seq, n) => {
                if let Some(request) = self.working.items().requests.of_message(*seq, *n).cloned() {
                    self.fail_deadlocked(request, refused);
                }
            }
            WaitId::Task(id) => {
                self.working.set_task_waiter(*id, None, self.now);
                self.consumer_events.push((*id, ConsumerEvent::Refused(refused)));
            }
            // Never the victim: every cycle has a wait of an agent, and none passes through an approval.
            WaitId::Blocked | WaitId::Approval => {}
        }
    }

    /// Describes the resource of a wait.
    fn describe_wait(&self, wait: &Wait<WaitId>, resource: usize) -> String {
        match &wait.id {
            WaitId::Locks(id) => {
                let name = self.working.locks().waiter(*id).and_then(|waiter| waiter.names.get(resource));
                name.map_or(String::new(), |name| format!("lock {name}"))
            }
            WaitId::Replies(seq, n) => {
                let request = self.working.items().requests.of_message(*seq, *n);
                let outcome = request.and_then(|request| request.recipients.get(resource));
                outcome.map_or(String::new(), |outcome| {
                    format!("an answer of {}", self.recipient_name(outcome.recipient))
                })
            }
            WaitId::Task(id) => {
                let waiter = self.working.tasks().waiters().get(*id);
                waiter.map_or(String::new(), |waiter| format!("task {}", waiter.task))
            }
            WaitId::Blocked | WaitId::Approval => String::new(),
        }
    }

    fn deadlock(&self, cycle: &[(AgentNo, String)]) -> Refused {
        let edge = |(agent, waits_for): &(AgentNo, String)| WaitEdge {
            agent: self.working.agents().get(*agent).map_or(String::new(), |agent| agent.id.to_string()),
            waits_for: waits_for.clone(),
        };
        let cycle: Vec<_> = cycle.iter().map(edge).collect();
        let waits: Vec<_> =
            cycle.iter().map(|edge| format!("{} waits for {}", edge.agent, edge.waits_for)).collect();
        let mut refused = Refused::new(Code::Deadlock, waits.join(", "))
            .hint("release what you hold, then retry; acquire related locks in one call");
        refused.facts.cycle = cycle;
        refused
    }
}
