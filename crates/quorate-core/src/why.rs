//! Explanations of state (`why`): what a resource waits for, what happens next and when. As fields for programs and as
//! one sentence for people.

use std::borrow::Cow;

use crate::effect::EndState;
use crate::ids::Seq;
use crate::inspect::DeliveryInspection;
use crate::message::IfUnavailable;
use crate::presence::{AbsentAgent, describe_absent};
use crate::refused::Code;
use crate::time::{Timestamp, civil_date};
use crate::working::{OpenDelivery, OpenDeliveryState};

mod approval;
mod procedure;
mod task;

/// Explanation of a resource's state: what it waits for and what happens next.
#[derive(Clone, PartialEq, Debug)]
pub struct Why {
    /// Id of the resource.
    pub id: String,
    /// Current state, as one word.
    pub state: Cow<'static, str>,
    /// The agent or pool (such as `can:review`) that it is assigned to.
    pub assignee: Option<String>,
    /// Start of the current state, if known.
    pub since: Option<Timestamp>,
    /// Attempt number, starting at 1, and the maximum number of attempts. 0 if not attempted yet.
    pub attempt: Option<(u16, u16)>,
    /// The condition or agent it waits for.
    pub waits_for: WaitsFor,
    /// The next event if no agent acts.
    pub next: NextTransition,
    /// Time of the next event, if a timer triggers it.
    pub next_at: Option<Timestamp>,
    /// The whole explanation as one sentence.
    pub summary: String,
    /// Explanations of its parts: the deliveries of a message.
    pub parts: Vec<Why>,
}

/// The condition that a resource waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    /// Nothing: it has ended.
    Nothing,
    /// A scheduled time.
    Time,
    /// A claim by this agent or pool.
    Claim(String),
    /// An ack (or the end of the task) by this agent.
    Ack(String),
    /// The return of this agent, which is unavailable.
    Return(String),
    /// Resumption of its paused session or procedure.
    Resume,
    /// Replies from these agents.
    Answers(Vec<String>),
    /// A redrive: it is a dead letter.
    Redrive,
    /// Completion of these tasks.
    Tasks(Vec<String>),
    /// A decision on this approval.
    Approval(String),
    /// The next step of this driver.
    Step(String),
}

/// The next event of a resource if no agent acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextTransition {
    /// No event is pending.
    Nothing,
    /// It becomes available for its first delivery.
    BecomesAvailable,
    /// It becomes available for redelivery.
    IsRedelivered,
    /// It is dead-lettered.
    DeadLetter,
    /// It expires.
    Expires,
    /// The request times out and its sender is notified.
    TimesOut,
    /// It starts once all its dependencies are done.
    Starts,
    /// It fails: this is its last attempt.
    Fails,
}

impl Why {
    /// Explains an open delivery.
    #[must_use]
    pub fn of_open_delivery(id: String, delivery: &DeliveryInspection, now: Timestamp) -> Self {
        let OpenDelivery { state, attempt, attempts_max, .. } = delivery.open;
        let agent = delivery.holder_or_recipient();
        let attempts = |label: &str, number: u16| format!("({label} {number} of {attempts_max})");
        let base =
            Self { attempt: Some((attempt, attempts_max)), assignee: Some(agent.to_owned()), ..Self::of(id) };
        match (state, delivery.lease_period) {
            (OpenDeliveryState::Leased { .. }, Some((since, until))) => {
                let (next, at, outcome) = after_lease(&delivery.open, until);
                let since_text =
                    since.map_or(String::new(), |since| format!(" since {}", format_time_of_day(since, now)));
                let summary = format!(
                    "leased to {agent}{since_text} {}; if not acked by {} {outcome}{}",
                    attempts("attempt", attempt),
                    format_time_of_day(at, now),
                    absent_holder(delivery.absent.as_deref(), now)
                );
                let waits_for = WaitsFor::Ack(agent.to_owned());
                Self { state: "leased".into(), since, waits_for, next, next_at: Some(at), summary, ..base }
            }
            (OpenDeliveryState::Scheduled { due }, _) => {
                let summary = format!(
                    "scheduled for {agent} {}; available from {}",
                    attempts("attempts used", attempt),
                    format_time_of_day(due, now)
                );
                let next = if attempt == 0 {
                    NextTransition::BecomesAvailable
                } else {
                    NextTransition::IsRedelivered
                };
                let next_at = Some(due);
                Self { state: "scheduled".into(), waits_for: WaitsFor::Time, next, next_at, summary, ..base }
            }
            (OpenDeliveryState::Ready { since }, _) => {
                let mut summary = format!(
                    "ready for {agent} since {} {}",
                    format_time_of_day(since, now),
                    attempts("attempts used", attempt)
                );
                summary.push_str(&queue_position(delivery, now));
                let expires = Some(delivery.open.expires).filter(|at| *at != OpenDelivery::NEVER);
                if let Some(at) = expires {
                    summary.push_str(&format!("; expires at {}", format_time_of_day(at, now)));
                }
                let next = if expires.is_some() { NextTransition::Expires } else { NextTransition::Nothing };
                let is_gone = delivery.agent.is_some() && delivery.absent.is_some();
                let waits_for = match delivery.is_unavailable || is_gone {
                    true => WaitsFor::Return(agent.to_owned()),
                    false => WaitsFor::Claim(agent.to_owned()),
                };
                let since = Some(since);
                Self { state: "ready".into(), since, waits_for, next, next_at: expires, summary, ..base }
            }
            (OpenDeliveryState::Held { since }, _) => {
                let (scope, held) = held_by(delivery);
                let summary = format!(
                    "held for {agent} since {} {}: its {held} is paused; delivered when the {scope} resumes",
                    format_time_of_day(since, now),
                    attempts("attempts used", attempt)
                );
                let (since, waits_for) = (Some(since), WaitsFor::Resume);
                Self { state: "held".into(), since, waits_for, summary, ..base }
            }
            // A leased delivery always has a deadline; without one there is nothing more to explain.
            (OpenDeliveryState::Leased { .. }, None) => Self { state: "leased".into(), ..base },
        }
    }

    /// Explains an ended delivery; `reason` is that of a dead letter.
    #[must_use]
    pub fn of_ended_delivery(
        id: String,
        agent: &str,
        state: EndState,
        seq: Seq,
        reason: Option<&str>,
    ) -> Self {
        let (waits_for, summary) = match state {
            EndState::Acked => (WaitsFor::Nothing, format!("acked by {agent} in record {seq}")),
            EndState::Expired => {
                (WaitsFor::Nothing, format!("expired in record {seq} before {agent} acked it"))
            }
            EndState::Purged => {
                (WaitsFor::Nothing, format!("purged from the inbox of {agent} in record {seq}"))
            }
            EndState::Dead => {
                let suffix = reason.map_or(String::new(), |reason| format!(" ({reason})"));
                let summary =
                    format!("dead letter of {agent} since record {seq}{suffix}; stays until redriven");
                (WaitsFor::Redrive, summary)
            }
        };
        Self {
            state: state.as_str().into(),
            assignee: Some(agent.to_owned()),
            waits_for,
            summary,
            ..Self::of(id)
        }
    }

    /// Explains a message, given the explanations of its deliveries.
    #[must_use]
    pub fn of_message(id: String, parts: Vec<Self>) -> Self {
        let base = match &parts[..] {
            [] => Self {
                state: "answered".into(),
                summary: "replied to a request: delivered to the waiting call, not to an inbox".into(),
                ..Self::of(id)
            },
            [delivery] => Self { id, parts: Vec::new(), ..delivery.clone() },
            deliveries => {
                let mut counts: Vec<(&str, usize)> = Vec::new();
                for delivery in deliveries {
                    match counts.iter_mut().find(|(state, _)| *state == delivery.state) {
                        Some((_, count)) => *count += 1,
                        None => counts.push((&delivery.state, 1)),
                    }
                }
                let counts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
                let earliest = deliveries
                    .iter()
                    .filter_map(|delivery| Some((delivery.next_at?, delivery.next)))
                    .min_by_key(|(at, _)| *at);
                Self {
                    state: "sent".into(),
                    next: earliest.map_or(NextTransition::Nothing, |(_, next)| next),
                    next_at: earliest.map(|(at, _)| at),
                    summary: format!("sent to {} agents: {}", deliveries.len(), counts.join(", ")),
                    ..Self::of(id)
                }
            }
        };
        Self { parts, ..base }
    }

    /// Adds that `requester` waits for replies to this request.
    #[must_use]
    pub fn with_pending_replies(
        self,
        requester: &str,
        missing: Vec<String>,
        until: Timestamp,
        now: Timestamp,
    ) -> Self {
        let summary = format!(
            "{requester} waits for a reply from {} until {}; {}",
            missing.join(", "),
            format_time_of_day(until, now),
            self.summary
        );
        Self {
            state: "waiting".into(),
            waits_for: WaitsFor::Answers(missing),
            next: NextTransition::TimesOut,
            next_at: Some(until),
            summary,
            ..self
        }
    }

    /// Adds the outcome of the request, which has ended.
    #[must_use]
    pub fn with_request_outcome(self, state: &'static str, code: Option<(Code, &str)>) -> Self {
        let outcome = code.map_or(String::new(), |(code, reason)| format!(" ({code}: {reason})"));
        let summary = format!("the request has ended: {state}{outcome}; {}", self.summary);
        Self { state: state.into(), summary, ..self }
    }

    fn of(id: String) -> Self {
        Self {
            id,
            state: "".into(),
            assignee: None,
            since: None,
            attempt: None,
            waits_for: WaitsFor::Nothing,
            next: NextTransition::Nothing,
            next_at: None,
            summary: String::new(),
            parts: Vec::new(),
        }
    }
}

/// Returns what holds a delivery, such as `procedure`, and its name, such as `procedure review-7`.
fn held_by(delivery: &DeliveryInspection) -> (&'static str, String) {
    match &delivery.held_by {
        Some(key) => (key.kind.as_str(), format!("{} {}", key.kind.as_str(), key.id)),
        None => ("session", "session".to_owned()),
    }
}

/// The event that follows when the lease of a delivery expires at `until`.
fn after_lease(open: &OpenDelivery, until: Timestamp) -> (NextTransition, Timestamp, &'static str) {
    if open.expires <= until {
        (NextTransition::Expires, until, "it expires")
    } else if open.attempt >= open.attempts_max {
        (NextTransition::DeadLetter, until, "it is dead-lettered")
    } else {
        (NextTransition::IsRedelivered, until, "it is redelivered")
    }
}

/// Describes that a ready delivery or task stays queued, because the agents that could claim it are gone.
fn stays_queued(absent: &[AbsentAgent], claimer: &str, now: Timestamp) -> String {
    format!("; {}, so it stays queued", describe_absent(absent, claimer, now))
}

/// Describes how the holder of a delivery or task is gone; empty if it is present.
fn absent_holder(absent: Option<&[AbsentAgent]>, now: Timestamp) -> String {
    match absent {
        None | Some([]) => String::new(),
        Some(absent) => format!("; {}", describe_absent(absent, "", now)),
    }
}

/// Describes what delays a ready delivery: its recipient's availability, or deliveries ahead in the queue.
fn queue_position(delivery: &DeliveryInspection, now: Timestamp) -> String {
    let agent = delivery.holder_or_recipient();
    if let (false, Some(absent)) = (delivery.is_unavailable, &delivery.absent) {
        return stays_queued(absent, agent, now);
    }
    match (delivery.is_unavailable, delivery.open.if_unavailable, delivery.ahead.unwrap_or(0)) {
        (true, IfUnavailable::Queue, _) => format!("; {agent} is unavailable, so it stays queued"),
        (true, IfUnavailable::Redirect | IfUnavailable::Fail, _) => {
            format!("; {agent} is unavailable, so it will be redirected or refused")
        }
        (false, _, 0) if delivery.consumers == 0 => format!("; delivered with the next claim by {agent}"),
        (false, _, 0) => format!("; delivered when {agent} has capacity"),
        (false, _, 1) => "; 1 delivery ahead of it".to_owned(),
        (false, _, ahead) => format!("; {ahead} deliveries ahead of it"),
    }
}

/// Formats a time of day in UTC, with the date if it is not today.
pub(crate) fn format_time_of_day(at: Timestamp, now: Timestamp) -> String {
    const DAY_MS: u64 = 86_400_000;
    let seconds = at.0 % DAY_MS / 1000;
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if at.0 / DAY_MS == now.0 / DAY_MS {
        return time;
    }
    let (year, month, day) = civil_date(at.0 / DAY_MS);
    format!("{year:04}-{month:02}-{day:02} {time}")
}

#[cfg(test)]
mod tests;
