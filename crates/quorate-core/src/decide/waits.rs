//! Deadlocks: of those who wait for each other in a circle, the youngest is called off.

use crate::commit::Told;
use crate::decide::Draft;
use crate::effect::Effect;
use crate::ids::{AgentNo, Seq};
use crate::refused::{Code, Refused, Waits};
use crate::waits::{Wait, knots};
use crate::working::WaitId;

impl Draft<'_> {
    /// The newest record when something began to wait. What this commit did so far came before.
    pub(super) fn wait_since(&self) -> Seq {
        if self.effects.is_empty() { self.working.head.seq } else { self.seq }
    }

    /// Looks who waits for whom, if it is time.
    pub(super) fn sweep_waits(&mut self) {
        if !self.working.look_due(self.now.mono) {
            return;
        }
        let waits = self.working.waits(self.now.wall);
        let working = &*self.working;
        for knot in knots(&waits, |agent| working.hands(agent)) {
            let named = knot.cycle.iter().filter(|(wait, _)| waits[*wait].id != WaitId::Blocked);
            let cycle: Vec<_> = named
                .map(|(wait, what)| (waits[*wait].agent, self.waits_for(&waits[*wait], *what)))
                .collect();
            let victim = waits[knot.cycle[0].0].id.clone();
            self.call_off(&victim, self.deadlock(&cycle));
            self.emit(Effect::WaitAborted { cycle });
        }
    }

    fn call_off(&mut self, wait: &WaitId, refused: Refused) {
        match wait {
            WaitId::Locks(id) => {
                self.wait_no_longer(*id);
                self.told.push((*id, Told::Refused(refused)));
            }
            WaitId::Answers(seq, n) => {
                if let Some(request) = self.working.items().requests.of_message(*seq, *n).cloned() {
                    self.fail_stuck(request, refused);
                }
            }
            WaitId::Task(id) => {
                self.working.set_awaiting(*id, None, self.now);
                self.told.push((*id, Told::Refused(refused)));
            }
            // Nobody waits here; a circle always has somebody who does, and goes through no person.
            WaitId::Blocked | WaitId::Approval => {}
        }
    }

    /// What somebody waits for, in words.
    fn waits_for(&self, wait: &Wait<WaitId>, what: usize) -> String {
        match &wait.id {
            WaitId::Locks(id) => {
                let name = self.working.locks().waiter(*id).and_then(|waiter| waiter.names.get(what));
                name.map_or(String::new(), |name| format!("lock {name}"))
            }
            WaitId::Answers(seq, n) => {
                let request = self.working.items().requests.of_message(*seq, *n);
                let asked = request.and_then(|request| request.asked.get(what));
                asked.map_or(String::new(), |one| format!("an answer of {}", self.recipient_name(one.to)))
            }
            WaitId::Task(id) => {
                let awaiting = self.working.tasks().awaited().get(*id);
                awaiting.map_or(String::new(), |awaiting| format!("task {}", awaiting.task))
            }
            WaitId::Blocked | WaitId::Approval => String::new(),
        }
    }

    fn deadlock(&self, cycle: &[(AgentNo, String)]) -> Refused {
        let named = |(agent, waits_for): &(AgentNo, String)| Waits {
            agent: self.working.agents().get(*agent).map_or(String::new(), |agent| agent.id.to_string()),
            waits_for: waits_for.clone(),
        };
        let cycle: Vec<_> = cycle.iter().map(named).collect();
        let words: Vec<_> =
            cycle.iter().map(|one| format!("{} waits for {}", one.agent, one.waits_for)).collect();
        let mut refused = Refused::new(Code::Deadlock, words.join(", "))
            .hint("give back what you hold, then ask again; take what belongs together in one call");
        refused.facts.cycle = cycle;
        refused
    }
}
