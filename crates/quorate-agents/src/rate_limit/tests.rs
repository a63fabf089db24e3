//! Rate limits with a paused clock: each test checks when a call is permitted, to the second.

use super::*;

fn pace(calls: Option<u32>, tokens: Option<u64>) -> RateLimiter {
    RateLimiter::new("groq", ProviderLimits { calls_per_minute: calls, tokens_per_minute: tokens })
}

fn in_seconds(seconds: u64) -> Instant {
    clock::now() + Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a7_any_minute_has_at_most_thirty_calls() {
    let (pace, start) = (pace(Some(30), None), clock::now());
    let mut at = Vec::new();
    for _ in 0..95 {
        pace.acquire(0, in_seconds(600)).await.unwrap();
        at.push((clock::now() - start).as_secs());
    }
    assert_eq!((at[0], at[29], at[30], at[59], at[60], at[94]), (0, 0, 60, 60, 120, 180));
}

#[tokio::test(start_paused = true)]
async fn a7_reserved_tokens_are_corrected_by_the_reported_usage() {
    let (pace, start) = (pace(None, Some(1_000)), clock::now());
    pace.acquire(900, in_seconds(600)).await.unwrap().settle(100);
    pace.acquire(900, in_seconds(600)).await.unwrap();
    assert_eq!((clock::now() - start).as_secs(), 0, "unused tokens are released");
    pace.acquire(100, in_seconds(600)).await.unwrap();
    assert_eq!((clock::now() - start).as_secs(), 60, "the second reservation was not settled");
}

#[tokio::test(start_paused = true)]
async fn a_call_beyond_the_deadline_fails_immediately() {
    let (pace, start) = (pace(Some(1), None), clock::now());
    pace.acquire(0, in_seconds(10)).await.unwrap();
    let failure = pace.acquire(0, in_seconds(10)).await.err().unwrap();
    assert_eq!((failure.kind, failure.retry_after), (FailureKind::RateLimited, Some(limits::RATE_WINDOW)));
    assert_eq!(clock::now(), start);
}

#[tokio::test(start_paused = true)]
async fn a_call_above_the_limit_fails() {
    let failure = pace(None, Some(1_000)).acquire(1_001, in_seconds(10)).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::TooLong);
}

#[tokio::test(start_paused = true)]
async fn agents_of_one_provider_share_its_limiter_and_the_lowest_limit_applies() {
    let paces = RateLimiters::default();
    let allowed = |calls| ProviderLimits { calls_per_minute: Some(calls), tokens_per_minute: None };
    let first = paces.get("groq", allowed(30));
    let second = paces.get("groq", allowed(2));
    for pace in [&first, &second] {
        pace.acquire(0, in_seconds(1)).await.unwrap();
    }
    assert_eq!(first.acquire(0, in_seconds(1)).await.err().unwrap().kind, FailureKind::RateLimited);
    assert!(paces.get("gemini", allowed(15)).acquire(0, in_seconds(1)).await.is_ok());
}
