//! The table of limits in the security guide matches the defaults.

use quorate_core::limits;

use super::{Durations, HEADER_BYTES_MAX, Limits, Timeouts};
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::routes::WEB_SESSIONS_PER_PRINCIPAL_MAX;
use crate::sign_in_codes::{CODES_MAX, CODES_PER_PRINCIPAL_MAX};
use crate::webhook_config::{WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOKS_MAX};

/// Returns the rows of the table, in order.
fn actual_limits() -> Vec<(&'static str, u128)> {
    let Limits { connections, agents, other_principals: people, failures, bulk_reads } = Limits::default();
    let (patience, times) = (Timeouts::default(), Durations::default());
    vec![
        ("concurrent connections", connections as u128),
        ("bytes of request headers", HEADER_BYTES_MAX as u128),
        ("bytes of a request or a WebSocket frame", BODY_BYTES_MAX as u128),
        ("bytes of a message payload", limits::PAYLOAD_BYTES_MAX as u128),
        ("nesting depth of JSON", DEPTH_MAX as u128),
        ("operations per commit", limits::OPS_MAX as u128),
        ("units of work per commit", u128::from(limits::COMMIT_WORK_MAX)),
        ("deliveries created by a commit", limits::DELIVERIES_PER_COMMIT_MAX as u128),
        ("deliveries per claim", limits::CLAIM_MAX.into()),
        ("leased deliveries per agent", limits::IN_FLIGHT_MAX as u128),
        ("open deliveries per agent", limits::INBOX_MAX as u128),
        ("waiting claims and consumers per agent", limits::CONSUMERS_PER_AGENT_MAX as u128),
        ("pending requests per WebSocket", crate::ws::REQUESTS_MAX as u128),
        ("agents per space", limits::AGENTS_MAX as u128),
        ("tokens per space", limits::TOKENS_MAX as u128),
        ("calls per second and agent", agents.per_second.into()),
        ("burst of calls per agent", agents.burst.into()),
        ("calls per second and other principal", people.per_second.into()),
        ("burst of calls per other principal", people.burst.into()),
        ("authentication failures per second and address", failures.per_second.into()),
        ("burst of authentication failures per address", failures.burst.into()),
        ("open bulk reads per principal: lists, exports, event streams", bulk_reads as u128),
        ("rate limit buckets in memory", crate::rate_limit::BUCKETS_MAX as u128),
        ("sign-in codes per person", CODES_PER_PRINCIPAL_MAX as u128),
        ("sign-in codes in total", CODES_MAX as u128),
        ("signed-in browser sessions per person", WEB_SESSIONS_PER_PRINCIPAL_MAX as u128),
        ("webhooks per hub", WEBHOOKS_MAX as u128),
        ("minimum bytes of a webhook secret", WEBHOOK_SECRET_BYTES_MIN as u128),
        ("maximum bytes of a webhook secret", WEBHOOK_SECRET_BYTES_MAX as u128),
        ("ms for a TLS handshake", patience.handshake.as_millis()),
        ("ms for the headers of a request", patience.headers.as_millis()),
        ("ms for the body of a request", patience.body.as_millis()),
        ("ms for the first frame of a WebSocket", patience.hello.as_millis()),
        ("ms without progress of a reader", patience.write.as_millis()),
        ("ms between pings of an idle WebSocket", patience.ping.as_millis()),
        ("ms of the longest wait of a claim", times.wait_max.as_millis()),
        ("ms for requests in progress at shutdown", patience.drain.as_millis()),
        ("ms between token checks of open connections", times.token_check.as_millis()),
        ("ms between checks of the certificate files", times.certificate_check.as_millis()),
        ("ms until a sign-in code expires", times.sign_in_code.as_millis()),
        ("ms until the token of a browser session expires", times.web_session.as_millis()),
    ]
}

#[test]
fn i21_the_guide_lists_every_limit() {
    let guide = include_str!("../../../../docs/guides/security.md");
    let (_, table) = guide.split_once("## All limits").expect("the table");
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (label, limit) = (cells.next()?, cells.next()?);
        limit.replace(',', "").parse::<u128>().ok().map(|limit| (label, limit))
    });
    let rows: Vec<_> = rows.collect();
    let expected = actual_limits();
    assert_eq!(rows.len(), expected.len());
    for ((label, limit), (expected_label, expected)) in rows.into_iter().zip(expected) {
        assert!(
            label.starts_with(expected_label) && limit == expected,
            "{label}: {limit}, but {expected_label} is {expected}"
        );
    }
}
