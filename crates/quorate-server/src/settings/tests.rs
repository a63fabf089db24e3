//! The table of limits in the security guide matches the defaults.

use quorate_core::limits;

use super::{Durations, HEADER_BYTES_MAX, Limits, Timeouts};
use crate::body::{BODY_BYTES_MAX, DEPTH_MAX};
use crate::sign_in_codes::{CODES_PER_PRINCIPAL_MAX, CODES_PER_SPACE_MAX};
use crate::webhook_config::{WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN, WEBHOOKS_MAX};

/// Returns the rows of the table, in order.
fn actual_limits() -> Vec<(&'static str, u128)> {
    let Limits { connections, unauthenticated_connections, agents, failures, bulk_reads, .. } =
        Limits::default();
    let others = Limits::default().other_principals;
    let (timeouts, durations) = (Timeouts::default(), Durations::default());
    vec![
        ("concurrent connections", connections as u128),
        (
            "concurrent connections per address without an authenticated request",
            unauthenticated_connections as u128,
        ),
        ("size of request headers", HEADER_BYTES_MAX as u128),
        ("size of a request or a WebSocket frame", BODY_BYTES_MAX as u128),
        ("size of a sign-in or a hello frame", crate::unauthenticated::UNAUTHENTICATED_BYTES_MAX as u128),
        ("size of a message payload", limits::PAYLOAD_BYTES_MAX as u128),
        ("nesting depth of JSON", DEPTH_MAX as u128),
        ("operations per commit", limits::OPS_MAX as u128),
        ("[units of work](../errors/LIMIT_EXCEEDED.md) per commit", u128::from(limits::COMMIT_WORK_MAX)),
        ("deliveries created by a commit", limits::DELIVERIES_PER_COMMIT_MAX as u128),
        ("deliveries per claim", limits::CLAIM_MAX.into()),
        ("leased deliveries per agent", limits::IN_FLIGHT_MAX as u128),
        ("open deliveries per agent", limits::INBOX_MAX as u128),
        ("waiting claims and consumers per agent", limits::CONSUMERS_PER_AGENT_MAX as u128),
        ("pending requests per WebSocket", crate::ws::REQUESTS_MAX as u128),
        ("agents per space", limits::AGENTS_MAX as u128),
        ("tokens per space", limits::TOKENS_MAX as u128),
        ("call rate per agent", agents.per_second.into()),
        ("call burst per agent", agents.burst.into()),
        ("call rate per principal that is not an agent", others.per_second.into()),
        ("call burst per principal that is not an agent", others.burst.into()),
        ("rate of authentication failures per address", failures.per_second.into()),
        ("burst of authentication failures per address", failures.burst.into()),
        ("open bulk reads per principal: lists, exports, event streams", bulk_reads as u128),
        ("rate limit buckets in memory", crate::rate_limit::BUCKETS_MAX as u128),
        ("sign-in codes per person", CODES_PER_PRINCIPAL_MAX as u128),
        ("sign-in codes per space", CODES_PER_SPACE_MAX as u128),
        ("web sessions per token", limits::WEB_SESSIONS_PER_TOKEN_MAX as u128),
        ("webhook events whose signature is not checked yet", crate::uploads::UPLOADS_MAX as u128),
        ("webhooks per hub", WEBHOOKS_MAX as u128),
        ("minimum size of a webhook secret", WEBHOOK_SECRET_BYTES_MIN as u128),
        ("maximum size of a webhook secret", WEBHOOK_SECRET_BYTES_MAX as u128),
        ("TLS handshake timeout", timeouts.handshake.as_millis()),
        ("header timeout and keep-alive timeout", timeouts.headers.as_millis()),
        ("body timeout", timeouts.body.as_millis()),
        ("timeout of the first WebSocket frame", timeouts.hello.as_millis()),
        ("write timeout", timeouts.write.as_millis()),
        ("ping interval of an idle WebSocket", timeouts.ping.as_millis()),
        ("maximum `waitMs` of a call", durations.wait_max.as_millis()),
        ("drain time of requests in progress at shutdown", timeouts.drain.as_millis()),
        ("token check interval of open connections", durations.token_check.as_millis()),
        ("certificate check interval", durations.certificate_check.as_millis()),
        ("lifetime of a sign-in code", durations.sign_in_code.as_millis()),
        ("lifetime of a web session", durations.web_session.as_millis()),
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
