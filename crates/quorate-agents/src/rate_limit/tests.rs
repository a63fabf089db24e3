//! Rate limits with a paused clock: each test checks when a call is permitted, to the second.

use super::*;

fn limiter(calls: Option<u32>, tokens: Option<u64>) -> RateLimiter {
    RateLimiter::new("groq", ProviderLimits { calls_per_minute: calls, tokens_per_minute: tokens })
}

fn in_seconds(seconds: u64) -> Instant {
    clock::now() + Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a7_any_minute_has_at_most_thirty_calls() {
    let (limiter, start) = (limiter(Some(30), None), clock::now());
    let mut seconds = Vec::new();
    for _ in 0..95 {
        limiter.acquire(0, in_seconds(600)).await.unwrap();
        seconds.push((clock::now() - start).as_secs());
    }
    assert_eq!(
        (seconds[0], seconds[29], seconds[30], seconds[59], seconds[60], seconds[94]),
        (0, 0, 60, 60, 120, 180)
    );
}

#[tokio::test(start_paused = true)]
async fn a7_reserved_tokens_are_corrected_by_the_reported_usage() {
    let (limiter, start) = (limiter(None, Some(1_000)), clock::now());
    limiter.acquire(900, in_seconds(600)).await.unwrap().settle(100);
    limiter.acquire(900, in_seconds(600)).await.unwrap();
    assert_eq!((clock::now() - start).as_secs(), 0, "unused tokens are released");
    limiter.acquire(100, in_seconds(600)).await.unwrap();
    assert_eq!((clock::now() - start).as_secs(), 60, "the second reservation was not settled");
}

#[tokio::test(start_paused = true)]
async fn a_call_beyond_the_deadline_fails_immediately() {
    let (limiter, start) = (limiter(Some(1), None), clock::now());
    limiter.acquire(0, in_seconds(10)).await.unwrap();
    let failure = limiter.acquire(0, in_seconds(10)).await.err().unwrap();
    assert_eq!((failure.kind, failure.retry_after), (FailureKind::RateLimited, Some(limits::RATE_WINDOW)));
    assert_eq!(clock::now(), start);
}

#[tokio::test(start_paused = true)]
async fn a_call_above_the_limit_fails() {
    let failure = limiter(None, Some(1_000)).acquire(1_001, in_seconds(10)).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::TooLong);
}

#[tokio::test(start_paused = true)]
async fn agents_of_one_provider_share_its_limiter_and_the_lowest_limit_applies() {
    let limiters = RateLimiters::default();
    let allowed = |calls| ProviderLimits { calls_per_minute: Some(calls), tokens_per_minute: None };
    let first = limiters.get("groq", allowed(30));
    let second = limiters.get("groq", allowed(2));
    for limiter in [&first, &second] {
        limiter.acquire(0, in_seconds(1)).await.unwrap();
    }
    assert_eq!(first.acquire(0, in_seconds(1)).await.err().unwrap().kind, FailureKind::RateLimited);
    assert!(limiters.get("gemini", allowed(15)).acquire(0, in_seconds(1)).await.is_ok());
}
