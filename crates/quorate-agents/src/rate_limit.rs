//! Client-side rate limits of providers: calls and tokens per minute, shared by all agents of a playbook.
//!
//! Uses a sliding window instead of a token bucket: a full bucket permits twice its size in the first minute, which
//! exceeds the provider's limit. Tokens are reserved by an estimate and corrected when the provider reports the actual
//! usage.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::clock::{self, Instant};
use crate::limits;
use crate::question::{AgentFailure, FailureKind};

/// Rate limiters of all providers that the agents of a playbook call.
#[derive(Clone, Default)]
pub(crate) struct RateLimiters {
    by_label: Arc<Mutex<HashMap<String, Arc<RateLimiter>>>>,
}

/// Limits of one provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProviderLimits {
    pub(crate) calls_per_minute: Option<u32>,
    pub(crate) tokens_per_minute: Option<u64>,
}

/// Sliding-window rate limiter.
pub(crate) struct RateLimiter {
    label: String,
    allowed: Mutex<ProviderLimits>,
    /// Serialises waiting callers, in order of arrival.
    turn: Semaphore,
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    /// Time and assumed tokens of each call, oldest first.
    window: VecDeque<(Instant, u64)>,
    /// Number of calls that have left the window, so that calls can be numbered consecutively.
    expired: u64,
}

/// A reserved call.
pub(crate) struct Reservation<'a> {
    limiter: &'a RateLimiter,
    number: u64,
}

impl RateLimiters {
    /// Returns the limiter of a provider. If agents configure different limits, the lowest applies.
    pub(crate) fn get(&self, label: &str, allowed: ProviderLimits) -> Arc<RateLimiter> {
        let mut limiters = self.by_label.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter =
            limiters.entry(label.to_owned()).or_insert_with(|| Arc::new(RateLimiter::new(label, allowed)));
        limiter.lower(allowed);
        Arc::clone(limiter)
    }
}

impl RateLimiter {
    fn new(label: &str, allowed: ProviderLimits) -> Self {
        Self {
            label: label.to_owned(),
            allowed: Mutex::new(allowed),
            turn: Semaphore::new(1),
            calls: Mutex::default(),
        }
    }

    fn lower(&self, other: ProviderLimits) {
        fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        allowed.calls_per_minute = least(allowed.calls_per_minute, other.calls_per_minute);
        allowed.tokens_per_minute = least(allowed.tokens_per_minute, other.tokens_per_minute);
    }

    /// Waits until a call with about this many tokens is permitted, and reserves it.
    ///
    /// # Errors
    /// If the call cannot be made before the deadline, or never.
    pub(crate) async fn acquire(
        &self,
        tokens: u64,
        deadline: Instant,
    ) -> Result<Reservation<'_>, AgentFailure> {
        let allowed = *self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(max) = allowed.tokens_per_minute.filter(|max| tokens > *max) {
            let message = format!("needs about {tokens} tokens, but only {max} per minute are allowed");
            return Err(AgentFailure::new(FailureKind::TooLong, &self.label, message)
                .hint("send less, request a shorter answer, or raise `tokens_per_minute:`"));
        }
        let rate_limited = |wait: Duration| {
            let message = format!(
                "the rate limit per minute is used up; the next call is possible in {:.1} s",
                wait.as_secs_f32()
            );
            let mut failure = AgentFailure::new(FailureKind::RateLimited, &self.label, message)
                .hint("increase the timeout, or raise the rate limits if the provider allows more");
            failure.retry_after = Some(wait);
            failure
        };
        let _turn = match tokio::time::timeout_at(deadline, self.turn.acquire()).await {
            Ok(turn) => turn,
            Err(_) => return Err(rate_limited(self.wait(tokens, allowed))),
        };
        loop {
            let wait = self.wait(tokens, allowed);
            if wait.is_zero() {
                return Ok(self.reserve(tokens));
            }
            if clock::now() + wait >= deadline {
                return Err(rate_limited(wait));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Time until a call is permitted.
    fn wait(&self, tokens: u64, allowed: ProviderLimits) -> Duration {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        calls.drop_expired(now);
        let mut calls_in_window = u64::try_from(calls.window.len()).unwrap_or(u64::MAX);
        let mut tokens_in_window: u64 = calls.window.iter().map(|(_, tokens)| tokens).sum();
        let permitted = |calls_in_window: u64, tokens_in_window: u64| {
            allowed.calls_per_minute.is_none_or(|max| calls_in_window < u64::from(max))
                && allowed.tokens_per_minute.is_none_or(|max| tokens_in_window + tokens <= max)
        };
        let mut free_at = now;
        for (at, cost) in &calls.window {
            if permitted(calls_in_window, tokens_in_window) {
                break;
            }
            calls_in_window -= 1;
            tokens_in_window -= cost;
            free_at = *at + limits::RATE_WINDOW;
        }
        free_at - now
    }

    fn reserve(&self, tokens: u64) -> Reservation<'_> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let number = calls.expired + calls.window.len() as u64;
        calls.window.push_back((clock::now(), tokens));
        Reservation { limiter: self, number }
    }
}

impl Calls {
    fn drop_expired(&mut self, now: Instant) {
        while self.window.front().is_some_and(|(at, _)| *at + limits::RATE_WINDOW <= now) {
            self.window.pop_front();
            self.expired += 1;
        }
    }
}

impl Reservation<'_> {
    /// Replaces the reserved tokens by the actual ones.
    pub(crate) fn settle(self, tokens: u64) {
        let mut calls = self.limiter.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let expired = calls.expired;
        let index = self.number.checked_sub(expired).and_then(|index| usize::try_from(index).ok());
        if let Some((_, reserved)) = index.and_then(|index| calls.window.get_mut(index)) {
            *reserved = tokens;
        }
    }
}

#[cfg(test)]
mod tests;
