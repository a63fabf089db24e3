//! Dispatch of tasks, and the operations of a task's holder.

use std::num::NonZeroU64;

use quorate_core::{
    AgentNo, AttemptFailureKind, ClaimTasks, Code, CompleteTask, Completion, ConsumerEvent, ConsumerId,
    FailTask, HeartbeatTask, LeaseToken, LeasedTask, OpResult, PartRef, Payload, Principal, Priority,
    Refused, Task, TaskId, TaskLease, TaskLeaseRef, TaskPartial, TaskState, TaskStatus, TaskTarget,
    Timestamp, WaitMode, limits,
};

use super::{WaitingClaim, no_such_task};
use crate::reference::space::Fairness;
use crate::reference::transaction::Transaction;

/// Next task of a target, with the starvation state to store once it is leased.
struct Offer {
    id: TaskId,
    target: TaskTarget,
    priority: Priority,
    since: Timestamp,
    number: quorate_core::TaskNo,
    fairness: Fairness,
}

impl Transaction<'_> {
    pub(in crate::reference) fn claim_tasks(&mut self, claim: &ClaimTasks) -> Result<OpResult, Refused> {
        let agent = self.require_own_agent(&claim.agent)?;
        self.check_claimed_types(agent, &claim.types)?;
        self.dispatch_tasks();
        let mut targets = vec![TaskTarget::Agent(agent)];
        let own = self.space.agent(agent).capabilities.clone();
        for task_type in if claim.types.is_empty() { &own } else { &claim.types } {
            let target = TaskTarget::Can(task_type.as_str().into());
            if !task_type.is_empty() && !targets.contains(&target) {
                targets.push(target);
            }
        }
        let mut leased = Vec::new();
        while (leased.len() as u32) < claim.max
            && self.has_capacity(agent)
            && let Some(offer) = self.best_offer(&targets)
        {
            leased.push(self.lease_task(offer, agent, claim.lease_ms));
        }
        let (id, once) = match claim.wait {
            WaitMode::Once(id) if leased.is_empty() => (id, true),
            WaitMode::Standing(id) => (id, false),
            WaitMode::Once(_) | WaitMode::NoWait => return Ok(OpResult::TasksClaimed(leased)),
        };
        let waiting_claims =
            self.space.task_runtime.claimers.iter().filter(|claimer| claimer.agent == agent).count();
        if waiting_claims >= limits::CONSUMERS_PER_AGENT_MAX {
            return Err(Refused::new(Code::LimitExceeded, "too many waiting task claims")
                .limit(limits::CONSUMERS_PER_AGENT_MAX as u64));
        }
        self.close_task_claim(id);
        let credit = claim.max - leased.len() as u32;
        let lease_ms = claim.lease_ms;
        self.space.task_runtime.claimers.push(WaitingClaim { id, agent, targets, credit, lease_ms, once });
        Ok(OpResult::TasksClaimed(leased))
    }

    /// Grants credit to a waiting claim. Returns `false` if there is none with this id.
    pub(in crate::reference) fn grant_task_credit(&mut self, id: ConsumerId, credit: u32) -> bool {
        let claimers = &mut self.space.task_runtime.claimers;
        let Some(index) = claimers.iter().position(|claimer| claimer.id == id) else { return false };
        let mut claimer = claimers.remove(index);
        let position = if claimer.credit == 0 { claimers.len() } else { index };
        claimer.credit = claimer.credit.saturating_add(credit);
        claimers.insert(position, claimer);
        true
    }

    pub(in crate::reference) fn close_task_claim(&mut self, id: ConsumerId) {
        self.space.task_runtime.claimers.retain(|claimer| claimer.id != id);
    }

    fn has_capacity(&self, agent: AgentNo) -> bool {
        self.space.tasks_held_by(agent).len() < limits::IN_FLIGHT_MAX
    }

    /// Leases ready tasks to waiting claims, best task first, until no claim matches.
    pub(in crate::reference) fn dispatch_tasks(&mut self) {
        let mut finished = Vec::new();
        loop {
            let can_receive =
                |claimer: &&WaitingClaim| claimer.credit > 0 && self.has_capacity(claimer.agent);
            let awaited: Vec<TaskTarget> = self
                .space
                .task_runtime
                .claimers
                .iter()
                .filter(can_receive)
                .flat_map(|claimer| claimer.targets.clone())
                .collect();
            let Some(offer) = self.best_offer(&awaited) else { break };
            let failed_by = self
                .space
                .task(&offer.id)
                .and_then(|task| task.last_failure.as_ref())
                .map(|failure| failure.by);
            let accepts =
                |claimer: &&WaitingClaim| can_receive(claimer) && claimer.targets.contains(&offer.target);
            let queue: Vec<&WaitingClaim> = self.space.task_runtime.claimers.iter().filter(accepts).collect();
            let other = queue.iter().find(|claimer| Some(claimer.agent) != failed_by);
            let Some(claimer) = other.or(queue.first()).map(|claimer| (*claimer).clone()) else { break };
            let task = offer.id.clone();
            let leased = self.lease_task(offer, claimer.agent, claimer.lease_ms);
            self.space.task_runtime.receivers.insert(task, claimer.id);
            self.record_activity(claimer.agent);
            self.consumer_events.push((claimer.id, ConsumerEvent::TaskLeased(Box::new(leased))));
            self.close_task_claim(claimer.id);
            self.space
                .task_runtime
                .claimers
                .push(WaitingClaim { credit: claimer.credit - 1, ..claimer.clone() });
            if claimer.once {
                finished.push(claimer.id);
            }
        }
        finished.into_iter().for_each(|id| self.close_task_claim(id));
    }

    /// Returns the next task of several targets: the highest priority, then the oldest, except that a task that has
    /// waited for a minute is not passed over in favour of another target.
    fn best_offer(&self, targets: &[TaskTarget]) -> Option<Offer> {
        let mut offers: Vec<Offer> = targets.iter().filter_map(|target| self.offer(target)).collect();
        offers.sort_by_key(|offer| (std::cmp::Reverse(offer.priority), offer.number));
        let highest = offers.first()?.priority;
        let waited =
            |offer: &&mut Offer| offer.priority < highest && self.has_waited(&offer.target, offer.since);
        // Only the longest-waiting task of a lower priority is considered.
        let longest = offers.iter_mut().filter(|offer| offer.priority < highest);
        let longest = longest.min_by_key(|offer| (offer.since, offer.number)).filter(waited);
        if let Some(longest) = longest {
            longest.fairness.lower_served_at = self.now.wall;
            let number = longest.number;
            return offers.into_iter().find(|offer| offer.number == number);
        }
        Some(offers.swap_remove(0))
    }

    fn has_waited(&self, target: &TaskTarget, since: Timestamp) -> bool {
        let lower_served_at = self
            .space
            .task_runtime
            .fairness
            .get(target)
            .map_or(Timestamp(0), |fairness| fairness.lower_served_at);
        since.max(lower_served_at).plus_ms(limits::STARVATION_MS) <= self.now.wall
    }

    /// Returns the next task of one target: the oldest of the highest priority, except that a lower priority is served
    /// after 64 higher ones or a minute.
    fn offer(&self, target: &TaskTarget) -> Option<Offer> {
        let mut ready: Vec<Offer> = Vec::new();
        let fairness = self.space.task_runtime.fairness.get(target).copied().unwrap_or_default();
        for task in self.space.tasks() {
            if let TaskState::Ready { since } = task.state
                && task.spec.target() == *target
                && ready.iter().all(|older| older.priority != task.spec.priority)
            {
                ready.push(Offer {
                    id: task.spec.id.clone(),
                    target: target.clone(),
                    priority: task.spec.priority,
                    since,
                    number: task.spec.number,
                    fairness,
                });
            }
        }
        ready.sort_by_key(|offer| std::cmp::Reverse(offer.priority));
        let lower = ready.iter().enumerate().skip(1).min_by_key(|(_, offer)| (offer.since, offer.number));
        let Some((index, since)) = lower.map(|(index, offer)| (index, offer.since)) else {
            let mut only = ready.into_iter().next()?;
            only.fairness.passed_over = 0;
            return Some(only);
        };
        if fairness.passed_over >= limits::STARVATION_COUNT || self.has_waited(target, since) {
            let mut lower = ready.swap_remove(index);
            lower.fairness = Fairness { passed_over: 0, lower_served_at: self.now.wall };
            return Some(lower);
        }
        let mut top = ready.into_iter().next()?;
        top.fairness.passed_over += 1;
        Some(top)
    }

    fn lease_task(&mut self, offer: Offer, by: AgentNo, lease_ms: Option<u64>) -> LeasedTask {
        self.space.task_runtime.fairness.insert(offer.target, offer.fairness);
        let mut task = self.space.task(&offer.id).expect("the task is ready").clone();
        let token = self.next_token();
        task.attempt += 1;
        task.state = TaskState::Leased(TaskLease {
            by,
            token,
            length_ms: lease_ms.and_then(NonZeroU64::new).unwrap_or(task.spec.lease_ms),
            ready_since: offer.since,
            since: self.now.wall,
        });
        self.set_task(task.clone());
        self.space.task_runtime.leased_in.insert(offer.id.clone(), self.seq);
        LeasedTask { task, input: self.space.task_runtime.inputs.get(&offer.id).cloned() }
    }

    pub(in crate::reference) fn heartbeat_task(
        &mut self,
        heartbeat: &HeartbeatTask,
    ) -> Result<OpResult, Refused> {
        let (mut task, lease) = self.task_held(&heartbeat.lease)?;
        if let Some(partial) = &heartbeat.partial {
            self.check_structure("partial", None, partial)?;
            let part = self.add_part(partial);
            task.partials.push(TaskPartial { attempt: task.attempt, at: self.now.wall, part });
            let excess = task.partials.len().saturating_sub(limits::PARTIALS_MAX);
            task.partials.drain(..excess);
            self.set_task(task);
        }
        let deadline = self.now.mono.plus_ms(lease.length_ms.get());
        let key = (heartbeat.lease.task.clone(), lease.token.0, false);
        self.space.task_runtime.deadlines.insert(key, deadline);
        Ok(OpResult::Done)
    }

    pub(in crate::reference) fn complete_task(
        &mut self,
        complete: &CompleteTask,
    ) -> Result<OpResult, Refused> {
        let token = complete.lease.token;
        let found = self.space.task(&complete.lease.task).map(|task| (task.status(), task.state.clone()));
        if let Some((status, TaskState::Done(end) | TaskState::Partial(end))) = found
            && end.token == token
            && self.acts_as(end.by)
        {
            let accepted = (&end.content_type, end.confidence, &end.rationale, status);
            let is_same = accepted
                == (&complete.content_type, complete.confidence, &complete.rationale, complete.status)
                && self.part_equals(end.result, complete.result.as_ref());
            self.accept_repeated_end(complete.lease.task.to_string(), token, end.seq, is_same)?;
            return Ok(OpResult::TaskAccepted { seq: end.seq, token });
        }
        let (mut task, lease) = self.task_held(&complete.lease)?;
        self.check_fence(complete.fence.as_ref())?;
        self.check_reasons(complete.confidence.is_some(), complete.rationale.as_deref().unwrap_or(""))?;
        if let Some(result) = &complete.result {
            self.check_structure("result", complete.content_type.as_deref(), result)?;
        }
        let end = Box::new(Completion {
            by: lease.by,
            token,
            seq: self.seq,
            at: self.now.wall,
            result: complete.result.as_ref().map(|result| self.add_part(result)),
            content_type: complete.content_type.clone(),
            confidence: complete.confidence,
            rationale: complete.rationale.clone(),
        });
        self.ends_task_lease = true;
        let partial = complete.status == TaskStatus::Partial;
        task.state = if partial { TaskState::Partial(end) } else { TaskState::Done(end) };
        self.end_task(task);
        Ok(OpResult::TaskAccepted { seq: self.seq, token })
    }

    pub(in crate::reference) fn fail_task(&mut self, fail: &FailTask) -> Result<OpResult, Refused> {
        let token = fail.lease.token;
        let held = self.task_held(&fail.lease);
        let task = self.space.task(&fail.lease.task);
        let failure = task.and_then(|task| task.last_failure.clone().map(|failure| (failure, task.attempt)));
        if let (Err(_), Some((failure, attempt))) = (&held, failure)
            && failure.token == token
            // Otherwise the task was claimed again after this failure.
            && attempt == failure.attempt
            && matches!(failure.kind, AttemptFailureKind::Failed | AttemptFailureKind::Permanent)
            && self.acts_as(failure.by)
        {
            let is_same = failure.reason == fail.reason
                && (failure.kind == AttemptFailureKind::Failed) == fail.recoverable
                && self.part_equals(failure.details, fail.details.as_ref());
            self.accept_repeated_end(fail.lease.task.to_string(), token, failure.seq, is_same)?;
            return Ok(OpResult::TaskAccepted { seq: failure.seq, token });
        }
        let (task, _) = held?;
        self.check_reasons(true, &fail.reason)?;
        if let Some(details) = &fail.details {
            self.check_structure("details", None, details)?;
        }
        let details = fail.details.as_ref().map(|details| self.add_part(details));
        self.ends_task_lease = true;
        let kind = if fail.recoverable { AttemptFailureKind::Failed } else { AttemptFailureKind::Permanent };
        self.fail_attempt(task, kind, &fail.reason, details);
        Ok(OpResult::TaskAccepted { seq: self.seq, token })
    }

    pub(in crate::reference) fn release_task(&mut self, lease: &TaskLeaseRef) -> Result<OpResult, Refused> {
        let (mut task, _) = self.task_held(lease)?;
        task.attempt -= 1;
        // The lease of the earlier failure is no longer the newest one, so repeating that failure is refused.
        task.last_failure.iter_mut().for_each(|failure| failure.token = LeaseToken(0));
        task.state = TaskState::Ready { since: self.now.wall };
        self.set_task(task);
        Ok(OpResult::Done)
    }

    fn add_part(&mut self, payload: &Payload) -> PartRef {
        self.parts.push(payload.clone());
        PartRef { seq: self.seq, part: self.parts.len() as u32 - 1 }
    }

    /// Whether a part contains exactly this payload.
    fn part_equals(&self, part: Option<PartRef>, payload: Option<&Payload>) -> bool {
        match (part, payload) {
            (Some(part), Some(payload)) => self.bytes_of(part).is_some_and(|stored| stored == payload.bytes),
            (part, payload) => part.is_none() && payload.is_none(),
        }
    }

    /// Checks that the principal is the holder or the hub and that the token is the current one.
    fn task_held(&self, lease: &TaskLeaseRef) -> Result<(Task, TaskLease), Refused> {
        let stale = || Refused::new(Code::StaleLease, format!("the lease of task {} has ended", lease.task));
        let task = self.space.task(&lease.task).ok_or_else(|| no_such_task(&lease.task))?;
        match &task.state {
            TaskState::Leased(held) if held.token == lease.token && !self.acts_as(held.by) => {
                Err(Refused::new(Code::Forbidden, "only the holder may end the task"))
            }
            TaskState::Leased(held) if held.token == lease.token => Ok((task.clone(), *held)),
            TaskState::Cancelled(end) if end.token == Some(lease.token) => {
                Err(Refused::new(Code::Cancelled, "the task was cancelled"))
            }
            _ => Err(stale()),
        }
    }

    fn acts_as(&self, agent: AgentNo) -> bool {
        !matches!(self.commit.principal, Principal::Agent(_)) || self.actor == Some(agent)
    }
}
