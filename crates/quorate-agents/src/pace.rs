//! How often a provider is called: so many calls and so many tokens in any minute, whoever of us calls.
//!
//! A window that slides, not a bucket that refills: a bucket lets twice its size through in the first minute, and providers
//! count. Tokens are reserved by an estimate and settled when the provider reports what it took.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::clock::{self, Instant};
use crate::limits;
use crate::question::{Failure, Kind};

/// The paces of all providers that the agents of a playbook call.
#[derive(Clone, Default)]
pub(crate) struct Paces {
    by_place: Arc<Mutex<HashMap<String, Arc<Pace>>>>,
}

/// How often one provider may be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allowed {
    pub(crate) calls_per_minute: Option<u32>,
    pub(crate) tokens_per_minute: Option<u64>,
}

/// The calls of the last minute.
pub(crate) struct Pace {
    place: String,
    allowed: Mutex<Allowed>,
    /// One waits at a time, the others behind it in order.
    turn: Semaphore,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// When each call was made and the tokens that it is taken to cost, the oldest first.
    window: VecDeque<(Instant, u64)>,
    /// How many calls have left the window, so that a call is known by a number.
    gone: u64,
}

/// A call that was let through.
pub(crate) struct Turn<'a> {
    pace: &'a Pace,
    number: u64,
}

impl Paces {
    /// The pace of a place. If agents disagree on what is allowed, the least is.
    pub(crate) fn of(&self, place: &str, allowed: Allowed) -> Arc<Pace> {
        let mut paces = self.by_place.lock().unwrap_or_else(PoisonError::into_inner);
        let pace = paces.entry(place.to_owned()).or_insert_with(|| Arc::new(Pace::new(place, allowed)));
        pace.lower(allowed);
        Arc::clone(pace)
    }
}

impl Pace {
    fn new(place: &str, allowed: Allowed) -> Self {
        Self {
            place: place.to_owned(),
            allowed: Mutex::new(allowed),
            turn: Semaphore::new(1),
            calls: Mutex::default(),
        }
    }

    fn lower(&self, to: Allowed) {
        fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        allowed.calls_per_minute = least(allowed.calls_per_minute, to.calls_per_minute);
        allowed.tokens_per_minute = least(allowed.tokens_per_minute, to.tokens_per_minute);
    }

    /// Waits until a call with about so many tokens may be made, and makes it count.
    ///
    /// # Errors
    /// If that would be too late, or never.
    pub(crate) async fn turn(&self, tokens: u64, until: Instant) -> Result<Turn<'_>, Failure> {
        let allowed = *self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(max) = allowed.tokens_per_minute.filter(|max| tokens > *max) {
            let what = format!("needs about {tokens} tokens, {max} a minute are allowed");
            return Err(Failure::new(Kind::TooLong, &self.place, what)
                .hint("send less, ask for a shorter answer, or raise `tokens_a_minute:`"));
        }
        let late = |wait: Duration| {
            let what =
                format!("its calls of this minute are used up; the next is in {:.1} s", wait.as_secs_f32());
            let mut failure = Failure::new(Kind::RateLimited, &self.place, what).hint(
                "give the agents more time, or raise the limits per minute if the provider allows more",
            );
            failure.retry_after = Some(wait);
            failure
        };
        let _turn = match tokio::time::timeout_at(until, self.turn.acquire()).await {
            Ok(turn) => turn,
            Err(_) => return Err(late(self.wait(tokens, allowed))),
        };
        loop {
            let wait = self.wait(tokens, allowed);
            if wait.is_zero() {
                return Ok(self.count(tokens));
            }
            if clock::now() + wait >= until {
                return Err(late(wait));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// How long until there is room.
    fn wait(&self, tokens: u64, allowed: Allowed) -> Duration {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        calls.forget(now);
        let mut left = u64::try_from(calls.window.len()).unwrap_or(u64::MAX);
        let mut spent: u64 = calls.window.iter().map(|(_, tokens)| tokens).sum();
        let room = |left: u64, spent: u64| {
            allowed.calls_per_minute.is_none_or(|max| left < u64::from(max))
                && allowed.tokens_per_minute.is_none_or(|max| spent + tokens <= max)
        };
        let mut free_at = now;
        for (at, cost) in &calls.window {
            if room(left, spent) {
                break;
            }
            left -= 1;
            spent -= cost;
            free_at = *at + limits::MINUTE;
        }
        free_at - now
    }

    fn count(&self, tokens: u64) -> Turn<'_> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let number = calls.gone + calls.window.len() as u64;
        calls.window.push_back((clock::now(), tokens));
        Turn { pace: self, number }
    }
}

impl Calls {
    fn forget(&mut self, now: Instant) {
        while self.window.front().is_some_and(|(at, _)| *at + limits::MINUTE <= now) {
            self.window.pop_front();
            self.gone += 1;
        }
    }
}

impl Turn<'_> {
    /// Says what the call really took.
    pub(crate) fn settle(self, tokens: u64) {
        let mut calls = self.pace.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = calls.gone;
        let place = self.number.checked_sub(gone).and_then(|place| usize::try_from(place).ok());
        if let Some((_, reserved)) = place.and_then(|place| calls.window.get_mut(place)) {
            *reserved = tokens;
        }
    }
}

#[cfg(test)]
mod tests;
