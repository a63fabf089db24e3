//! Rate limits. Each principal has a token bucket, refilled by the hub's clock. So has each address that sends
//! invalid tokens.
//!
//! The limit of an address applies to failed authentications only: many clients may share the address of a proxy, and
//! a valid token must not be rejected because of the others.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use quorate_core::{Code, Mono, Principal, Refused, SpaceNo};

use crate::settings::{Limits, Rate};

/// Maximum number of buckets in memory. Full buckets are evicted first: dropping them changes nothing.
pub(crate) const BUCKETS_MAX: usize = 65_536;

/// Rate limits of all principals and addresses.
pub(crate) struct RateLimits {
    limits: Limits,
    calls: Buckets,
    failures: Buckets,
}

impl RateLimits {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, calls: Buckets::default(), failures: Buckets::default() }
    }

    /// Counts a call: a request or a WebSocket frame.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the rate is exceeded, with the time to wait.
    pub(crate) fn check_call(&self, space: SpaceNo, principal: &Principal, now: Mono) -> Result<(), Refused> {
        let (rate, kind) = match principal {
            Principal::Agent(_) | Principal::System => (self.limits.agents, "agents"),
            Principal::Holder { .. } => (self.limits.other_principals, "principals that are not agents"),
        };
        self.calls.take((space, principal), rate, now).map_err(|wait_ms| {
            let detail = format!(
                "rate limit exceeded for {}: {kind} are limited to {} calls per second, with bursts of {}",
                principal.to_text(),
                rate.per_second,
                rate.burst
            );
            rate_limited(detail, rate, wait_ms)
                .hint("send several operations in one commit, or retry after retryAfterMs")
        })
    }

    /// Counts a failed authentication.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if the address has failed too often.
    pub(crate) fn count_failure(&self, peer: IpAddr, now: Mono) -> Result<(), Refused> {
        let rate = self.limits.failures;
        self.failures.take(network_of(peer), rate, now).map_err(|wait_ms| too_many_failures(rate, wait_ms))
    }

    /// Checks whether an address has failed too often, without counting anything.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if so.
    pub(crate) fn check_failures(&self, peer: IpAddr, now: Mono) -> Result<(), Refused> {
        let rate = self.limits.failures;
        self.failures.peek(network_of(peer), rate, now).map_err(|wait_ms| too_many_failures(rate, wait_ms))
    }
}

fn rate_limited(detail: String, rate: Rate, wait_ms: u64) -> Refused {
    let mut refused = Refused::new(Code::LimitExceeded, detail).limit(u64::from(rate.per_second));
    refused.facts.retry_after_ms = Some(wait_ms);
    refused
}

fn too_many_failures(rate: Rate, wait_ms: u64) -> Refused {
    let detail = format!(
        "too many failed authentications from this address: the limit is {} per second, with bursts of {}",
        rate.per_second, rate.burst
    );
    rate_limited(detail, rate, wait_ms)
        .hint("check the access token; requests with a valid token are not affected")
}

/// Returns the key of an address. IPv6 addresses are grouped by /64, because a client usually controls all of it.
pub(crate) fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address => address,
    }
}

/// Token buckets by the hash of their owner. Owners with the same hash share a bucket; the hash is keyed, so
/// collisions cannot be provoked.
#[derive(Default)]
struct Buckets {
    /// Time at which each bucket is full again, in microseconds of the hub's clock.
    full_at: Mutex<HashMap<u64, u64, RandomState>>,
    keys: RandomState,
}

impl Buckets {
    /// Takes one token, or returns the milliseconds until one is available.
    fn take(&self, owner: impl Hash, rate: Rate, now: Mono) -> Result<(), u64> {
        self.take_or_peek(owner, rate, now, true)
    }

    /// Like [`Self::take`], without taking the token.
    fn peek(&self, owner: impl Hash, rate: Rate, now: Mono) -> Result<(), u64> {
        self.take_or_peek(owner, rate, now, false)
    }

    fn take_or_peek(&self, owner: impl Hash, rate: Rate, now: Mono, consumes: bool) -> Result<(), u64> {
        if rate.per_second == 0 {
            return Ok(());
        }
        let key = self.keys.hash_one(owner);
        let now_us = now.0.saturating_mul(1_000);
        // At least one microsecond: rates above a million calls per second are not distinguished.
        let token_us = (1_000_000 / u64::from(rate.per_second)).max(1);
        let capacity_us = token_us * u64::from(rate.burst.max(1));
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next_full_at = full_at.get(&key).copied().unwrap_or(0).max(now_us) + token_us;
        if let Some(excess_us) = (next_full_at - now_us).checked_sub(capacity_us + 1) {
            return Err((excess_us + 1).div_ceil(1_000));
        }
        if !consumes {
            return Ok(());
        }
        if full_at.len() >= BUCKETS_MAX && !full_at.contains_key(&key) {
            full_at.retain(|_, full_at| *full_at > now_us);
            // All buckets are in use: reset rather than grow without bound.
            if full_at.len() >= BUCKETS_MAX {
                full_at.clear();
            }
        }
        full_at.insert(key, next_full_at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use quorate_core::{AgentId, Mono, Principal, SpaceNo};

    use super::{BUCKETS_MAX, Buckets, RateLimits, network_of};
    use crate::settings::{Limits, Rate};

    const RATE: Rate = Rate { per_second: 10, burst: 3 };

    #[test]
    fn i21_a_bucket_is_emptied_and_refilled() {
        let buckets = Buckets::default();
        for _ in 0..3 {
            assert_eq!(buckets.take("a", RATE, Mono(1_000)), Ok(()));
        }
        assert_eq!(buckets.take("a", RATE, Mono(1_000)), Err(100));
        assert_eq!(buckets.take("a", RATE, Mono(1_040)), Err(60));
        assert_eq!(buckets.take("b", RATE, Mono(1_040)), Ok(()), "other buckets are not affected");
        assert_eq!(buckets.take("a", RATE, Mono(1_100)), Ok(()));
        assert_eq!(buckets.take("a", RATE, Mono(1_100)), Err(100), "only the refilled token");
        // A long pause refills the whole burst, not more.
        let taken = (0..9).filter(|_| buckets.take("a", RATE, Mono(900_000)).is_ok()).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn i21_buckets_are_bounded_and_full_ones_are_evicted_first() {
        let buckets = Buckets::default();
        for n in 0..BUCKETS_MAX - 1 {
            buckets.take(("old", n), RATE, Mono(0)).expect("a token");
        }
        for _ in 0..3 {
            buckets.take("busy", RATE, Mono(5_000)).expect("a token");
        }
        buckets.take("new", RATE, Mono(5_000)).expect("a token");
        let count = buckets.full_at.lock().expect("a lock").len();
        assert_eq!(count, 2, "full buckets are evicted");
        assert!(buckets.take("busy", RATE, Mono(5_000)).is_err(), "buckets in use are retained");
    }

    #[test]
    fn a_rate_of_zero_disables_the_limit() {
        let buckets = Buckets::default();
        let rate = Rate { per_second: 0, burst: 0 };
        assert!((0..100_000).all(|_| buckets.take("a", rate, Mono(0)).is_ok()));
    }

    #[test]
    fn agents_with_the_same_id_in_two_spaces_have_separate_buckets() {
        let limits = Limits { agents: Rate { per_second: 1, burst: 1 }, ..Limits::default() };
        let rates = RateLimits::new(limits);
        let agent = Principal::Agent(AgentId::new("alice").expect("an id"));
        assert!(rates.check_call(SpaceNo(1), &agent, Mono(0)).is_ok());
        assert!(rates.check_call(SpaceNo(2), &agent, Mono(0)).is_ok());
        let refused = rates.check_call(SpaceNo(1), &agent, Mono(0)).expect_err("too often");
        assert_eq!((refused.facts.limit, refused.facts.retry_after_ms), (Some(1), Some(1_000)));
    }

    #[test]
    fn ipv6_addresses_are_grouped_by_64_bit_prefix() {
        let network = |text: &str| network_of(text.parse::<IpAddr>().expect("an address")).to_string();
        assert_eq!(network("10.0.0.7"), "10.0.0.7");
        assert_eq!(network("::ffff:10.0.0.7"), "10.0.0.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
