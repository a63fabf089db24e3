//! Who calls how often. Each principal has a bucket of tokens that fills with time, by the hub's clock; so has each address
//! from which somebody shows tokens that are not good.
//!
//! A good token is let in whatever others at the same address do: behind a proxy everybody has one address. What such an
//! address uses up is the right to fail.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use quorate_core::{Code, Mono, Principal, Refused, SpaceNo};

use crate::settings::{Limits, Rate};

/// Buckets that are remembered. One that is full again is forgotten first: it is as good as new.
pub(crate) const BUCKETS_MAX: usize = 65_536;

/// All limits of how often.
pub(crate) struct Rates {
    limits: Limits,
    calls: Buckets,
    failures: Buckets,
}

impl Rates {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, calls: Buckets::default(), failures: Buckets::default() }
    }

    /// Counts a call: a request or a frame.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` for whoever calls too often, with the time after which to try again.
    pub(crate) fn call(&self, home: SpaceNo, principal: &Principal, now: Mono) -> Result<(), Refused> {
        let (rate, whose) = match principal {
            Principal::Agent(_) | Principal::System => (self.limits.agents, "an agent"),
            Principal::Holder { .. } => (self.limits.people, "a person or a tool"),
        };
        self.calls.take((home, principal), rate, now).map_err(|wait_ms| {
            let detail = format!(
                "{} calls too often: {whose} may call {} times a second, {} at once",
                principal.to_text(),
                rate.per_second,
                rate.burst
            );
            too_often(detail, rate, wait_ms)
                .hint("send several operations in one commit, or wait as long as retryAfterMs says")
        })
    }

    /// Counts somebody who showed what is not good.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if that happened too often at this address.
    pub(crate) fn failed(&self, peer: IpAddr, now: Mono) -> Result<(), Refused> {
        let rate = self.limits.failures;
        self.failures.take(network_of(peer), rate, now).map_err(|wait_ms| often_wrong(rate, wait_ms))
    }

    /// Whether an address has failed too often, without counting anything.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` if so.
    pub(crate) fn may_fail(&self, peer: IpAddr, now: Mono) -> Result<(), Refused> {
        let rate = self.limits.failures;
        self.failures.look(network_of(peer), rate, now).map_err(|wait_ms| often_wrong(rate, wait_ms))
    }
}

fn too_often(detail: String, rate: Rate, wait_ms: u64) -> Refused {
    let mut refused = Refused::new(Code::LimitExceeded, detail).limit(u64::from(rate.per_second));
    refused.facts.retry_after_ms = Some(wait_ms);
    refused
}

fn often_wrong(rate: Rate, wait_ms: u64) -> Refused {
    let detail = format!(
        "too many tokens or codes from this address were not good: {} a second may fail, {} at once",
        rate.per_second, rate.burst
    );
    too_often(detail, rate, wait_ms).hint("look at the token; whoever shows a good one is let in at any time")
}

/// Whoever has an address of IPv6 has 2^64 of them.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address => address,
    }
}

/// Buckets by the hash of whose they are. Two that share a hash share a bucket, which nobody can bring about: the hash has
/// a key of its own.
#[derive(Default)]
struct Buckets {
    /// When each will be full again, in microseconds of the hub's clock.
    full_at: Mutex<HashMap<u64, u64, RandomState>>,
    keys: RandomState,
}

impl Buckets {
    /// Takes one out, or says after how many milliseconds there will be one.
    fn take(&self, whose: impl Hash, rate: Rate, now: Mono) -> Result<(), u64> {
        self.turn(whose, rate, now, true)
    }

    /// Whether there is one.
    fn look(&self, whose: impl Hash, rate: Rate, now: Mono) -> Result<(), u64> {
        self.turn(whose, rate, now, false)
    }

    fn turn(&self, whose: impl Hash, rate: Rate, now: Mono, takes: bool) -> Result<(), u64> {
        if rate.per_second == 0 {
            return Ok(());
        }
        let key = self.keys.hash_one(whose);
        let now_us = now.0.saturating_mul(1_000);
        // At least one microsecond: a million calls a second is the most that is told apart.
        let one_us = (1_000_000 / u64::from(rate.per_second)).max(1);
        let whole_us = one_us * u64::from(rate.burst.max(1));
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let then = full_at.get(&key).copied().unwrap_or(0).max(now_us) + one_us;
        if let Some(over_us) = (then - now_us).checked_sub(whole_us + 1) {
            return Err((over_us + 1).div_ceil(1_000));
        }
        if !takes {
            return Ok(());
        }
        if full_at.len() >= BUCKETS_MAX && !full_at.contains_key(&key) {
            full_at.retain(|_, full_at| *full_at > now_us);
            // So many at a time that each of them is served little: to forget is better than to grow.
            if full_at.len() >= BUCKETS_MAX {
                full_at.clear();
            }
        }
        full_at.insert(key, then);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use quorate_core::{AgentId, Mono, Principal, SpaceNo};

    use super::{BUCKETS_MAX, Buckets, Rates, network_of};
    use crate::settings::{Limits, Rate};

    const RATE: Rate = Rate { per_second: 10, burst: 3 };

    #[test]
    fn i21_a_bucket_is_emptied_and_fills_again() {
        let buckets = Buckets::default();
        for _ in 0..3 {
            assert_eq!(buckets.take("a", RATE, Mono(1_000)), Ok(()));
        }
        assert_eq!(buckets.take("a", RATE, Mono(1_000)), Err(100));
        assert_eq!(buckets.take("a", RATE, Mono(1_040)), Err(60));
        assert_eq!(buckets.take("b", RATE, Mono(1_040)), Ok(()), "others are not touched");
        assert_eq!(buckets.take("a", RATE, Mono(1_100)), Ok(()));
        assert_eq!(buckets.take("a", RATE, Mono(1_100)), Err(100), "no more than has come in");
        // A long pause brings the burst back, and no more than the burst.
        let taken = (0..9).filter(|_| buckets.take("a", RATE, Mono(900_000)).is_ok()).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn i21_buckets_are_bounded_and_those_in_use_are_kept() {
        let buckets = Buckets::default();
        for n in 0..BUCKETS_MAX - 1 {
            buckets.take(("old", n), RATE, Mono(0)).expect("a token");
        }
        for _ in 0..3 {
            buckets.take("busy", RATE, Mono(5_000)).expect("a token");
        }
        buckets.take("new", RATE, Mono(5_000)).expect("a token");
        let count = buckets.full_at.lock().expect("a lock").len();
        assert_eq!(count, 2, "what was full again is forgotten");
        assert!(buckets.take("busy", RATE, Mono(5_000)).is_err(), "what is in use is not");
    }

    #[test]
    fn zero_is_without_a_limit() {
        let buckets = Buckets::default();
        let rate = Rate { per_second: 0, burst: 0 };
        assert!((0..100_000).all(|_| buckets.take("a", rate, Mono(0)).is_ok()));
    }

    #[test]
    fn an_agent_of_one_space_is_not_the_one_of_another() {
        let limits = Limits { agents: Rate { per_second: 1, burst: 1 }, ..Limits::default() };
        let rates = Rates::new(limits);
        let agent = Principal::Agent(AgentId::new("alice").expect("an id"));
        assert!(rates.call(SpaceNo(1), &agent, Mono(0)).is_ok());
        assert!(rates.call(SpaceNo(2), &agent, Mono(0)).is_ok());
        let refused = rates.call(SpaceNo(1), &agent, Mono(0)).expect_err("too often");
        assert_eq!((refused.facts.limit, refused.facts.retry_after_ms), (Some(1), Some(1_000)));
    }

    #[test]
    fn a_network_is_an_address_of_ipv4_or_the_first_half_of_one_of_ipv6() {
        let of = |text: &str| network_of(text.parse::<IpAddr>().expect("an address")).to_string();
        assert_eq!(of("10.0.0.7"), "10.0.0.7");
        assert_eq!(of("::ffff:10.0.0.7"), "10.0.0.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
