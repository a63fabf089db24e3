//! Time is held: each test says when a call is let through, to the second.

use super::*;

fn pace(calls: Option<u32>, tokens: Option<u64>) -> Pace {
    Pace::new("groq", Allowed { calls_per_minute: calls, tokens_per_minute: tokens })
}

fn in_seconds(seconds: u64) -> Instant {
    clock::now() + Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a7_thirty_calls_a_minute_and_not_one_more_in_any_minute() {
    let (pace, start) = (pace(Some(30), None), clock::now());
    let mut at = Vec::new();
    for _ in 0..95 {
        pace.turn(0, in_seconds(600)).await.unwrap();
        at.push((clock::now() - start).as_secs());
    }
    assert_eq!((at[0], at[29], at[30], at[59], at[60], at[94]), (0, 0, 60, 60, 120, 180));
}

#[tokio::test(start_paused = true)]
async fn a7_tokens_are_reserved_high_and_settled_on_what_was_reported() {
    let (pace, start) = (pace(None, Some(1_000)), clock::now());
    pace.turn(900, in_seconds(600)).await.unwrap().settle(100);
    pace.turn(900, in_seconds(600)).await.unwrap();
    assert_eq!((clock::now() - start).as_secs(), 0, "what was not used is free again");
    pace.turn(100, in_seconds(600)).await.unwrap();
    assert_eq!((clock::now() - start).as_secs(), 60, "the second was never settled");
}

#[tokio::test(start_paused = true)]
async fn whoever_would_be_too_late_hears_it_at_once() {
    let (pace, start) = (pace(Some(1), None), clock::now());
    pace.turn(0, in_seconds(10)).await.unwrap();
    let failure = pace.turn(0, in_seconds(10)).await.err().unwrap();
    assert_eq!((failure.kind, failure.retry_after), (Kind::RateLimited, Some(limits::MINUTE)));
    assert_eq!(clock::now(), start);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_fit_is_refused() {
    let failure = pace(None, Some(1_000)).turn(1_001, in_seconds(10)).await.err().unwrap();
    assert_eq!(failure.kind, Kind::TooLong);
}

#[tokio::test(start_paused = true)]
async fn agents_of_one_provider_share_its_pace_and_the_least_limit_holds() {
    let paces = Paces::default();
    let allowed = |calls| Allowed { calls_per_minute: Some(calls), tokens_per_minute: None };
    let first = paces.of("groq", allowed(30));
    let second = paces.of("groq", allowed(2));
    for pace in [&first, &second] {
        pace.turn(0, in_seconds(1)).await.unwrap();
    }
    assert_eq!(first.turn(0, in_seconds(1)).await.err().unwrap().kind, Kind::RateLimited);
    assert!(paces.of("gemini", allowed(15)).turn(0, in_seconds(1)).await.is_ok());
}
