//! Explanation of a task, in the same form as for messages.

use super::{NextTransition, WaitsFor, Why, absent_holder, format_time_of_day, stays_queued};
use crate::ids::{AgentNo, TaskId};
use crate::inspect::TaskInspection;
use crate::task::{Task, TaskNext, TaskState, TaskWaitsFor};
use crate::time::Timestamp;

impl Why {
    /// Explains a task; `blocked_on` are its unfinished dependencies, `name` returns the display name of an agent.
    #[must_use]
    pub fn of_task(
        task: &Task,
        inspection: &TaskInspection,
        blocked_on: Vec<TaskId>,
        name: impl Fn(AgentNo) -> String,
        now: Timestamp,
    ) -> Self {
        let why = task.why(blocked_on, now);
        let waits_for = match why.waits_for {
            TaskWaitsFor::Nothing => WaitsFor::Nothing,
            TaskWaitsFor::Time => WaitsFor::Time,
            TaskWaitsFor::Tasks(ids) => WaitsFor::Tasks(ids.iter().map(ToString::to_string).collect()),
            TaskWaitsFor::Capability(capability) => WaitsFor::Claim(format!("can:{capability}")),
            TaskWaitsFor::Agent(agent) if task.lease().is_some() => WaitsFor::Ack(name(agent)),
            TaskWaitsFor::Agent(agent) if inspection.absent.is_some() => WaitsFor::Return(name(agent)),
            TaskWaitsFor::Agent(agent) => WaitsFor::Claim(name(agent)),
            TaskWaitsFor::Approval(approval) => WaitsFor::Approval(approval),
        };
        let next = match why.next {
            TaskNext::Nothing | TaskNext::Stays | TaskNext::IsClaimed => NextTransition::Nothing,
            TaskNext::Starts => NextTransition::Starts,
            TaskNext::BecomesReady => NextTransition::BecomesAvailable,
            TaskNext::IsRedelivered => NextTransition::IsRedelivered,
            TaskNext::Fails => NextTransition::Fails,
        };
        let since = match &task.state {
            TaskState::Ready { since } => Some(*since),
            TaskState::Leased(lease) => Some(lease.since),
            _ => None,
        };
        let base = Self {
            state: task.status().as_str().into(),
            assignee: task.lease().map(|lease| lease.by).or(task.spec.agent).map(name),
            since,
            attempt: Some((task.attempt, task.spec.attempts_max)),
            waits_for,
            next,
            next_at: inspection.lease_until.or(why.at),
            ..Self::of(task.spec.id.to_string())
        };
        Self { summary: summarize(&base, task, inspection, now), ..base }
    }
}

fn summarize(why: &Why, task: &Task, inspection: &TaskInspection, now: Timestamp) -> String {
    let absent = inspection.absent.as_deref();
    let at = |time: Option<Timestamp>| time.map_or(String::new(), |time| format_time_of_day(time, now));
    let (attempt, max) = (task.attempt, task.spec.attempts_max);
    match (&task.state, &why.waits_for) {
        (TaskState::Blocked { held_by }, WaitsFor::Tasks(ids)) if held_by.is_empty() => {
            format!("blocked; starts when these tasks are done: {}", ids.join(", "))
        }
        (TaskState::Blocked { .. }, WaitsFor::Tasks(ids)) => {
            format!("blocked by failed dependencies: {}; stays blocked until cancelled", ids.join(", "))
        }
        (TaskState::Ready { .. }, WaitsFor::Claim(claimer) | WaitsFor::Return(claimer)) => {
            let waits = match absent {
                Some(absent) => stays_queued(absent, claimer, now),
                None => format!("; waiting for a claim by {claimer}"),
            };
            format!("ready since {} (attempts used {attempt} of {max}){waits}", at(why.since))
        }
        (TaskState::Scheduled { .. }, _) => {
            format!("scheduled (attempts used {attempt} of {max}); available from {}", at(why.next_at))
        }
        (TaskState::Leased(_), WaitsFor::Ack(holder)) => {
            let outcome = if why.next == NextTransition::Fails { "it fails" } else { "it is redelivered" };
            format!(
                "leased to {holder} since {} (attempt {attempt} of {max}); without a heartbeat by {} {outcome}{}",
                at(why.since),
                at(why.next_at),
                absent_holder(absent, now)
            )
        }
        _ => {
            let outcome = match &task.state {
                TaskState::Escalated(end) => format!(
                    "escalated with message {} after {attempt} {}",
                    end.message,
                    if attempt == 1 { "attempt" } else { "attempts" }
                ),
                _ => why.state.to_string(),
            };
            match (&task.state, task.reason()) {
                (TaskState::Done(_) | TaskState::Partial(_), _) | (_, None) => outcome,
                (_, Some(reason)) => format!("{outcome}: {reason}"),
            }
        }
    }
}
