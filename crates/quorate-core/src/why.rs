//! Why something is where it is: what it waits for, what happens next and when. In fields for programs, and in one
//! sentence for people.

use std::borrow::Cow;

use crate::effect::EndState;
use crate::ids::Seq;
use crate::inspect::DeliveryLook;
use crate::message::IfUnavailable;
use crate::refused::Code;
use crate::time::Timestamp;
use crate::working::{Open, OpenState};

mod approval;
mod procedure;
mod task;

/// Where something is, what it waits for and what happens next.
#[derive(Clone, PartialEq, Debug)]
pub struct Why {
    /// What was asked about.
    pub id: String,
    /// Where it is, in a word.
    pub state: Cow<'static, str>,
    /// Whose it is: an agent, or a pool such as `can:review`.
    pub whose: Option<String>,
    /// Since when it is there, if that is known.
    pub since: Option<Timestamp>,
    /// The how many-th try this is, and how many there are.
    pub attempt: Option<(u16, u16)>,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// What happens next, if nobody does anything.
    pub next: Next,
    /// When that happens, if time alone brings it about.
    pub next_at: Option<Timestamp>,
    /// All of it in a sentence.
    pub sentence: String,
    /// What it consists of: the deliveries of a message.
    pub parts: Vec<Why>,
}

/// What something waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    /// Nothing: it is over.
    Nothing,
    /// Its time.
    Time,
    /// This agent is to take it.
    Claim(String),
    /// This agent is to end it.
    Ack(String),
    /// This agent cannot be reached now, and is to come back.
    Return(String),
    /// Its session is paused, and is to be resumed.
    Resume,
    /// These agents are to answer.
    Answers(Vec<String>),
    /// Somebody is to give the dead letter out again, if it is still wanted.
    Redrive,
    /// These tasks are to be done.
    Tasks(Vec<String>),
    /// A person is to decide.
    Approval(String),
    /// This agent is to take the next step.
    Step(String),
}

/// What happens next, if nobody does anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// It can be taken.
    GivenOut,
    /// It can be taken again.
    GivenOutAgain,
    /// It becomes a dead letter.
    DeadLetter,
    /// It is past its time.
    Expires,
    /// Whoever waits is told that no answer came.
    TimesOut,
    /// It starts, as soon as all that it needs is done.
    Starts,
    /// It is given up: this was its last try.
    GivenUp,
}

impl Why {
    /// Of an open delivery.
    #[must_use]
    pub fn of_open(id: String, look: &DeliveryLook, now: Timestamp) -> Self {
        let Open { state, attempt, attempts_max, .. } = look.open;
        let agent = look.who();
        let tries = |word: &str, number: u16| format!("({word} {number} of {attempts_max})");
        let base =
            Self { attempt: Some((attempt, attempts_max)), whose: Some(agent.to_owned()), ..Self::of(id) };
        match (state, look.held) {
            (OpenState::Leased { .. }, Some((since, until))) => {
                let (next, at, what) = after_lease(&look.open, until);
                let since_text = since.map_or(String::new(), |since| format!(" since {}", clock(since, now)));
                let sentence = format!(
                    "leased to {agent}{since_text} {}; if it is not acked by {} {what}",
                    tries("attempt", attempt),
                    clock(at, now)
                );
                let waits_for = WaitsFor::Ack(agent.to_owned());
                Self { state: "leased".into(), since, waits_for, next, next_at: Some(at), sentence, ..base }
            }
            (OpenState::Scheduled { due }, _) => {
                let sentence = format!(
                    "scheduled for {agent} {}; it is given out from {} on",
                    tries("tried", attempt),
                    clock(due, now)
                );
                let next = if attempt == 0 { Next::GivenOut } else { Next::GivenOutAgain };
                let next_at = Some(due);
                Self { state: "scheduled".into(), waits_for: WaitsFor::Time, next, next_at, sentence, ..base }
            }
            (OpenState::Ready { since }, _) => {
                let mut sentence =
                    format!("ready for {agent} since {} {}", clock(since, now), tries("tried", attempt));
                sentence.push_str(&in_line(look));
                let expires = Some(look.open.expires).filter(|at| *at != Open::NEVER);
                if let Some(at) = expires {
                    sentence.push_str(&format!("; it expires at {}", clock(at, now)));
                }
                let next = if expires.is_some() { Next::Expires } else { Next::Nothing };
                let waits_for = match look.is_away {
                    true => WaitsFor::Return(agent.to_owned()),
                    false => WaitsFor::Claim(agent.to_owned()),
                };
                let since = Some(since);
                Self { state: "ready".into(), since, waits_for, next, next_at: expires, sentence, ..base }
            }
            (OpenState::Held { since }, _) => {
                let sentence = format!(
                    "held for {agent} since {} {}: its session is paused; it goes out when that is resumed",
                    clock(since, now),
                    tries("tried", attempt)
                );
                Self {
                    state: "held".into(),
                    since: Some(since),
                    waits_for: WaitsFor::Resume,
                    sentence,
                    ..base
                }
            }
            // A lease without a deadline cannot be represented; if it were, there would be nothing to say of it.
            (OpenState::Leased { .. }, None) => Self { state: "leased".into(), ..base },
        }
    }

    /// Of a delivery that ended in a record; a dead letter with its reason.
    #[must_use]
    pub fn of_ended(id: String, agent: &str, state: EndState, seq: Seq, reason: Option<&str>) -> Self {
        let (waits_for, sentence) = match state {
            EndState::Acked => (WaitsFor::Nothing, format!("acked by {agent} in record {seq}")),
            EndState::Expired => {
                (WaitsFor::Nothing, format!("expired before {agent} took it, in record {seq}"))
            }
            EndState::Purged => {
                (WaitsFor::Nothing, format!("taken out of the inbox of {agent} in record {seq}"))
            }
            EndState::Dead => {
                let why = reason.map_or(String::new(), |reason| format!(" ({reason})"));
                let sentence = format!(
                    "a dead letter of {agent} since record {seq}{why}; it stays until it is redriven"
                );
                (WaitsFor::Redrive, sentence)
            }
        };
        Self {
            state: state.as_str().into(),
            whose: Some(agent.to_owned()),
            waits_for,
            sentence,
            ..Self::of(id)
        }
    }

    /// Of a message, from its deliveries.
    #[must_use]
    pub fn of_message(id: String, parts: Vec<Self>) -> Self {
        let base = match &parts[..] {
            [] => Self {
                state: "answered".into(),
                sentence: "it answered a request: it went to whoever waited, and into no inbox".into(),
                ..Self::of(id)
            },
            [one] => Self { id, parts: Vec::new(), ..one.clone() },
            many => {
                let mut counts: Vec<(&str, usize)> = Vec::new();
                for one in many {
                    match counts.iter_mut().find(|(state, _)| *state == one.state) {
                        Some((_, count)) => *count += 1,
                        None => counts.push((&one.state, 1)),
                    }
                }
                let counts: Vec<_> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
                let soonest =
                    many.iter().filter_map(|one| Some((one.next_at?, one.next))).min_by_key(|one| one.0);
                Self {
                    state: "sent".into(),
                    next: soonest.map_or(Next::Nothing, |(_, next)| next),
                    next_at: soonest.map(|(at, _)| at),
                    sentence: format!("sent to {} agents: {}", many.len(), counts.join(", ")),
                    ..Self::of(id)
                }
            }
        };
        Self { parts, ..base }
    }

    /// The same for a question that somebody waits for the answer to.
    #[must_use]
    pub fn waited_for(self, asker: &str, missing: Vec<String>, until: Timestamp, now: Timestamp) -> Self {
        let sentence = format!(
            "{asker} waits for the answer of {} until {}; {}",
            missing.join(", "),
            clock(until, now),
            self.sentence
        );
        Self {
            state: "waiting".into(),
            waits_for: WaitsFor::Answers(missing),
            next: Next::TimesOut,
            next_at: Some(until),
            sentence,
            ..self
        }
    }

    /// The same for a question whose wait is over.
    #[must_use]
    pub fn request_over(self, state: &'static str, code: Option<(Code, &str)>) -> Self {
        let how = code.map_or(String::new(), |(code, reason)| format!(" ({code}: {reason})"));
        let sentence = format!("the request is over: {state}{how}; {}", self.sentence);
        Self { state: state.into(), sentence, ..self }
    }

    fn of(id: String) -> Self {
        Self {
            id,
            state: "".into(),
            whose: None,
            since: None,
            attempt: None,
            waits_for: WaitsFor::Nothing,
            next: Next::Nothing,
            next_at: None,
            sentence: String::new(),
            parts: Vec::new(),
        }
    }
}

/// What becomes of a held delivery when its lease ends at this time.
fn after_lease(open: &Open, until: Timestamp) -> (Next, Timestamp, &'static str) {
    if open.expires <= until {
        (Next::Expires, until, "it expires")
    } else if open.attempt >= open.attempts_max {
        (Next::DeadLetter, until, "it becomes a dead letter")
    } else {
        (Next::GivenOutAgain, until, "it is given out again")
    }
}

/// What stands between a ready delivery and its recipient.
fn in_line(look: &DeliveryLook) -> String {
    let agent = look.who();
    match (look.is_away, look.open.if_unavailable, look.ahead.unwrap_or(0)) {
        (true, IfUnavailable::Queue, _) => format!("; {agent} cannot be reached now, so it waits"),
        (true, IfUnavailable::Redirect | IfUnavailable::Fail, _) => {
            format!("; {agent} cannot be reached now, so it will not stay there")
        }
        (false, _, 0) if look.listening == 0 => format!("; it goes out with the next claim of {agent}"),
        (false, _, 0) => format!("; {agent} has enough to do at the moment, then it goes out"),
        (false, _, 1) => "; one goes out before it".to_owned(),
        (false, _, ahead) => format!("; {ahead} go out before it"),
    }
}

/// The time of day, in UTC; with the date if it is another day than now.
pub(crate) fn clock(at: Timestamp, now: Timestamp) -> String {
    const DAY_MS: u64 = 86_400_000;
    let seconds = at.0 % DAY_MS / 1000;
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if at.0 / DAY_MS == now.0 / DAY_MS {
        return time;
    }
    let (year, month, day) = civil(at.0 / DAY_MS);
    format!("{year:04}-{month:02}-{day:02} {time}")
}

/// Year, month and day of a day since 1970, in the Gregorian calendar. Counts in eras of 400 years that begin in March,
/// so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
