//! Who waits for whom, looked at again and again until nothing changes any more.

use quorate_core::{
    AgentNo, ApprovalId, Code, ConsumerId, DeliveryId, DeliveryNo, Home, Item, MessageId, Refused, Reply,
    RequestState, Seq, Task, TaskId, TaskState, Timestamp, Told, Waits, limits,
};

use crate::reference::locks::LockWaiter;
use crate::reference::space::{Place, Space};
use crate::reference::step::Step;

/// Rounds in which waits are called off at one look.
const ROUNDS: usize = 16;

/// What keeps somebody waiting.
enum Source {
    /// Something that an agent holds since a record.
    Held { agent: AgentNo, within: Option<DeliveryNo>, since: Seq },
    /// Something that lies there for an agent to take.
    Lies(AgentNo),
    /// Somebody who is before it in line.
    Ahead(Who),
}

/// Which wait.
#[derive(Clone, PartialEq)]
enum Who {
    Locks(ConsumerId),
    Answers(MessageId),
    Task(ConsumerId),
    /// A task that others block: nobody waits here.
    Blocked(TaskId),
    /// A person has to decide.
    Person(ApprovalId),
}

/// Somebody who waits, the oldest first.
struct Wait {
    who: Who,
    agent: Option<AgentNo>,
    within: Option<DeliveryNo>,
    since: Seq,
    /// What it lacks: each from any of its sources.
    needs: Vec<(String, Vec<Source>)>,
    /// Whether it can end.
    ends: bool,
}

struct Look<'a> {
    space: &'a Space,
    waits: Vec<Wait>,
}

impl Step<'_> {
    /// Looks who waits for whom, if it is time, and calls off what can never end.
    pub(super) fn look_at_waits(&mut self) {
        let due = self.space.look_at.is_some_and(|at| at <= self.now.mono);
        if !due || !self.space.anybody_waits() {
            return;
        }
        self.space.look_at = Some(self.now.mono.plus_ms(limits::WAITS_LOOK_MS));
        let mut look = Look { space: self.space, waits: waits_of(self.space, self.now.wall) };
        look.spread();
        let mut refusals = Vec::new();
        for _ in 0..ROUNDS {
            let circles = look.circles();
            if circles.is_empty() {
                break;
            }
            for circle in &circles {
                let mut refused = Refused::new(Code::Deadlock, "they wait for each other");
                refused.facts.cycle = circle.iter().filter_map(|wait| look.words(*wait)).collect();
                refusals.push((look.waits[circle[0]].who.clone(), refused));
            }
            for circle in circles {
                look.waits[circle[0]].ends = true;
            }
            look.spread();
        }
        for (who, refused) in refusals {
            self.changed = true;
            match who {
                Who::Locks(id) => {
                    self.leave_line(id);
                    self.told.push((id, Told::Refused(refused)));
                }
                Who::Answers(id) => {
                    let request = self.space.request(id).expect("it waits");
                    let state = RequestState::Failed { code: Code::Deadlock, reason: String::new() };
                    self.withdraw(request, state, refused);
                }
                Who::Task(id) => {
                    self.stop_waiting_for_task(id);
                    self.told.push((id, Told::Refused(refused)));
                }
                Who::Blocked(_) | Who::Person(_) => {}
            }
        }
    }

    /// Somebody begins to wait: if nobody did, the first look comes after a while.
    pub(super) fn look_from_now_on(&mut self) {
        if !self.space.anybody_waits() {
            self.space.look_at = Some(self.now.mono.plus_ms(limits::WAITS_LOOK_MS));
        }
    }

    /// The newest record when something begins to wait.
    pub(super) fn begins_after(&self) -> Seq {
        if self.changed { self.seq } else { self.space.newest() }
    }

    pub(super) fn next_turn(&mut self) -> u64 {
        self.space.turns += 1;
        self.space.turns
    }

    /// A delivery that an agent holds.
    pub(super) fn works_on(&self, agent: AgentNo, id: DeliveryId) -> Option<DeliveryNo> {
        let number = self.space.resolve(id)?;
        let delivery = self.space.delivery(number)?;
        (delivery.to.agent_no() == Some(agent) && delivery.is_leased()).then_some(number)
    }
}

impl Space {
    pub(super) fn anybody_waits(&self) -> bool {
        !self.lock_waiters.is_empty() || !self.waiters.is_empty() || !self.task_waiters.is_empty()
    }

    /// How many deliveries and tasks an agent works on.
    fn works_of(&self, agent: AgentNo) -> usize {
        let held = |item: &&Item| match item {
            Item::Task(task) => matches!(&task.state, TaskState::Leased(lease) if lease.by == agent),
            _ => false,
        };
        self.leased_count(agent) + self.items.values().filter(held).count()
    }

    /// Whether an agent takes the next delivery at once.
    fn takes_more(&self, agent: AgentNo) -> bool {
        self.consumers.iter().any(|one| one.agent == agent && one.credit > 0)
    }

    /// Where the answer to a question must come from.
    fn answer_comes_from(&self, question: DeliveryNo, now: Timestamp) -> Option<Source> {
        let delivery = self.delivery(question)?;
        match delivery.place {
            Place::Leased { seq, .. } => {
                Some(Source::Held { agent: delivery.to.agent_no()?, within: Some(question), since: seq })
            }
            Place::Ready { since, .. }
                if self.is_ready(delivery) && since.plus_ms(limits::WAITS_LOOK_MS) <= now =>
            {
                match delivery.to.home() {
                    Home::Agent(agent) => Some(Source::Lies(agent)),
                    Home::Pool(_) => None,
                }
            }
            Place::Ready { .. } | Place::Scheduled { .. } | Place::Ended { .. } => None,
        }
    }

    /// Where the end of a task must come from.
    fn end_comes_from(&self, task: &Task, now: Timestamp) -> Option<Source> {
        let id = &task.spec.id;
        match &task.state {
            TaskState::Leased(lease) => {
                let since = self.task_memory.taken.get(id).copied().unwrap_or(Seq(0));
                Some(Source::Held { agent: lease.by, within: None, since })
            }
            TaskState::Blocked { held_by } if held_by.is_empty() => {
                Some(Source::Ahead(Who::Blocked(id.clone())))
            }
            TaskState::Ready { since } if since.plus_ms(limits::WAITS_LOOK_MS) <= now => {
                let agent = task.spec.agent?;
                (!self.takes_tasks(agent)).then_some(Source::Lies(agent))
            }
            _ => None,
        }
    }
}

fn waits_of(space: &Space, now: Timestamp) -> Vec<Wait> {
    let line = space.lock_line();
    let needs = |waiter: &LockWaiter| {
        let before = line.iter().position(|other| other.id == waiter.id).unwrap_or(0);
        let mut needs = Vec::new();
        for name in &waiter.names {
            let ahead = line[..before].iter().rev().find(|other| other.names.contains(name));
            let lock = space.lock(name);
            if let Some(ahead) = ahead {
                needs.push((format!("lock {name}"), vec![Source::Ahead(Who::Locks(ahead.id))]));
            } else if let Some(lock) = lock
                && lock.grants.len() >= lock.capacity as usize
            {
                let held = lock.grants.iter().map(|grant| Source::Held {
                    agent: grant.holder,
                    within: grant.within,
                    since: grant.seq,
                });
                needs.push((format!("lock {name}"), held.collect()));
            }
        }
        needs
    };
    // By the record after which they began, and within it: questions in their order, then the others in theirs.
    let mut waits: Vec<((Seq, bool, u64), Wait)> = Vec::new();
    for waiter in &space.lock_waiters {
        let LockWaiter { agent, within, since, turn, .. } = *waiter;
        let (who, agent) = (Who::Locks(waiter.id), Some(agent));
        let wait = Wait { who, agent, within, since, needs: needs(waiter), ends: false };
        waits.push(((since, true, turn), wait));
    }
    for waiter in &space.task_waiters {
        let source = space.task(&waiter.task).and_then(|task| space.end_comes_from(task, now));
        let needs = source.map(|source| (format!("task {}", waiter.task), vec![source]));
        let (who, agent, since) = (Who::Task(waiter.id), Some(waiter.agent), waiter.since);
        let needs = needs.into_iter().collect();
        let wait = Wait { who, agent, within: waiter.within, since, needs, ends: false };
        waits.push(((since, true, waiter.turn), wait));
    }
    for (id, listener) in &space.waiters {
        let request = space.request(*id).expect("somebody waits for it");
        let mut needs = Vec::new();
        for (index, asked) in request.asked.iter().enumerate() {
            let question = DeliveryNo(request.first.0 + index as u64);
            if let (Reply::Open, Some(source)) = (asked.reply, space.answer_comes_from(question, now)) {
                needs.push((format!("an answer of {}", space.name_of(asked.to.home())), vec![source]));
            }
        }
        let (who, agent) = (Who::Answers(*id), Some(request.from));
        let wait = Wait { who, agent, within: listener.within, since: id.seq, needs, ends: false };
        waits.push(((id.seq, false, u64::from(id.n)), wait));
    }
    for approval in space.pending_approvals() {
        // Nobody here can do anything about it: it never ends by itself.
        let (who, since) = (Who::Person(approval.id.clone()), approval.seq);
        let needs = vec![(String::new(), Vec::new())];
        if approval.agent.is_some() {
            let wait = Wait { who, agent: approval.agent, within: None, since, needs, ends: false };
            waits.push(((since, false, u64::MAX), wait));
        }
    }
    waits.sort_by_key(|(age, _)| *age);
    let mut all: Vec<Wait> = blocked_tasks(space, now);
    all.extend(waits.into_iter().map(|(_, wait)| wait));
    all
}

/// Every task that others block is itself a wait, older than all others.
fn blocked_tasks(space: &Space, now: Timestamp) -> Vec<Wait> {
    let mut waits = Vec::new();
    for task in space.tasks() {
        if let TaskState::Blocked { held_by } = &task.state
            && held_by.is_empty()
        {
            let open = task.spec.depends_on.iter().filter_map(|id| space.task(id));
            let sources = open.filter_map(|other| space.end_comes_from(other, now));
            let needs = sources.map(|source| (String::new(), vec![source])).collect();
            let who = Who::Blocked(task.spec.id.clone());
            waits.push(Wait { who, agent: None, within: None, since: Seq(0), needs, ends: false });
        }
    }
    waits
}

impl Look<'_> {
    fn place_of(&self, who: &Who) -> usize {
        self.waits.iter().position(|wait| wait.who == *who).expect("it waits")
    }

    /// The waits that hold up what an agent holds, and whether they say so themselves.
    fn holding_up(&self, agent: AgentNo, within: Option<DeliveryNo>) -> (Vec<usize>, bool) {
        let of_agent = |wait: &&usize| self.waits[**wait].agent == Some(agent);
        let all: Vec<usize> = (0..self.waits.len()).collect();
        let mine: Vec<usize> = all.iter().filter(of_agent).copied().collect();
        let that = |within: Option<DeliveryNo>| {
            let same = |wait: &&usize| self.waits[**wait].within == within;
            mine.iter().filter(same).copied().collect::<Vec<_>>()
        };
        match within {
            Some(_) if !that(within).is_empty() => (that(within), true),
            Some(_) => (that(None), false),
            None => (mine, false),
        }
    }

    fn is_free(&self, wait: usize, source: &Source) -> bool {
        let (agent, within, since) = match source {
            Source::Ahead(other) => return self.waits[self.place_of(other)].ends,
            Source::Lies(agent) if self.space.takes_more(*agent) => return true,
            Source::Lies(agent) => (*agent, None, Seq(0)),
            Source::Held { agent, within, since } => (*agent, *within, *since),
        };
        if Some(agent) == self.waits[wait].agent {
            return true;
        }
        let (holding_up, certain) = self.holding_up(agent, within);
        let all = self.waits.iter().filter(|other| other.agent == Some(agent)).count();
        if !certain && self.space.works_of(agent) > all {
            return true;
        }
        let mut begun_since = holding_up.iter().filter(|other| self.waits[**other].since >= since);
        let none = begun_since.clone().next().is_none();
        none || begun_since.any(|other| self.waits[*other].ends)
    }

    fn is_met(&self, wait: usize, need: usize) -> bool {
        self.waits[wait].needs[need].1.iter().any(|source| self.is_free(wait, source))
    }

    /// The first thing that a wait lacks.
    fn lacks(&self, wait: usize) -> Option<usize> {
        (0..self.waits[wait].needs.len()).find(|need| !self.is_met(wait, *need))
    }

    /// Everything ends that can.
    fn spread(&mut self) {
        loop {
            let can = |wait: &usize| !self.waits[*wait].ends && self.lacks(*wait).is_none();
            let Some(next) = (0..self.waits.len()).find(can) else { return };
            self.waits[next].ends = true;
        }
    }

    /// Whom a wait that cannot end waits for; `None` if that is a person.
    fn next(&self, wait: usize) -> Option<usize> {
        let need = self.lacks(wait).expect("a wait that cannot end lacks something");
        let (agent, within) = match self.waits[wait].needs[need].1.first()? {
            Source::Ahead(other) => return Some(self.place_of(other)),
            Source::Held { agent, within, .. } => (*agent, *within),
            Source::Lies(agent) => (*agent, None),
        };
        Some(*self.holding_up(agent, within).0.last().expect("something holds it up"))
    }

    /// Each circle once, the youngest first.
    fn circles(&self) -> Vec<Vec<usize>> {
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for start in (0..self.waits.len()).filter(|wait| !self.waits[*wait].ends) {
            // After as many steps as there are waits, it goes round in the circle that it leads to.
            let Some(inside) = self.waits.iter().try_fold(start, |at, _| self.next(at)) else { continue };
            let mut circle = vec![inside];
            while let Some(next) = self.next(circle[circle.len() - 1]).filter(|next| *next != inside) {
                circle.push(next);
            }
            let youngest = circle.iter().max().copied().unwrap_or(inside);
            let at = circle.iter().position(|wait| *wait == youngest).unwrap_or(0);
            circle.rotate_left(at);
            if !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles.sort();
        circles
    }

    /// Who waits for what; `None` for a task, which is nobody.
    fn words(&self, wait: usize) -> Option<Waits> {
        let Wait { agent, needs, .. } = &self.waits[wait];
        let agent = self.space.agent((*agent)?).id.to_string();
        let need = self.lacks(wait).expect("a wait that cannot end lacks something");
        Some(Waits { agent, waits_for: needs[need].0.clone() })
    }
}
